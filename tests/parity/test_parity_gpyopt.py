"""GPyOpt's whole step, from raw y to the candidate of highest EI, against ours configured as GPyOpt.

GPyOpt's EI: its incumbent is the lowest posterior mean at the observed points, its sd includes the noise, and its
jitter of 0.01 is in units of normalised y. Cases are well conditioned, which the test makes sure of: at GPy's optimum K
has a condition number below KAPPA, so that values at the same hyperparameters differ by some 8 u KAPPA = 1e-11. SEEDS
leave out 3, whose likelihood is so flat at its maximum that two searches end where EI differs by 1e-5.
"""

from typing import Any

import numpy as np
import pytest
from conditioning import rounding

from harness.acquisitions import StepContext
from harness.acquisitions.cost_rules import Ignore
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.streams import seed_sequence
from harness.surrogates.gp import standardise
from harness.surrogates.gpyopt import GPyOptProcess, _global_seed, _quiet
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood
from harness.surrogates.posterior import GaussianPosterior

D, SEED, RESTARTS, JITTER = 7, 4, 2, 0.01
RUN = ("0", "")  # what an optimizer without a seed or a problem tells its surrogate of the run
KAPPA, SEEDS = 1e4, (0, 1, 2, *range(4, 20), 24)
GPY_ADDS = 1e-8  # to the diagonal of K, besides the noise variance


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, y in some unit, from a hundredth to a thousand, and candidates."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 21))
    X, C = rng.random((n, D)), rng.random((60, D))
    y = X @ rng.standard_normal(D) + np.sin(3 * X[:, 0]) + rng.uniform(0.0, 0.3) * rng.standard_normal(n)
    return X, 10.0 ** rng.uniform(-2, 3) * y, C


def gpyopt(X: np.ndarray, y: np.ndarray) -> Any:
    """Return GPyOpt's own optimizer with its defaults, its model fitted with the random starts that ours has."""
    pytest.importorskip("GPyOpt", reason="the optional extra gpyopt is not installed")
    from GPyOpt.methods import BayesianOptimization

    cube = [{"name": f"x{i}", "type": "continuous", "domain": (0, 1)} for i in range(D)]
    with _quiet():
        made = BayesianOptimization(None, cube, X=X, Y=y[:, None], optimize_restarts=RESTARTS, verbosity_model=False)
        with _global_seed(seed_sequence(SEED, "gpyopt", *RUN, str(len(y)))):
            made._update_model(made.normalization_type)
    assert made.acquisition.jitter == JITTER and made.normalize_Y
    return made


class Kept(ExpectedImprovement):
    """EI as GPyOpt defines it; keeps the values of its last call."""

    def __init__(self) -> None:
        super().__init__("posterior_mean", JITTER)

    def log_value(self, context: StepContext) -> np.ndarray:
        self.last = super().log_value(context)
        return self.last


def from_our_posterior(model: Any, X: np.ndarray, z: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, float]:
    """Return log EI, y normalised, from our own Gaussian process at GPy's hyperparameters, and K's condition number."""
    noise = model.likelihood.variance[0]
    theta = np.log([model.kern.lengthscale[0], model.kern.variance[0], noise + GPY_ADDS])
    pairs = Distances(ard=False)
    pairs.update(X)
    solution = Likelihood(pairs, z, Workspace()).solution(theta)
    posterior = GaussianPosterior(X, theta, solution, (0.0, 1.0), noise_in_sd=False)
    mean, sd = posterior.mean_sd(C)
    target = posterior.mean_sd(X)[0].min() - JITTER
    found = log_ei(target - mean, np.sqrt(sd**2 + noise))  # GPy's predictions add the noise alone
    return found, rounding(X, z, theta, C).kappa


@pytest.mark.parametrize("seed", SEEDS)
def test_values_and_choice_are_gpyopts(seed: int) -> None:
    X, y, C = data(seed)
    theirs, utility = gpyopt(X, y), Kept()
    ei = -theirs.acquisition.acquisition_function(C)[:, 0]

    cost_model = LowVariance(["max_depth"])
    optimizer = Optimizer(GPyOptProcess(SEED, RESTARTS), cost_model, utility, Ignore(), iterations=100)
    for x, error in zip(X, y, strict=True):
        optimizer.tell(x, Evaluation(float(error), 1.0, 0.0, 1.0))
    proposal = optimizer.ask(C)
    ours = utility.last - np.log(np.std(y))  # theirs is in units of normalised y
    at_same_theta, kappa = from_our_posterior(theirs.model.model, X, standardise(y)[0], C)

    mean, sd = (column[:, 0] for column in theirs.model.predict(C))
    plain = theirs.model.get_fmin() - JITTER - mean > -4 * sd  # below, their sum of two terms cancels
    assert plain.sum() > 5 and kappa < KAPPA
    np.testing.assert_allclose(np.exp(at_same_theta[plain]), ei[plain], rtol=1e-9)
    # two searches for the same maximum, from y normalised alike but for the last digit; they end up to 1e-10 apart here
    np.testing.assert_allclose(np.exp(ours[plain]), ei[plain], rtol=1e-6)
    second, best = np.sort(ei)[-2:]
    assert second < (1 - 1e-6) * best  # no tie, in which any choice would be as good
    assert proposal.index == int(ei.argmax()) == int(at_same_theta.argmax())
    assert proposal.log_ei == pytest.approx(float(np.log(ei.max() * np.std(y))), abs=1e-6)

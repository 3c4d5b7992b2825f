"""Gaussian processes on log cost: on all hyperparameters, on a few of them, and on what a linear model leaves."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from harness.cost_models.censored import fit_process
from harness.cost_models.features import Features, log_costs
from harness.cost_models.lv import LowVariance
from harness.space import XGBOOST_SPACE, SearchSpace
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.protocol import Posterior


class GaussianProcessCost:
    """log c(x) ~ GP, Matern-5/2 with one length-scale per input, hyperparameters by maximum marginal likelihood.

    features: names of the hyperparameters that it sees, on the scales of `Features`; None: the whole unit cube.
    sd: of a new evaluation's log cost, noise included. Source: Snoek, Larochelle and Adams 2012, section 3.2.
    """

    def __init__(self, features: Sequence[str] | None = None, space: SearchSpace = XGBOOST_SPACE) -> None:
        self._features = None if features is None else Features(features, space)
        self._process = GaussianProcess(noise_in_sd=True)
        self._posterior: Posterior | None = None

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        self._posterior = self._process.fit(self._inputs(X), log_costs(cost_s, len(X)))

    def fit_censored(
        self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"]
    ) -> None:
        """Fit to costs in seconds, where censored only lower bounds, imputed by `fit_process`."""
        self._posterior = fit_process(self._process, self._inputs(X), log_costs(cost_s), censored)

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`."""
        if self._posterior is None:
            raise ValueError("predict was called before fit")
        return self._posterior.mean_sd(self._inputs(C))

    def _inputs(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        X = np.asarray(X, dtype=np.float64)
        return X if self._features is None else np.ascontiguousarray(self._features.columns(X).T)


class ResidualGaussianProcess:
    """log c(x) = linear model of a few features + GP on its residuals over the whole unit cube.

    The linear part is fitted first (`LowVariance`), the GP to what it leaves. sd^2: the GP's, noise included, plus that
    of the linear function, sigma^2 (1/n + d' (D'D + ridge I)^-1 d) (`LowVariance.sd_of_mean`), as if independent.
    """

    def __init__(self, features: Sequence[str], ridge: float = 0.03, space: SearchSpace = XGBOOST_SPACE) -> None:
        self._linear = LowVariance(features, ridge, space)
        self._process = GaussianProcess(noise_in_sd=True)
        self._posterior: Posterior | None = None

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Fit to costs in seconds; raises BadInput naming the first that is not finite and positive."""
        self._linear.fit(X, cost_s)
        self._posterior = self._process.fit(X, log_costs(cost_s) - self._linear.predict(X)[0])

    def fit_censored(
        self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"]
    ) -> None:
        """Fit to costs in seconds, where censored only lower bounds: of the linear model's residuals, too."""
        self._linear.fit_censored(X, cost_s, censored)
        residual = log_costs(cost_s) - self._linear.predict(X)[0]
        self._posterior = fit_process(self._process, np.asarray(X, dtype=np.float64), residual, censored)

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`."""
        if self._posterior is None:
            raise ValueError("predict was called before fit")
        residual, sd = self._posterior.mean_sd(np.asarray(C, dtype=np.float64))
        return self._linear.predict(C)[0] + residual, np.hypot(sd, self._linear.sd_of_mean(C))

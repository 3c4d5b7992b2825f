"""Calls a part of the compiled functions and prints a hash of all they return; run by `compile_once`."""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np

from harness.acquisitions.cost_rules import Contextual
from harness.acquisitions.ei import ExpectedImprovement
from harness.acquisitions.entropy import Gibbon, MaxValueEntropySearch, gumbel, variance_reduction
from harness.acquisitions.kg import log_expected_gain
from harness.acquisitions.rollouts import RemainingBudget, rollout_values
from harness.cost_models.linear import LowVariance
from harness.loop import run
from harness.optimizer import Optimizer
from harness.surrogates import Joint
from harness.surrogates.forest import RandomForest
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.kernels import Workspace, matern
from harness.surrogates.likelihood import Distances, Likelihood
from harness.surrogates.posterior import GaussianPosterior, InducingSubset
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table

ENTROPIES = MaxValueEntropySearch(), Gibbon()


class Known:
    """A surrogate and its posterior that need nothing compiled: a run then calls the functions around them."""

    bounded = True

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Known":
        """Take no notice."""
        return self

    def mean_sd(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return some mean and sd."""
        return np.sin(9 * C).sum(axis=1), 0.1 + C[:, 0]

    def bounds(self, C: np.ndarray, rough: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the same."""
        return self.mean_sd(C)


def searches() -> Iterator[np.ndarray]:
    """Yield what fits find, and a run under another surrogate."""
    process = GaussianProcess()
    for n in range(5, 45, 5):
        X = np.random.default_rng(1).random((n, 7))
        y = np.sin(9 * X).sum(axis=1)
        yield from process.fit(X, y).leave_one_out(y)
    problem = ReplayProblem(load_table("abalone/clean"), 0, max_candidates=500)
    parts = Known(), LowVariance(("n_estimators", "max_depth")), ExpectedImprovement(), Contextual(0.3)
    columns = run(problem, Optimizer(*parts, iterations=8), 0, 8, 5, None).columns
    yield from (np.array(columns[name]) for name in ("candidate", "predicted_cost_s", "log_ei"))


def others() -> Iterator[np.ndarray]:
    """Yield what Gaussian processes of given hyperparameters, paths, envelopes and forests return."""
    rng, theta, pairs = np.random.default_rng(0), np.zeros(9), Distances(ard=True)
    shared = Workspace(), InducingSubset()
    for n in range(5, 45, 5):
        X = np.random.default_rng(1).random((n, 7))
        pairs.update(X)
        solution = Likelihood(pairs, np.sin(9 * X).sum(axis=1), Workspace()).solution(theta)
        posterior = GaussianPosterior(X, theta, solution, (0.0, 1.0), False, *shared)
        yield from (*posterior.mean_sd(X), *posterior.bounds(rng.random((500, 7)), rough=n % 2 == 0))
        joint, clock = (
            Joint(X[:, 0], matern(X, X, np.full(7, 2.0), 1.0), 0.01),
            RemainingBudget(3.5, np.zeros(n), np.full(n, 0.3)),
        )
        yield rollout_values(joint, clock, np.arange(n), 0.0, rng.standard_normal((8, n, 3)), 4)
        yield log_expected_gain(-joint.mean, joint.covariance, -joint.mean, joint.covariance[0])
        mean, variance = posterior.moments(rng.random((100, 7)))
        yield from (utility.given(mean, variance, 0.1, gumbel(mean, variance, X[:, 0])) for utility in ENTROPIES)
        yield variance_reduction(mean, variance, X[:, 0], X[:, 1], 0.1 * np.outer(variance, X[:, 2]), 0.0, 0.1)
    X, C = rng.random((60, 4)), rng.random((300, 4))
    X[:, 3], C[:, 3] = np.floor(5 * X[:, 3]), np.floor(5 * C[:, 3])
    yield from RandomForest(trees=20, categories=[0, 0, 0, 5]).fit(X, np.sin(9 * X).sum(axis=1)).mean_sd(C)


PARTS = (searches, others)  # of hardly any common functions, so that they can be compiled at the same time

if __name__ == "__main__":
    digest = hashlib.sha256()
    for values in PARTS[int(sys.argv[1])]():
        digest.update(values.tobytes())
    print(digest.hexdigest())

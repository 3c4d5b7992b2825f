"""Posteriors of chosen hyperparameters and contexts on them, for the tests of utilities that look ahead."""

from typing import Any

import numpy as np

from harness.acquisitions import FittedData, StepContext
from harness.surrogates.gp import standardise
from harness.surrogates.kernels import Workspace
from harness.surrogates.likelihood import Distances, Likelihood
from harness.surrogates.posterior import GaussianPosterior


def posterior(X: np.ndarray, y: np.ndarray, length: float = 0.4, noise: float = 0.01) -> GaussianPosterior:
    """A Matern-5/2 process of signal variance 1.3 (of standardised y) given the data."""
    theta = np.log(np.r_[np.full(X.shape[1], length), 1.3, noise])
    z, location = standardise(y)
    pairs = Distances(True)
    pairs.update(X)
    return GaussianPosterior(X, theta, Likelihood(pairs, z, Workspace()).solution(theta), location, False)


def data(n: int = 6, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).random((n, d))
    return X, 2.0 + 3.0 * (np.sin(6 * X[:, 0]) + (X**2).sum(axis=1))


def make_context(C: np.ndarray, X: np.ndarray, y: np.ndarray, model: Any = None, **changes: Any) -> StepContext:
    """The context of candidates `C`, each of cost 1 second, five evaluations left."""
    model = posterior(X, y) if model is None else model
    mean, sd = model.mean_sd(C)
    zero = np.zeros(len(C))
    state: dict[str, Any] = {
        "mean": mean, "sd": sd, "incumbent": float(y.min()), "log_cost": zero, "log_cost_sd": zero, "step": len(y),
        "iterations": len(y) + 5, "n_initial": len(y), "spent": 4.0, "initial_cost": 4.0, "tau": None,
        "history": FittedData(X, y, model), "points": C,
    }  # fmt: skip
    return StepContext(**{**state, **changes})


def grid(n: int) -> np.ndarray:
    """n equally likely standard normal numbers: the midpoint rule in quantiles."""
    from scipy.special import ndtri

    return ndtri((np.arange(n) + 0.5) / n)

"""One step of Bayesian optimization in other libraries: refit, then choose among the same candidates."""

import warnings
from collections.abc import Callable

import numpy as np

from harness.acquisitions.ei import log_ei
from harness.surrogates.gpyopt import GPyOptProcess

Step = Callable[[np.ndarray, np.ndarray, np.ndarray], int]


def gpyopt(restarts: int) -> Step:
    """GPyOpt's model, and EI at its own incumbent (the lowest posterior mean) with its jitter of 0.01."""
    process = GPyOptProcess(seed=0, restarts=restarts)

    def step(X: np.ndarray, y: np.ndarray, C: np.ndarray) -> int:
        posterior = process.fit(X, y)
        incumbent = posterior.mean_sd(X)[0].min()
        mean, sd = posterior.mean_sd(C)
        return int(log_ei(incumbent - 0.01 * y.std() - mean, sd).argmax())

    return step


def scikit_learn() -> Step:
    """scikit-learn's Gaussian process with our kernel (Matern-5/2, ARD), its own single start."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    def step(X: np.ndarray, y: np.ndarray, C: np.ndarray) -> int:
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(np.ones(X.shape[1]), (0.05, 20.0), nu=2.5)
        model = GaussianProcessRegressor(kernel + WhiteKernel(1e-2, (1e-6, 1.0)), alpha=0.0, normalize_y=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, sd = model.fit(X, y).predict(C, return_std=True)
        return int(log_ei(y.min() - mean, sd).argmax())

    return step


def optuna() -> Step | None:
    """Optuna's GP sampler, which makes its own candidates; None where Optuna (and PyTorch) is not installed."""
    try:
        import optuna as library
        import torch  # noqa: F401 - the sampler imports it late
    except ImportError:
        return None
    library.logging.set_verbosity(library.logging.ERROR)
    boxes = {f"x{k}": library.distributions.FloatDistribution(0.0, 1.0) for k in range(7)}

    def step(X: np.ndarray, y: np.ndarray, C: np.ndarray) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study = library.create_study(sampler=library.samplers.GPSampler(seed=0))
            for x, value in zip(X, y, strict=True):
                params = {f"x{k}": float(v) for k, v in enumerate(x)}
                study.add_trial(library.create_trial(params=params, distributions=boxes, value=float(value)))
            study.ask(boxes)
        return -1

    return step

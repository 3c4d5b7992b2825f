"""Calls the compiled functions and prints a hash of all they return; run by `compile_once`."""

import hashlib

import numpy as np

from harness.acquisitions.envelope import log_expected_gain
from harness.acquisitions.lookahead import Clock
from harness.acquisitions.paths import path_values
from harness.surrogates.forest import RandomForest
from harness.surrogates.gp import GaussianProcess


def main() -> None:
    """Print the hash."""
    rng, process, digest = np.random.default_rng(0), GaussianProcess(), hashlib.sha256()
    for n in range(5, 45, 5):
        X = np.random.default_rng(1).random((n, 7))
        posterior = process.fit(X, np.sin(9 * X).sum(axis=1))
        for values in (*posterior.mean_sd(X), *posterior.bounds(rng.random((500, 7)))):
            digest.update(values.tobytes())
        joint, clock = posterior.joint(X), Clock(3.5, np.zeros(n), np.full(n, 0.3))
        digest.update(path_values(joint, clock, np.arange(n), 0.0, rng.standard_normal((8, 4, 3))).tobytes())
        digest.update(log_expected_gain(-joint.mean, joint.covariance, -joint.mean, joint.covariance[0]).tobytes())
    X, C = rng.random((60, 4)), rng.random((300, 4))
    X[:, 3], C[:, 3] = np.floor(5 * X[:, 3]), np.floor(5 * C[:, 3])
    for values in RandomForest(trees=20, categories=[0, 0, 0, 5]).fit(X, np.sin(9 * X).sum(axis=1)).mean_sd(C):
        digest.update(values.tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main()

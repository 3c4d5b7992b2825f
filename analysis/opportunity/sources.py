"""The data of the paper's learners: ionosphere, w1a, australian, sonar, and scikit-learn's digits."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from datasets.catalogue import names
from datasets.errors import BadInput
from datasets.loading import load
from harness.streams import stream

DIGITS = "digits"


@dataclass(frozen=True)
class Split:
    """Half of the rows to train on, half to test on; columns in [0, 1]."""

    name: str
    X_train: Float[np.ndarray, "n q"]
    X_test: Float[np.ndarray, "k q"]
    y_train: Int[np.ndarray, " n"]
    y_test: Int[np.ndarray, " k"]


def split(name: str, seed: int) -> Split:
    """Return a random half split of the data set `name`, which is downloaded if it is not at hand.

    Raises BadInput if it is unknown, or can be had nowhere.
    """
    X, y = _read(name)
    span = X.max(axis=0) - X.min(axis=0)
    X = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    order = stream(seed, "opportunity", name).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    return Split(name, X[train], X[test], y[train], y[test])


def _read(name: str) -> tuple[Float[np.ndarray, "n q"], Int[np.ndarray, " n"]]:
    if name == DIGITS:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X, y
    if name not in names("opportunity"):
        raise BadInput(f"unknown data set {name!r}; allowed: {', '.join((*names('opportunity'), DIGITS))}")
    data = load(name)
    return data.X.to_numpy(dtype=np.float64), data.y

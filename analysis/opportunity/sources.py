"""The data of the paper's learners: ionosphere, w1a, australian, sonar, and scikit-learn's digits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from datasets.formats import read_libsvm
from datasets.places import home
from harness.errors import BadInput
from harness.streams import stream


@dataclass(frozen=True)
class Split:
    """Half of the rows to train on, half to test on; columns in [0, 1]."""

    name: str
    X_train: Float[np.ndarray, "n q"]
    X_test: Float[np.ndarray, "k q"]
    y_train: Shaped[np.ndarray, " n"]
    y_test: Shaped[np.ndarray, " k"]


def split(name: str, seed: int) -> Split:
    """Return a random half split of the data set `name`; raises BadInput if it is unknown or its file is absent."""
    if name not in READERS:
        raise BadInput(f"unknown data set {name!r}; allowed: {', '.join(READERS)}")
    X, y = READERS[name]()
    span = X.max(axis=0) - X.min(axis=0)
    X = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    order = stream(seed, "opportunity", name).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    return Split(name, X[train], X[test], y[train], y[test])


def _raw(path: str) -> Path:
    folder = home()
    if folder is None or not (folder / path).is_file():
        raise BadInput(f"set DATASETS_HOME to the folder that holds {path}")
    return folder / path


def _separated(path: str, delimiter: str | None) -> tuple[np.ndarray, np.ndarray]:
    cells = np.genfromtxt(_raw(path), delimiter=delimiter, dtype=str)
    return cells[:, :-1].astype(float), np.unique(cells[:, -1], return_inverse=True)[1]


def _w1a() -> tuple[np.ndarray, np.ndarray]:
    frame = read_libsvm(_raw("libsvm_w1a/w1a.txt"), columns=300)
    label = frame["label"].to_numpy()
    return frame.drop(columns="label").to_numpy(dtype=float), np.unique(label, return_inverse=True)[1]


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


READERS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "ionosphere": lambda: _separated("ionosphere/ionosphere.data", ","),
    "w1a": _w1a,
    "australian": lambda: _separated("australian/australian.dat.txt", None),
    "sonar": lambda: _separated("sonar/sonar.all-data", ","),
    "digits": _digits,
}

"""Hard inputs of a run: points, errors and costs."""

import numpy as np
from hypothesis import strategies as st

D = 7
PLACES = ("spread", "one place", "few places", "near duplicates", "a line", "corners")
VALUES = ("smooth", "constant", "twelve orders", "one outlier", "offset", "noise")
Case = tuple[np.ndarray, np.ndarray, np.ndarray]


def points(place: str, n: int, rng: np.random.Generator) -> np.ndarray:
    spread = rng.random((n, D))
    if place == "one place":
        return np.repeat(spread[:1], n, axis=0)
    if place == "few places":
        return spread[rng.integers(0, 1 + n // 4, n)]
    if place == "near duplicates":  # kernel matrices of all ones but for the last digits
        return np.clip(spread[:1] + 10.0 ** rng.uniform(-15, -1) * (spread - 0.5), 0.0, 1.0)
    if place == "a line":
        return np.repeat(spread[:, :1], D, axis=1)
    return np.rint(spread) if place == "corners" else spread


def errors(values: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(X)
    if values == "constant":
        return np.full(n, 10.0 ** rng.uniform(-6, 6))
    if values == "twelve orders":
        return 10.0 ** rng.permutation(np.linspace(-6, 6, n))
    if values == "one outlier":
        return np.r_[1e6, 0.1 + 1e-6 * rng.random(n - 1)]
    if values == "offset":
        return 1e6 + X @ np.ones(D)
    return rng.random(n) if values == "noise" else np.sin(3.0 * X[:, 0]) + X[:, 6]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Points, errors and costs from 1e-6 to 1e6."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    X = points(draw(st.sampled_from(PLACES)), draw(st.integers(1, 14)), rng)
    y = errors(draw(st.sampled_from(VALUES)), X, rng)
    cost = 10.0 ** (rng.uniform(-6, 6, len(X)) if draw(st.booleans()) else np.linspace(6, -6, len(X)))
    return X, y, cost


CLUSTERS = (
    np.repeat([[0.5] * D, [0.5134] * D], 7, axis=0),
    np.linspace(0.1, 0.2, 14),
    np.repeat([1e-6, 1e6], 7),
)  # two tight groups, twelve orders of cost between them: a cost model extrapolates beyond exp(709) from there

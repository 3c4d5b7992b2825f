"""The solution K^-1 z of a Gaussian process with fixed hyperparameters, extended one observation at a time.

With K = L L^T, a new observation leaves the rows of W = L^-1 unchanged and adds one. That takes O(n^2), a new
factorisation O(n^3).
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.arrays import Points, Theta, Vector
from harness.compile_cache import njit
from harness.surrogates.kernels import DOTS, PARTS, fma, kernel_row, products
from harness.surrogates.likelihood import Solution

Location = tuple[float, float]
Weight = Float[np.ndarray, " d"]

_ROOM, _SHARE = 64, 4  # observations for which there is room beyond the first n: so many, or a quarter of n
_LEAST = 1e-12  # share of the diagonal that must be left of a new observation's variance


class GrowingSolution:
    """W = L^-1 (rows once made stay), K^-1 z and K^-1 1 at one theta, for data that only grow.

    z: y in units of the first observations' `location`, (mean, sd). A row of W is (-v^T W, 1) / d with v = W k(x) and
    d^2 = K_xx - v^T v; it adds (w z) w to K^-1 z. first, n: observations at first, and now; diagonal: K_xx, noise and
    jitter included. projected: (n, 2), w z and w 1 of each row; solved: (2, n), K^-1 z and K^-1 1. columns:
    (d, n), the points, centred and scaled by weight.
    """

    def __init__(self, X: Points, y: Vector, theta: Theta, weight: Weight, location: Location, found: Solution) -> None:
        n = self.first = self.n = len(X)
        room = n + max(_ROOM, n // _SHARE)
        self.theta, self.location = theta, location
        self.weight, self._signal, self._X, self._y = weight, math.exp(theta[-2]), X, y
        self.diagonal = 1.0 / float(found.inverse[0, 0]) ** 2
        self.W = np.zeros((room, room))
        self.W[:n, :n] = found.inverse
        self.projected, self.solved = np.zeros((room, 2)), np.zeros((2, room))
        self.columns = np.empty((X.shape[1], room))
        self.columns[:, :n] = ((X - 0.5) * weight).T
        _project(self.W, n, self._z(y), self.projected, self.solved)
        self.first_solved = self.solved[:, :n].copy()

    def _z(self, y: Vector) -> Vector:
        return (y - self.location[0]) / self.location[1]

    def extended(self, X: Points, y: Vector, theta: Theta) -> bool:
        """Take in more observations; return False where theta or earlier data differ, or digits run out (spoilt)."""
        n, m = self.n, len(X)
        same = (theta is self.theta or np.array_equal(theta, self.theta)) and 0 < n <= m <= len(self.W)
        if not (same and _begin_with(X, y, self._X, self._y)):
            return False
        z, columns = self._z(y), self.columns
        if not _grow(self.W, n, X, self.weight, columns, self._signal, self.diagonal, z, self.projected, self.solved):
            self.n = -1  # what there is of it is spoilt
            return False
        self._X, self._y, self.n = X, y, m
        return True

    def in_units_of(self, location: Location) -> tuple[float, float]:
        """Return p and q: (y - mean) / sd of another location is p z + q, and so with all that is linear in it."""
        return self.location[1] / location[1], (self.location[0] - location[0]) / location[1]

    def solution(self, location: Location) -> Solution:
        """Return W and K^-1 z, z in units of `location`."""
        (p, q), n = self.in_units_of(location), self.n
        return Solution(self.W[:n, :n], p * self.solved[0, :n] + q * self.solved[1, :n], math.nan)


@njit(cache=True, error_model="numpy")
@no_type_check
def _project(W, n, z, projected, solved):  # type: ignore[no-untyped-def]
    """Fill `projected` and `solved` for the first n observations."""
    for i in range(n):
        _add_row(W, i, z, projected, solved)


@njit(inline="always", error_model="numpy")
@no_type_check
def _add_row(W, i, z, projected, solved):  # type: ignore[no-untyped-def]
    """Add what row i of W says to `solved`."""
    row, t, total = W[i], 0.0, 0.0
    for j in range(i + 1):
        t, total = fma(row[j], z[j], t), total + row[j]
    projected[i, 0], projected[i, 1] = t, total
    for j in range(i + 1):
        solved[0, j] = fma(t, row[j], solved[0, j])
        solved[1, j] = fma(total, row[j], solved[1, j])


@njit(cache=True)
@no_type_check
def _begin_with(X, y, earlier_X, earlier_y):  # type: ignore[no-untyped-def]
    """Return whether the first of X and y are the earlier ones: `np.array_equal` twice, at a fifth of its price."""
    if X.shape[1] != earlier_X.shape[1]:
        return False
    for i in range(len(earlier_y)):
        if y[i] != earlier_y[i]:
            return False
        for q in range(X.shape[1]):
            if X[i, q] != earlier_X[i, q]:
                return False
    return True


@njit(cache=True, error_model="numpy")
@no_type_check
def _grow(W, n, X, weight, columns, signal, diagonal, z, projected, solved):  # type: ignore[no-untyped-def]
    """Add rows n and later to W and the rest; return whether each new observation has a variance left."""
    m = len(X)
    s, r, k, v, back, parts = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty((DOTS, PARTS))
    for new in range(n, m):
        for q in range(len(weight)):
            columns[q, new] = (X[new, q] - 0.5) * weight[q]
        kernel_row(columns, columns[:, new].copy(), new, signal, s, r, k)
        squared, back[:] = 0.0, 0.0
        products(W, 0, new, k, parts, v)
        for i in range(new):
            row, value = W[i], v[i]
            squared = fma(value, value, squared)
            for j in range(i + 1):
                back[j] = fma(value, row[j], back[j])
        rest = diagonal - squared
        if not rest > _LEAST * diagonal:
            return False
        scale = 1.0 / np.sqrt(rest)
        for j in range(new):
            W[new, j] = -back[j] * scale
        W[new, new] = scale
        _add_row(W, new, z, projected, solved)
    return True

"""Squared differences of all pairs of observed points, kept from fit to fit."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.compiler import njit


class Pairs:
    """The q = n (n - 1) / 2 pairs (i, j), i > j, of n points; pair (i, j) has position i (i - 1) / 2 + j.

    Appended points only append pairs, so `update` costs O(n d) for each of them. p = d columns of differences
    with ARD, otherwise p = 1, their sum.
    """

    def __init__(self, ard: bool) -> None:
        self._ard = ard
        self._X = np.empty((0, 0))
        self._squared = np.empty((0, 0))

    def update(self, X: Float[np.ndarray, "n d"]) -> None:
        """Hold the pairs of `X`, whether or not it continues the points of the last call."""
        known = len(self._X)
        if known > len(X) or self._X.shape[1] != X.shape[1] or not np.array_equal(self._X, X[:known]):
            known = 0
        self._reserve(known, len(X), X.shape[1] if self._ard else 1)
        self._X = X.copy()
        _append(self._X, known, self._squared)

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self._X)

    @property
    def squared(self) -> Float[np.ndarray, "p q"]:
        """(x_ik - x_jk)^2, or without ARD its sum over k."""
        return self._squared[:, : self.n * (self.n - 1) // 2]

    @property
    def memory(self) -> Float[np.ndarray, "p s"]:
        """`squared` and spare columns behind it, contiguous in memory."""
        return self._squared

    @property
    def flat(self) -> Int[np.ndarray, " q"]:
        """Where the pairs lie in an n x n matrix in Fortran order: its strict lower triangle."""
        return _flat(self.n)

    def _reserve(self, known: int, n: int, p: int) -> None:
        need, kept = n * (n - 1) // 2, known * (known - 1) // 2
        if need > self._squared.shape[1] or len(self._squared) != p:
            squared = np.empty((p, 2 * need))
            if kept:
                squared[:, :kept] = self._squared[:, :kept]
            self._squared = squared


@njit(cache=True, error_model="numpy")
@no_type_check
def _append(X: Float[np.ndarray, "n d"], known: int, squared: Float[np.ndarray, "p s"]) -> None:
    """Put the pairs of the points from `known` on into `squared`, summed over dimensions if p = 1 < d."""
    (n, d), p = X.shape, len(squared)
    for i in range(known, n):
        first = i * (i - 1) // 2
        for j in range(i):
            for k in range(p):
                squared[k, first + j] = (X[i, k] - X[j, k]) ** 2
            for k in range(p, d):
                squared[0, first + j] += (X[i, k] - X[j, k]) ** 2


@njit(cache=True)
@no_type_check
def _flat(n: int) -> Int[np.ndarray, " q"]:
    out = np.empty(n * (n - 1) // 2, np.intp)
    for i in range(n):
        for j in range(i):
            out[i * (i - 1) // 2 + j] = j * n + i
    return out

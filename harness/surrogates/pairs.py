"""Squared differences of all pairs of observed points, kept from fit to fit."""

import numpy as np
from jaxtyping import Float, Int


class Pairs:
    """The q = n (n - 1) / 2 pairs (i, j), i > j, of n points; pair (i, j) has position i (i - 1) / 2 + j.

    Appended points only append pairs, so `update` costs O(n d) for each of them. p = d columns of differences
    with ARD, otherwise p = 1, their sum.
    """

    def __init__(self, ard: bool) -> None:
        self._ard = ard
        self._X = np.empty((0, 0))
        self._squared = np.empty((0, 0))
        self._index = np.empty((2, 0), np.intp)

    def update(self, X: Float[np.ndarray, "n d"]) -> None:
        """Hold the pairs of `X`, whether or not it continues the points of the last call."""
        known = len(self._X)
        if known > len(X) or self._X.shape[1] != X.shape[1] or not np.array_equal(self._X, X[:known]):
            known = 0
        self._reserve(known, len(X), X.shape[1] if self._ard else 1)
        for i in range(known, len(X)):
            new = slice(i * (i - 1) // 2, i * (i + 1) // 2)
            squares = np.square(X[:i] - X[i]).T
            self._squared[:, new] = squares if self._ard else squares.sum(axis=0)
            self._index[0, new], self._index[1, new] = i, np.arange(i)
        self._X = X.copy()

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
        i, j = self._index[:, : self.n * (self.n - 1) // 2]
        return j * self.n + i

    def _reserve(self, known: int, n: int, p: int) -> None:
        need, kept = n * (n - 1) // 2, known * (known - 1) // 2
        if need > self._squared.shape[1] or len(self._squared) != p:
            squared, index = np.empty((p, 2 * need)), np.empty((2, 2 * need), np.intp)
            if kept:
                squared[:, :kept], index[:, :kept] = self._squared[:, :kept], self._index[:, :kept]
            self._squared, self._index = squared, index

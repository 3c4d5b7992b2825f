"""An inducing subset: the half of the observations that says most about the rest; it bounds predicted sds from above.

It is chosen by pivoted Cholesky: the next observation is always the one whose value is least certain given those chosen
before. An optimizer's late observations lie close together, so that this half explains far more than the first half
would: a third as many candidates pass a rough screening.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.arrays import Points
from harness.compile_cache import njit
from harness.surrogates.kernels import fma, kernel_row
from harness.surrogates.likelihood import cholesky, invert, pad, padded_inline

_REFRESH = 8  # observations after which the choice is made again


class InducingSubset:
    """The more informative half of the observations of a run, in a good order, and L^-1 of them, L L^T = K.

    A choice serves for `_REFRESH` more observations: which of the old ones say most hardly changes, and the new ones,
    near which the most promising candidates lie, are all included.
    """

    def __init__(self) -> None:
        self._order, self._half = np.empty(0, np.intp), 0

    def __call__(
        self, A: Points, signal: float, noise: float
    ) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "h h"]]:
        """Return all n indices, those chosen first, and L^-1 of these h <= (n + 1) / 2; arguments as below."""
        n, half = len(A), (len(A) + 1) // 2
        known = len(self._order)
        if 0 < known <= n < known + _REFRESH:
            order = np.concatenate([np.arange(known, n), self._order])
            positive, inverse = _inverse_factor(A[order[: min(half, self._half + n - known)]], signal, noise)
            if positive:
                return order, inverse
        order, inverse = inducing_subset(A, signal, noise, half)
        self._order, self._half = order, len(inverse)
        return order, inverse


@njit(cache=True, error_model="numpy")
@no_type_check
def inducing_subset(A, signal, noise, count):  # type: ignore[no-untyped-def]
    """Return all n indices, the most informative first, and L^-1, L L^T = K of those first h <= `count`.

    A: points divided by the length-scales over sqrt(5); K = signal Matern-5/2 + noise I. h < `count` only where the
    others' values are known to the last digit. Source: Harbrecht, Peters and Schneider 2012, algorithm 1.
    """
    n = len(A)
    columns, left = np.ascontiguousarray(A.T), np.full(n, signal + noise)
    G, s, r = np.empty((count, n)), np.empty(n), np.empty(n)
    order, chosen, h = np.arange(n), np.zeros(n, np.bool_), 0
    while h < count:
        i = left.argmax()
        if not left[i] > 0.0:
            break
        row = G[h]
        kernel_row(columns, A[i], n, signal, s, r, row)
        row[i] += noise
        for k in range(h):
            earlier = G[k]
            factor = earlier[i]
            for j in range(n):
                row[j] = fma(-factor, earlier[j], row[j])
        scale = 1.0 / np.sqrt(left[i])
        for j in range(n):
            row[j] *= scale
            left[j] = fma(-row[j], row[j], left[j])
        left[i], chosen[i], order[h] = -1.0, True, i
        h += 1
    size, rest = padded_inline(h), h
    U, W = np.empty((size, size)), np.empty((size, size))
    for j in range(h):
        for k in range(j, h):
            U[j, k] = G[j, order[k]]
    pad(U, h)
    invert(U, W)
    for i in range(n):
        if not chosen[i]:
            order[rest] = i
            rest += 1
    return order, W[:h, :h]


@njit(cache=True, error_model="numpy")
@no_type_check
def _inverse_factor(A, signal, noise):  # type: ignore[no-untyped-def]
    """Return whether K = signal Matern-5/2 + noise I is positive definite, and L^-1, L L^T = K."""
    h, size = len(A), padded_inline(len(A))
    columns, U, W = np.ascontiguousarray(A.T), np.empty((size, size)), np.empty((size, size))
    s, r = np.empty(h), np.empty(h)
    for i in range(h):
        kernel_row(columns, A[i], h, signal, s, r, U[i])
        U[i, i] = signal + noise
    pad(U, h)
    positive = cholesky(U)
    if positive:
        invert(U, W)
    return positive, W[:h, :h]

"""The Matern-5/2 kernel between two sets of points, for predictions of few points jointly."""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit
from harness.surrogates.kernels import fma, matern_double


def matern(
    A: Float[np.ndarray, "a d"], B: Float[np.ndarray, "b d"], weight: Float[np.ndarray, " d"], signal: float
) -> Float[np.ndarray, "a b"]:
    """Return s2 (1 + r + r^2 / 3) exp(-r), r = |weight (a - b)|, weight = sqrt(5) / length-scale.

    Source: Rasmussen and Williams 2006, equation 4.17.
    """
    columns = np.ascontiguousarray(((B - 0.5) * weight).T)
    out = np.empty((len(A), len(B)))
    _matern(np.ascontiguousarray((A - 0.5) * weight), columns, signal, out)
    return out


@njit(inline="always", error_model="numpy")
@no_type_check
def kernel_row(columns, a, m, signal, s, r, row):  # type: ignore[no-untyped-def]
    """Put signal Matern-5/2 of |a - c|, c the first m points in `columns`, into row[:m]; s, r: work space."""
    s[:m] = 0.0
    for q in range(len(a)):
        column, x = columns[q], a[q]
        for j in range(m):
            difference = column[j] - x
            s[j] = fma(difference, difference, s[j])
    matern_double(s[:m], r[:m], row[:m])
    for j in range(m):
        row[j] *= signal


@njit(cache=True, error_model="numpy")
@no_type_check
def _matern(A, columns, signal, out):  # type: ignore[no-untyped-def]
    """Fill `out`, a row for each of A."""
    m = out.shape[1]
    s, r = np.empty(m), np.empty(m)
    for i in range(len(A)):
        kernel_row(columns, A[i], m, signal, s, r, out[i])

"""E[max_k (a_k + b_k Z)] - max_k a_k, Z ~ N(0, 1), exactly: the upper envelope of finitely many lines.

Source: Frazier, Powell and Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs", algorithm 1
and equation 14: with the envelope's lines in the order of their slopes, consecutive ones crossing at c_i, the
expectation is sum_i (b_{i+1} - b_i) h(-|c_i|), h(u) = phi(u) + u Phi(u).
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numba import njit

from harness.acquisitions.ei import log_h


def log_expected_gain(
    intercept: Float[np.ndarray, " a"],
    slope: Float[np.ndarray, "m a"],
    own_intercept: Float[np.ndarray, " m"],
    own_slope: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """Return the log of the expected gain in each of m problems; -inf where a single line is highest everywhere.

    Problem j has the a lines (intercept, slope[j]) and one more, (own_intercept[j], own_slope[j]).
    """
    widths, cuts, first = _envelopes(intercept, slope, own_intercept, own_slope)
    out = np.full(len(slope), -np.inf)
    some = first[1:] > first[:-1]
    if some.any():
        with np.errstate(divide="ignore"):
            terms = np.log(widths) + log_h(-np.abs(cuts))
        starts = first[:-1][some]
        peak = np.maximum.reduceat(terms, starts)
        shift = np.where(np.isfinite(peak), peak, 0.0)
        sizes = (first[1:] - first[:-1])[some]
        with np.errstate(divide="ignore"):
            out[some] = shift + np.log(np.add.reduceat(np.exp(terms - np.repeat(shift, sizes)), starts))
    return out


@njit(cache=True)
@no_type_check
def _envelopes(intercept, slope, own_intercept, own_slope):  # type: ignore[no-untyped-def]
    """Return slope differences and crossings of consecutive lines, all problems in turn, and where each begins."""
    m, lines = len(slope), len(intercept) + 1
    widths, cuts, first = np.empty(m * (lines - 1)), np.empty(m * (lines - 1)), np.zeros(m + 1, np.intp)
    a, b = np.empty(lines), np.empty(lines)
    stack, start = np.empty(lines, np.intp), np.empty(lines)
    total = 0
    for j in range(m):
        a[:-1], a[-1] = intercept, own_intercept[j]
        b[:-1], b[-1] = slope[j], own_slope[j]
        found = 0
        for k in np.argsort(b):
            if found > 0 and b[k] == b[stack[found - 1]]:  # parallel: the higher one counts
                if a[k] <= a[stack[found - 1]]:
                    continue
                found -= 1
            cut = -np.inf
            while found > 0:
                top = stack[found - 1]
                cut = (a[top] - a[k]) / (b[k] - b[top])
                if found > 1 and cut <= start[found - 1]:
                    found -= 1  # hidden below its neighbours
                else:
                    break
            stack[found], start[found] = k, cut if found > 0 else -np.inf
            found += 1
        for k in range(1, found):
            widths[total], cuts[total] = b[stack[k]] - b[stack[k - 1]], start[k]
            total += 1
        first[j + 1] = total
    return widths[:total], cuts[:total], first

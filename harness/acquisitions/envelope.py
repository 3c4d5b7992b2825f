"""E[max_k (a_k + b_k Z)] - max_k a_k, Z ~ N(0, 1), exactly: the upper envelope of finitely many lines.

Source: Frazier, Powell and Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs" (their algorithm
1 finds the same lines): with the envelope's lines in the order of their slopes, consecutive ones crossing at c_i, the
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


@njit(cache=True, error_model="numpy")
@no_type_check
def _envelopes(intercept, slope, own_intercept, own_slope):  # type: ignore[no-untyped-def]
    """Return slope differences and crossings of consecutive lines, all problems in turn, and where each begins.

    From the line that is highest far to the left, to the one that crosses it first, and so on: envelopes are short.
    """
    m, lines = len(slope), len(intercept) + 1
    widths, cuts, first = np.empty(m * (lines - 1)), np.empty(m * (lines - 1)), np.zeros(m + 1, np.intp)
    a, b, crossing = np.empty(lines), np.empty(lines), np.empty(lines)
    total = 0
    for j in range(m):
        for k in range(lines - 1):
            a[k], b[k] = intercept[k], slope[j, k]
        a[lines - 1], b[lines - 1] = own_intercept[j], own_slope[j]
        here = 0
        for k in range(1, lines):
            if b[k] < b[here] or (b[k] == b[here] and a[k] > a[here]):
                here = k
        while True:
            for k in range(lines):
                crossing[k] = (a[here] - a[k]) / (b[k] - b[here]) if b[k] > b[here] else np.inf
            following = -1
            for k in range(lines):  # of lines that cross at the same place, the steepest stays highest
                if b[k] > b[here] and (
                    following < 0
                    or crossing[k] < crossing[following]
                    or (crossing[k] == crossing[following] and b[k] > b[following])
                ):
                    following = k
            if following < 0:
                break
            widths[total], cuts[total] = b[following] - b[here], crossing[following]
            total, here = total + 1, following
        first[j + 1] = total
    return widths[:total], cuts[:total], first

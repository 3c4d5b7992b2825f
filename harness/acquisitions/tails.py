"""Logs of normal probabilities and ratios of density to probability, many at a time, without a call for each.

Loops over short arrays that stay in the processor's cache, an operation at a time, become wide instructions.
"""

import math
from collections.abc import Callable
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from harness.compiler import njit
from harness.surrogates.kernels import exp_minus

BLOCK = 64
ROWS = 3  # of BLOCK numbers each: work space for `tails`
_K, _DEGREE = 3.75, 20
_SQRT_HALF, _SQRT_HALF_PI = math.sqrt(0.5), math.sqrt(0.5 * math.pi)
_LARGEST = 700.0  # at which `exp_minus` stops
_HALF_LOG_2PI, _DENSITY = 0.5 * math.log(2.0 * math.pi), 1.0 / math.sqrt(2.0 * math.pi)


def _smooth(t: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return (1 + 2 z) erfcx(z), t = (z - K) / (z + K), for all z >= 0: relative error of its polynomial 4e-15."""
    z = _K * (1.0 + t) / (1.0 - t)
    return (1.0 + 2.0 * z) * erfcx(z)


def _chebyshev(f: Callable[[np.ndarray], np.ndarray], degree: int) -> list[float]:
    """Return the Chebyshev coefficients of f's interpolant on [-1, 1], by the nodes' discrete orthogonality."""
    n = degree + 1
    angles = [math.pi * (k + 0.5) / n for k in range(n)]
    values = f(np.array([math.cos(angle) for angle in angles])).tolist()
    sums = [math.fsum(v * math.cos(j * a) for v, a in zip(values, angles, strict=True)) for j in range(n)]
    return [sums[0] / n, *(2.0 * total / n for total in sums[1:])]


# Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity"
_P = tuple(chebyshev.cheb2poly(_chebyshev(_smooth, _DEGREE))[::-1].tolist())
_A = tuple((1.0 / np.arange(35.0, 0.0, -2.0)).tolist())  # artanh(s) / s in s^2; s <= 1/3: error below 1e-16


@njit(inline="always")
@no_type_check
def _polynomial(t):  # type: ignore[no-untyped-def]
    """Return that of _P; written out, since over a loop in a loop the compiler makes no vectors."""
    v = ((((_P[0] * t + _P[1]) * t + _P[2]) * t + _P[3]) * t + _P[4]) * t + _P[5]
    v = ((((v * t + _P[6]) * t + _P[7]) * t + _P[8]) * t + _P[9]) * t + _P[10]
    v = ((((v * t + _P[11]) * t + _P[12]) * t + _P[13]) * t + _P[14]) * t + _P[15]
    return ((((v * t + _P[16]) * t + _P[17]) * t + _P[18]) * t + _P[19]) * t + _P[20]


@njit(inline="always")
@no_type_check
def minus_log1m(q):  # type: ignore[no-untyped-def]
    """Return -log(1 - q) = 2 artanh(q / (2 - q)), 0 <= q <= 1/2."""
    s = q / (2.0 - q)
    t = s * s
    v = ((((_A[0] * t + _A[1]) * t + _A[2]) * t + _A[3]) * t + _A[4]) * t + _A[5]
    v = ((((v * t + _A[6]) * t + _A[7]) * t + _A[8]) * t + _A[9]) * t + _A[10]
    v = ((((v * t + _A[11]) * t + _A[12]) * t + _A[13]) * t + _A[14]) * t + _A[15]
    return 2.0 * s * ((v * t + _A[16]) * t + _A[17])


@njit(inline="always")
@no_type_check
def ratios(u, work, ratio):  # type: ignore[no-untyped-def]
    """Put psi(u) / Psi(u) of at most BLOCK numbers into `ratio`; psi, Psi: pdf, cdf. Return the least of u.

    With E(x) = (1 - Psi(x)) / psi(x), x >= 0: for u = x, 1 - Psi = psi E; for u = -x, Psi / psi = E. Relative errors
    below 1e-13 up to u = 37, from where on it is 0. Leaves u^2 / 2, E(|u|) and 1 - Psi(|u|) in `work`.
    """
    n, least = len(u), np.inf
    half_square, mills, outside = work[0, :n], work[1, :n], work[2, :n]
    for value in u:  # apart, since its order matters: the other loops become vectors
        least = min(least, value)
    for k in range(n):
        half_square[k] = 0.5 * u[k] * u[k]
        z = abs(u[k]) * _SQRT_HALF
        mills[k] = _SQRT_HALF_PI * _polynomial((z - _K) / (z + _K)) / (1.0 + 2.0 * z)
    exp_minus(half_square, outside)
    for k in range(n):
        p = outside[k] * _DENSITY if half_square[k] < _LARGEST else 0.0
        outside[k] = p * mills[k]
        ratio[k] = p / (1.0 - outside[k])
    if least < 0.0:
        for k in range(n):
            if u[k] < 0.0:
                ratio[k] = 1.0 / mills[k]
    return least


@njit(inline="always")
@no_type_check
def tails(u, work, minus_log, ratio):  # type: ignore[no-untyped-def]
    """Put -log Psi(u), as exact as the ratio and 0 where that is, and `ratios` of at most BLOCK numbers into these."""
    least, n = ratios(u, work, ratio), len(u)
    half_square, mills, outside = work[0, :n], work[1, :n], work[2, :n]
    for k in range(n):
        minus_log[k] = minus_log1m(outside[k])
    if least < 0.0:
        for k in range(n):
            if u[k] < 0.0:
                minus_log[k] = half_square[k] + _HALF_LOG_2PI - math.log(mills[k])


@njit(inline="always")
@no_type_check
def sums(term, mean, sd, signal, lowest):  # type: ignore[no-untyped-def]
    """Return of each candidate the sum of a term of g_k = (mean - lowest_k) / sd over the samples of the minimum.

    term(g, signal, work): compiled; the sum over at most BLOCK of them, with work space of ROWS + 3 rows of which that
    after ROWS holds g.
    """
    out, work = np.zeros(len(mean)), np.empty((ROWS + 3, BLOCK))
    for i in range(len(mean)):
        for start in range(0, len(lowest), BLOCK):
            n = min(BLOCK, len(lowest) - start)
            g = work[ROWS, :n]
            for k in range(n):
                g[k] = (mean[i] - lowest[start + k]) / sd[i]
            out[i] += term(g, signal[i], work)
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _log_survival(mean, sd, y):  # type: ignore[no-untyped-def]
    """Return the sum of log Psi((mean - y) / sd) and of psi / Psi / sd."""
    work, total, slope = np.empty((ROWS + 3, BLOCK)), 0.0, 0.0
    for start in range(0, len(mean), BLOCK):
        n = min(BLOCK, len(mean) - start)
        u, minus_log, ratio = work[ROWS, :n], work[ROWS + 1, :n], work[ROWS + 2, :n]
        for k in range(n):
            u[k] = (mean[start + k] - y) / sd[start + k]
        tails(u, work, minus_log, ratio)
        for k in range(n):
            total -= minus_log[k]
            slope += ratio[k] / sd[start + k]
    return total, slope


def log_survival(mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], y: float) -> tuple[float, float]:
    """Return log P(min > y) of independent N(mean, sd^2), and by how much it falls per unit of y."""
    return _log_survival(mean, sd, y)  # type: ignore[no-any-return]

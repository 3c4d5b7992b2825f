"""The normal distribution in logs, truncated or not, and functions with the same digits on every processor."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, ndtri_exp

from harness.arrays import PerCandidate, Vector
from harness.compile_cache import njit
from harness.surrogates.kernels import exp_minus

# Logs of normal probabilities and ratios of density to probability, compiled: loops over short arrays that stay in the
# processor's cache, an operation at a time, become wide instructions.

BLOCK = 64
ROWS = 3  # of BLOCK numbers each: work space for `tails`
_K = 3.75
_SQRT_HALF, _SQRT_HALF_PI = math.sqrt(0.5), math.sqrt(0.5 * math.pi)
_LARGEST = 700.0  # at which `exp_minus` stops
_HALF_LOG_2PI, _DENSITY = 0.5 * math.log(2.0 * math.pi), 1.0 / math.sqrt(2.0 * math.pi)


# (1 + 2 z) erfcx(z) for all z >= 0 as a polynomial in t = (z - K) / (z + K), the highest power first: its interpolant
# in 21 Chebyshev nodes, relative error 4e-15. Numbers, since a last digit of SciPy's erfcx would be one of every run.
# Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity"
_P = (
    1.8381147778459957e-08, 8.98402475856604e-09, -2.1861307600158298e-07, -2.988814466425826e-08,
    1.7054824725381052e-06, -1.0041387235801812e-06, -1.1411275560628079e-05, 2.2405497027001214e-05,
    5.163450097846916e-05, -0.0002901634131768135, 0.0002937175755008747, 0.0017556284000692364,
    -0.009746580129385188, 0.02836227700719285, -0.058693398556426635, 0.0923043211963339,
    -0.10880393014110654, 0.08227673848868311, 0.0035854154853803, -0.14024059858552312,
    1.2375126308378281,
)  # fmt: skip
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
    """Return the sum, at each candidate, of a term of g_k = (mean - lowest_k) / sd over the samples of the minimum.

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


def log_survival(mean: PerCandidate, sd: PerCandidate, y: float) -> tuple[float, float]:
    """Return log P(min > y) of independent N(mean, sd^2), and by how much it falls per unit of y."""
    return _log_survival(mean, sd, y)  # type: ignore[no-any-return]


# Functions of arrays that give the same digits on every processor.
#
# NumPy picks its exp, log, log1p and tanh by the instructions that a processor has, and they differ in the last digit;
# what is recorded takes these instead, which call the C library number by number.

_GUESS_DIGITS, _NEWTON = 6, 4  # of the nodes that NumPy finds, which depend on LAPACK; steps from there, two are enough


def _elementwise(loop: Callable[[Any, Any], None], x: Any) -> np.ndarray:
    """Return an array of x's shape, filled by a compiled loop over both, flat."""
    x = np.asarray(x, np.float64)
    out = np.empty(x.shape)
    loop(x.ravel(), out.reshape(-1))
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _exp(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = math.exp(x[i])


@njit(cache=True, error_model="numpy")
@no_type_check
def _log(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = math.log(x[i])


@njit(cache=True, error_model="numpy")
@no_type_check
def _log1p(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = math.log1p(x[i])


@njit(cache=True, error_model="numpy")
@no_type_check
def _tanh(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = math.tanh(x[i])


def exp(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return e^x; inf from 709.8 on, without a warning."""
    return _elementwise(_exp, x)


def log(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return the natural logarithm; -inf at 0 and NaN below, without a warning."""
    return _elementwise(_log, x)


def log1p(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return log(1 + x); -inf at -1 and NaN below, without a warning."""
    return _elementwise(_log1p, x)


def tanh(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return the hyperbolic tangent."""
    return _elementwise(_tanh, x)


def logsumexp(x: Float[np.ndarray, "*s"], axis: int | None = None) -> Float[np.ndarray, "*r"]:
    """Return log sum exp(x) over an axis, or over all; -inf where all are."""
    x = np.asarray(x, np.float64)
    peak = x.max(axis=axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    total = exp(x - peak).sum(axis=axis, keepdims=True)
    return np.squeeze(log(total) + peak, axis=axis)


@cache
def _gauss_hermite(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    nodes, weights = [], []
    for guess in np.polynomial.hermite_e.hermegauss(n)[0].tolist():
        x = round(guess, _GUESS_DIGITS)
        for _ in range(_NEWTON):
            before, value = _hermite(n, x)
            x -= value / (math.sqrt(n) * before)  # p_n' = sqrt(n) p_{n-1}
        nodes.append(x)
        weights.append(1.0 / _hermite(n, x)[0] ** 2)
    total = math.fsum(weights)
    return tuple(nodes), tuple(weight / total for weight in weights)


def _hermite(n: int, x: float) -> tuple[float, float]:
    """Return p_{n-1}(x) and p_n(x), He_k / sqrt(k!): sqrt(k + 1) p_{k+1} = x p_k - sqrt(k) p_{k-1}."""
    before, value = 0.0, 1.0
    for k in range(n):
        before, value = value, (x * value - math.sqrt(k) * before) / math.sqrt(k + 1)
    return before, value


def gauss_hermite(n: int) -> tuple[Vector, Vector]:
    """Return nodes z, ascending, and weights w, sum 1, with E[f(Z)] = sum w f(z), Z ~ N(0, 1), exact to degree 2n - 1.

    Source: Golub and Welsch 1969; weights by 1 / p_{n-1}(z)^2, p orthonormal.
    """
    nodes, weights = _gauss_hermite(n)
    return np.array(nodes), np.array(weights)


# The normal distribution truncated below, that of a value of which only a lower bound is known.
#
# Notation: v ~ N(mu, s^2) given v >= a; alpha = (a - mu) / s; Phi, phi the standard normal's distribution and density.
# Source: Johnson, Kotz and Balakrishnan 1994, section 13.10.1 (moments). All in logs or in scaled functions, since
# bounds lie many sd out: Phi(-alpha) underflows from alpha = 38 on.

_FAR = 30.0  # sd: beyond, the moments' brackets cancel and their asymptotic series are exact to 1e-9


def truncated_quantile(q: Vector, mu: Vector, sd: Vector, bound: Vector) -> Vector:
    """Return v with P(v' <= v | v' >= a) = q, 0 < q < 1: mu - s Phi^-1((1 - q) Phi(-alpha)); never below `bound`.

    Raises ValueError for an sd that is not positive or a q outside (0, 1).
    """
    q = np.asarray(q, dtype=np.float64)
    if not ((q > 0.0) & (q < 1.0)).all():
        raise ValueError("quantiles must lie inside (0, 1)")
    alpha = _standard(mu, sd, bound)
    tail = log1p(-q) + log_ndtr(-alpha)
    return np.maximum(mu - sd * ndtri_exp(tail), bound)


def truncated_moments(mu: Vector, sd: Vector, bound: Vector) -> tuple[Vector, Vector]:
    """Return E[v] = mu + s h and Var[v] = s^2 (1 + alpha h - h^2), h = phi(alpha) / Phi(-alpha), the hazard.

    The mean is never below `bound`, the variance positive. Raises ValueError for an sd that is not positive.
    """
    alpha = _standard(mu, sd, bound)
    near = np.minimum(alpha, _FAR)
    hazard = math.sqrt(2.0 / math.pi) / erfcx(near / math.sqrt(2.0))
    excess, share = hazard - near, 1.0 + near * hazard - hazard * hazard
    far = alpha > _FAR
    if far.any():
        w = 1.0 / np.square(alpha[far])
        excess[far] = (1.0 - w * (2.0 - w * (10.0 - 74.0 * w))) / alpha[far]
        share[far] = w * (1.0 - w * (6.0 - w * (50.0 - 518.0 * w)))
    mean = np.where(far, bound + sd * excess, mu + sd * hazard)
    return np.maximum(mean, bound), np.square(sd) * share


def _standard(mu: Vector, sd: Vector, bound: Vector) -> Vector:
    if not (np.asarray(sd) > 0.0).all():
        raise ValueError("the sd of a truncated normal distribution must be positive")
    return np.asarray((bound - mu) / sd, dtype=np.float64)

"""Functions of arrays that give the same digits on every processor.

NumPy picks its exp, log, log1p and tanh by the instructions that a processor has, and they differ in the last digit;
what is recorded takes these instead, which call the C library number by number.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import njit

_GUESS_DIGITS, _NEWTON = 6, 4  # of the nodes that NumPy finds, which hang on LAPACK; steps from there, two are enough


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


def gauss_hermite(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return nodes z, ascending, and weights w, sum 1, with E[f(Z)] = sum w f(z), Z ~ N(0, 1), exact to degree 2n - 1.

    Source: Golub and Welsch 1969; weights by 1 / p_{n-1}(z)^2, p orthonormal.
    """
    nodes, weights = _gauss_hermite(n)
    return np.array(nodes), np.array(weights)

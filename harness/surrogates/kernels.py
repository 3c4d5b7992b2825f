"""Compiled loops over kernel entries, where NumPy would pass over memory once per operation.

With fastmath, the order of a sum is the compiler's choice, and it may choose differently for a function called and
for the same function loaded from the cache. So such functions are inlined into one that is compiled as a whole:
a process that compiles and one that loads give the same bytes, which a test repeats.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int
from numba import njit

_f4, _i4 = np.float32, np.int32
_LOG2_E, _LN2_HIGH, _LN2_LOW = _f4(1.44269504), _f4(0.693359375), _f4(-2.12194440e-4)  # ln 2 = high + low
_FARTHEST = _f4(80.0)  # exp(-80) is nothing beside 1, and still a normal number


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def matern_single(
    squares: Float[np.ndarray, " b"],
    out: Float[np.ndarray, " b"],
    bits: Int[np.ndarray, " b"],
    power: Float[np.ndarray, " b"],
) -> None:
    """Put (1 + r + r^2 / 3) exp(-r) into `out`, r^2 = squares >= 0, all in single precision.

    bits int32 and `power`, the same memory as float32, are work space. exp(-r) = 2^-k exp(f),
    f = k ln 2 - r in [-0.35, 0.35], its series to f^6, which the processor's vectors take 8 at a time; error
    below 4e-7 of 1.
    """
    b = len(squares)
    for j in range(b):
        r = np.sqrt(squares[j])
        x = r if r < _FARTHEST else _FARTHEST
        k = np.floor(x * _LOG2_E + _f4(0.5))
        f = k * _LN2_HIGH - x
        f = f + k * _LN2_LOW
        bits[j] = (_i4(127) - _i4(k)) << _i4(23)
        series = _f4(1 / 6) + f * (_f4(1 / 24) + f * (_f4(1 / 120) + f * _f4(1 / 720)))
        series = _f4(1.0) + f * (_f4(1.0) + f * (_f4(0.5) + f * series))
        out[j] = (_f4(1.0) + x + squares[j] * _f4(1 / 3)) * series
    for j in range(b):
        out[j] *= power[j]


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def exp_minus(
    x: Float[np.ndarray, " n"],
    n: int,
    out: Float[np.ndarray, " m"],
    bits: Int[np.ndarray, " n"],
    power: Float[np.ndarray, " n"],
) -> None:
    """Put exp(-x) into out[:n], x >= 0; as above in double precision, to f^11; relative error below 2e-14."""
    for j in range(n):
        y = x[j] if x[j] < 700.0 else 700.0
        k = np.floor(y * 1.4426950408889634 + 0.5)
        f = k * 0.6931471803691238 - y
        f = f + k * 1.9082149292705877e-10
        bits[j] = (1023 - np.int64(k)) << 52
        g = f * f
        tail = (1 / 40320 + f * (1 / 362880)) + g * (1 / 3628800 + f * (1 / 39916800))
        tail = (1 / 24 + f * (1 / 120)) + g * ((1 / 720 + f * (1 / 5040)) + g * tail)
        out[j] = (1.0 + f) + g * ((0.5 + f * (1 / 6)) + g * tail)
    for j in range(n):
        out[j] *= power[j]

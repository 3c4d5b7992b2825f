"""Compiled loops over kernel entries, where NumPy would pass over memory once per operation.

With fastmath, the order of a sum is the compiler's choice, and it may choose differently for a function called and
for the same function loaded from the cache. So such functions are inlined into one that is compiled as a whole:
a process that compiles and one that loads give the same bytes, which a test repeats.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float

from harness.compiler import intrinsic, njit, types

_f4, _i4 = np.float32, np.int32
_ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
_LN2, _LN2_SQUARED_3 = _f4(0.693147181), _f4(0.160151007)
_FARTHEST = _f4(115.0)  # 2^-115 is nothing beside 1, and still a normal number
_ONE, _BINADE = _f4(0x3F800000), _f4(1 << 23)  # 2^-k has the bits of the integer 127 2^23 - k 2^23
# the polynomial of degree 5 nearest to 2^f, relatively, on [-1/2, 1/2]: error below 7.5e-8
_C0, _C1, _C2 = _f4(1.00000007), _f4(0.693146967), _f4(0.240221197)
_C3, _C4, _C5 = _f4(0.0555071327), _f4(0.00967554133), _f4(0.0013276472)


@intrinsic
def _as_float(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the floating-point number with the bits of an int32 or int64."""
    result = types.float32 if bits == types.int32 else types.float64

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(result))

    return result(bits), generate


@intrinsic
def _as_bits(typing_context, number):  # type: ignore[no-untyped-def]
    """Return the bits of a float64 as an int64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(number), generate


@intrinsic
def wide_vectors(typing_context):  # type: ignore[no-untyped-def]
    """Let the function that says so use vectors of 512 bits where the processor has them; otherwise LLVM takes 256."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        # `add` of the attributes' own class knows no attributes with values
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def matern_single(squares: Float[np.ndarray, " b"], out: Float[np.ndarray, " b"]) -> None:
    """Put (1 + r + r^2 / 3) exp(-r) into `out`, in single precision; squares = (r log2 e)^2 >= 0.

    exp(-r) = 2^-k 2^f, f = k - r log2 e in [-1/2, 1/2]; without a call or a branch, so that the processor's vectors
    take 8 or 16 entries at a time. Error below 4e-7 of 1.
    """
    for j in range(len(squares)):
        t = np.sqrt(squares[j])
        t = t if t < _FARTHEST else _FARTHEST
        k = np.rint(t)
        f = k - t
        series = _C0 + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * _C5))))
        power = _as_float(_i4(_ONE - k * _BINADE))
        out[j] = (_f4(1.0) + t * _LN2 + squares[j] * _LN2_SQUARED_3) * series * power


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def exp_minus(x: Float[np.ndarray, " n"], out: Float[np.ndarray, " n"]) -> None:
    """Put exp(-x) into `out`, x >= 0, in double precision: 2^-k and a series to f^11; relative error below 2e-14."""
    for j in range(len(x)):
        y = x[j] if x[j] < 700.0 else 700.0
        k = np.rint(y * 1.4426950408889634)
        f = k * 0.6931471803691238 - y
        f = f + k * 1.9082149292705877e-10
        g = f * f
        tail = (1 / 40320 + f * (1 / 362880)) + g * (1 / 3628800 + f * (1 / 39916800))
        tail = (1 / 24 + f * (1 / 120)) + g * ((1 / 720 + f * (1 / 5040)) + g * tail)
        out[j] = ((1.0 + f) + g * ((0.5 + f * (1 / 6)) + g * tail)) * _as_float((1023 - np.int64(k)) << 52)


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def matern_double(
    squares: Float[np.ndarray, " n"], root: Float[np.ndarray, " n"], out: Float[np.ndarray, " n"]
) -> None:
    """Put r into `root` and (1 + r + r^2 / 3) exp(-r) into `out`, in double precision; squares = r^2 >= 0."""
    for j in range(len(squares)):
        root[j] = np.sqrt(squares[j])
    exp_minus(root, out)
    for j in range(len(squares)):
        out[j] *= 1.0 + root[j] + squares[j] * (1.0 / 3.0)


@njit(inline="always", fastmath=True, error_model="numpy")
@no_type_check
def log_normal(x: Float[np.ndarray, " n"], out: Float[np.ndarray, " n"]) -> None:
    """Put log x into `out`, for positive x that are no subnormal numbers; error below 2e-11.

    x = 2^k m, m in [sqrt(1/2), sqrt 2): log m = 2 artanh s = 2 (s + s^3 / 3 + ... + s^11 / 11), s = (m - 1) / (m + 1).
    """
    for j in range(len(x)):
        bits = _as_bits(x[j])
        k = (bits - _ROOT_HALF) >> 52
        m = _as_float(bits - (k << 52))
        s = (m - 1.0) / (m + 1.0)
        g = s * s
        tail = (2 / 7 + g * (2 / 9)) + g * g * (2 / 11)
        out[j] = k * 0.6931471805599453 + s * ((2.0 + g * (2 / 3)) + g * g * (2 / 5 + g * tail))

"""Compiled kernel entries: the Matern-5/2 kernel, sums of products in tiles, and the exp and log that they need.

NumPy would pass over memory once per operation. Every operation and the order of every sum is written out, with `fma`
where two are to be rounded as one, and without fastmath: so a number does not depend on its place in an array, on the
width of the processor's vectors, or on what the compiler makes of a loop.
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Shaped
from llvmlite import ir

from harness.arrays import Vector
from harness.compile_cache import cgutils, intrinsic, njit, types

TILE_BYTES = 32  # of a vector; two of them by four to six rows of sums fill what AVX2 has
LINE_BYTES = 64  # of memory that a processor fetches at a time
TILE_ROWS = 6  # of `add_squares`
PARTS, DOTS = 4, 4  # of a sum of products in double precision, a vector's; rows whose sums are made at a time
SQUARE_ROWS, SQUARE_COLUMNS = 4, 8  # of `subtract_product`
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
def fma(typing_context, a, b, c):  # type: ignore[no-untyped-def]
    """Return a b + c, rounded once."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.fma(*arguments)

    return a(a, b, c), generate


class _Tile:
    """LLVM code for sums_r += w_r[j] x[j], a chain of `fma` by rising j, for some rows r and some vectors of columns.

    Vectors of TILE_BYTES are what AVX2 has; elsewhere LLVM makes the same operations of what there is. Sums in double
    precision can be of numbers in single precision, which are converted as they are read.
    """

    def __init__(self, context, builder, number, rows, vectors=2) -> None:  # type: ignore[no-untyped-def]
        self.builder, self._rows, self._vectors, self._size = builder, rows, vectors, number.bitwidth // 8
        self.lanes = TILE_BYTES // self._size
        self.vector = ir.VectorType(context.get_value_type(number), self.lanes)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fma.v{self.lanes}f{number.bitwidth}"
        self._fma = cgutils.get_or_insert_function(builder.module, kind, name)

    def fma(self, a, b, c):  # type: ignore[no-untyped-def]
        """Return a b + c of vectors."""
        return self.builder.call(self._fma, [a, b, c])

    def pointers(self, array, place):  # type: ignore[no-untyped-def]
        """Return where the vectors from `place` of an array's memory on are."""
        places = (self.builder.add(place, ir.IntType(64)(h * self.lanes)) for h in range(self._vectors))
        kind = ir.VectorType(array.data.type.pointee, self.lanes).as_pointer()
        return [self.builder.bitcast(self.builder.gep(array.data, [at]), kind) for at in places]

    def load(self, pointer):  # type: ignore[no-untyped-def]
        """Return the vector there."""
        if pointer.type.pointee == self.vector:
            return self.builder.load(pointer, align=self._size)
        return self.builder.fpext(self.builder.load(pointer, align=self._size // 2), self.vector)

    def store(self, value, pointer):  # type: ignore[no-untyped-def]
        """Put the vector there."""
        self.builder.store(value, pointer, align=self._size)

    def sums(self, begin, end, weights, weight_at, values, value_at):  # type: ignore[no-untyped-def]
        """Return the sums over begin <= j < end, by rows; weight_at(j): place of w_0[j], those of the others follow."""
        builder, index, lanes = self.builder, ir.IntType(64), self.lanes
        before = builder.block
        loop, after = (builder.append_basic_block(part) for part in ("tile", "tile.end"))
        builder.branch(loop)
        builder.position_at_end(loop)
        j = builder.phi(index)
        j.add_incoming(begin, before)
        totals, grown = [builder.phi(self.vector) for _ in range(self._vectors * self._rows)], []
        x, place = [self.load(pointer) for pointer in self.pointers(values, value_at(j))], weight_at(j)
        for r in range(self._rows):
            one = builder.load(builder.gep(weights.data, [builder.add(place, index(r))]))
            lead = builder.insert_element(ir.Constant(self.vector, ir.Undefined), one, ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            spread = builder.shuffle_vector(lead, lead, everywhere)
            grown += [self.fma(spread, x[h], totals[self._vectors * r + h]) for h in range(self._vectors)]
        following = builder.add(j, index(1))
        j.add_incoming(following, loop)
        for total, new in zip(totals, grown, strict=True):
            total.add_incoming(ir.Constant(self.vector, [0.0] * lanes), before)
            total.add_incoming(new, loop)
        builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
        builder.position_at_end(after)
        return grown


@intrinsic
def add_squares(typing_context, weights, start, columns, k, first, out):  # type: ignore[no-untyped-def]
    """Add the squares of w_r^T k to `out`, for TILE_ROWS rows w and the candidates of two vectors, from `first` on.

    Row r of w has its column j at weights[start + TILE_ROWS j + r], j < columns, columns > 0; candidates are columns of
    k and elements of `out`, contiguous. The squares are added by rising r.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        index = ir.IntType(64)
        tile = _Tile(context, builder, weights.dtype, TILE_ROWS)
        w, points, sums = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 3, 5))
        _, begin, end, _, place, _ = arguments
        width = builder.extract_value(points.shape, 1)
        totals = tile.sums(
            index(0), end, w, lambda j: builder.add(begin, builder.mul(j, index(TILE_ROWS))),
            points, lambda j: builder.add(place, builder.mul(j, width)),
        )  # fmt: skip
        for h, pointer in enumerate(tile.pointers(sums, place)):
            square = tile.load(pointer)
            for total in totals[h::2]:
                square = tile.fma(total, total, square)
            tile.store(square, pointer)
        return context.get_dummy_value()

    return types.none(weights, types.int64, types.int64, k, types.int64, out), generate


@intrinsic
def weighted_sum(typing_context, weights, count, k, out):  # type: ignore[no-untyped-def]
    """Put the sum of weights[j] k[j, c] over j < count, by rising j, into out[c], c < WIDTH; count > 0; contiguous.

    weights and out are float64, k float64 or float32: single precision would lose the sum of large terms that cancel.
    A loop would have to read and write `out` at every j, since the compiler cannot know that it lies apart from k.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        index = ir.IntType(64)
        w, points, sums = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3))
        tile = _Tile(context, builder, weights.dtype, 1, WIDTH * weights.dtype.bitwidth // 8 // TILE_BYTES)
        width = builder.extract_value(points.shape, 1)
        totals = tile.sums(index(0), arguments[1], w, lambda j: j, points, lambda j: builder.mul(j, width))
        for total, pointer in zip(totals, tile.pointers(sums, index(0)), strict=True):
            tile.store(total, pointer)
        return context.get_dummy_value()

    return types.none(weights, types.int64, k, out), generate


@intrinsic
def subtract_product(typing_context, w, column, begin, end, x, place, out, row):  # type: ignore[no-untyped-def]
    """Subtract sum_j w[j, column + r] x[j, place + c], begin <= j < end, from out[row + r, place + c].

    For r < SQUARE_ROWS and c < SQUARE_COLUMNS; begin < end; arrays of float64, contiguous.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        tile = _Tile(context, builder, w.dtype, SQUARE_ROWS)
        weights, values, target = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 4, 6)
        )
        _, first, start, stop, _, at, _, top = arguments

        def place_in(array, i, j):  # type: ignore[no-untyped-def]
            return builder.add(builder.mul(i, builder.extract_value(array.shape, 1)), j)

        totals = tile.sums(
            start, stop, weights, lambda j: place_in(weights, j, first), values, lambda j: place_in(values, j, at)
        )
        for r in range(SQUARE_ROWS):
            there = place_in(target, builder.add(top, ir.IntType(64)(r)), at)
            for total, pointer in zip(totals[2 * r : 2 * r + 2], tile.pointers(target, there), strict=True):
                tile.store(builder.fsub(tile.load(pointer), total), pointer)
        return context.get_dummy_value()

    whole = types.int64
    return types.none(w, whole, whole, whole, x, whole, out, whole), generate


@intrinsic
def fetch(typing_context, a, i, count):  # type: ignore[no-untyped-def]
    """Ask the processor for the first `count` values of row i of `a`, contiguous, which will soon be read."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        index, flag, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(made.shape, 1))
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        line = index(LINE_BYTES * 8 // a.dtype.bitwidth)
        with cgutils.for_range_slice(builder, index(0), arguments[2], line, index) as (at, _):
            there = builder.bitcast(builder.gep(made.data, [builder.add(start, at)]), byte)
            builder.call(ask, [there, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(a, types.int64, types.int64), generate


def _chains(tile, places, end, step):  # type: ignore[no-untyped-def]
    """Return, as vectors, the sums of x[q] y[q] over q < end, by rising q, for each pair of places; end, step > 0.

    places: of each chain, (x, begin of x, y, begin of y), x and y arrays; of every `step` values it takes a vector's.
    """
    builder, index, before = tile.builder, ir.IntType(64), tile.builder.block
    loop, after = (builder.append_basic_block(part) for part in ("dot", "dot.end"))
    builder.branch(loop)
    builder.position_at_end(loop)
    q = builder.phi(index)
    q.add_incoming(index(0), before)
    totals, grown = [builder.phi(tile.vector) for _ in places], []
    for total, (x, begin_x, y, begin_y) in zip(totals, places, strict=True):
        left, right = (tile.pointers(of, builder.add(at, q))[0] for of, at in ((x, begin_x), (y, begin_y)))
        grown.append(tile.fma(tile.load(left), tile.load(right), total))
    following = builder.add(q, index(step))
    q.add_incoming(following, loop)
    for total, new in zip(totals, grown, strict=True):
        total.add_incoming(ir.Constant(tile.vector, [0.0] * tile.lanes), before)
        total.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    return grown


@intrinsic
def dot_float32(typing_context, a, i, b, j, count):  # type: ignore[no-untyped-def]
    """Return the sum of a[i, q] b[j, q], q < count, a multiple of 32, in 32 parts; a float64, b float32, contiguous."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        index, tile = ir.IntType(64), _Tile(context, builder, types.float64, 1, 1)

        def row(kind, array, i):  # type: ignore[no-untyped-def]
            made = context.make_array(kind)(context, builder, array)
            return made, builder.mul(i, builder.extract_value(made.shape, 1))

        def total(parts):  # type: ignore[no-untyped-def]
            while len(parts) > 1:
                parts = [builder.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            return parts[0]

        (x, begin_x), (y, begin_y) = row(a, *arguments[:2]), row(b, *arguments[2:4])
        starts = [index(h * tile.lanes) for h in range(8)]
        places = [(x, builder.add(begin_x, at), y, builder.add(begin_y, at)) for at in starts]
        whole = total(_chains(tile, places, arguments[4], 8 * tile.lanes))
        return total([builder.extract_element(whole, ir.IntType(32)(lane)) for lane in range(tile.lanes)])

    return types.float64(a, types.int64, b, types.int64, types.int64), generate


def _dots_of(rows):  # type: ignore[no-untyped-def]
    """Return what puts the sums of w[i + r, q] k[q] over q < count, in PARTS each, into parts[r], for r < rows."""

    @intrinsic
    def dots(typing_context, w, i, k, count, parts):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            index, tile = ir.IntType(64), _Tile(context, builder, types.float64, 1, 1)
            weights, values, sums = (
                context.make_array(signature.args[n])(context, builder, arguments[n]) for n in (0, 2, 4)
            )
            width = builder.extract_value(weights.shape, 1)
            begins = [builder.mul(builder.add(arguments[1], index(r)), width) for r in range(rows)]
            totals = _chains(tile, [(weights, at, values, index(0)) for at in begins], arguments[3], PARTS)
            for r, total in enumerate(totals):
                tile.store(total, tile.pointers(sums, index(r * PARTS))[0])
            return context.get_dummy_value()

        return types.none(w, types.int64, k, types.int64, parts), generate

    return dots


_one_dot, _dots = _dots_of(1), _dots_of(DOTS)


@njit(inline="always", error_model="numpy")
@no_type_check
def _total(w, k, count, n, part):  # type: ignore[no-untyped-def]
    """Return the sum of the first n products, `part` those of the first `count`."""
    s0, s1, s2, s3 = part[0], part[1], part[2], part[3]
    if n >= count + PARTS:
        s0, s1 = fma(w[count], k[count], s0), fma(w[count + 1], k[count + 1], s1)
        s2, s3 = fma(w[count + 2], k[count + 2], s2), fma(w[count + 3], k[count + 3], s3)
        count += PARTS
    for j in range(count, n):
        s0 = fma(w[j], k[j], s0)
    return (s0 + s1) + (s2 + s3)


@njit(inline="always", error_model="numpy")
@no_type_check
def dot(W, i, k, n, parts):  # type: ignore[no-untyped-def]
    """Return W[i, :n]^T k, the sum in PARTS; contiguous; parts: (DOTS, PARTS), a space."""
    count = n // PARTS * PARTS
    if count == 0:
        parts[0] = 0.0
    else:
        _one_dot(W, i, k, count, parts)
    return _total(W[i], k, count, n, parts[0])


@njit(inline="always", error_model="numpy")
@no_type_check
def products(W, begin, end, k, parts, out):  # type: ignore[no-untyped-def]
    """Put W[i, :i + 1]^T k into out[i], begin <= i < end, each as `dot` returns it.

    DOTS rows at a time, each of which alone would wait for its own last sum.
    """
    i = begin
    while i < end:
        count = (i + 1) // PARTS * PARTS
        if count == 0 or i + DOTS > end:
            out[i] = dot(W, i, k, i + 1, parts)
            i += 1
            continue
        _dots(W, i, k, count, parts)
        for r in range(DOTS):
            out[i + r] = _total(W[i + r], k, count, i + r + 1, parts[r])
        i += DOTS


@njit(inline="always", error_model="numpy")
@no_type_check
def matern_float32(squares: Float[np.ndarray, " b"], out: Float[np.ndarray, " b"]) -> None:
    """Put (1 + r + r^2 / 3) exp(-r) into `out`, in single precision; squares = (r log2 e)^2 >= 0.

    exp(-r) = 2^-k 2^f, f = k - r log2 e in [-1/2, 1/2]; without a call or a branch, so that the processor's vectors
    take 8 or 16 entries at a time. Error below 4e-7 of 1.
    """
    for j in range(len(squares)):
        t = np.sqrt(squares[j])
        t = t if t < _FARTHEST else _FARTHEST
        k = np.rint(t)
        f = k - t
        series = fma(f, fma(f, fma(f, fma(f, fma(f, _C5, _C4), _C3), _C2), _C1), _C0)
        power = _as_float(_i4(_ONE - k * _BINADE))
        out[j] = fma(squares[j], _LN2_SQUARED_3, fma(t, _LN2, _f4(1.0))) * series * power


@njit(inline="always", error_model="numpy")
@no_type_check
def exp_minus(x: Vector, out: Vector) -> None:
    """Put exp(-x) into `out`, x >= 0, in double precision: 2^-k and a series to f^11; relative error below 2e-14."""
    for j in range(len(x)):
        y = x[j] if x[j] < 700.0 else 700.0
        k = np.rint(y * 1.4426950408889634)
        f = fma(k, 1.9082149292705877e-10, fma(k, 0.6931471803691238, -y))
        g = f * f
        tail = fma(g, fma(f, 1 / 39916800, 1 / 3628800), fma(f, 1 / 362880, 1 / 40320))
        tail = fma(g, fma(g, tail, fma(f, 1 / 5040, 1 / 720)), fma(f, 1 / 120, 1 / 24))
        series = fma(g, fma(g, tail, fma(f, 1 / 6, 0.5)), 1.0 + f)
        out[j] = series * _as_float((1023 - np.int64(k)) << 52)


@njit(inline="always", error_model="numpy")
@no_type_check
def matern_float64(squares: Vector, root: Vector, out: Vector) -> None:
    """Put r into `root` and (1 + r + r^2 / 3) exp(-r) into `out`, in double precision; squares = r^2 >= 0."""
    for j in range(len(squares)):
        root[j] = np.sqrt(squares[j])
    exp_minus(root, out)
    for j in range(len(squares)):
        out[j] *= fma(squares[j], 1.0 / 3.0, 1.0 + root[j])


@njit(inline="always", error_model="numpy")
@no_type_check
def log_normal(x: Vector, out: Vector) -> None:
    """Put log x into `out`, for positive x that are no subnormal numbers; error below 2e-11.

    x = 2^k m, m in [sqrt(1/2), sqrt 2): log m = 2 artanh s = 2 (s + s^3 / 3 + ... + s^11 / 11), s = (m - 1) / (m + 1).
    """
    for j in range(len(x)):
        bits = _as_bits(x[j])
        k = (bits - _ROOT_HALF) >> 52
        m = _as_float(bits - (k << 52))
        s = (m - 1.0) / (m + 1.0)
        g = s * s
        tail = fma(g * g, 2 / 11, fma(g, 2 / 9, 2 / 7))
        series = fma(g * g, fma(g, tail, 2 / 5), fma(g, 2 / 3, 2.0))
        out[j] = fma(s, series, np.float64(k) * 0.6931471805599453)


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
    matern_float64(s[:m], r[:m], row[:m])
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


# Squared distances between an observation and a block of candidates.

WIDTH = 32  # candidates at a time: their kernel values stay in the processor's first cache
DIMENSIONS = 8  # are taken eight at a time, absent ones as zeros
LOG2_E = 1.4426950408889634  # distances in single precision are in units of ln 2, as `matern_float32` wants them


@njit(inline="always")
@no_type_check
def scale(C, start, weight, points):  # type: ignore[no-untyped-def]
    """Put candidates, centred and scaled, into the columns of `points`: by rows of it, which is twice as fast."""
    m = min(WIDTH, len(C) - start)
    block = C[start : start + m]
    points[:] = 0.0
    for q in range(len(weight)):
        row, column, w = points[q], block[:, q], weight[q]
        for j in range(m):
            row[j] = (column[j] - 0.5) * w


@njit(inline="always")
@no_type_check
def squares(a, points, s):  # type: ignore[no-untyped-def]
    """Put |a - c|^2 into s."""
    _eight_dimensions(a, 0, points, s, False)
    for q in range(DIMENSIONS, len(a), DIMENSIONS):
        _eight_dimensions(a, q, points, s, True)


@njit(inline="always")
@no_type_check
def _eight_dimensions(a, q, points, s, add):  # type: ignore[no-untyped-def]
    """Put what the dimensions from q on contribute into s, or add it."""
    a0, a1, a2, a3, a4, a5, a6, a7 = a[q], a[q + 1], a[q + 2], a[q + 3], a[q + 4], a[q + 5], a[q + 6], a[q + 7]
    c0, c1, c2, c3 = points[q], points[q + 1], points[q + 2], points[q + 3]
    c4, c5, c6, c7 = points[q + 4], points[q + 5], points[q + 6], points[q + 7]
    for j in range(WIDTH):
        d0, d1, d2, d3 = a0 - c0[j], a1 - c1[j], a2 - c2[j], a3 - c3[j]
        d4, d5, d6, d7 = a4 - c4[j], a5 - c5[j], a6 - c6[j], a7 - c7[j]
        near, far = fma(d3, d3, fma(d2, d2, fma(d1, d1, d0 * d0))), fma(d7, d7, fma(d6, d6, fma(d5, d5, d4 * d4)))
        s[j] = s[j] + (near + far) if add else near + far


class Workspace:
    """Named arrays without content, kept from call to call, since fresh memory costs a fault per page; one caller."""

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> Shaped[np.ndarray, "..."]:
        """Return an array of `shape` under this name; its content is what the last user left there."""
        size = math.prod(shape)
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size, dtype)
        return memory[:size].reshape(shape)

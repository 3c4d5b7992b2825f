"""Regression trees, compiled: growing a forest's trees and predicting with them.

Notation: B trees, n points, d inputs, K <= 2n - 1 nodes of a tree. Column j holds a real or integer input, or, where
categories[j] = k > 0, the codes 0..k-1 of a categorical one. The arrays of `Trees` are (B, K): `feature` is -1 at a
leaf, the children of node t are `child[t]` (left) and `child[t] + 1`, a numeric split sends x <= threshold to the
left, a categorical one the codes whose bit is set in `mask`.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.compiler import njit
from harness.surrogates.splits import categorical, numeric, partition

_BLOCK = 256  # points
MOST_CATEGORIES = 50  # their subset is kept in the bits of an integer, absent ones' draw in those of one uniform


class Trees(NamedTuple):
    """The nodes of B trees; see the module's notation."""

    feature: Int[np.ndarray, "B K"]
    threshold: Float[np.ndarray, "B K"]
    mask: Int[np.ndarray, "B K"]
    child: Int[np.ndarray, "B K"]
    value: Float[np.ndarray, "B K"]


def empty(trees: int, points: int) -> Trees:
    """Return room for `trees` trees on `points` points, all of them a single leaf of value 0."""
    shape = (trees, max(1, 2 * points - 1))
    whole = [np.zeros(shape, np.int64) for _ in range(3)]
    return Trees(whole[0] - 1, np.zeros(shape), whole[1], whole[2], np.zeros(shape))


@njit(cache=True, error_model="numpy")
@no_type_check
def grow(X, Y, W, order, categories, uniforms, tries, min_split, feature, threshold, mask, child, value):  # type: ignore[no-untyped-def]
    """Fill the arrays of `Trees`: tree b is fitted to values Y[b] of points X with weights W[b] (0: not in it).

    X (n, d); Y, W (B, n); order (d, n): the points sorted by each input; uniforms (B, splits, d + 2) in [0, 1):
    of the splits of a tree, in the order in which they are made, a permutation of the inputs, a place and the sides
    of absent categories. tries: inputs tried per split; min_split: weight of a node below which it is not split.
    """
    trees, n = W.shape
    d = X.shape[1]
    lists, spare = np.empty((d, n), np.int64), np.empty(n, np.int64)
    left = np.zeros(n, np.bool_)
    inputs = np.empty(d, np.int64)
    begin, end = np.empty(2 * n + 1, np.int64), np.empty(2 * n + 1, np.int64)
    counts, sums = np.empty(64), np.empty(64)
    codes, best_codes = np.empty(64, np.int64), np.int64(0)
    for b in range(trees):
        w, y = W[b], Y[b]
        size = 0
        for j in range(d):
            size = 0
            for k in range(n):
                i = order[j, k]
                if w[i] > 0:
                    lists[j, size] = i
                    size += 1
        begin[0], end[0] = 0, size
        nodes, splits, node = 1, 0, 0
        while node < nodes:  # breadth first: children are appended behind
            start, stop = begin[node], end[node]
            weight, total, lowest, highest = 0.0, 0.0, np.inf, -np.inf
            for k in range(start, stop):
                i = lists[0, k]
                weight += w[i]
                total += w[i] * y[i]
                lowest, highest = min(lowest, y[i]), max(highest, y[i])
            value[b, node] = total / weight if lowest < highest else lowest
            feature[b, node] = -1
            if weight >= min_split and lowest < highest:
                draws = uniforms[b, splits]
                for j in range(d):  # Fisher-Yates
                    inputs[j] = j
                for j in range(d - 1, 0, -1):
                    other = int(draws[j] * (j + 1))
                    inputs[j], inputs[other] = inputs[other], inputs[j]
                best, chosen, low, high, best_codes = -np.inf, -1, 0.0, 0.0, 0
                for tried in range(d):
                    if tried >= tries and chosen >= 0:
                        break
                    j = inputs[tried]
                    if categories[j] == 0:
                        gain, lower, upper = numeric(X, y, w, lists[j], start, stop, j, weight, total)
                        if gain > best:
                            best, chosen, low, high = gain, j, lower, upper
                    else:
                        gain, bits = categorical(
                            X, y, w, lists[j], start, stop, j, categories[j], weight, total, draws[d + 1],
                            counts, sums, codes,
                        )  # fmt: skip
                        if gain > best:
                            best, chosen, best_codes = gain, j, bits
                if chosen >= 0:
                    place = low + draws[d] * (high - low)
                    place = low if place >= high else place  # rounding; x = high must go right
                    for k in range(start, stop):
                        i = lists[0, k]
                        if categories[chosen] == 0:
                            left[i] = X[i, chosen] <= place
                        else:
                            left[i] = (best_codes >> int(X[i, chosen])) & 1 == 1
                    middle = partition(lists, spare, left, start, stop)
                    feature[b, node], threshold[b, node], mask[b, node] = chosen, place, best_codes
                    child[b, node] = nodes
                    begin[nodes], end[nodes] = start, middle
                    begin[nodes + 1], end[nodes + 1] = middle, stop
                    nodes += 2
                    splits += 1
            node += 1


@njit(cache=True)
@no_type_check
def predict(C, categories, feature, threshold, mask, child, value, out):  # type: ignore[no-untyped-def]
    """Put every tree's value at every point of C (m, d) into `out` (B, m).

    All points of a block go down a tree level by level, those at a leaf staying there, so that the processor works on
    many at a time.
    """
    trees, size = feature.shape
    kind, place, first = np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    at, numbers = np.empty(_BLOCK, np.int64), categories.max() == 0
    for b in range(trees):
        for node in range(size):
            leaf = feature[b, node] < 0
            kind[node] = 0 if leaf else feature[b, node]
            place[node] = np.inf if leaf else threshold[b, node]
            first[node] = node if leaf else child[b, node]
        for start in range(0, len(C), _BLOCK):
            points = C[start : start + _BLOCK]
            at[:] = 0
            moved = True
            while moved:
                moved = False
                for i in range(len(points)):
                    node = at[i]
                    x = points[i, kind[node]]
                    after = first[node] + (x > place[node])
                    if not numbers and feature[b, node] >= 0 and categories[kind[node]] > 0:
                        after = first[node] + 1 - ((mask[b, node] >> int(x)) & 1)
                    moved |= after != node
                    at[i] = after
            for i in range(len(points)):
                out[b, start + i] = value[b, at[i]]

"""The best split of a tree's node, compiled: of a numeric and of a categorical input, and the points put in order.

Notation: as in `trees`; a node has the points line[start:stop], sorted by input j; W and S are sums of weights and of
weighted values, over all of the node's points or those that go left.
"""

from typing import no_type_check

import numpy as np

from harness.compiler import njit


@njit(cache=True, error_model="numpy")
@no_type_check
def numeric(X, y, w, line, start, stop, j, weight, total):  # type: ignore[no-untyped-def]
    """Return the best split of a numeric input: its gain and the interval between the neighbours that it parts.

    gain = S_left^2 / W_left + S_right^2 / W_right (what the sum of squares loses, up to a constant); -inf if none.
    """
    best, low, high = -np.inf, 0.0, 0.0
    lefts, summed = 0.0, 0.0
    for k in range(start, stop - 1):
        i = line[k]
        lefts += w[i]
        summed += w[i] * y[i]
        here, after = X[i, j], X[line[k + 1], j]
        if after > here:
            rest = total - summed
            gain = summed * summed / lefts + rest * rest / (weight - lefts)
            if gain > best:
                best, low, high = gain, here, after
    return best, low, high


@njit(cache=True, error_model="numpy")
@no_type_check
def categorical(X, y, w, line, start, stop, j, k, weight, total, draw, counts, sums, codes):  # type: ignore[no-untyped-def]
    """Return gain and left-hand codes (bits) of the best subset: a prefix of the codes sorted by their mean y.

    Absent codes go to either side by the bits of `draw`. Source: Fisher 1958; Breiman et al. 1984.
    """
    counts[:k], sums[:k] = 0.0, 0.0
    for at in range(start, stop):
        i = line[at]
        c = int(X[i, j])
        counts[c] += w[i]
        sums[c] += w[i] * y[i]
    bits, present = np.int64(draw * 2.0**53) & ((np.int64(1) << k) - 1), 0
    for c in range(k):
        if counts[c] > 0:
            bits &= ~(np.int64(1) << c)
            at = present  # insertion sort by mean
            while at > 0 and sums[codes[at - 1]] * counts[c] > sums[c] * counts[codes[at - 1]]:
                codes[at] = codes[at - 1]
                at -= 1
            codes[at] = c
            present += 1
    best, best_bits, prefix = -np.inf, np.int64(0), np.int64(0)
    lefts, summed = 0.0, 0.0
    for at in range(present - 1):
        c = codes[at]
        lefts += counts[c]
        summed += sums[c]
        prefix |= np.int64(1) << c
        rest = total - summed
        gain = summed * summed / lefts + rest * rest / (weight - lefts)
        if gain > best:
            best, best_bits = gain, prefix | bits
    return best, best_bits


@njit(cache=True)
@no_type_check
def partition(lists, spare, left, start, stop):  # type: ignore[no-untyped-def]
    """Put the points that go left before the others in every list, each part in its order; return the border."""
    middle = start
    for j in range(len(lists)):
        line, behind = lists[j], 0
        middle = start
        for k in range(start, stop):
            i = line[k]
            if left[i]:
                line[middle] = i
                middle += 1
            else:
                spare[behind] = i
                behind += 1
        for k in range(behind):
            line[middle + k] = spare[k]
    return middle

"""Whether matrices differ by more than monotone maps of their columns, which change nothing for trees."""

import hashlib
from itertools import combinations

import numpy as np
from jaxtyping import Shaped

from pipelines.steps import Matrix, dense


def rank_pattern(column: Shaped[np.ndarray, " n"]) -> bytes:
    """Return a digest that two columns share if and only if a strictly monotone map takes one to the other.

    The pattern is the dense ranks, NaN having one of its own; increasing and decreasing maps are covered by
    taking the smaller of the digests of the ranks and of the reversed ranks.
    """
    absent = np.isnan(column)
    _, ranks = np.unique(column[~absent], return_inverse=True)
    top = ranks.max(initial=0)
    return min(_digest(ranks, absent), _digest(top - ranks, absent))


def patterns(X: Matrix) -> frozenset[bytes]:
    """Return the set of rank patterns of a matrix's columns: their order and repetition do not count."""
    return frozenset(rank_pattern(column) for column in dense(X).T)


def same_pairs(matrices: dict[str, Matrix]) -> list[tuple[str, str]]:
    """Return the pairs of names whose matrices hold the same columns up to monotone maps."""
    found = {name: patterns(X) for name, X in matrices.items()}
    return [(a, b) for a, b in combinations(found, 2) if found[a] == found[b]]


def _digest(ranks: np.ndarray, absent: np.ndarray) -> bytes:
    full = np.full(len(absent), -1, dtype=np.int32)
    full[~absent] = ranks
    return hashlib.sha256(full.tobytes()).digest()

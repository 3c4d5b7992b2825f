"""`split`: train, validation and test rows, fixed by (data set, seed)."""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from datasets.catalogue import Dataset

# Dealt along rows that are shuffled and then sorted by class: 60/20/20 overall and, to within a row, in every
# class; of two neighbours one is always in train, so a class of two rows or more is never without.
_TRAIN, _VALID, _TEST = 0, 1, 2
_DEAL = np.array([_TRAIN, _VALID, _TRAIN, _TEST, _TRAIN])


@dataclass(frozen=True)
class Split:
    """Row numbers of the three parts: sorted, disjoint, together all rows."""

    train: Int[np.ndarray, " a"]
    valid: Int[np.ndarray, " b"]
    test: Int[np.ndarray, " c"]


def split(dataset: Dataset | str, seed: int = 0) -> Split:
    """Return the 60/20/20 split of a data set (or of the one of that name) under `seed`.

    Classification is stratified: within each class the shares hold to within a row, and every class is in
    train (the row of a class that has only one lies there). The name, the seed and the targets decide alone.
    Raises BadInput for an unknown name.
    """
    if isinstance(dataset, str):
        from datasets.loading import load

        dataset = load(dataset)
    digest = hashlib.sha256(dataset.name.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))
    order = rng.permutation(len(dataset.y))
    if dataset.task != "regression":
        order = order[np.argsort(dataset.y[order], kind="stable")]
        counts = np.bincount(dataset.y)
        single = counts[dataset.y[order]] == 1
    else:
        single = np.zeros(len(order), dtype=bool)
    part = np.full(len(order), _TRAIN)
    part[~single] = np.resize(_DEAL, int((~single).sum()))
    return Split(*(np.sort(order[part == p]) for p in (_TRAIN, _VALID, _TEST)))

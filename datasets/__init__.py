"""The data sets of the study: `load(name)` finds, verifies and parses one, `split(name)` divides its rows.

Importing this package is light: pandas and the download clients are imported by the calls that need them. It limits
the numerical libraries of the process to one thread, so every package of this project imports it first.
"""

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datasets.signals import quiet_start

quiet_start()

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def pin_blas() -> None:
    """Limit the numerical libraries of this process, and of those it starts, to one thread.

    The small matrices of a Gaussian process run many times slower with two threads than with one, and a
    training's cost is only comparable when it had exactly one thread.
    """
    for variable in _VARIABLES:
        os.environ[variable] = "1"
    if "numpy" in sys.modules:  # too late for the environment: tell the loaded libraries
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)


pin_blas()  # before numpy is imported anywhere

import numpy as np  # noqa: E402
from jaxtyping import Int  # noqa: E402

from datasets.catalogue import Dataset, Entry, Source, entry_of, names  # noqa: E402
from datasets.errors import BROKEN_ARCHIVE, BadInput  # noqa: E402
from datasets.files import resolve_folders, values_sha256  # noqa: E402

if TYPE_CHECKING:
    import pandas

resolve_folders()

__all__ = ["Dataset", "Split", "encode_target", "load", "names", "pin_blas", "split"]


def load(name: str, download: bool = True) -> Dataset:
    """Return the data set `name`, from DATASETS_HOME, else the cache, else downloaded into the cache.

    Raises BadInput for an unknown name, a wrong checksum, values or a shape other than the catalogue's, or
    if the data can be had nowhere (without `download`: if it is at neither place).
    """
    from datasets.download import fetch, find, places, remedy

    entry = entry_of(name)
    found = find(entry)
    if not found and not download:
        looked = ", ".join(str(folder) for folder in places().values())
        how = remedy(entry, f"to get it: python -m datasets fetch {name}")
        raise BadInput(f"data set {name}: absent from {looked}; {how}")
    found = found or fetch(entry)
    try:
        found.verify()
        frame = found.source.parse(*found.paths)
    except (ValueError, KeyError, OSError, *BROKEN_ARCHIVE) as error:  # BadInput is a ValueError
        replaced = f"; to replace it: python -m datasets fetch {name}"
        mine = f"; to do without it: remove {', '.join(str(path) for path in found.paths)}"
        again = "" if found.place != "cache" else replaced if found.source.origin else mine
        raise BadInput(f"data set {name}: {error}{again}") from error
    return _checked(entry, found.source, frame)


def _checked(entry: Entry, source: Source, frame: "pandas.DataFrame") -> Dataset:
    """Part inputs from target, and refuse what is not as the catalogue says."""
    if entry.target not in frame.columns:
        raise BadInput(f"data set {entry.name}: no target column {entry.target!r} in {list(frame.columns)[:8]}...")
    X, target = frame.drop(columns=entry.target), frame[entry.target]
    if target.isna().any():
        raise BadInput(f"data set {entry.name}: {int(target.isna().sum())} rows have no target")
    y, classes = encode_target(target, entry.task)
    actual = (len(X), X.shape[1], len(classes))
    expected = (source.rows, entry.columns, entry.classes)
    if actual != expected:
        raise BadInput(f"data set {entry.name}: (rows, inputs, classes) are {actual}, expected {expected}")
    sha256 = values_sha256(X, y, classes)
    if source.sha256 and sha256 != source.sha256:
        raise BadInput(
            f"data set {entry.name}: parsed values have checksum {sha256[:12]}, expected {source.sha256[:12]}"
        )
    return Dataset(entry.name, X, y, entry.task, classes, source.mark, source.note, sha256)


def encode_target(target: "pandas.Series", task: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (y, classes): float64 and () for regression, else int64 codes of the sorted labels.

    Labels that are all integers are sorted by value, others as strings; missing targets are the caller's.
    Raises BadInput for a regression target that is not all finite numbers.
    """
    if task == "regression":
        try:
            y = target.to_numpy(dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"target {target.name!r} of a regression is not numeric") from None
        if not np.isfinite(y).all():
            raise BadInput(f"target {target.name!r} holds infinite values")
        return y, ()
    labels = [_plain(label) for label in target]
    distinct = set(labels)
    by_value = all(re.fullmatch(r"[+-]?[0-9]+", label) for label in distinct)
    classes = tuple(sorted(distinct, key=lambda label: (int(label), label)) if by_value else sorted(distinct))
    code = {label: i for i, label in enumerate(classes)}
    return np.array([code[label] for label in labels], dtype=np.int64), classes


def _plain(label: object) -> str:
    """Write a class label one way, whether it was read as 1, 1.0 or "1"."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


# The split, fixed by (data set, seed).

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

"""`prepare` fits a pipeline on a data set's training rows and returns the matrices that XGBoost sees (`Prepared`).

`Fitted` is a pipeline fitted on all rows, for rows to come. Prepared problems are kept in a cache.
"""

import hashlib
import importlib.util
import io
import json
import logging
import re
import time
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

import datasets
from datasets import load, split
from datasets.catalogue import Dataset, entry_of
from datasets.download import find
from datasets.errors import BadInput, user_errors
from datasets.files import cache_folder, read_sealed, write_sealed
from pipelines import CALLERS, build, module_name
from pipelines.identity import Identity, identity_of
from pipelines.steps import SPARSE_BELOW, Matrix, dense, indicators, omit_zeros

if TYPE_CHECKING:
    import pandas

LOG = logging.getLogger(__name__)
Labels = Float[np.ndarray, " _"] | Int[np.ndarray, " _"]


@dataclass(frozen=True)
class Prepared:
    """A problem's data: what XGBoost trains on and is scored on.

    X_train, X_valid, X_test: float32, dense or CSR. CSR if the pipeline's output is sparse or mostly zeros of
        indicator columns, so that less than 20 % of the training entries are stored; an absent entry of a
        CSR matrix is "missing" to XGBoost.
    y_train, y_valid, y_test: float64 targets, or int64 codes 0..n_classes-1. n_classes: 0 for regression.
    width_before, width_after: columns of the data set and of the matrices.
    fit_seconds: CPU seconds of fitting the pipeline on the training rows; recorded, charged to nobody.
    mark: the data set's reservation ("" if none). dropped: notes on columns left out, with the reason.
    data_hash: SHA-256 over the six arrays, to the last bit: another processor may give another one for the same
        problem. `identity` is the same everywhere.
    """

    dataset: str
    pipeline: str
    X_train: Matrix
    X_valid: Matrix
    X_test: Matrix
    y_train: Labels
    y_valid: Labels
    y_test: Labels
    task: str
    n_classes: int
    width_before: int
    width_after: int
    fit_seconds: float
    mark: str
    data_hash: str
    dropped: tuple[str, ...]

    @cached_property
    def identity(self) -> Identity:
        """What identifies the problem on any processor (see `pipelines.identity`)."""
        matrices = (self.X_train, self.X_valid, self.X_test)
        labels = (self.y_train, self.y_valid, self.y_test)
        return identity_of(self.dataset, self.pipeline, self.task, self.n_classes, matrices, labels)

    def description(self) -> dict[str, Any]:
        """Return hash and identity as `pipelines.identity.difference` takes them: plain JSON values."""
        return {"data_hash": self.data_hash, "identity": self.identity.to_json()}


def prepare(dataset: str | Dataset, pipeline: str, split_seed: int = 0, cache: bool = True) -> Prepared:
    """Return the problem (data set, pipeline) under the split `split_seed`, from the cache if it is there.

    cache: read and write the cache; its key covers the data's and the code's content.
    Raises BadInput for an unknown data set or pipeline, for data no pipeline takes, or for a matrix that
    cannot be what XGBoost should see (infinite values, no columns), or for an error in the pipeline's own code.
    """
    if isinstance(split_seed, bool) or not isinstance(split_seed, int) or split_seed < 0:
        raise BadInput(f"split_seed must be an integer of 0 or more, got {split_seed!r}")
    if cache and isinstance(dataset, str):  # what `load` would give is known beforehand, mostly
        entry = entry_of(dataset)
        found = find(entry)
        for source in [found.source] if found else entry.sources:
            key = cache_key(dataset, source.sha256, source.mark, pipeline, split_seed)
            if source.sha256 and (stored := read_cached(key)):
                return stored
    data = load(dataset) if isinstance(dataset, str) else dataset
    if not cache:
        return compute(data, pipeline, split_seed)
    if not re.fullmatch("[0-9a-f]{64}", data.sha256):
        raise BadInput(f"data set {data.name!r} has no SHA-256 to cache it by; pass cache=False")
    key = cache_key(data.name, data.sha256, data.mark, pipeline, split_seed)
    if stored := read_cached(key):
        return stored
    made = compute(data, pipeline, split_seed)
    write_cached(key, made)
    return made


def compute(data: Dataset, pipeline: str, split_seed: int) -> Prepared:
    """Fit `pipeline` on the training rows of `data` and transform all three parts.

    Raises BadInput as `prepare`, and for an error in the pipeline's steps.
    """
    where = f"{data.name}/{pipeline}"
    rows = split(data, split_seed)
    parts = (rows.train, rows.valid, rows.test)
    y = [_labels(data)[part] for part in parts]
    model = build(pipeline)
    with user_errors(where, CALLERS):
        start = time.process_time()
        model.fit(data.X.iloc[rows.train], y[0])
        fit_seconds = time.process_time() - start
        raw = [model.transform(data.X.iloc[part]) for part in parts]
        for given, part in zip(raw, parts, strict=True):
            if not (isinstance(given, np.ndarray) or sparse.issparse(given)):
                raise BadInput(f"the pipeline must give an array or a sparse matrix, got {type(given).__name__}")
            kind, shape = given.dtype, given.shape  # type: ignore[union-attr]
            if len(shape) != 2 or shape[0] != len(part) or kind.kind not in "biuf":
                raise BadInput(f"the pipeline must give {len(part)} rows of numbers, got {kind} of shape {shape}")
        X = as_xgboost_sees(raw)
    dropped = tuple(note for _, step in model.steps for note in getattr(step, "dropped_", ()))
    if dropped:
        LOG.info("%s: %d notes on dropped columns: %s", where, len(dropped), "; ".join(dropped))
    return Prepared(
        data.name, pipeline, X_train=X[0], X_valid=X[1], X_test=X[2], y_train=y[0], y_valid=y[1], y_test=y[2],
        task=data.task, n_classes=len(data.classes), width_before=data.X.shape[1], width_after=X[0].shape[1],
        fit_seconds=fit_seconds, mark=data.mark, data_hash=content_hash([*X, *y]), dropped=dropped,
    )  # fmt: skip


def _labels(data: Dataset) -> Labels:
    return np.ascontiguousarray(data.y, dtype=np.float64 if data.task == "regression" else np.int64)


def content_hash(arrays: list[Matrix]) -> str:
    """Return the SHA-256 over dtype, shape and bytes of arrays; of a sparse matrix, of its three arrays."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(repr(array.shape).encode())
        parts = (array.data, array.indices, array.indptr) if sparse.issparse(array) else (array,)
        for part in parts:
            sha.update(f"{part.dtype.newbyteorder('<').str}{part.shape}".encode())
            sha.update(np.ascontiguousarray(part).data)
    return sha.hexdigest()


def as_xgboost_sees(raw: list[Matrix]) -> list[Matrix]:
    """Return a pipeline's matrices as float32, all dense or all CSR, which the first decides: that of the fit.

    Dense matrices become CSR if they are mostly zeros of indicator columns; full CSR ones become dense. Only columns
    that are indicators on the training rows lose their zeros, so no other column's 0 is taken for "missing". An
    exact-method training costs time in proportion to the stored entries.
    Raises BadInput for matrices without columns or with values that float32 cannot hold.
    """
    train = raw[0]
    if not train.shape[1]:
        raise BadInput("the pipeline left no columns")
    size = train.shape[0] * train.shape[1]
    if sparse.issparse(train):
        if train.nnz >= SPARSE_BELOW * size:
            raw = [dense(matrix) for matrix in raw]
    else:
        columns = indicators(train)
        if np.where(columns, np.count_nonzero(train, axis=0), len(train)).sum() < SPARSE_BELOW * size:
            raw = [omit_zeros(dense(matrix), columns) for matrix in raw]
    with np.errstate(over="ignore"):  # reported below
        X: list[Matrix] = [_float32(matrix) for matrix in raw]
    if any(np.isinf(matrix.data if sparse.issparse(matrix) else matrix).any() for matrix in X):
        raise BadInput("the pipeline gave values beyond float32's range")
    return X


def _float32(X: Matrix) -> Matrix:
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float32)
    out = sparse.csr_matrix(X, dtype=np.float32)
    out.sort_indices()
    out.indices, out.indptr = out.indices.astype(np.int32), out.indptr.astype(np.int32)
    return out


class Fitted:
    """The pipeline `pipeline`, fitted on all rows of `data`.

    Raises BadInput for an unknown pipeline, or data that it does not take.
    """

    def __init__(self, data: Dataset, pipeline: str) -> None:
        self._steps = build(pipeline).fit(data.X, _labels(data))
        self._fitted_on: Matrix = self._steps.transform(data.X)

    def matrix(self, X: "pandas.DataFrame") -> Matrix:
        """Return the rows as `prepare` would give them: float32, dense or CSR as those fitted on are."""
        return as_xgboost_sees([self._fitted_on, self._steps.transform(X)])[1]


# The cache of prepared problems: one sealed npz file each, named by a key that covers all that went into it.
#
# Folder: ``COST_AWARE_BO_CACHE``, else the user's cache folder, then ``prepared``. Nothing is pickled.

FORMAT = 2
LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
CSR_PARTS = ("data", "indices", "indptr", "shape")


def cache_key(dataset: str, sha256: str, mark: str, pipeline: str, split_seed: int) -> str:
    """Return the key of a prepared problem: SHA-256 over data, recipe, split, source code and versions."""
    code = _sources(module_name(pipeline))
    parts = [FORMAT, dataset, sha256, mark, pipeline, split_seed, code, _versions()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write_cached(key: str, prepared: Prepared) -> None:
    """Put a prepared problem into the cache."""
    values = {field.name: getattr(prepared, field.name) for field in fields(prepared)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    for name in (name for name, value in values.items() if sparse.issparse(value)):
        arrays |= {f"{name}.{part}": np.asarray(getattr(values[name], part)) for part in CSR_PARTS}
    plain = {name: value for name, value in values.items() if name[:2] not in ("X_", "y_")}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, meta=np.array(json.dumps(plain)), **arrays)
    write_sealed(_path(key), buffer.getvalue())


def read_cached(key: str) -> Prepared | None:
    """Return the prepared problem of that key, None if it is not there or its file is damaged."""
    content = read_sealed(_path(key))
    if content is None:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    plain = json.loads(str(arrays.pop("meta")))
    for name in [name.removesuffix(".data") for name in arrays if name.endswith(".data")]:
        data, indices, indptr, shape = (arrays.pop(f"{name}.{part}") for part in CSR_PARTS)
        arrays[name] = sparse.csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    return Prepared(**plain | {"dropped": tuple(plain["dropped"])}, **arrays)


def _path(key: str) -> Path:
    return cache_folder("prepared") / f"{key}.npz"


@cache
def _sources(recipe: str) -> str:
    """Return the SHA-256 over the source of this package, of the split, and of a recipe from elsewhere.

    Of such a recipe all modules of its package count, which it may import; what it imports from others does not.
    """
    with user_errors(f"pipeline {recipe!r}", CALLERS):
        found = importlib.util.find_spec(recipe)  # imports the package it is in
    if found is None or found.origin is None:
        raise BadInput(f"pipeline {recipe!r}: no module of that name")
    paths = {*Path(__file__).parent.glob("*.py"), Path(datasets.__file__), Path(found.origin)}
    top = recipe.partition(".")[0]
    if top != recipe and top != __name__.partition(".")[0]:
        package = importlib.util.find_spec(top)
        folders = [] if package is None else package.submodule_search_locations or []
        paths |= {path for folder in folders for path in Path(folder).rglob("*.py")}
    sha = hashlib.sha256()
    for path in sorted(paths, key=lambda p: (p.name, str(p))):
        content = path.read_bytes()
        sha.update(f"{path.name} {len(content)}\n".encode() + content)
    return sha.hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {library: version(library) for library in LIBRARIES}

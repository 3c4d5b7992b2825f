"""The cache of prepared problems: one npz file each, named by a key that covers all that went into it.

Folder: ``COST_AWARE_BO_CACHE``, else the user's cache folder, then ``prepared``. A file is written under a
temporary name and renamed, so that readers never see half of one; a file that cannot be read is treated as
absent and so is computed again. Nothing is pickled.
"""

import hashlib
import importlib.util
import json
import logging
import uuid
import zipfile
import zlib
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from datasets import loading
from datasets.catalogue import entry_of
from datasets.download import find
from datasets.errors import BadInput, user_errors
from datasets.files import cache_folder
from pipelines import CALLERS, module_name
from pipelines.matrices import Matrix

if TYPE_CHECKING:
    from pipelines.prepared import Prepared

FORMAT = 1
LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
MATRICES = ("X_train", "X_valid", "X_test")
PARTS = ("data", "indices", "indptr", "shape")
LABELS = ("y_train", "y_valid", "y_test")
LOG = logging.getLogger(__name__)


def folder() -> Path:
    """Return the folder of the cache; it may not exist yet."""
    return cache_folder("prepared")


def known_versions(dataset: str) -> tuple[tuple[str, str], ...]:
    """Return (checksum of the values, mark) of what `load(dataset)` gives, as far as known beforehand.

    Raises BadInput for an unknown name.
    """
    entry = entry_of(dataset)
    found = find(entry)
    sources = entry.sources if found is None else (found.source,)
    return tuple((source.sha256, source.mark) for source in sources if source.sha256)


def key(dataset: str, sha256: str, mark: str, pipeline: str, split_seed: int) -> str:
    """Return the key of a prepared problem: SHA-256 over data, recipe, split, source code and versions."""
    code = _sources(module_name(pipeline))
    parts = [FORMAT, dataset, sha256, mark, pipeline, split_seed, code, _versions()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write(key: str, prepared: "Prepared") -> None:
    """Put a prepared problem into the cache."""
    arrays = {name: getattr(prepared, name) for name in LABELS}
    for name in MATRICES:
        arrays |= _take_apart(name, getattr(prepared, name))
    named = [field.name for field in fields(prepared) if field.name not in (*MATRICES, *LABELS)]
    plain = {name: getattr(prepared, name) for name in named}
    arrays["meta"] = np.array(json.dumps(plain | {"key": key}))
    path = _path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as handle:
            np.savez(handle, allow_pickle=False, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(key: str) -> "Prepared | None":
    """Return the prepared problem of that key, None if it is not there or its file is damaged."""
    from pipelines.prepared import Prepared

    path = _path(key)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(str(arrays.pop("meta")))
        if meta.pop("key") != key:
            raise ValueError("the file belongs to another key")
        meta["dropped"] = tuple(meta["dropped"])
        parts = {name: _put_together(name, arrays) for name in MATRICES} | {y: arrays[y] for y in LABELS}
        return Prepared(**parts, **meta)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        LOG.warning("%s is damaged (%s) and is computed again", path, error)
        return None


def _path(key: str) -> Path:
    return folder() / f"{key}.npz"


def _take_apart(name: str, X: Matrix) -> dict[str, np.ndarray]:
    if not sparse.issparse(X):
        return {name: X}
    values = (X.data, X.indices, X.indptr, np.array(X.shape))
    return {f"{name}.{part}": value for part, value in zip(PARTS, values, strict=True)}


def _put_together(name: str, arrays: dict[str, np.ndarray]) -> Matrix:
    if name in arrays:
        return arrays[name]
    data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in PARTS)
    return sparse.csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))


@cache
def _sources(recipe: str) -> str:
    """Return the SHA-256 over the source of this package, of the split, and of a recipe from elsewhere.

    What such a recipe imports from its own package is not covered.
    """
    paths = [*Path(__file__).parent.glob("*.py"), Path(loading.__file__)]
    with user_errors(f"pipeline {recipe!r}", CALLERS):
        found = importlib.util.find_spec(recipe)  # imports the package it is in
    if found is None or found.origin is None:
        raise BadInput(f"pipeline {recipe!r}: no module of that name")
    paths.append(Path(found.origin))
    sha = hashlib.sha256()
    for path in sorted(set(paths), key=lambda p: (p.name, str(p))):
        content = path.read_bytes()
        sha.update(f"{path.name} {len(content)}\n".encode() + content)
    return sha.hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {library: version(library) for library in LIBRARIES}

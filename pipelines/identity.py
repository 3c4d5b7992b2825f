"""What makes two prepared problems the same, on whatever processor they were computed.

Matrix products and decompositions round differently on another processor or BLAS kernel, so that equal problems differ
in the last digits of a float32 (6e-8 of a value), and a hash of all bytes (`Prepared.data_hash`) calls them different.
An `Identity` says the same of both. It has two parts:

- `exact`: a hash of all that no rounding touches: the names of data set and pipeline, the task, the shapes, which
  entries a sparse matrix stores and which are missing, the labels of all rows in their order.
- a sketch of the values: sums over B buckets of entries, S_b = sum of a_i w_j (x_ij - m_j) / s_j over those with
  (i + j) mod B = b, for each of the three matrices; m_j and s_j are mean and standard deviation of column j on the
  training rows, a_i and w_j fixed weights of random sign and sizes between 0.9 and 1.1. Two sketches are the same if
  no sum differs by more than `TOLERANCE`, and sums of log s_j and of m_j / max |x_ij| by no more than theirs.

One entry that differs by 1e-3 of its column's standard deviation moves one sum by 8.1e-4 at least, and is refused. All
entries differing at random by 1e-7 of their values moves a sum by 1e-7 (sum x_ij^2 / s_j^2)^(1/2) or so; B is chosen
so that `TOLERANCE` is five times that or more. Two rows exchanged, or another split, move sums by about 1. Where a
column's values lie thousands of standard deviations from 0, so that float32 itself is coarse, the tolerance is as much
wider as `MOST_BUCKETS` buckets are too few: of the study's 144 problems, in kin8nm/onehot_svd alone.

`same_pairs` says which of several matrices are no more than monotone maps of each other.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy import sparse

from datasets.errors import BadInput
from pipelines.steps import Matrix, dense

VERSION = 1
TOLERANCE = 4e-4  # of a sum, in standard deviations of a column
SCALE_TOLERANCE = 1e-5  # of a sum of binary logarithms of standard deviations
CENTRE_TOLERANCE = 1e-6  # of a sum of means, as shares of their columns' largest values
ROUNDING = 1e-7  # of a value: what another processor may change
SIGMAS = 5.0  # how far a sum may be moved by such changes of all its entries, in standard deviations of its change
LEAST_BUCKETS, MOST_BUCKETS, COLUMN_BUCKETS = 16, 1024, 16
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Identity:
    """What identifies a prepared problem.

    exact: SHA-256 of what no rounding touches. scales, centres: sums over columns of log2 s_j, and of m_j / max |x_ij|.
    sums: the sketch of each matrix, a power of two of sums; energy: of each matrix, sum x_ij^2 / s_j^2.
    """

    exact: str
    scales: Float[np.ndarray, " k"]
    centres: Float[np.ndarray, " k"]
    sums: tuple[Float[np.ndarray, " _"], ...]
    energy: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; arrays as base64 of their little-endian bytes."""
        return {
            "version": VERSION,
            "exact": self.exact,
            "scales": _text(self.scales, "<f8"),
            "centres": _text(self.centres, "<f8"),
            "sums": [_text(part, "<f4") for part in self.sums],
            "energy": [float(f"{value:.4g}") for value in self.energy],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Identity":
        """Return what `to_json` gave; raises BadInput for what another version gave."""
        if (found := plain["version"]) != VERSION:
            raise BadInput(f"the identity has version {found}, this release reads {VERSION}")
        scales, centres = (_array(plain[name], "<f8") for name in ("scales", "centres"))
        sums, energy = tuple(_array(part, "<f4") for part in plain["sums"]), tuple(map(float, plain["energy"]))
        return cls(plain["exact"], scales, centres, sums, energy)

    def difference(self, other: "Identity") -> str:
        """Return how the problem `other` differs from this one, "" if they are the same."""
        if self.exact != other.exact:
            return "other rows, columns, labels, split or missing entries"
        if np.abs(self.scales - other.scales).max() > SCALE_TOLERANCE:
            return "other scales of columns"
        if np.abs(self.centres - other.centres).max() > CENTRE_TOLERANCE:
            return "other means of columns"
        for name, mine, theirs, energy in zip(PARTS, self.sums, other.sums, self.energy, strict=True):
            buckets = min(len(mine), len(theirs))  # folded to as many: sums b, b + buckets, b + 2 buckets, ... added up
            here, there = (sums.reshape(-1, buckets).sum(axis=0) for sums in (mine, theirs))
            off = float(np.abs(here - there).max())
            allowed = max(TOLERANCE, SIGMAS * ROUNDING * float(np.sqrt(energy / buckets)))
            if off > allowed:
                return f"other values in the {name} matrix (a sum differs by {off:.2g}, allowed is {allowed:.2g})"
        return ""


def identity_of(
    dataset: str, pipeline: str, task: str, n_classes: int, matrices: Sequence[Matrix], labels: Sequence[np.ndarray]
) -> Identity:
    """Return the identity of a problem; matrices and labels: of its training, validation and test rows."""
    sha = hashlib.sha256(repr((VERSION, dataset, pipeline, task, n_classes)).encode())
    for X, y in zip(matrices, labels, strict=True):
        _feed_structure(sha, X)
        sha.update(f"{y.dtype.str}{y.shape}".encode() + np.ascontiguousarray(y).tobytes())
    mean, scale, size = _columns(matrices[0])
    bucket = np.arange(len(mean)) % COLUMN_BUCKETS
    scales = np.bincount(bucket, _weights("scales", len(mean)) * np.log2(scale), COLUMN_BUCKETS)
    centres = np.bincount(bucket, _weights("centres", len(mean)) * (mean / size), COLUMN_BUCKETS)
    sums, energies = zip(*(_sums(X, mean, scale) for X in matrices), strict=True)
    return Identity(sha.hexdigest(), scales, centres, sums, energies)


def difference(known: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return how the problem described by `found` differs from the one of `known`, "" if it is the same.

    Both are descriptions as manifests hold them: `data_hash`, and `identity` as `Identity.to_json` gives it, which
    tables of earlier versions lack. Equal hashes need no more; without an identity nothing else is known.
    """
    if known["data_hash"] == found["data_hash"]:
        return ""
    hashes = f"data_hash {known['data_hash'][:12]}, now {found['data_hash'][:12]}"
    if "identity" not in known or "identity" not in found:
        return hashes
    reason = Identity.from_json(known["identity"]).difference(Identity.from_json(found["identity"]))
    return f"{reason}; {hashes}" if reason else ""


def _feed_structure(sha: "hashlib._Hash", X: Matrix) -> None:
    """Feed kind and shape of a matrix, which entries it stores, and which of these are missing."""
    sha.update(f"{'csr' if sparse.issparse(X) else 'dense'}{X.dtype.str}{X.shape}".encode())
    if sparse.issparse(X):
        sha.update(X.indptr.astype("<i8").tobytes() + X.indices.astype("<i8").tobytes())
    values = X.data if sparse.issparse(X) else X
    sha.update(np.packbits(np.isnan(values)).tobytes())


def _entries(X: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and float64 values of the entries that a matrix stores and that are not missing."""
    if sparse.issparse(X):
        rows, columns = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices
        values = X.data.astype(np.float64)
    else:
        rows, columns = np.divmod(np.arange(X.size), X.shape[1])
        values = X.astype(np.float64).ravel()
    there = ~np.isnan(values)
    return rows[there], columns[there], values[there]


def _columns(X: Matrix) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return means, standard deviations and largest sizes of columns, an absent entry being 0.

    The size of a column of zeros is 1; the standard deviation of a constant column is its size.
    """
    _, columns, values = _entries(X)
    d = X.shape[1]
    stored = np.bincount(columns, minlength=d)
    rows = np.full(d, X.shape[0]) if sparse.issparse(X) else np.maximum(stored, 1)
    mean = np.bincount(columns, values, d) / rows
    squares = np.bincount(columns, (values - mean[columns]) ** 2, d) + (rows - stored) * mean**2
    size = np.zeros(d)
    np.maximum.at(size, columns, np.abs(values))
    size[size == 0] = 1.0
    sd = np.sqrt(squares / rows)
    return mean, np.where(sd > 1e-6 * size, sd, size), size


def _sums(X: Matrix, mean: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"]) -> tuple[np.ndarray, float]:
    """Return the sums of a matrix's sketch and its energy."""
    rows, columns, values = _entries(X)
    energy = float(np.square(values / scale[columns]).sum())
    values = (values - mean[columns]) / scale[columns]
    needed = energy * (SIGMAS * ROUNDING / TOLERANCE) ** 2
    buckets = LEAST_BUCKETS
    while buckets < min(needed, MOST_BUCKETS):
        buckets *= 2
    values *= _weights("rows", X.shape[0])[rows] * _weights("columns", X.shape[1])[columns]
    return np.bincount((rows + columns) % buckets, values, buckets), energy


@lru_cache(maxsize=16)
def _weights(name: str, n: int) -> Float[np.ndarray, " n"]:
    """Return the first `n` weights of a name: of random sign, sizes uniform in [0.9, 1.1).

    They are made of the bits of PCG64, whose stream NumPy guarantees, not by its `Generator`, whose it does not.
    """
    digest = hashlib.sha256(f"identity {name}".encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    bits = np.random.PCG64(np.random.SeedSequence(words)).random_raw(n)
    return np.where(bits & np.uint64(1), 1.0, -1.0) * (0.9 + 0.2 * (bits >> np.uint64(11)) / 2.0**53)


def _text(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def _array(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), kind).astype(np.float64)


# Monotone maps of columns change nothing for trees.


def same_pairs(matrices: Mapping[str, Matrix]) -> list[tuple[str, str]]:
    """Return the pairs of names whose matrices hold the same columns, in any order, up to monotone maps."""
    found = {name: frozenset(rank_pattern(column) for column in dense(X).T) for name, X in matrices.items()}
    return [(a, b) for a, b in combinations(found, 2) if found[a] == found[b]]


def rank_pattern(column: Shaped[np.ndarray, " n"]) -> bytes:
    """Return a digest that two columns share if and only if a strictly monotone map takes one to the other.

    It is that of the dense ranks, NaN being -1, or of the reversed ranks, whichever digest is less.
    """
    absent = np.isnan(column)
    _, ranks = np.unique(column[~absent], return_inverse=True)
    full = np.full((2, len(column)), -1, dtype=np.int32)
    full[:, ~absent] = ranks, ranks.max(initial=0) - ranks
    return min(hashlib.sha256(row.tobytes()).digest() for row in full)

"""Dense and CSR matrices treated alike."""

import numpy as np
from jaxtyping import Bool
from scipy import sparse
from sklearn.utils.sparsefuncs import min_max_axis

Matrix = np.ndarray | sparse.csr_matrix | sparse.csr_array


def varying(X: Matrix) -> Bool[np.ndarray, " d"]:
    """Return which columns hold two distinct values or more; NaN counts as a value, an absent entry as 0."""
    if sparse.issparse(X):
        low, high = min_max_axis(X, axis=0)
        return np.asarray(low != high)
    first = X[:1]
    same = (first == X) | (np.isnan(first) & np.isnan(X))
    return np.asarray(~same.all(axis=0))


def density(X: Matrix) -> float:
    """Return the share of stored entries: 1 for a dense matrix."""
    return X.nnz / max(1, X.shape[0] * X.shape[1]) if sparse.issparse(X) else 1.0


def dense(X: Matrix) -> np.ndarray:
    """Return a dense array, 0 where a sparse matrix has no entry."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


def indicators(X: np.ndarray) -> Bool[np.ndarray, " d"]:
    """Return which columns of a dense matrix hold 0 and one other value only; of these, absence says all."""
    other = np.where(X.any(axis=0), X[np.abs(X).argmax(axis=0), np.arange(X.shape[1])], 0.0)
    return np.asarray(((X == 0) | (other == X)).all(axis=0))


def omit_zeros(X: np.ndarray, columns: Bool[np.ndarray, " d"]) -> sparse.csr_matrix:
    """Return a CSR matrix that stores every entry, zeros too, except the zeros of `columns`."""
    rows, stored = np.nonzero((X != 0) | ~columns)
    ends = np.searchsorted(rows, np.arange(len(X) + 1))  # where each row begins, and the end
    return sparse.csr_matrix((X[rows, stored], stored, ends), shape=X.shape)


def append(X: Matrix, extra: Matrix) -> Matrix:
    """Return [X, extra]; sparse if X is, and then every entry of a dense `extra` is stored, zeros too."""
    if not sparse.issparse(X):
        return np.hstack([X, dense(extra)])
    if not sparse.issparse(extra):
        extra = omit_zeros(extra, np.zeros(extra.shape[1], dtype=bool))
    return sparse.hstack([X, extra], format="csr")

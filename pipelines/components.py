"""Steps that combine columns: leading components, and products of the columns that tell most."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.extmath import svd_flip

from pipelines.matrices import Matrix, append, dense, varying

SEED = 0  # of ARPACK's starting vector


class Components(TransformerMixin, BaseEstimator):
    """The leading principal components: X_c V with X_c = U S V', X_c the centred columns or X as it is.

    limit: how many at most. half: no more than max(2, width // 2) either.
    centre: PCA; else a truncated singular value decomposition, which keeps a sparse matrix sparse.
    append: return [X, components] instead of the components alone.
    Components whose singular value is rounding noise, s_k <= s_1 max(n, d) eps, are left out; signs are
    scikit-learn's, the largest loading being positive. Fitted: `model_`, `kept_` (how many).
    """

    def __init__(self, limit: int, half: bool = False, centre: bool = True, append: bool = False) -> None:
        self.limit = limit
        self.half = half
        self.centre = centre
        self.append = append

    def fit(self, X: Matrix, y: np.ndarray | None = None) -> "Components":
        """Fit on the training rows."""
        n, d = X.shape
        count = min(self.limit, max(2, d // 2) if self.half else d, d, n)
        if self.centre:
            self.model_ = PCA(count, svd_solver="full").fit(dense(X))
        elif count < min(n, d):
            self.model_ = TruncatedSVD(count, algorithm="arpack", random_state=SEED).fit(X)
        else:  # ARPACK finds fewer than all
            self.model_ = Rotation(dense(X))
        values = self.model_.singular_values_
        self.kept_ = int((values > values[0] * max(n, d) * np.finfo(np.float64).eps).sum())
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Project any rows."""
        components = self.model_.transform(dense(X) if self.centre else X)[:, : self.kept_]
        return append(X, components) if self.append else components


class Rotation:
    """All singular directions of a dense matrix X = U S V', signs as scikit-learn's: ``transform`` is X V."""

    def __init__(self, X: np.ndarray) -> None:
        U, self.singular_values_, V = np.linalg.svd(X, full_matrices=False)
        self.components_ = svd_flip(U, V, u_based_decision=False)[1]

    def transform(self, X: Matrix) -> np.ndarray:
        """Project any rows."""
        return dense(X) @ self.components_.T


class Products(TransformerMixin, BaseEstimator):
    """Append squares and pairwise products, x_i x_j, of the `k` columns with the best univariate F score.

    The score is scikit-learn's f_classif for integer targets and f_regression for real ones. With k columns
    k (k + 1) / 2 products arise; those constant on the training rows are left out. Fitted: `best_`, `keep_`.
    """

    def __init__(self, k: int = 20) -> None:
        self.k = k

    def fit(self, X: Matrix, y: np.ndarray) -> "Products":
        """Choose the columns on the training rows and their targets."""
        score = f_classif if np.issubdtype(np.asarray(y).dtype, np.integer) else f_regression
        with np.errstate(divide="ignore", invalid="ignore"):  # a column that separates the classes has score inf
            best = SelectKBest(score, k=min(self.k, X.shape[1])).fit(X, y)
        self.best_ = np.flatnonzero(best.get_support())
        self.polynomial_ = PolynomialFeatures(2, include_bias=False).fit(X[:, self.best_])
        self.keep_ = len(self.best_) + np.flatnonzero(varying(self._expand(X)[:, len(self.best_) :]))
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Append the products of any rows."""
        return append(X, self._expand(X)[:, self.keep_])

    def _expand(self, X: Matrix) -> Matrix:
        return self.polynomial_.transform(X[:, self.best_])

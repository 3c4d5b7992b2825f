"""The steps that recipes share: scikit-learn components composed, and the few that it lacks.

All are fitted on training rows only and are deterministic; a matrix is dense float64 or CSR.
An absent entry of a CSR matrix means "missing" to XGBoost: only zeros of indicators and of tf-idf are left
out, where absence is all that a zero says. `Encode` gives a dense matrix as soon as numeric columns come in as
values; `pipelines.prepared` may thin it, and then stores the zeros of every column that is no indicator.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PolynomialFeatures
from sklearn.utils.extmath import svd_flip
from sklearn.utils.sparsefuncs import min_max_axis

from datasets.errors import BadInput
from pipelines.columns import Kinds, cast_columns, column_kinds

# Dense and CSR matrices treated alike.

Matrix = np.ndarray | sparse.csr_matrix | sparse.csr_array


def varying(X: Matrix) -> Bool[np.ndarray, " d"]:
    """Return which columns hold two distinct values or more; NaN counts as a value, an absent entry as 0."""
    if sparse.issparse(X):
        low, high = min_max_axis(X, axis=0)
        return np.asarray(low != high)
    first = X[:1]
    same = (first == X) | (np.isnan(first) & np.isnan(X))
    return np.asarray(~same.all(axis=0))


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


# Steps that combine columns: leading components, and products of the most telling columns.

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
            self.model_ = _Rotation(dense(X))
        values = self.model_.singular_values_
        self.kept_ = int((values > values[0] * max(n, d) * np.finfo(np.float64).eps).sum())
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Project any rows."""
        components = self.model_.transform(dense(X) if self.centre else X)[:, : self.kept_]
        return append(X, components) if self.append else components


class _Rotation:
    """All singular directions of a dense matrix X = U S V', signs as scikit-learn's: ``transform`` is X V."""

    def __init__(self, X: np.ndarray) -> None:
        U, self.singular_values_, V = np.linalg.svd(X, full_matrices=False)
        self.components_ = svd_flip(U, V, u_based_decision=False)[1]

    def transform(self, X: Matrix) -> np.ndarray:
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


# Text columns: tf-idf of a vocabulary that depends on the training rows alone.

MIN_ROWS = 10  # a term in fewer training rows is rare: the floor that rare levels have, too
MAX_TERMS = 1000


class NoTerms(BadInput):
    """Text columns share no term that pipelines could learn from."""


class Terms(TransformerMixin, BaseEstimator):
    """tf-idf of the words, or of the character n-grams, of all text columns together.

    Weight of term t in row i: tf(t, i) (1 + log((1 + n) / (1 + df(t)))), rows scaled to unit length.
    characters: n-grams of 1 to 3 characters within words instead of words.
    presence: tf is 1 or 0, rows are not scaled: each column is an indicator times a constant.
    min_rows: the vocabulary is the at most `MAX_TERMS` terms found in most rows, `min_rows` or more; equals go in
    alphabetical order (scikit-learn's own `max_features` leaves that to a sort whose order of equals is not defined).
    Missing text is empty. Raises NoTerms if no term remains.
    """

    def __init__(self, characters: bool = False, presence: bool = False, min_rows: int = MIN_ROWS) -> None:
        self.characters = characters
        self.presence = presence
        self.min_rows = min_rows

    def fit(self, X: pd.DataFrame, y: np.ndarray | None = None) -> "Terms":
        """Fit vocabulary and document frequencies on the training rows."""
        texts = _joined(X)
        split = {"analyzer": "char_wb", "ngram_range": (1, 3)} if self.characters else {"analyzer": "word"}
        counter = CountVectorizer(binary=True, **split)
        try:
            rows = np.asarray(counter.fit_transform(texts).sum(axis=0)).ravel()
        except ValueError as error:  # an empty vocabulary
            raise NoTerms(f"text columns: {error}") from None
        found = zip(counter.get_feature_names_out(), rows, strict=True)
        frequent = sorted((-count, term) for term, count in found if count >= self.min_rows)
        if not frequent:
            raise NoTerms(f"text columns: no term occurs in {self.min_rows} of the {len(texts)} training rows")
        vocabulary = sorted(term for _, term in frequent[:MAX_TERMS])
        norm = None if self.presence else "l2"
        self.tfidf_ = TfidfVectorizer(vocabulary=vocabulary, binary=self.presence, norm=norm, **split).fit(texts)
        return self

    def transform(self, X: pd.DataFrame) -> sparse.csr_matrix:
        """Weigh the terms of any rows."""
        return self.tfidf_.transform(_joined(X))


def _joined(X: pd.DataFrame) -> list[str]:
    """Return one text per row: its non-missing texts, one per line."""
    return ["\n".join(v for v in row if v is not None) for row in X.to_numpy(dtype=object)]


SPARSE_BELOW = 0.2  # share of nonzeros under which indicators and tf-idf stay sparse
BINS = 10


class Encode(TransformerMixin, BaseEstimator):
    """Decide column kinds, drop useless columns, encode each kind with its own steps, stack the results.

    numeric: the steps for numeric columns, (n, k) float64 with NaN -> matrix, or "passthrough".
    text: the vectorizer of text columns (see `Terms`).
    detect: treat numeric columns with few distinct values as categorical.
    extreme: the steps for heavy-tailed numeric columns (`columns.heavy_tailed`), found before `detect` looks; None:
    they are as any other.
    Categorical columns are one-hot encoded; output columns constant on the training rows are left out, and so are text
    columns without a term that enough rows share, unless there is nothing else.
    Fitted: `kinds_`, `blocks_`, `keep_`, `dropped_` (notes). Raises BadInput as `column_kinds` does.
    """

    def __init__(self, numeric: Any, text: Any, detect: bool = False, extreme: Any = None) -> None:
        self.numeric = numeric
        self.text = text
        self.detect = detect
        self.extreme = extreme

    def fit(self, X: object, y: np.ndarray | None = None) -> "Encode":
        """Fit on the training rows."""
        kinds = column_kinds(X, self.detect, self.extreme is not None)
        # rare levels form a group, which those unseen in training join, if there is one; two levels need one indicator
        levels = OneHotEncoder(drop="if_binary", handle_unknown="infrequent_if_exist", min_frequency=kinds.rare)
        steps = {"numeric": self.numeric, "extreme": self.extreme, "categorical": levels, "detected": levels}
        steps = {kind: step for kind, step in (steps | {"text": self.text}).items() if kinds.positions[kind]}
        cast, notes = cast_columns(X, kinds), list(kinds.dropped)
        try:
            encoded = self._stacked(steps, kinds, cast)
        except NoTerms as reason:
            if len(steps) == 1:
                raise
            encoded = self._stacked({kind: step for kind, step in steps.items() if kind != "text"}, kinds, cast)
            texts = ", ".join(str(kinds.columns[position]) for position in kinds.positions["text"])
            notes.append(f"{texts}: {str(reason).removeprefix('text columns: ')}")
        self.keep_ = np.flatnonzero(varying(encoded))
        if not len(self.keep_):
            raise BadInput(f"every encoded column is constant on the {encoded.shape[0]} training rows")
        if lost := encoded.shape[1] - len(self.keep_):
            notes.append(f"{lost} encoded columns: constant on the training rows")
        self.kinds_, self.dropped_ = kinds, tuple(notes)
        return self

    def _stacked(self, steps: dict[str, Any], kinds: Kinds, X: pd.DataFrame) -> Matrix:
        as_values = "extreme" in steps or ("numeric" in steps and not isinstance(self.numeric, FeatureUnion))
        self.blocks_ = ColumnTransformer(
            [(kind, clone(step, safe=False), kinds.names(kind)) for kind, step in steps.items()],
            sparse_threshold=0.0 if as_values else SPARSE_BELOW,
        )
        with _expected_warnings():
            return self.blocks_.fit_transform(X)

    def transform(self, X: object) -> Matrix:
        """Encode any rows; levels unseen in training count as rare ones."""
        with _expected_warnings():
            return self.blocks_.transform(cast_columns(X, self.kinds_))[:, self.keep_]


def impute(add_indicator: bool = False) -> SimpleImputer:
    """Return median imputation, followed by 0/1 columns that mark what was missing if asked for."""
    return SimpleImputer(strategy="median", add_indicator=add_indicator)


def bins() -> FeatureUnion:
    """Return one-hot quantile bins of numeric columns, with indicators of missing values."""
    cut = KBinsDiscretizer(
        BINS, encode="onehot", strategy="quantile", quantile_method="averaged_inverted_cdf", subsample=None
    )
    missing = MissingIndicator(features="missing-only", sparse=True, error_on_new=False)
    return FeatureUnion([("bins", make_pipeline(impute(), _NotNarrow(), cut)), ("missing", missing)])


class _NotNarrow(TransformerMixin, BaseEstimator):
    """Columns narrower than 1/2 times the power of two that brings them to [1/2, 1).

    KBinsDiscretizer drops bins narrower than 1e-8, whatever a column's unit; in another unit its bins are the same.
    """

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> "_NotNarrow":
        width = np.ptp(X, axis=0)
        self.power_ = np.where((width > 0) & (width < 0.5), -np.frexp(width)[1], 0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        most = np.finfo(np.float64).max  # instead of what would be infinite
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(X, self.power_), -most, most)


def signed_log(X: np.ndarray | pd.DataFrame) -> np.ndarray | pd.DataFrame:
    """Return sign(x) log(1 + |x|)."""
    return np.sign(X) * np.log1p(np.abs(X))


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Silence what is no news here: unseen levels, narrow quantile bins, columns constant once imputed."""
    with warnings.catch_warnings():
        for message in ("Found unknown cat", "Bins whose width", "Feature .* is constant", "n_quantiles"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield

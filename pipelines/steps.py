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
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler

from datasets.errors import BadInput
from pipelines.kinds import decide, tidy, tidy_names
from pipelines.matrices import Matrix, varying
from pipelines.text import NoTerms

SPARSE_BELOW = 0.2  # share of nonzeros under which indicators and tf-idf stay sparse
BINS = 10


class Encode(TransformerMixin, BaseEstimator):
    """Decide column kinds, drop useless columns, encode each kind with its own steps, stack the results.

    numeric: the steps for numeric columns, (n, k) float64 with NaN -> matrix, or "passthrough".
    text: the vectorizer of text columns (see `pipelines.text.Terms`).
    detect: treat numeric columns with few distinct values as categorical.
    extreme: the steps for heavy-tailed numeric columns (`kinds.heavy_tailed`), which are found before `detect` looks;
    None: they are as any other.
    Categorical columns are one-hot encoded; output columns constant on the training rows are left out, and so are text
    columns without a term that enough rows share, unless there is nothing else.
    Fitted: `kinds_`, `blocks_`, `keep_`, `dropped_` (notes). Raises BadInput as `kinds.decide` does.
    """

    def __init__(self, numeric: Any, text: Any, detect: bool = False, extreme: Any = None) -> None:
        self.numeric = numeric
        self.text = text
        self.detect = detect
        self.extreme = extreme

    def fit(self, X: object, y: np.ndarray | None = None) -> "Encode":
        """Fit on the training rows."""
        self.kinds_ = decide(X, self.detect, self.extreme is not None)
        names = tidy_names(self.kinds_)
        levels = one_hot(self.kinds_.rare)
        steps = {"numeric": self.numeric, "extreme": self.extreme, "categorical": levels, "detected": levels}
        steps |= {"text": self.text}
        steps = {kind: step for kind, step in steps.items() if names[kind]}
        tidied, without = tidy(X, self.kinds_), tuple[str, ...]()
        try:
            encoded = self._stacked(steps, names, tidied)
        except NoTerms as reason:
            if len(steps) == 1:
                raise
            encoded = self._stacked({kind: step for kind, step in steps.items() if kind != "text"}, names, tidied)
            texts = ", ".join(str(self.kinds_.columns[position]) for position in self.kinds_.text)
            without = (f"{texts}: {str(reason).removeprefix('text columns: ')}",)
        self.keep_ = np.flatnonzero(varying(encoded))
        if not len(self.keep_):
            raise BadInput(f"every encoded column is constant on the {encoded.shape[0]} training rows")
        lost = encoded.shape[1] - len(self.keep_)
        notes = (f"{lost} encoded columns: constant on the training rows",) if lost else ()
        self.dropped_ = self.kinds_.dropped + without + notes
        return self

    def _stacked(self, steps: dict[str, Any], names: dict[str, list[str]], X: pd.DataFrame) -> Matrix:
        as_values = "extreme" in steps or ("numeric" in steps and not isinstance(self.numeric, FeatureUnion))
        self.blocks_ = ColumnTransformer(
            [(kind, clone(step, safe=False), names[kind]) for kind, step in steps.items()],
            sparse_threshold=0.0 if as_values else SPARSE_BELOW,
        )
        with _expected_warnings():
            return self.blocks_.fit_transform(X)

    def transform(self, X: object) -> Matrix:
        """Encode any rows; levels unseen in training count as rare ones."""
        with _expected_warnings():
            return self.blocks_.transform(tidy(X, self.kinds_))[:, self.keep_]


def one_hot(rare: int) -> OneHotEncoder:
    """Return a one-hot encoder that groups levels of fewer than `rare` rows; two levels need one indicator.

    A level unseen in training goes to that group; where there is none, all indicators are zero.
    """
    return OneHotEncoder(drop="if_binary", handle_unknown="infrequent_if_exist", min_frequency=rare)


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
        """Fit on the training rows."""
        width = np.ptp(X, axis=0)
        self.power_ = np.where((width > 0) & (width < 0.5), -np.frexp(width)[1], 0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Scale any rows; what would be infinite is the largest number."""
        most = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(X, self.power_), -most, most)


def scale() -> StandardScaler:
    """Return division by the standard deviation, x / sd; NaN passes, and zeros stay zeros."""
    return StandardScaler(with_mean=False)


def signed_log() -> FunctionTransformer:
    """Return the map sign(x) log(1 + |x|)."""
    return FunctionTransformer(_signed_log)


def _signed_log(X: np.ndarray | pd.DataFrame) -> np.ndarray | pd.DataFrame:
    return np.sign(X) * np.log1p(np.abs(X))


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Silence what is no news here: unseen levels, narrow quantile bins, columns constant once imputed."""
    with warnings.catch_warnings():
        for message in ("Found unknown cat", "Bins whose width", "Feature .* is constant", "n_quantiles"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield

"""The study's eight feature pipelines, in its order: each public function here returns one, unfitted.

A recipe added here joins the study. A user's own is a module with a function `build()`, in this package or another.
"""

from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

from pipelines.steps import Components, Encode, Products, Terms, bins, impute, signed_log

QUANTILES = 1000  # scikit-learn lowers it to the number of rows


def clean() -> Pipeline:
    """Return: finite numbers or NaN ("missing" to XGBoost), one-hot categories, tf-idf words, everything scaled."""
    return Pipeline([("encode", Encode("passthrough", Terms())), ("scale", _scale())])


def onehot() -> Pipeline:
    """Return: every column categorical, by level, quantile bin or presence of a word, and one-hot encoded."""
    return Pipeline([("encode", Encode(bins(), Terms(presence=True), detect=True))])


def quadratic() -> Pipeline:
    """Return: `clean` with median imputation, plus products of the 20 most telling columns.

    Numeric columns are centred, or most squares would be monotone maps.
    """
    numeric = make_pipeline(impute(), StandardScaler())
    return Pipeline([("encode", Encode(numeric, Terms())), ("products", Products(20)), ("scale", _scale())])


def pca_small() -> Pipeline:
    """Return: median imputation, one-hot categories, tf-idf of characters; PCA to 5 components; scaled.

    Columns enter the PCA on their own scales, so wide ones lead.
    """
    encode = Encode(impute(), Terms(characters=True))
    return Pipeline([("encode", encode), ("pca", Components(5, half=True)), ("scale", StandardScaler())])


def quantile_pca() -> Pipeline:
    """Return: heavy-tailed columns through a quantile map; all standardised; PCA to half the width, at most 26."""
    uniform = QuantileTransformer(n_quantiles=QUANTILES, output_distribution="uniform", subsample=None, random_state=0)
    pca = Components(26, half=True)
    return Pipeline([("encode", _encode_extremes(uniform)), ("pca", pca), ("scale", StandardScaler())])


def log_pca() -> Pipeline:
    """Return: heavy-tailed columns through a signed log; all standardised; a full rotation, at most 98 components."""
    encode = _encode_extremes(FunctionTransformer(signed_log))
    return Pipeline([("encode", encode), ("pca", Components(98)), ("scale", StandardScaler())])


def clean_plus_pca() -> Pipeline:
    """Return: `clean` with median imputation, with the 5 leading components of the scaled columns appended."""
    encode = Encode(impute(), Terms())
    return Pipeline([("encode", encode), ("scale", _scale()), ("pca", Components(5, append=True))])


def onehot_svd() -> Pipeline:
    """Return: `onehot`, then a truncated singular value decomposition to half the width, at most 147."""
    return Pipeline([*onehot().steps, ("svd", Components(147, half=True, centre=False))])


def _scale() -> StandardScaler:
    """Return division by the standard deviation; NaN passes, and zeros stay zeros."""
    return StandardScaler(with_mean=False)


def _encode_extremes(extreme_map: TransformerMixin) -> Encode:
    """Return the encoder of two: imputed with indicators, extreme columns mapped, all standardised."""
    numeric = make_pipeline(impute(add_indicator=True), StandardScaler())
    extreme = make_pipeline(impute(add_indicator=True), extreme_map, StandardScaler())
    return Encode(numeric, Terms(), detect=True, extreme=extreme)

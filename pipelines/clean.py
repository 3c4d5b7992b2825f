"""`clean`: finite numbers or NaN, one-hot categories, tf-idf words, everything scaled."""

from sklearn.pipeline import Pipeline

from pipelines.steps import Encode, scale
from pipelines.text import Terms

PLACE = 1


def build() -> Pipeline:
    """Return the unfitted pipeline; NaN stays NaN, which XGBoost treats as missing."""
    return Pipeline([("encode", Encode("passthrough", Terms())), ("scale", scale())])

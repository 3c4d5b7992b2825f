"""`quadratic`: `clean` with median imputation, plus products of the 20 most telling columns."""

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines.components import Products
from pipelines.steps import Encode, impute, scale
from pipelines.text import Terms

PLACE = 3


def build() -> Pipeline:
    """Return the unfitted pipeline; numeric columns are centred, or most squares would be monotone maps."""
    numeric = make_pipeline(impute(), StandardScaler())
    return Pipeline([("encode", Encode(numeric, Terms())), ("products", Products(20)), ("scale", scale())])

"""`clean_plus_pca`: `clean` with median imputation, with its 5 leading principal components appended."""

from sklearn.pipeline import Pipeline

from pipelines.components import Components
from pipelines.steps import Encode, impute, scale
from pipelines.text import Terms

PLACE = 7


def build() -> Pipeline:
    """Return the unfitted pipeline; the components are those of the scaled columns."""
    encode = Encode(impute(), Terms())
    return Pipeline([("encode", encode), ("scale", scale()), ("pca", Components(5, append=True))])

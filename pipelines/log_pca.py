"""`log_pca`: heavy-tailed columns through a signed log; a full rotation, at most 98 components."""

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from pipelines.components import Components
from pipelines.steps import Encode, impute, signed_log
from pipelines.text import Terms

PLACE = 6


def build() -> Pipeline:
    """Return the unfitted pipeline; numeric columns, the logs too, are standardised before the rotation."""
    numeric = make_pipeline(impute(add_indicator=True), StandardScaler())
    extreme = make_pipeline(impute(add_indicator=True), signed_log(), StandardScaler())
    encode = Encode(numeric, Terms(), detect=True, extreme=extreme)
    return Pipeline([("encode", encode), ("pca", Components(98)), ("scale", StandardScaler())])

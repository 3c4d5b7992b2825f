"""`quantile_pca`: heavy-tailed columns through a quantile map; PCA to half the width, at most 26."""

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from pipelines.components import Components
from pipelines.steps import Encode, impute
from pipelines.text import Terms

PLACE = 5
QUANTILES = 1000  # scikit-learn lowers it to the number of rows


def build() -> Pipeline:
    """Return the unfitted pipeline; numeric columns, the mapped ones too, are standardised before the rotation."""
    to_uniform = QuantileTransformer(
        n_quantiles=QUANTILES, output_distribution="uniform", subsample=None, random_state=0
    )
    numeric = make_pipeline(impute(add_indicator=True), StandardScaler())
    extreme = make_pipeline(impute(add_indicator=True), to_uniform, StandardScaler())
    encode = Encode(numeric, Terms(), detect=True, extreme=extreme)
    return Pipeline([("encode", encode), ("pca", Components(26, half=True)), ("scale", StandardScaler())])

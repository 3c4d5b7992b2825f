"""`quantile_pca`: heavy-tailed columns through a quantile map; PCA to half the width, at most 26."""

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from pipelines.components import Components
from pipelines.steps import Encode, Extremes, impute
from pipelines.text import Terms

PLACE = 5
QUANTILES = 1000  # scikit-learn lowers it to the number of rows


def build() -> Pipeline:
    """Return the unfitted pipeline; numeric columns are standardised, as the mapped ones are by the map."""
    to_normal = QuantileTransformer(n_quantiles=QUANTILES, output_distribution="normal", subsample=None, random_state=0)
    numeric = make_pipeline(impute(add_indicator=True), Extremes(to_normal), StandardScaler())
    encode = Encode(numeric, Terms(), detect=True)
    return Pipeline([("encode", encode), ("pca", Components(26, half=True)), ("scale", StandardScaler())])

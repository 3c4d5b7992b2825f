"""`pca_small`: median imputation, one-hot categories, tf-idf of characters; PCA to 5 components; scaled."""

from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from pipelines.components import Components
from pipelines.steps import Encode, impute
from pipelines.text import Terms

PLACE = 4


def build() -> Pipeline:
    """Return the unfitted pipeline; columns enter the PCA on their own scales, so wide ones lead."""
    encode = Encode(impute(), Terms(characters=True))
    return Pipeline([("encode", encode), ("pca", Components(5, half=True)), ("scale", StandardScaler())])

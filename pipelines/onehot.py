"""`onehot`: every column made categorical, by level or by quantile bin, and one-hot encoded."""

from sklearn.pipeline import Pipeline

from pipelines.steps import Encode, bins
from pipelines.text import Terms

PLACE = 2


def build() -> Pipeline:
    """Return the unfitted pipeline; of a word, too, only its presence counts."""
    return Pipeline([("encode", Encode(bins(), Terms(presence=True), detect=True))])

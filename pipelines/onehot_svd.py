"""`onehot_svd`: `onehot`, then a truncated singular value decomposition to half the width, at most 147."""

from sklearn.pipeline import Pipeline

from pipelines.components import Components
from pipelines.onehot import build as build_onehot

PLACE = 8


def build() -> Pipeline:
    """Return the unfitted pipeline."""
    return Pipeline([*build_onehot().steps, ("svd", Components(147, half=True, centre=False))])

"""A pipeline fitted once, for rows to come: what a model that was tuned on its matrices predicts from."""

from typing import TYPE_CHECKING

import numpy as np

from datasets.catalogue import Dataset
from pipelines import build
from pipelines.matrices import Matrix
from pipelines.prepared import as_xgboost_sees

if TYPE_CHECKING:
    import pandas


class Fitted:
    """The pipeline `pipeline`, fitted on all rows of `data`.

    Raises BadInput for an unknown pipeline, or data that it does not take.
    """

    def __init__(self, data: Dataset, pipeline: str) -> None:
        self._where = f"{data.name}/{pipeline}"
        y = np.ascontiguousarray(data.y, dtype=np.float64 if data.task == "regression" else np.int64)
        self._steps = build(pipeline).fit(data.X, y)
        self._fitted_on: Matrix = self._steps.transform(data.X)

    def matrix(self, X: "pandas.DataFrame") -> Matrix:
        """Return the rows as `prepare` would give them: float32, dense or CSR as those fitted on are."""
        return as_xgboost_sees([self._fitted_on, self._steps.transform(X)], self._where)[1]

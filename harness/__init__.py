"""Cost-aware Bayesian optimization: search space, problems, optimizer, runs, studies and their records.

The names in `__all__` are what a loop of your own needs (README: "Ask and tell"); they are imported when asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from datasets import pin_blas

pin_blas()

if TYPE_CHECKING:
    from harness.acquisitions.ei import ExpectedImprovement
    from harness.cost_models.linear import LowVariance
    from harness.optimizer import Optimizer
    from harness.problem import Evaluation
    from harness.space import XGBOOST_SPACE
    from harness.surrogates.gp import GaussianProcess

__all__ = ["XGBOOST_SPACE", "Evaluation", "ExpectedImprovement", "GaussianProcess", "LowVariance", "Optimizer"]

_MODULES = {
    "XGBOOST_SPACE": "space",
    "Evaluation": "problem",
    "ExpectedImprovement": "acquisitions.ei",
    "GaussianProcess": "surrogates.gp",
    "LowVariance": "cost_models.linear",
    "Optimizer": "optimizer",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

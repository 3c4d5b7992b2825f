"""Cost-aware Bayesian optimization: search space, problems, optimizer, runs, studies and their records.

The names in `__all__` are the Python API (harness/API.md): studies as on the command line, and what a loop written by
hand needs. They are imported when asked for.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

IN_CHECKOUT = (Path(__file__).resolve().parents[1] / "datasets" / "catalogue.py").is_file()
"""Whether all packages of the project are here: the wheel has this one alone, for objectives written by hand."""

if IN_CHECKOUT:
    import pipelines  # noqa: F401 - before numpy: limits BLAS to one thread, and refuses a foreign package `datasets`
else:  # the small matrices of a Gaussian process run many times slower with two threads than with one
    import numpy  # noqa: F401 - the limit is one on loaded libraries
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")

if TYPE_CHECKING:
    from harness.acquisitions.ei import ExpectedImprovement as ExpectedImprovement
    from harness.cost_models.linear import LowVariance as LowVariance
    from harness.curves import LearningCurves as LearningCurves
    from harness.errors import BadInput as BadInput
    from harness.grid import Study as Study
    from harness.optimizer import Optimizer as Optimizer
    from harness.problem import Curve as Curve
    from harness.problem import Evaluation as Evaluation
    from harness.records import read_traces as read  # noqa: F401
    from harness.settings import compose as compose
    from harness.space import XGBOOST_SPACE as XGBOOST_SPACE
    from harness.space import Parameter as Parameter
    from harness.space import SearchSpace as SearchSpace
    from harness.study import Stopped as Stopped
    from harness.study import run as run
    from harness.surrogates.gp import GaussianProcess as GaussianProcess

_PLACES = {
    "XGBOOST_SPACE": "harness.space",
    "BadInput": "harness.errors",
    "Curve": "harness.problem",
    "Evaluation": "harness.problem",
    "ExpectedImprovement": "harness.acquisitions.ei",
    "GaussianProcess": "harness.surrogates.gp",
    "LearningCurves": "harness.curves",
    "LowVariance": "harness.cost_models.linear",
    "Optimizer": "harness.optimizer",
    "Parameter": "harness.space",
    "SearchSpace": "harness.space",
    "Stopped": "harness.study",
    "Study": "harness.grid",
    "compose": "harness.settings",
    "read": "harness.records",
    "run": "harness.study",
}
_CALLED_THERE = {"read": "read_traces"}

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _PLACES[name]
    if not IN_CHECKOUT and module in ("harness.grid", "harness.records", "harness.settings", "harness.study"):
        raise ImportError(f"harness.{name} needs data sets, pipelines and tables: install the project from a checkout")
    return getattr(importlib.import_module(module), _CALLED_THERE.get(name, name))

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
    from harness.acquisitions.ei import ExpectedImprovement
    from harness.cost_models.linear import LowVariance
    from harness.errors import BadInput
    from harness.optimizer import Optimizer
    from harness.problem import Evaluation
    from harness.records import read_traces as read
    from harness.settings import compose
    from harness.space import XGBOOST_SPACE, Parameter, SearchSpace
    from harness.study import Stopped, Study, run
    from harness.surrogates.gp import GaussianProcess

__all__ = [
    "XGBOOST_SPACE",
    "BadInput",
    "Evaluation",
    "ExpectedImprovement",
    "GaussianProcess",
    "LowVariance",
    "Optimizer",
    "Parameter",
    "SearchSpace",
    "Stopped",
    "Study",
    "compose",
    "read",
    "run",
]

_PLACES = {
    "XGBOOST_SPACE": "harness.space",
    "BadInput": "harness.errors",
    "Evaluation": "harness.problem",
    "ExpectedImprovement": "harness.acquisitions.ei",
    "GaussianProcess": "harness.surrogates.gp",
    "LowVariance": "harness.cost_models.linear",
    "Optimizer": "harness.optimizer",
    "Parameter": "harness.space",
    "SearchSpace": "harness.space",
    "Stopped": "harness.study",
    "Study": "harness.study",
    "compose": "harness.settings",
    "read": "harness.records",
    "run": "harness.study",
}
_CALLED_THERE = {"read": "read_traces"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _PLACES[name]
    if not IN_CHECKOUT and module in ("harness.records", "harness.settings", "harness.study"):
        raise ImportError(f"harness.{name} needs data sets, pipelines and tables: install the project from a checkout")
    return getattr(importlib.import_module(module), _CALLED_THERE.get(name, name))

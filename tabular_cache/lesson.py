"""What a transferred cost model is to learn: from which tables, with which regressor and inputs."""

import hashlib
import json
import math
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from jaxtyping import Float

from datasets.errors import BadInput
from harness.cost_models import Features
from harness.problem import About
from harness.space import XGBOOST_SPACE
from tabular_cache.sampled import VERSION as ROWS_VERSION
from tabular_cache.sampled import Source

VERSION = 1  # raise it when the same lesson gives another model
_FEATURES = Features(XGBOOST_SPACE.names)


@dataclass(frozen=True)
class Lesson:
    """What is to be learned. digest: over all that determines the model; lessons are equal where it is."""

    digest: str
    regressor: Any = field(compare=False, repr=False)
    meta: str | None = field(compare=False)
    sources: Mapping[str, Source] = field(compare=False, repr=False)
    folder: Path = field(compare=False)
    rows: int = field(compare=False)
    seed: int = field(compare=False)


def lesson(
    regressor: Any, meta: str | None, sources: Mapping[str, Source], folder: Path, rows: int, seed: int
) -> Lesson:
    """Return the lesson of fitting `regressor` to `rows` rows of each of the tables `sources`."""
    parts = {"": regressor, **regressor.get_params(deep=True)}
    modules = {type(part).__module__.split(".")[0] for part in parts.values() if hasattr(part, "get_params")}
    libraries = {np, scipy, sklearn, *(sys.modules[module] for module in modules)}
    what = {
        "version": [VERSION, ROWS_VERSION],
        "regressor": {name: _described(part) for name, part in parts.items()},
        "settings": [meta, rows, seed],
        "tables": {problem: [source.sha256, repr(source.about)] for problem, source in sources.items()},
        "libraries": {library.__name__: getattr(library, "__version__", "") for library in libraries},
        "python": platform.python_version(),
    }
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
    return Lesson(digest, regressor, meta, sources, folder, rows, seed)


def _described(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}" if hasattr(part, "get_params") else repr(part)


def inputs(unit: Float[np.ndarray, "n d"], about: About, meta: str | None) -> Float[np.ndarray, "n k"]:
    """Return the hyperparameters on the scales of `Features`, and the problem's meta-features beside them.

    meta: "sizes": log rows, log columns, log trees per round (the classes where there are more than two, else 1);
    "work": the sum of the three, the log of what one round looks at; None: nothing. Raises BadInput for a problem
    without rows or columns.
    """
    if min(about.rows, about.columns) < 1:
        raise BadInput(f"{about.dataset}/{about.pipeline}: rows and columns must be >= 1, got {about}")
    sizes = [math.log(about.rows), math.log(about.columns), math.log(about.classes if about.classes > 2 else 1)]
    values = {"sizes": sizes, "work": [sum(sizes)], None: []}[meta]
    return np.column_stack([*_FEATURES.columns(unit), *(np.full(len(unit), value) for value in values)])

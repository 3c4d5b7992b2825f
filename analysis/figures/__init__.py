"""The study's figures: the functions of this package's modules that `analysis.plotting.drawn_from` marks."""

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.plotting import Drawn
from analysis.traces import Traces

_NUMBERED = re.compile(r"f\d+$")
Draw = Callable[[Traces, Path], Drawn]
DrawFronts = Callable[[pd.DataFrame, Path], Drawn]


def trace_figures() -> dict[str, Draw]:
    """Return every figure that is drawn from `Traces`, by its name; the study's numbered ones (f3, ...) first."""
    return _marked("traces")


def front_figures() -> dict[str, DrawFronts]:
    """Return every figure that is drawn from the frame of `analysis.tradeoffs.read_fronts` (f1, f7), by its name."""
    return _marked("fronts")


def _marked(records: str) -> dict[str, Any]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if getattr(value, "drawn_from", None) == records and value.__module__ == module.__name__
    }
    return dict(sorted(found.items(), key=lambda entry: (not _NUMBERED.match(entry[0]), entry[0])))

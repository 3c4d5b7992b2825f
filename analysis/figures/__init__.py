"""The figures, one module each; found by scanning this package.

A module's `draw(traces, out_dir)` draws from `Traces`; one with `RECORDS = "fronts"` from the frame of
`analysis.fronts.read_fronts` instead.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd

from analysis.plotting import Drawn
from analysis.traces import Traces

_NUMBERED = re.compile(r"f\d+$")
Draw = Callable[[Traces, Path], Drawn]
DrawFronts = Callable[[pd.DataFrame, Path], Drawn]


def figures() -> dict[str, Draw]:
    """Return the `draw` of every figure drawn from traces, by its name; the study's numbered ones (f3, ...) first."""
    return {name: module.draw for name, module in _modules("traces").items()}


def front_figures() -> dict[str, DrawFronts]:
    """Return the `draw` of every figure that is drawn from fronts (f1, f7), by name."""
    return {name: module.draw for name, module in _modules("fronts").items()}


def _modules(records: str) -> dict[str, ModuleType]:
    names = sorted((m.name for m in pkgutil.iter_modules(__path__)), key=lambda name: (not _NUMBERED.match(name), name))
    every = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module for name, module in every.items() if getattr(module, "RECORDS", "traces") == records}

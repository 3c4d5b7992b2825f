"""The figures, one module each; found by scanning this package.

A module's `draw(traces, out_dir)` draws from `Traces`; one with `RECORDS = "fronts"` from the frame of
`analysis.fronts.read_fronts` instead.
"""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd

from analysis.plotting import Drawn
from analysis.traces import Traces

Draw = Callable[[Traces, Path], Drawn]
DrawFronts = Callable[[pd.DataFrame, Path], Drawn]


def figures() -> dict[str, Draw]:
    """Return the `draw` of every figure that is drawn from traces, by the figure's name (f3, f5, ...), sorted."""
    return {name: module.draw for name, module in _modules("traces").items()}


def front_figures() -> dict[str, DrawFronts]:
    """Return the `draw` of every figure that is drawn from fronts (f1, f7), by name."""
    return {name: module.draw for name, module in _modules("fronts").items()}


def _modules(records: str) -> dict[str, ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    every = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module for name, module in every.items() if getattr(module, "RECORDS", "traces") == records}

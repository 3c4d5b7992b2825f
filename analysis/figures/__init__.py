"""The figures, one module each with `draw(traces, out_dir)`; found by scanning this package."""

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

from analysis.plotting import Drawn
from analysis.traces import Traces

Draw = Callable[[Traces, Path], Drawn]


def figures() -> dict[str, Draw]:
    """Return the `draw` of every figure, by the figure's name (f3, f5, ...), sorted."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").draw for name in names}

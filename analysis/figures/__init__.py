"""The study's figures: the functions of this package's modules that `analysis.plotting.drawn_from` decorates."""

import importlib
import pkgutil
from typing import Any


def all_figures() -> dict[str, Any]:
    """Return every figure by its name, those with a number (f1, f2, ...) first; each knows its records and title."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "drawn_from") and value.__module__ == module.__name__
    }
    return dict(sorted(found.items(), key=lambda entry: (not entry[0][1:].isdecimal(), len(entry[0]), entry[0])))


def trace_figures() -> dict[str, Any]:
    """Return every figure that is drawn from `Traces` (f3, ...), by its name."""
    return {name: draw for name, draw in all_figures().items() if draw.drawn_from == "traces"}


def front_figures() -> dict[str, Any]:
    """Return every figure that is drawn from the frame of `analysis.tradeoffs.read_fronts` (f1, f7), by its name."""
    return {name: draw for name, draw in all_figures().items() if draw.drawn_from == "fronts"}

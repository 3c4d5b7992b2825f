"""Every figure that the records suffice for, in the study's order; for the others, one line why not."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis import costs_figures
from analysis.costs_fronts import f9
from analysis.figures import figures
from analysis.plotting import Drawn
from analysis.report.parts import Figure
from analysis.traces import Traces
from harness.errors import BadInput

TITLES = {
    "f1": "The EI-cost front at two iterations",
    "f2": "How fast cost models learn",
    "f3": "EI^alpha: cost saved against error lost",
    "f4": "EI^alpha under time budgets",
    "f5": "Contextual EI beside EI^alpha, and the alpha it amounts to",
    "f6": "Contextual EI under time budgets",
    "f7": "Where the points of the front are one iteration later",
    "f8": "Transferred against online cost models",
    "f9": "EI^alpha under several cost models",
}
_NO_COSTS = "{} needs records of cost models: python -m tabular_cache costs, with the same results_dir"


def draw_all(traces: Traces, frame: pd.DataFrame, costs: pd.DataFrame | None, out_dir: Path) -> list[Figure]:
    """Draw the figures into `out_dir`. frame: all evaluations on disk (F9 compares cost models); costs: or None."""
    drawings: dict[str, Callable[[], Drawn]] = {
        name: lambda draw=draw: draw(traces, out_dir)  # type: ignore[misc]
        for name, draw in figures().items()
    }
    drawings["f2"] = lambda: costs_figures.f2(_there(costs, "F2"), out_dir)
    drawings["f8"] = lambda: costs_figures.f8(_there(costs, "F8"), out_dir)
    drawings["f9"] = lambda: f9(_comparable(frame, traces), out_dir)
    return [_figure(name, drawings[name]) for name in sorted(drawings, key=_place)]


def _figure(name: str, draw: Callable[[], Drawn]) -> Figure:
    title = TITLES.get(name, name.replace("_", " "))
    try:
        return Figure(name, title, draw())
    except BadInput as error:
        return Figure(name, title, missing=str(error))


def _there(costs: pd.DataFrame | None, name: str) -> pd.DataFrame:
    if costs is None:
        raise BadInput(_NO_COSTS.format(name))
    return costs


def _comparable(frame: pd.DataFrame, traces: Traces) -> pd.DataFrame:
    """Return the evaluations that differ from those of `traces` in their cost model at most."""
    for component, name in traces.components.items():
        if component != "cost_model":
            frame = frame[frame[component].astype(str) == name]
    return frame


def _place(name: str) -> tuple[bool, int, str]:
    match = re.fullmatch(r"f(\d+)", name)
    return (match is None, int(match[1]) if match else 0, name)

"""Every figure that the records suffice for, in the study's order; for the others, one line why not."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import costs_figures
from analysis.costs_fronts import f9
from analysis.figures import figures, front_figures
from analysis.plotting import Drawn
from analysis.report.parts import Figure, Records
from analysis.traces import Traces
from datasets.errors import BadInput

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
    "cd": "Which methods differ over data sets",
}
_NO_FRONTS = "{} needs fronts: make fronts, or python -m harness +acq=ei fronts=true with the same results_dir"
_NO_COSTS = "{} needs records of cost models: make models, or python -m tabular_cache costs with the same results_dir"


def draw_all(records: Records, traces: Traces, out_dir: Path, mixed: bool = False) -> list[Figure]:
    """Draw the figures into `out_dir`; traces: the runs among the records that the study's figures are about.

    mixed: whether records of different tables or engines are meant to stand together.
    """
    drawings = {name: partial(draw, traces, out_dir) for name, draw in figures().items()}
    for name, draw in front_figures().items():
        drawings[name] = partial(_of, records.fronts, draw, out_dir, _NO_FRONTS.format(name.upper()))
    for name, draw in {"f2": costs_figures.f2, "f8": costs_figures.f8}.items():
        drawings[name] = partial(_of, records.costs, draw, out_dir, _NO_COSTS.format(name.upper()))
    drawings["f9"] = partial(f9, _comparable(records.frame, traces), out_dir, traces.judge, mixed)
    return [_figure(name, drawings[name]) for name in sorted(drawings, key=_place)]


def _of(records: pd.DataFrame | None, draw: Callable[[pd.DataFrame, Path], Drawn], out_dir: Path, none: str) -> Drawn:
    """Draw from a kind of records; raises BadInput, saying `none`, where there are none."""
    if records is None or records.empty:
        raise BadInput(none)
    return draw(records, out_dir)


def _figure(name: str, draw: Callable[[], Drawn]) -> Figure:
    title = TITLES.get(name, name.replace("_", " "))
    try:
        return Figure(name, title, draw())
    except BadInput as error:
        return Figure(name, title, missing=str(error))


def _comparable(frame: pd.DataFrame, traces: Traces) -> pd.DataFrame:
    """Return the evaluations that differ from those of `traces` in their cost model at most."""
    for component, name in traces.components.items():
        if component != "cost_model":
            frame = frame[frame[component].astype(str) == name]
    return frame


def _place(name: str) -> tuple[bool, int, str]:
    match = re.fullmatch(r"f(\d+)", name)
    return (match is None, int(match[1]) if match else 0, name)

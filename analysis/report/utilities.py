"""The report's section on utilities other than EI, from whatever runs of them the records hold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import selection, utilities, utilities_figure, utilities_report
from analysis.budgets import minimal_budgets
from analysis.report.parts import Figure, Section
from analysis.traces import Judge, Traces
from datasets.errors import BadInput
from harness.records import read_timings

TITLE = "Utilities and cost rules"
ID = "utilities"


def sections(
    frame: pd.DataFrame,
    results_dir: Path,
    made: Sequence[dict[str, Any]],
    wanted: Mapping[str, str],
    judge: Judge,
    traces: Traces,
    out_dir: Path,
    mixed: bool = False,
) -> list[Section]:
    """Return the tables and the figure, or one line why there are none; the same is written to utilities.md.

    frame, made: `read_traces` and `specs` of `results_dir`; traces: the runs of EI among them, for the minimal budgets.
    mixed: as for `utilities.arrange`.
    """
    try:
        if set(frame["utility"].astype(str)) <= {"ei"}:
            raise BadInput(utilities.NONE)
        settings = utilities.settings_of(made)
        runs = utilities.arrange(frame, read_timings(results_dir), wanted, judge, mixed, settings)
    except BadInput as error:
        return [Section(ID, TITLE, [f"Not made: {error}."])]
    parts, numbers = utilities_report.tables(runs, budgets(traces))
    utilities_report.write(parts, numbers, out_dir)
    figure = Figure(ID, "cost against error, and mean ranks")
    try:
        figure = Figure(ID, figure.title, utilities_figure.draw(runs, out_dir))
    except BadInput as error:
        figure = Figure(ID, figure.title, missing=str(error))
    found = [Section(f"{ID}-{k}", title, body, level=3) for k, (title, body) in enumerate(parts)]
    return [Section(ID, TITLE), *found, Section(f"{ID}-figure", f"{TITLE}: {figure.title}", level=3, figure=figure)]


def budgets(traces: Traces) -> pd.Series | None:
    """Return the minimal budget of every problem in seconds, None where the runs do not say."""
    own = selection.of_families(traces, "alpha")
    try:
        return minimal_budgets(selection.at_horizon(own, selection.horizon(own))[0])["budget_s"]
    except (BadInput, ValueError):  # no runs at all have no longest
        return None

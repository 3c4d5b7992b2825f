"""`python -m analysis demo`: a page of what a few runs show, and which questions need more of them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.captions import MEANS_OF_SUMS, format_intervals, markdown_table, scope
from analysis.cost_models import NAMES, REFERENCE_COST_MODEL, read_if_there
from analysis.equal_cost import ERROR, MEAN, WHOLE, at_equal_cost, pair_runs
from analysis.evaluations import read_evaluations
from analysis.figures import all_figures
from analysis.figures.one_run import HOW, NAMED, draw_run, one_run, steps
from analysis.methods import EI, name_in_text, ordered
from analysis.plotting import Drawn
from analysis.report import page, sections, summary
from analysis.report.page import Figure, Section
from analysis.traces import Traces, collect
from analysis.tradeoffs import all_fronts, relative_to_ei, tradeoff
from datasets.errors import BadInput
from datasets.files import write_atomically

TITLE = "A first look at cost-aware Bayesian optimization"
_MORE = (
    (
        "Do the paper's twelve claims hold? A verdict needs 12 data sets with 10 seeds each.",
        "make reproduce",
    ),
    ("Who is ahead under a time budget? That takes runs that go on until it is spent.", "make reproduce"),
    ("Which alpha, which lambda? The demo has a few of either, the study a grid.", "make reproduce"),
    ("Does transfer from other data sets pay? Do other cost models?", "make models report"),
    ("Does a verdict depend on a setting: other errors, other clocks, coarser tables?", "make sensitivities report"),
    ("Are other utilities than EI better?", "make utilities report"),
)


def write(results_dir: Path, out_dir: Path, say: Callable[[str], None] = print) -> None:
    """Write demo.html and demo.md to `out_dir`, with their figures, and say what these runs show.

    Raises BadInput without runs of EI and another method. Further records, of a run's fronts or of cost models, are
    shown where there are any.
    """
    traces = collect(read_evaluations(results_dir))
    numbers = differences(traces)
    told = conclusions(numbers)
    trade = sections.drawn_or_missing("f5", all_figures()["f5"].title, partial(all_figures()["f5"], traces, out_dir))
    parts = [
        Section(
            "told", "What these runs tell", ["\n".join(f"- {line}" for line in told), _table(numbers), _how(traces)]
        ),
        *sections.asked(traces, [trade]),
        *_one_run(results_dir, out_dir),
        *_cost_models(results_dir, out_dir),
        Section("more", "What they cannot tell", ["\n".join(f"- {question} `{how}`" for question, how in _MORE)]),
    ]
    for name, render in (("demo.md", page.markdown), ("demo.html", page.html)):
        write_atomically(out_dir / name, render(TITLE, summary.counts(traces), parts).encode())
    for line in told:
        say(line)
    say("Whether the paper's claims hold, and who is ahead under a time budget, needs more runs: make reproduce")
    say(str(out_dir / "demo.html"))


def differences(traces: Traces) -> pd.DataFrame:
    """Return a row per method but EI: its mean cost and error in percent of EI's, the error minus that of EI stopped at
    the same cost, each with its interval.

    Columns: method, cost, cost_low, cost_high, and the same for error and off.
    """
    runs = pair_runs(traces)
    whole = runs.traces.select(runs.rows.ravel()).first(runs.n)
    pairs = relative_to_ei(whole, "the demo")
    means = tradeoff(pairs, ordered(pairs.table))
    means = means[(means["statistic"] == "mean") & (means["method"] != EI)].set_index("method")
    if means.empty:
        raise BadInput("the demo compares methods with EI: there are runs of ei alone (python -m harness study=demo)")
    rules = at_equal_cost(runs, [100.0], [])
    beside = rules[(rules["family"] == WHOLE) & (rules["measure"] == ERROR) & (rules["statistic"] == MEAN)]
    own = means.rename(columns=lambda name: name.replace("_pct", ""))
    columns = ["cost", "cost_low", "cost_high", "error", "error_low", "error_high"]
    return own[columns].join(beside.set_index("method")[["off", "off_low", "off_high"]]).reset_index()


def conclusions(numbers: pd.DataFrame) -> list[str]:
    """Return sentences on what the intervals of `differences` leave no doubt about, and one on what they leave open."""

    def named(rows: pd.DataFrame, measure: str) -> str:
        shown = rows.sort_values(measure)
        values = format_intervals(shown[[measure, f"{measure}_low", f"{measure}_high"]])
        return ", ".join(f"{name_in_text(m)} ({v} %)" for m, v in zip(shown["method"], values, strict=True))

    cheaper, dearer = numbers[numbers["cost_high"] < 100], numbers[numbers["cost_low"] > 100]
    worse, better = numbers[numbers["error_low"] > 100], numbers[numbers["error_high"] < 100]
    behind, ahead = numbers[numbers["off_low"] > 0], numbers[numbers["off_high"] < 0]
    open_ones = numbers[numbers["off_low"].notna() & ~numbers["method"].isin(pd.concat([behind, ahead])["method"])]
    lines = [
        f"Cheaper than EI beyond the noise: {named(cheaper, 'cost')} of its cost." if len(cheaper) else "",
        f"Dearer than EI: {named(dearer, 'cost')} of its cost." if len(dearer) else "",
        f"Larger error than EI's beyond the noise: {named(worse, 'error')}." if len(worse) else "",
        f"Smaller error than EI's beyond the noise: {named(better, 'error')}." if len(better) else "",
        f"Worse than EI merely stopped at the same cost: {', '.join(map(name_in_text, behind['method']))}."
        if len(behind)
        else "",
        f"Better than EI merely stopped at the same cost: {', '.join(map(name_in_text, ahead['method']))}."
        if len(ahead)
        else "",
        "At equal cost too close to EI stopped early for so few runs: "
        f"{', '.join(map(name_in_text, open_ones['method']))}."
        if len(open_ones)
        else "",
    ]
    if numbers["off_low"].isna().all():
        lines.append("Runs on one data set have no interval, so that nothing can be said beyond the noise.")
    return [line for line in lines if line]


def _table(numbers: pd.DataFrame) -> str:
    shown = pd.DataFrame({"method": numbers["method"].map(name_in_text)})
    for measure, heading, digits in (("cost", "cost (% of EI's)", 1), ("error", "error (% of EI's)", 2),
                                     ("off", "error minus that of EI stopped at that cost", 2)):  # fmt: skip
        shown[heading] = format_intervals(numbers[[measure, f"{measure}_low", f"{measure}_high"]], digits)
    return markdown_table(shown)


def _how(traces: Traces) -> str:
    runs = pair_runs(traces)
    what = f"After {runs.n} evaluations; {scope(runs.cells, traces.evaluator)}. {MEANS_OF_SUMS}"
    if runs.cells["dataset"].nunique() == 1:
        return what
    return (
        f"{what} In brackets 95 % t intervals over data sets: what lies on one side of EI's with its whole interval is "
        "named above, each method by itself, so that of twenty such statements one may be chance."
    )


def _one_run(results_dir: Path, out_dir: Path) -> list[Section]:
    """Return the picture of a run whose fronts were recorded, or else how to record one."""
    name, title = "run", "One run, step by step"
    fronts = all_fronts(results_dir)
    if fronts.empty:
        return [Section(name, title, [f"Not made: no run was recorded with its fronts: {HOW}."])]
    try:
        run, own = one_run(results_dir, {key: str(fronts[key].iloc[0]) for key in NAMED if key in fronts})
    except BadInput as error:
        return [Section(name, title, [f"Not made: {error}."])]
    lead = (
        "Before each evaluation the models say of every candidate what it promises (EI) and what it will cost. Points "
        "that nothing beats in both are the front; a rule chooses one of them. Any run can be drawn: "
        "`python -m analysis run`."
    )
    figure = Figure(name, "errors, costs, predictions and fronts", draw_run(run, own, out_dir))
    seen = None if own is None else steps(run, own)
    return [Section(name, title, [lead], figure=figure, run=seen)]


def _cost_models(results_dir: Path, out_dir: Path) -> list[Section]:
    """Return how well cost models predict, in a sentence and F2; nothing where there are no records of them."""
    costs, unreadable = read_if_there(results_dir)
    name, title = "f2", "Can costs be predicted?"
    if costs is None:
        return [Section(name, title, [f"Not made: {unreadable}."])] if unreadable else []
    try:
        drawn: Drawn = all_figures()[name](costs, out_dir)
    except BadInput as error:
        return [Section(name, title, [f"Not made: {error}."])]
    return [Section(name, title, [_predicted(drawn.numbers)], figure=Figure(name, all_figures()[name].title, drawn))]


def _predicted(curves: pd.DataFrame) -> str:
    """Return the sentence on each model's typical factor, from few evaluations and from many, and on who is ahead.

    curves: those of F2.
    """
    parts = []
    for n in sorted({int(curves["n"].min()), int(curves["n"].max())}):
        rows = curves[curves["n"] == n].set_index("cost_model")
        factors = ", ".join(f"{_model(name)} {np.exp(rmse):.2f}" for name, rmse in rows["value"].items())
        part = f"From {n} evaluations the typical factor between predicted and true cost is {factors}"
        for name in [name for name in rows.index if "off_value" in rows and name != REFERENCE_COST_MODEL]:
            value, low, high = rows.loc[name, ["off_value", "off_low", "off_high"]].astype(float)
            if low > 0 or high < 0:
                ahead = _model(REFERENCE_COST_MODEL if low > 0 else name)
                part += f"; {ahead} is ahead: {_model(name)} minus {_model(REFERENCE_COST_MODEL)} {value:.2f} "
                part += f"[{low:.2f}, {high:.2f}] in RMSE of log cost"
        parts.append(f"{part}.")
    return " ".join(parts)


def _model(name: object) -> str:
    return NAMES.get(str(name), str(name))

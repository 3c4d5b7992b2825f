"""The leaderboard: every optimizer's error at equal cost, its rank, and its own time per suggestion, on each track.

A track is an evaluator: *discrete*, where measured rows are what can be evaluated (replay), *continuous*, where the
emulated surface is, and *live*, where each point is trained as a run asks for it. Errors are as in
`analysis.equal_cost`: of runs paired by problem and seed, cut where the budget is spent, in percent of EI's final
error; EI cut so is EI-n, the line to beat, and random search the other reference.
Ranks and tests are those of `analysis.figures.critical_difference`, at each budget.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes

from analysis.captions import (
    footnote,
    format_intervals,
    format_number,
    left_out,
    markdown_table,
    plural,
    scope,
    sentence,
    write_page,
)
from analysis.equal_cost import BUDGETS, EqualCost, pair_runs
from analysis.evaluations import Evaluations, Recorded, without_settings
from analysis.figures.critical_difference import LEVEL, Critical, ahead, critical, diagram
from analysis.methods import EI, by_method, name_in_figures, name_in_text
from analysis.plotting import Drawn, colour_of, new_figure, save, style
from analysis.selection import LEAST_SPENT, sentence_on_sparse_methods
from analysis.statistics import over_datasets
from analysis.traces import Judge, collect
from datasets.errors import BadInput
from harness.config import options
from tabular_cache.live_truth import CONFIRMED_FILE

CONFIRM = "python -m tabular_cache confirm results_dir=results-leaderboard 'dataset=[...]'"
TRACKS = {"replay": "discrete", "surface": "continuous", "live": "live"}
PAPERS = ("eialpha", "eipu", "cei", "eicool")  # the paper's rules, by `acq`
_SHOWN = (20.0, 60.0, 100.0)  # percent of EI's cost, of the tables' columns
# of others, in none of our families' hues
_COLOURS = ("#1B7837", "#E7298A", "#7A5195", "#4DAF4A", "#B2182B", "#01665E", "#999900", "#C2A5CF", "#FB9A99")
_LINES = ("--", "-.", ":")


def milliseconds(timings: pd.DataFrame) -> pd.Series:
    """Return the mean over a run's suggestions of the optimizer's own milliseconds, by (spec, seed).

    A mean, since some refit their models at every tenth suggestion only. The first suggestion, in which packages are
    loaded, does not count where there are others. timings: as `harness.records.read_timings` gives them; steps of the
    initial design take none and do not count.
    """
    own = timings.assign(spec=timings["spec"].astype(str), ms=timings["fit_ms"] + timings["propose_ms"])
    own = own[own["ms"] > 0].sort_values("step")
    run = own.groupby(["spec", "seed"])["ms"]
    return own[(run.cumcount() > 0) | (run.transform("size") == 1)].groupby(["spec", "seed"])["ms"].mean()


def standing(runs: EqualCost, thinking_ms: pd.Series) -> tuple[pd.DataFrame, dict[float, Critical]]:
    """Return a row per method and budget, and the comparison of ranks at each budget.

    method; cost_pct: the budget, in percent of EI's cost; error_pct, low, high: the error in percent of EI's final one
    (its mean over seeds), mean over data sets with its 95 % t interval; off, off_low, off_high: the paired difference
    to EI-n; rank: the mean over data sets; p_ei: Holm-corrected, of the difference from EI (NaN: EI's own); ended:
    share of its runs that ended before the budget was spent; evaluations: mean number; ms: the median over runs of
    `milliseconds`; n, datasets: cells and data sets that count, those in which every method has a successful evaluation
    by then.
    thinking_ms: by (spec, seed). Raises BadInput where no cell is left at any budget, or there is one method only.
    """
    if len(runs.methods) < 2:
        raise BadInput(f"a leaderboard needs two methods or more, got: {', '.join(runs.methods)}")
    error, done, ended = runs.within(BUDGETS)
    ms, rows, tests = pd.DataFrame(own_times(runs, thinking_ms)).median(axis=0).to_numpy(), [], {}
    for k, budget in enumerate(BUDGETS):
        kept = np.isfinite(error[:, k]).all(axis=1)
        if not kept.any():
            continue
        cells, values = runs.cells[kept], (100 / runs.over_seeds(runs.final))[kept, None] * error[kept, k]
        dataset = pd.factorize(cells["dataset"])[0]
        rank = pd.DataFrame(error[kept, k], index=pd.MultiIndex.from_frame(cells), columns=runs.methods).rank(axis=1)
        tests[budget] = critical(rank.groupby(level="dataset").mean(), ahead(rank))
        off = values - values[:, [runs.methods.index(EI)]]
        numbers = dict(zip(("error_pct", "low", "high"), over_datasets(values, dataset), strict=True))
        numbers |= dict(zip(("off", "off_low", "off_high"), over_datasets(off, dataset), strict=True))
        part = pd.DataFrame({"method": runs.methods, "cost_pct": budget, **numbers})
        part["rank"] = tests[budget].ranks.reindex(runs.methods).to_numpy()
        part["p_ei"] = tests[budget].p[EI].reindex(runs.methods).to_numpy()
        part["ended"], part["evaluations"] = ended[kept, k].mean(axis=0), done[kept, k].mean(axis=0)
        rows.append(part.assign(ms=ms, n=len(cells), datasets=cells["dataset"].nunique()))
    if not rows:
        raise BadInput("no problem and seed in which every method has a successful evaluation within a budget")
    return pd.concat(rows, ignore_index=True), tests


def own_times(runs: EqualCost, thinking_ms: pd.Series) -> Float[np.ndarray, "C M"]:
    """Return the milliseconds of each run that is compared, NaN without a timing; thinking_ms: by (spec, seed)."""
    table = runs.traces.runs
    run = pd.MultiIndex.from_arrays([table["spec"].astype(str), table["seed"]])
    return np.asarray(thinking_ms.reindex(run).to_numpy()[runs.rows])


def tracks(
    recorded: Recorded, wanted: Mapping[str, str], judge: Judge = "validation", mixed: bool = False
) -> tuple[dict[str, EqualCost], dict[str, str]]:
    """Return the runs of each track that the records hold, and why another has none.

    wanted: as for `traces.collect`; an evaluator there leaves that track alone. Raises BadInput where there is none.
    """
    found, why, evaluations = dict[str, EqualCost](), dict[str, str](), Evaluations.of(recorded)
    held = {str(name) for name in evaluations.runs["evaluator"].unique()}
    for evaluator, track in TRACKS.items():
        if evaluator not in held or wanted.get("evaluator", evaluator) != evaluator:
            continue
        try:
            traces = collect(evaluations, {**wanted, "evaluator": evaluator}, judge, mixed)
            found[track] = pair_runs(traces, "not asked for")
        except BadInput as error:
            why[track] = str(error)
    if not found:
        why_none = "; ".join(why.values()) or f"the records hold none of evaluator={', '.join(TRACKS)}"
        raise BadInput(f"no leaderboard: {why_none}")
    return found, why


def draw(found: Mapping[str, EqualCost], thinking_ms: pd.Series, out_dir: Path) -> Drawn:
    """Draw the figure `leaderboard`, a row of panels per track; its CSV has a row per track, method and budget."""
    stood = {track: standing(runs, thinking_ms) for track, runs in found.items()}
    numbers = pd.concat([part.assign(track=track) for track, (part, _) in stood.items()], ignore_index=True)
    numbers.insert(0, "track", numbers.pop("track"))
    caption = sentence(
        "Errors at equal cost of every optimizer, its mean rank over data sets, and its own time per suggestion.",
        "Left: best error when so much is spent, in percent of EI's mean final error; means over data sets of",
        "their means, bars: 95 % t intervals. EI is EI-n, cut at the budget. Middle: mean ranks when all of EI's cost",
        f"is spent; bars join neighbours of which no pair differs (Wilcoxon over data sets, Holm, {LEVEL:.0%}; with",
        "few data sets no pair can). Right: median over runs of the mean suggestion, initial design and first apart.",
        *(_described(track, runs, stood[track][0]) for track, runs in found.items()),
    )
    others = [m for m in numbers["method"].unique() if m.partition("(")[0] not in options("acq")]
    n = len(_COLOURS)
    looks = {m: (_LINES[(k + k // n) % len(_LINES)], _COLOURS[k % n]) for k, m in enumerate(others)}
    most = max(len(runs.methods) for runs in found.values())
    with style():
        figure, plots = new_figure(13.5, len(found) * max(3.0, 0.24 * most + 1.2), caption)
        panels = plots.subplots(len(found), 3, squeeze=False, width_ratios=(2.4, 1.1, 0.9))
        for row, (track, (part, tests)) in zip(panels, stood.items(), strict=True):
            _curves(row[0], part, looks)
            row[0].set_title(f"{track} track: error at equal cost", fontsize=9)
            last = max(tests)
            diagram(row[1], tests[last])
            row[1].set_title(f"ranks at {last:.0f} % of EI's cost", fontsize=9)
            _times(row[2], part)
        return save(figure, "leaderboard", caption, numbers, out_dir)


def write(drawn: Drawn, found: Mapping[str, EqualCost], results: Path, out_dir: Path) -> Path:
    """Write leaderboard.md, per track who is ahead of whom and a table, under the figure's caption; return the path.

    results: the folder of the records, which may hold what `python -m tabular_cache confirm` trained of their choices.
    """
    parts = ["# Leaderboard", f"{drawn.caption} The figure is leaderboard.png, its numbers leaderboard.csv."]
    for track, runs in found.items():
        part = drawn.numbers[drawn.numbers["track"] == track]
        own = by_method(runs.traces.runs)["acq"].astype(str)
        parts += [f"## {track.capitalize()} track", *(_result(part, own, budget) for budget in _SHOWN), _table(part)]
        if track == TRACKS["surface"]:
            names = dict(runs.traces.runs[["spec", "method"]].astype(str).to_numpy())
            parts.append(_measured(results / CONFIRMED_FILE, names))
    return write_page(out_dir / "leaderboard.md", parts)


def _result(part: pd.DataFrame, acq: pd.Series, budget: float) -> str:
    """Return the sentences on which methods beat EI-n, and the paper's rules, at a budget.

    Methods: of `optimizer=`, and ours with a design, candidates or the like. Beating EI-n: the interval of the paired
    difference lies below 0; the paper's rules: a lower mean than all of them.
    acq: by method. Returns "" for a budget without numbers.
    """
    at = part[part["cost_pct"] == budget].set_index("method")
    if at.empty:
        return ""
    kind = acq.reindex(at.index)
    others, rules = at[~kind.isin(options("acq"))], at.loc[kind.isin(PAPERS), "error_pct"]

    def named(rows: pd.DataFrame) -> str:
        return ", ".join(name_in_text(str(method)) for method in rows.sort_values("error_pct").index) or "none"

    better, worse = named(others[others["off_high"] < 0]), named(others[others["off_low"] > 0])
    said = (
        f"**At {budget:g} % of EI's cost**, methods of `optimizer=`, and ours with more than models, utility and rule, "
        f"with a lower error than EI-n (95 % interval of the difference below 0): {better}; with a higher one: {worse}."
    )
    if rules.empty:
        return f"{said} None of the paper's rules is among the methods."
    return f"{said} Ahead of all of the paper's rules in the mean: {named(others[others['error_pct'] < rules.min()])}."


def _table(part: pd.DataFrame) -> str:
    """Return a row per method, those with the lowest rank at the largest budget first."""
    last = part[part["cost_pct"] == part["cost_pct"].max()].set_index("method").sort_values("rank")
    shown = pd.DataFrame({"method": [name_in_text(str(method)) for method in last.index]})
    for budget in _SHOWN:
        at = part[part["cost_pct"] == budget].set_index("method").reindex(last.index)
        shown[f"error (%) at {budget:g} %"] = format_intervals(at[["error_pct", "low", "high"]])
    shown["minus EI-n"] = format_intervals(last[["off", "off_low", "off_high"]])
    for column, heading in (("rank", "rank"), ("p_ei", "p against EI"), ("evaluations", "evaluations"), ("ms", "ms")):
        shown[heading] = ["-" if np.isnan(v) else format_number(v) for v in last[column]]
    return markdown_table(shown)


def _measured(path: Path, methods: Mapping[str, str]) -> str:
    """Return how far surfaces are from live trainings of what runs chose in the end, or how to find out.

    Those of methods without a training of some cell count without that cell. methods: their names here, by spec.
    """
    if not path.exists():
        return f"How far the surfaces are off is unknown: `{CONFIRM}` trains what runs on some problems chose."
    rows = pd.read_csv(path).dropna(subset="error")
    rows["off"] = 100 * (rows["error"] / rows["told_error"] - 1)
    rows["method"] = rows["spec"].map(methods).fillna(rows["method"])
    off = rows.pivot_table(index=["dataset", "pipeline", "seed"], columns="method", values="off")
    dataset = pd.factorize(off.index.get_level_values("dataset"))[0]
    means = dict(zip(("off", "low", "high"), over_datasets(off.to_numpy(), dataset), strict=True))
    shown = pd.DataFrame(means, index=off.columns).sort_values("off")
    problems = off.index.to_frame()[["dataset", "pipeline"]].drop_duplicates()
    table = pd.DataFrame({"method": [name_in_text(str(method)) for method in shown.index]})
    table["measured minus said (%)"] = format_intervals(shown)
    return (
        f"**Trained live**: what {plural(len(rows), 'run')} on surfaces of {plural(len(problems), 'problem')} of "
        f"{plural(problems['dataset'].nunique(), 'data set')} chose in "
        f"the end. The measured error differs from what the surface said by {rows['off'].abs().median():.2g} % in the "
        "median; below, means over data sets with their 95 % t intervals, positive where the surface promised too "
        f"much.\n\n{markdown_table(table)}"
    )


def _described(track: str, runs: EqualCost, part: pd.DataFrame) -> str:
    last = part[part["cost_pct"] == part["cost_pct"].max()]
    early = [name_in_text(m) for m, ended in zip(last["method"], last["ended"], strict=True) if ended > 1 - LEAST_SPENT]
    spent = (
        f"More than {1 - LEAST_SPENT:.0%} of their runs ended before EI's cost was spent, and count with their last "
        f"error: {', '.join(early)}."
        if early
        else ""
    )
    return sentence(
        f"{track.capitalize()}: {scope(runs.cells, runs.traces.evaluator)}, N = {runs.n}.",
        left_out(
            (runs.absent, "problem-seed pair", "without runs of every method"),
            (runs.zero + runs.failed, "pair", "in which EI's error is 0 or missing"),
        ),
        sentence_on_sparse_methods(runs.sparse).strip(),
        spent,
        footnote(runs.cells["dataset"]),
    )


def _curves(axes: Axes, part: pd.DataFrame, looks: Mapping[str, tuple[str, str]]) -> None:
    """Draw a line per method: of others by `looks`, line and colour; ours solid, in their colours of every figure.

    Ours with a design, candidates or the like: dashed, in the colour of the method without.
    """
    methods = list(part["method"].unique())
    for k, method in enumerate(methods):
        own, x = part[part["method"] == method], 0.9 * (k / max(len(methods) - 1, 1) - 0.5) * 4
        plain = without_settings(method)
        look = looks.get(method, ("-" if plain == method else "--", colour_of(plain)))
        arms = [own["error_pct"] - own["low"], own["high"] - own["error_pct"]]
        label = "EI (EI-n)" if method == EI else name_in_figures(method)
        axes.errorbar(own["cost_pct"] + x, own["error_pct"], arms, linestyle=look[0], color=look[1], label=label,
                      marker="o", markersize=3, linewidth=1.3, elinewidth=0.5)  # fmt: skip
    axes.axhline(100, color="0.6", linewidth=0.8, zorder=0)
    lines = part.loc[part["cost_pct"] >= 20, "error_pct"]
    room = 0.3 * (lines.max() - lines.min()) or 1.0
    axes.set_ylim(lines.min() - room / 2, lines.max() + room)
    axes.set_xlabel("cost spent (% of EI's)")
    axes.set_ylabel("best error (% of EI's final)")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False)


def _times(axes: Axes, part: pd.DataFrame) -> None:
    own = part.drop_duplicates("method").dropna(subset="ms").sort_values("ms", ascending=False)
    axes.barh([name_in_figures(m) for m in own["method"]], own["ms"], color="0.6")
    axes.set_axisbelow(True)
    axes.set_xscale("log")
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("own ms per suggestion")

"""F9: what the cost model does to the bi-optimization trade-off of EI^alpha (STUDY: F9)."""

from pathlib import Path

import pandas as pd

from analysis.components import choose
from analysis.methods import EI, ordered, require
from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.relative import Relative, relative
from analysis.scope import footnote, intervals, pairs_left_out, scope, sentence, span
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import CELL, Judge, collect
from analysis.tradeoff import THINNED, finish, label_points, plot, thin_labels, tradeoff
from harness.errors import BadInput

_LOOK = {
    "lv3": ("LV-3", ORANGE),
    "gp": ("GP", BLUE),
    "transfer_linear": ("transferred linear", GREEN),
    "hybrid": ("hybrid", RED),
    "oracle": ("true cost", BLACK),
}


def trade_offs(
    frame: pd.DataFrame, judge: Judge = "validation", mixed: bool = False
) -> tuple[pd.DataFrame, dict[str, Relative], int, str]:
    """Return the numbers of F9, the pairs of each cost model, the number of iterations, and the evaluator.

    EI does not look at cost, so its runs under whichever cost model serve all of them. Only cells (problem, seed)
    that every cost model has are taken, and of everything but cost models one choice (`components.choose`).
    judge: whose error counts; mixed: as for `collect`. Raises BadInput with fewer than two cost models, or without EI.
    """
    frame, _ = choose(frame, {}, free=("cost_model",))
    names = sorted(set(frame["cost_model"]), key=lambda m: (list(_LOOK).index(m) if m in _LOOK else len(_LOOK), m))
    if len(names) < 2:
        raise BadInput(f"F9 needs records of EI^alpha under two cost models or more; there are: {', '.join(names)}")
    require(frame, EI, "F9")
    ei = frame[frame["acq"] == EI].sort_values("cost_model", key=lambda m: m != "lv3", kind="stable")
    ei = ei.drop_duplicates([*CELL, "step", "iterations", "tau"])
    parts, n = {}, 0
    for name in names:
        own = frame[(frame["cost_model"] == name) & (frame["acq"] != EI)]
        traces = of_families(
            collect(pd.concat([own, ei.assign(cost_model=name)]), {"cost_model": name}, judge, mixed), "alpha"
        )
        n = horizon(traces)
        parts[name] = (relative(at_horizon(traces, n)[0], "F9"), traces.evaluator)
    shared: pd.MultiIndex | None = None
    for pairs, _ in parts.values():
        cells = pd.MultiIndex.from_frame(pairs.table.loc[pairs.table["method"] != EI, CELL].drop_duplicates())
        shared = cells if shared is None else shared.intersection(cells)
    assert shared is not None
    if not len(shared):
        raise BadInput("F9: no problem and seed was run under every cost model")
    kept = {}
    for name, (pairs, _) in parts.items():
        table = pairs.table[pd.MultiIndex.from_frame(pairs.table[CELL]).isin(shared)].reset_index(drop=True)
        kept[name] = Relative(table, pairs.unpaired, pairs.zero, pairs.failed)
    numbers = [tradeoff(pairs, ordered(pairs.table)).assign(cost_model=name) for name, pairs in kept.items()]
    return pd.concat(numbers, ignore_index=True), kept, n, next(iter(parts.values()))[1]


def f9(frame: pd.DataFrame, out_dir: Path, judge: Judge = "validation", mixed: bool = False) -> Drawn:
    """Draw F9: mean cost and error per alpha, one curve per cost model."""
    numbers, kept, n, evaluator = trade_offs(frame, judge, mixed)
    table = next(iter(kept.values())).table
    caption = sentence(
        f"F9. Total cost and best {judge} error of {n} iterations of EI^alpha under several cost models, in percent",
        f"of EI's on the same problem and seed, mean over {scope(table, evaluator)}, {span(numbers['n'], 'pair')};",
        "only problems and seeds that were run under every cost model.",
        f"Bars: {intervals(table)}",
        THINNED,
        *(
            f"{_LOOK.get(m, (m,))[0]}: {pairs_left_out(p, 0, n)}"
            for m, p in kept.items()
            if p.zero or p.failed or p.unpaired
        ),
        footnote(table["dataset"]),
    )
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes = plots.subplots()
        for name in kept:
            label, colour = _LOOK.get(name, (name, "0.5"))
            rows = numbers[(numbers["cost_model"] == name) & (numbers["statistic"] == "mean")]
            plot(axes, rows, colour, label)
            label_points(axes, rows, "alpha", colour, above=True)
        finish(axes, n)
        thin_labels(axes)
        axes.set_title("EI$^\\alpha$ under several cost models (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, "f9", caption, numbers, out_dir)

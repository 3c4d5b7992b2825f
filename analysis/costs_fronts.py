"""F9: what the cost model does to the bi-optimization trade-off of EI^alpha (STUDY: F9)."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from analysis.costs_pairs import Compared, compare
from analysis.labels import THINNED, thin_labels
from analysis.marks import footnote
from analysis.plotting import BLACK, BLUE, GREEN, ORANGE, RED, Drawn, new_figure, save, style
from analysis.scope import intervals, pairs_left_out, plural, scope, sentence, span
from analysis.traces import Judge
from analysis.tradeoff import finish, plot

_LOOK = {
    "lv3": ("LV-3", ORANGE),
    "gp": ("GP", BLUE),
    "transfer_linear": ("transferred linear", GREEN),
    "hybrid": ("hybrid", RED),
    "oracle": ("true cost", BLACK),
}


def f9(frame: pd.DataFrame, out_dir: Path, judge: Judge = "validation", mixed: bool = False) -> Drawn:
    """Draw F9: mean cost and error per alpha, one curve per cost model."""
    found = compare(frame, judge, mixed)
    caption = _caption(found, judge)
    with style():
        figure, plots = new_figure(6.4, 4.4, caption)
        axes = plots.subplots()
        numbers = found.numbers[found.numbers["statistic"] == "mean"]
        for place, name in enumerate(found.pairs):
            label, colour = _LOOK.get(name, (name, "0.5"))
            rows = numbers[numbers["cost_model"] == name]
            plot(axes, rows, colour, label)
            _label(axes, rows, colour, place)
        finish(axes, found.n)
        thin_labels(axes)
        axes.set_title("EI$^\\alpha$ under several cost models (numbers: $\\alpha$)", fontsize=10)
        plots.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, "f9", caption, found.numbers, out_dir)


def _caption(found: Compared, judge: Judge) -> str:
    table = next(iter(found.pairs.values())).table
    dropped = plural(found.dropped, "problem-seed pair")
    return sentence(
        f"F9. Total cost and best {judge} error of {found.n} iterations of EI^alpha under several cost models, in",
        f"percent of EI's on the same problem and seed, mean over {scope(table, found.components['evaluator'])},",
        f"{span(found.numbers['n'], 'pair')}; only problems and seeds that were run under every cost model"
        + (f" ({dropped} were not), alpha by alpha." if found.dropped else ", alpha by alpha."),
        f"Not compared, for want of runs: {', '.join(found.few)}." if found.few else "",
        f"Bars: {intervals(table)}",
        THINNED,
        *(
            f"{_LOOK.get(name, (name,))[0]}: {pairs_left_out(pairs, found.short[name], found.n)}"
            for name, pairs in found.pairs.items()
            if found.short[name] or pairs.zero or pairs.failed or pairs.unpaired
        ),
        footnote(table["dataset"]),
    )


_SIDES = ((6, 5, "left", "bottom"), (-6, -5, "right", "top"), (6, -5, "left", "top"), (-6, 5, "right", "bottom"))


def _label(axes: Axes, rows: pd.DataFrame, colour: str, place: int) -> None:
    """Write alpha beside each point, every series on another side, with a rim that parts letters from lines."""
    dx, dy, across, along = _SIDES[place % len(_SIDES)]
    rim = [withStroke(linewidth=2.0, foreground="white")]
    for x, y, alpha in rows[["cost_pct", "error_pct", "alpha"]].itertuples(index=False):
        axes.annotate(f"{alpha:g}", (x, y), xytext=(dx, dy), textcoords="offset points", ha=across, va=along,
                      fontsize=7, color=colour, path_effects=rim, zorder=5)  # fmt: skip

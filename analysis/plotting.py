"""What all figures share: style, colours, labels, a caption under the figure, deterministic files."""

import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
from adjustText import adjust_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from datasets.files import write_atomically

BLUE, ORANGE, GREEN, RED, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#000000"
"""Colours of Okabe and Ito (2008), told apart by colour-blind readers."""

Draw = TypeVar("Draw", bound=Callable[..., Any])


def drawn_from(records: str, title: str) -> Callable[[Draw], Draw]:
    """Make `draw(records, out_dir)` a figure of the study; records: "traces", "fronts", "costs", or "runs" (frame)."""

    def mark(draw: Draw) -> Draw:
        draw.drawn_from, draw.title = records, title  # type: ignore[attr-defined]
        return draw

    return mark


_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "cost-aware-bo",
    "svg.fonttype": "path",
}
_MOVES, _ROOM = 300, (1.1, 1.2)  # of adjustText: iterations, and how much larger than its letters a label counts
_MARKER, _NEAR = 5.0, 18.0  # points: what counts of a marker, and how far a label may go from its own
_CAPTION_SIZE, _LINE_INCHES, _CHARACTERS_PER_INCH = 7.0, 0.135, 17.5


@dataclass(frozen=True)
class Drawn:
    """A figure on disk: its files, the numbers in it (also written as CSV), its caption, and the share of its height
    that the plots take above the caption."""

    name: str
    paths: tuple[Path, ...]
    numbers: pd.DataFrame
    caption: str
    plots_share: float


@contextmanager
def style() -> Iterator[None]:
    """Draw with the project's settings, whatever the user's own matplotlib settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def sequence(n: int) -> list[tuple[float, float, float, float]]:
    """Return n colours from dark to light of a colour-blind-safe map, for an ordered parameter."""
    return [mpl.colormaps["viridis"](v) for v in np.linspace(0.05, 0.88, n)]


def place_labels(axes: Axes, labels: Sequence[Text]) -> None:
    """Move labels, each at its point in data units, off one another and off the curves' markers (adjustText).

    One that still lies on a label before it or on a marker, or so far from its point that it would be read as
    another's, is hidden. Call it last: the figure's layout has to be the one that is saved.
    """
    root = axes.figure.figure
    root.draw_without_rendering()
    # adjustText asks the axes' figure to lay itself out, which a part of a figure cannot
    axes.figure.draw_without_rendering = lambda: None  # type: ignore[method-assign,union-attr]
    curves = [line for line in axes.lines if line.get_marker() not in ("None", "", " ", None)]
    points = axes.transData.transform(np.concatenate([np.asarray(line.get_xydata(), dtype=float) for line in curves]))
    pixel, own = root.dpi / 72, [axes.transData.transform(label.get_position()) for label in labels]
    sides = np.array([[0, 0], [-1, -1], [-1, 1], [1, -1], [1, 1]]) * _MARKER * pixel / 2
    around = axes.transData.inverted().transform((points[:, None] + sides).reshape(-1, 2))
    adjust_text(list(labels), *around.T, ax=axes, iter_lim=_MOVES, expand=_ROOM)
    taken = [Bbox([point + sides[1], point + sides[4]]) for point in points]
    for label, point in zip(labels, own, strict=True):
        box = label.get_window_extent()
        away = np.hypot(*(np.clip(point, box.min, box.max) - point))
        label.set_visible(not box.count_overlaps(taken) and away <= _NEAR * pixel)
        taken += [box] if label.get_visible() else []


def new_figure(width: float, height: float, caption: str) -> tuple[Figure, SubFigure]:
    """Return a figure and its part for the plots, of that size in inches; `caption` is below."""
    unbroken = caption.replace(" %", "\u00a0%")
    text = textwrap.fill(unbroken, int(width * _CHARACTERS_PER_INCH), break_on_hyphens=False)
    below = (text.count("\n") + 1) * _LINE_INCHES + 0.15
    figure = Figure(figsize=(width, height + below), layout="constrained")
    plots, foot = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=(height, below)))
    foot.text(0.1 / width, 1.0, text, fontsize=_CAPTION_SIZE, color="0.25", va="top", linespacing=1.2)
    return figure, plots


def save(figure: Figure, name: str, caption: str, numbers: pd.DataFrame, out_dir: Path) -> Drawn:
    """Write NAME.png, NAME.svg, NAME.csv and NAME.txt (the caption), each by way of a temporary name.

    The bytes depend on the figure only: no dates, fixed ids.
    """
    paths = tuple(out_dir / f"{name}.{suffix}" for suffix in ("png", "svg", "csv", "txt"))
    for suffix, content in rendered(figure).items():
        write_atomically(out_dir / f"{name}.{suffix}", content)
    write_csv(numbers, paths[2])
    write_atomically(paths[3], f"{caption}\n".encode())
    plots, _ = figure.subfigs
    return Drawn(name, paths, numbers, caption, 1.0 - plots.bbox.y0 / figure.bbox.height)


def write_csv(numbers: pd.DataFrame, path: Path) -> None:
    """Write numbers with six significant digits."""
    write_atomically(path, numbers.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())


def rendered(figure: Figure) -> dict[str, bytes]:
    """Return the figure's files by suffix."""
    engine = figure.get_layout_engine()
    if engine is not None:  # lay out once for both files; `savefig` would draw everything twice to do so each time
        engine.execute(figure)
        figure.set_layout_engine(None)
    out, metadata = {}, {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix, without in metadata.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=160, metadata=without)
        out[suffix] = buffer.getvalue()
    return out

"""What all figures share: style, colours, labels, a caption under the figure, deterministic files."""

import io
import re
import textwrap
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
from adjustText import adjust_text
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.path import Path as MplPath
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox, BboxBase

from analysis.captions import write_csv
from datasets.files import write_atomically

BLUE, ORANGE, GREEN, RED, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#000000"
PURPLE, SKY = "#CC79A7", "#56B4E9"
"""Colours of Okabe and Ito (2008), told apart by colour-blind readers."""

# Methods have the same colour in every figure and on the page: EI is black, and with its parameter a family grows from
# dark to light, EI^alpha from indigo through blue, CEI through vermilion. Lightness alone keeps the order where hue is
# not seen.
_RAMPS = {"alpha": ("#2A0A5E", "#1D3FA0", BLUE, "#2A9BC4", "#45B0CC", "#5CC3D6"),
          "lam": ("#3B0A03", "#6E1D06", "#A83C04", RED, "#EC8A2B", "#DDAA1E")}  # fmt: skip
_LARGEST = {"alpha": 3.0, "lam": 1.0}
FAMILY_COLOURS = {"EI-n": BLACK, "EI^alpha": BLUE, "CEI": RED}
_FIXED = {"ei": BLACK, "eicool": GREEN, "EI-cool": GREEN, "carbo": PURPLE, "random": "#7F7F7F", "sobol": "#8C6D31"}
_OTHERS = ("#5E3C99", "#1B7837", "#B2182B", "#4D4D4D", "#762A83", "#01665E")


def colour_of(method: str) -> str:
    """Return the colour of a method, or of a family of methods, as #rrggbb.

    EI^alpha and CEI: by the square root of their parameter, on a ramp from dark to light; a method that is not the
    project's gets one that depends on its name alone.
    """
    method = "eialpha(alpha=1)" if method == "eipu" else method
    if found := re.search(r"\((alpha|lam)=([0-9.eE+-]+)[,)]", method):
        ramp = mpl.colors.LinearSegmentedColormap.from_list(found[1], _RAMPS[found[1]])
        return mpl.colors.to_hex(ramp(min(1.0, (float(found[2]) / _LARGEST[found[1]]) ** 0.5)))
    others = _OTHERS[zlib.crc32(method.encode()) % len(_OTHERS)]
    return {**_FIXED, **FAMILY_COLOURS}.get(method, others)


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
    "svg.fonttype": "none",  # text stays text: searched, read aloud, copied
}
_FONTS = b"'DejaVu Sans', Verdana, sans-serif"  # where the first is not installed: of the same widths, or nearly so
CAPTION = "caption"  # the id, in an SVG file, of what holds the caption
_MOVES, _ROOM = 300, (1.1, 1.2)  # of adjustText: iterations, and how much larger than its letters a label counts
_MARKER, _NEAR = 6.0, 9.0  # points: what counts of a marker, and how far from its own a label needs no line to it
_GAP = 3.0  # points that are kept free beside a label
_RINGS = (8.0, 12.0, 17.0, 23.0, 30.0, 38.0, 47.0, 57.0)  # points from its own at which a label may stand otherwise
_CAPTION_SIZE, _LINE_INCHES, _CHARACTERS_PER_INCH = 7.0, 0.135, 17.5
_PLACED_TO = 7  # decimals, as shares of the figure's width and height


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


def sequence(n: int, ramp: str = "viridis") -> list[tuple[float, float, float, float]]:
    """Return n colours, in the order of a colour map (the default is colour-blind-safe), for an ordered parameter."""
    return [mpl.colormaps[ramp](v) for v in np.linspace(0.05, 0.88, n)]


def place_labels(axes: Axes, labels: Sequence[Text]) -> None:
    """Move labels, each at its point in data units, off one another and off markers; thin lines lead to those far off.

    adjustText moves them all at once; what then still collides takes the nearest free place around its point, in which
    crossing a line counts as distance. No label is dropped. Call it last: the figure's layout has to be the one that is
    saved.
    """
    for label in labels:  # readable where a bar runs through
        label.set(path_effects=[withStroke(linewidth=2, foreground="white")], zorder=5)
    root = cast(Figure, axes.figure.figure)
    lay_out(root)
    # adjustText asks the axes' figure to lay itself out, which a part of a figure cannot
    axes.figure.draw_without_rendering = lambda: None  # type: ignore[method-assign,union-attr]
    curves = [line for line in axes.lines if line.get_marker() not in ("None", "", " ", None)]
    points = axes.transData.transform(np.concatenate([np.asarray(line.get_xydata(), dtype=float) for line in curves]))
    points = points[np.isfinite(points).all(axis=1)]
    pixel, own = root.dpi / 72, [axes.transData.transform(label.get_position()) for label in labels]
    sides = np.array([[0, 0], [-1, -1], [-1, 1], [1, -1], [1, 1]]) * _MARKER * pixel / 2
    around = axes.transData.inverted().transform((points[:, None] + sides).reshape(-1, 2))
    adjust_text(list(labels), *around.T, ax=axes, iter_lim=_MOVES, expand=_ROOM)
    taken = [Bbox([point + sides[1], point + sides[4]]) for point in points]
    paths = [line.get_transform().transform_path(line.get_path()) for line in curves]
    for label, point in zip(labels, own, strict=True):
        box = label.get_window_extent()
        away = np.hypot(*(np.clip(point, box.min, box.max) - point))
        inside = axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max)
        crossed = any(path.intersects_bbox(box, filled=False) for path in paths)
        if crossed or box.count_overlaps(taken) or away > _RINGS[3] * pixel or not inside:
            box = _nearest_free(axes.bbox, box, point, taken, paths, pixel)
            label.set(ha="center", va="center", position=axes.transData.inverted().transform(box.get_points().mean(0)))
        taken.append(box.padded(_GAP * pixel, 0.0))
        _lead(axes, label, box, point, pixel)


def _nearest_free(
    within: BboxBase, box: Bbox, point: np.ndarray, taken: Sequence[Bbox], paths: Sequence[MplPath], pixel: float
) -> Bbox:
    """Return the box moved to the nearest place around the point that overlaps nothing and lies within the axes.

    Where all places are taken, the one with the fewest overlaps. A line that crosses the box counts as 15 points.
    """
    best, least = box, np.inf
    for ring in _RINGS:
        for angle in np.arange(24) * np.pi / 12 + np.pi / 4:
            half = np.array([box.width, box.height]) / 2
            centre = point + (ring * pixel + half * [1.0, 0.6]) * [np.cos(angle), np.sin(angle)]
            here = Bbox([centre - half, centre + half])
            crossed = sum(path.intersects_bbox(here, filled=False) for path in paths)
            outside = not (within.contains(*here.min) and within.contains(*here.max))
            badness = ring + 15.0 * crossed + 1000.0 * here.count_overlaps(taken) + 3000.0 * outside
            if badness < least:
                best, least = here, badness
    return best


def _lead(axes: Axes, label: Text, box: Bbox, point: np.ndarray, pixel: float) -> None:
    """Draw a thin line from a label to its own point, where it stands too far from it to be read without."""
    near = np.clip(point, box.min, box.max)
    if np.hypot(*(near - point)) > _NEAR * pixel:
        ends = axes.transData.inverted().transform(np.stack([near, point]))
        axes.plot(*ends.T, "-", color=label.get_color(), linewidth=0.5, alpha=0.8, zorder=5, scalex=False, scaley=False)


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], size: float = 7.5) -> None:
    """Write (x, y, text, colour) beside the right edge of the axes, each at the height of its curve's end.

    Labels that would overlap are spread, in their order; a thin line leads from each to its curve's last point. Call
    it last, and leave room on the right.
    """
    axes.figure.figure.draw_without_rendering()
    into = axes.transAxes.inverted()
    found = sorted(ends, key=lambda end: end[1])
    at = [float(into.transform(axes.transData.transform((x, y)))[1]) for x, y, *_ in found]
    step = 1.35 * size * axes.figure.figure.dpi / 72 / axes.bbox.height
    low, high = 0.0, max(1.0, step * (len(at) - 1))
    places = [max(y, low + k * step) for k, y in enumerate(at)]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + step)
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], high - (len(places) - 1 - k) * step)
    for (x, _, text, colour), height, place in zip(found, at, places, strict=True):
        begin = float(into.transform(axes.transData.transform((x, 0)))[0])
        axes.plot(
            [begin, 1.0, 1.035], [height, height, place], "-", color=colour, linewidth=0.5, alpha=0.6, clip_on=False,
            transform=axes.transAxes, scalex=False, scaley=False,
        )  # fmt: skip
        axes.text(1.045, place, text, color=colour, fontsize=size, va="center", transform=axes.transAxes)


def upper_edge(error: Float[np.ndarray, " n"]) -> float:
    """Return the highest error drawn: a third beyond those of 85 % of the evaluations, or the highest of all.

    One of the evaluations' errors bounds the 85 %, so that an outlier among few does not stretch the axis.
    """
    low, high = float(error.min()), float(np.quantile(error, 0.85, method="lower"))
    return min(float(error.max()), high + (high - low) / 3) if high > low else float(error.max())


def few_ticks(axis: Axis) -> None:
    """Label an axis at so few places that its labels do not meet: a log axis by its range at 1, at 1 and 3, or at more.

    Call it when the limits are set.
    """
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() != "log":
        axis.set_major_locator(MaxNLocator(4))
        return
    decades = np.log10(high / low)
    if decades < 1:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 3.0), numticks=4))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    axis.set_minor_formatter(NullFormatter())


def new_figure(width: float, height: float, caption: str) -> tuple[Figure, SubFigure]:
    """Return a figure and its part for the plots, of that size in inches; `caption` is below."""
    unbroken = caption.replace(" %", "\u00a0%")
    text = textwrap.fill(unbroken, int(width * _CHARACTERS_PER_INCH), break_on_hyphens=False)
    below = (text.count("\n") + 1) * _LINE_INCHES + 0.15
    figure = Figure(figsize=(width, height + below), layout="constrained")
    plots, foot = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=(height, below)))
    foot.set_gid(CAPTION)
    foot.text(0.1 / width, 1.0, text, fontsize=_CAPTION_SIZE, color="0.25", va="top", linespacing=1.2)
    return figure, plots


def stacked(plots: SubFigure, *heights: float) -> list[SubFigure]:
    """Return parts of the plots, one below the other, of such relative heights."""
    return list(cast(np.ndarray, plots.subfigures(len(heights), 1, height_ratios=heights)))


def lay_out(figure: Figure) -> None:
    """Place everything in the figure for good.

    The solver's last digits depend on where its variables lie in memory, and would show in the ids of the SVG.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
        for axes in figure.axes:
            x, y, width, height = (round(v, _PLACED_TO) for v in axes.get_position(original=True).bounds)
            axes.set_position((x, y, width, height))


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


def rendered(figure: Figure) -> dict[str, bytes]:
    """Return the figure's files by suffix."""
    lay_out(figure)  # once for both files; `savefig` would draw everything twice to do so each time
    out, metadata = {}, {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix, without in metadata.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=160, metadata=without)
        out[suffix] = buffer.getvalue()
    out["svg"] = out["svg"].replace(b"'DejaVu Sans'", _FONTS)
    return out

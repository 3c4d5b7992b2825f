"""What all figures share: style, colours, caption under the figure, deterministic files."""

import io
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure, SubFigure

from datasets.files import write_atomically

BLUE, ORANGE, GREEN, RED, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#000000"
"""Colours of Okabe and Ito (2008), told apart by colour-blind readers."""

Draw = TypeVar("Draw", bound=Callable[..., Any])


def drawn_from(records: str) -> Callable[[Draw], Draw]:
    """Mark a function `draw(records, out_dir)` as a figure of the study; records: "traces" or "fronts"."""

    def mark(draw: Draw) -> Draw:
        draw.drawn_from = records  # type: ignore[attr-defined]
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
_CAPTION_SIZE, _LINE_INCHES, _CHARACTERS_PER_INCH = 7.0, 0.135, 17.5


@dataclass(frozen=True)
class Drawn:
    """A figure on disk: its files, the numbers in it (also written as CSV), and its caption."""

    name: str
    paths: tuple[Path, ...]
    numbers: pd.DataFrame
    caption: str


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


def spread(y: np.ndarray, gap: float) -> np.ndarray:
    """Return positions of labels near `y`, in the same order and at least `gap` apart."""
    order = np.argsort(y, kind="stable")
    placed = y[order].astype(float)
    for _ in range(200):
        close = np.flatnonzero(np.diff(placed) < gap * (1 - 1e-6))
        if not close.size:
            break
        for i in close:
            push = max(0.0, gap - (placed[i + 1] - placed[i])) / 2
            placed[i], placed[i + 1] = placed[i] - push, placed[i + 1] + push
    out = np.empty_like(placed)
    out[order] = placed
    return out


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
    paths = [_write(out_dir / f"{name}.{suffix}", content) for suffix, content in rendered(figure).items()]
    table = numbers.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    paths.append(_write(out_dir / f"{name}.csv", table.encode()))
    paths.append(_write(out_dir / f"{name}.txt", (caption + "\n").encode()))
    return Drawn(name, tuple(paths), numbers, caption)


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


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path

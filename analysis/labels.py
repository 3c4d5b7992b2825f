"""Labels beside the points of a curve, placed so that they can be read."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

THINNED = (
    "Labels that would lie on one another or on a marker are left out; the CSV beside the figure has every number."
)
_PLACES = (((4, 4), "left"), ((-4, -10), "right"), ((-4, 4), "right"), ((4, -10), "left"))
"""Offsets in points, and the side that is aligned: above and right, below and left, above and left, below and right."""
_HALO = 1.8  # points


def label_points(axes: Axes, rows: pd.DataFrame, parameter: str, colour: str, above: bool) -> None:
    """Write the parameter's value beside each point, above and to the right or below and to the left."""
    offset, side = _PLACES[0] if above else _PLACES[1]
    for x, y, value in rows[["cost_pct", "error_pct", parameter]].itertuples(index=False):
        text = axes.annotate(f"{value:g}", (x, y), xytext=offset, textcoords="offset points", ha=side, fontsize=7)
        text.set(color=colour, zorder=6, path_effects=[withStroke(linewidth=_HALO, foreground="white")])


def thin_labels(axes: Axes) -> None:
    """Move labels off one another and off markers, to another side of their point; hide those that find no place.

    Of two, the one farther from EI's point goes first. The figure's layout has to be what is saved: call it last.
    """
    axes.figure.canvas.draw()
    taken = markers(axes)
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    for label in sorted(labels, key=lambda t: -float(np.abs(np.array(t.xy) - 100.0).sum())):
        box = _place(label, taken)
        label.set_visible(box is not None)
        if box is not None:
            taken.append(box)


def markers(axes: Axes) -> list[Bbox]:
    """Return the boxes, in pixels, of all markers of the curves."""
    found = []
    for line in axes.lines:
        if line.get_marker() not in ("None", None, "", " "):
            half = line.get_markersize() * axes.figure.dpi / 72 / 2
            points = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
            found += [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in points]
    return found


def _place(label: Annotation, taken: Sequence[Bbox]) -> Bbox | None:
    """Put the label where it lies on nothing that is taken, its own place first; return its box, None without one."""
    own = (label.xyann, label.get_horizontalalignment())
    moved = _PLACES if label.anncoords == "offset points" else ()
    for offset, side in (own, *moved):
        label.xyann = offset
        label.set_horizontalalignment(side)
        box = label.get_window_extent()
        if not any(box.overlaps(other) for other in taken):
            return box
    return None

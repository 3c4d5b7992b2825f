"""Tables and numbers in Markdown."""

import numpy as np
import pandas as pd


def table(frame: pd.DataFrame) -> str:
    """Return a Markdown table of the frame's columns; numbers as `number` writes them."""
    header = [str(c) for c in frame.columns]
    rows = [[_cell(v) for v in row] for row in frame.itertuples(index=False, name=None)]
    ruler = ["---:" if pd.api.types.is_numeric_dtype(frame[c]) else "---" for c in frame.columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ruler, *rows])


def number(value: float) -> str:
    """Return a number with four significant digits (whole ones in full), or ``-`` for NaN."""
    if np.isnan(value):
        return "-"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def interval(value: float, low: float, high: float, digits: int = 1) -> str:
    """Return e.g. ``50.1 [48.0, 52.3]``, or ``-`` for NaN."""
    if np.isnan(value):
        return "-"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _cell(value: object) -> str:
    if isinstance(value, int | float | np.number):
        return number(float(value))
    return str(value).replace("|", "\\|").replace("\n", " ")

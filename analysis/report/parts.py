"""What the report is made of, whatever it is written as: sections of Markdown, each perhaps with a figure."""

from dataclasses import dataclass, field

import pandas as pd

from analysis.plotting import Drawn


@dataclass(frozen=True)
class Records:
    """All that the report is made from: evaluations (`read_traces`), records of cost models, fronts; None: none."""

    frame: pd.DataFrame
    costs: pd.DataFrame | None = None
    fronts: pd.DataFrame | None = None

    def without(self, datasets: list[str]) -> "Records":
        """Return the records of the other data sets."""

        def others(rows: pd.DataFrame | None) -> pd.DataFrame | None:
            return None if rows is None else rows[~rows["dataset"].isin(datasets)]

        frame = self.frame[~self.frame["dataset"].isin(datasets)]
        return Records(frame, others(self.costs), others(self.fronts))


@dataclass(frozen=True)
class Figure:
    """A figure of the report, or the reason why it could not be drawn (`missing`)."""

    name: str
    title: str
    drawn: Drawn | None = None
    missing: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with Markdown under it. level: 2 for the page's sections, 3 below them."""

    id: str
    title: str
    text: list[str] = field(default_factory=list)
    level: int = 2
    figure: Figure | None = None


def plain(text: str) -> str:
    """Return a text for Markdown to show as it is: nothing in it is taken for markup."""
    for mark in "\\`*<":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())

"""F4: mean rank of EI^alpha over alpha under time budgets (STUDY: F4)."""

from pathlib import Path

from analysis import rank_panels
from analysis.methods import ordered
from analysis.plotting import Drawn, drawn_from
from analysis.rank_panels import Family
from analysis.traces import Traces

FAMILY = Family("F4", "EI^alpha (number: alpha; EI is 0, EIpu is 1)", "alpha", lambda alpha: f"$\\alpha$ = {alpha:g}")


@drawn_from("traces")
def draw(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F4; raises BadInput without runs of `ei`, or with EI as the only alpha."""
    runs = traces.runs
    return rank_panels.draw(traces, out_dir, FAMILY, ordered(runs[runs["alpha"].notna()]))

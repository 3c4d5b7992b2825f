"""F6: mean rank of EI, EIpu and CEI under time budgets (STUDY: F6)."""

from pathlib import Path

from analysis import rank_panels
from analysis.methods import EI, EIPU, ordered
from analysis.plotting import Drawn, drawn_from
from analysis.rank_panels import Family
from analysis.traces import Traces

FAMILY = Family("F6", "EI, EIpu and CEI (number: lambda)", "lam", lambda lam: f"CEI {lam:g}")


@drawn_from("traces")
def draw(traces: Traces, out_dir: Path) -> Drawn:
    """Draw F6; raises BadInput without runs of `ei`, or with fewer than two of the methods EI, EIpu and CEI."""
    runs = traces.runs
    methods = ordered(runs[runs["method"].isin([EI, EIPU]) | runs["lam"].notna()])
    return rank_panels.draw(traces, out_dir, FAMILY, methods)

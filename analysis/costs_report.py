"""The numbers about cost models as one page of Markdown."""

from pathlib import Path

import pandas as pd

from analysis.costs import COVERAGE, calibration, learning_curves, models
from analysis.markdown import interval, table
from analysis.scope import intervals, scope
from harness.files import write_atomically

SHOWN = (4, 8, 16, 32, 64, 100)  # evaluations


def write(costs: pd.DataFrame, out_dir: Path) -> Path:
    """Write `costs.md`: RMSE at some sizes with intervals, differences to LV-3, and calibration."""
    curves = learning_curves(costs)
    text = [
        f"# Cost models\n\nRMSE of log cost, mean over seeds and over those problems whose tables are long enough for "
        f"n (`problems`), of {scope(costs, 'tables')}: along a row, the problems become fewer. {intervals(costs)}",
        _wide(curves, ""),
    ]
    if "off_value" in curves:
        text += ["Paired difference to LV-3 (negative: better than LV-3):", _wide(curves, "off_")]
    text += [
        "Calibration, on the same problems: percent of costs inside the 50 / 80 / 95 % intervals, mean -/+ z sd of log "
        "cost for every model (the hybrid's own predictions have longer tails, the warped GP's are skewed); in "
        "brackets the 95 % interval of the second:",
        _coverage(costs, curves),
    ]
    path = out_dir / "costs.md"
    write_atomically(path, ("\n\n".join(text) + "\n").encode())
    return path


def _wide(curves: pd.DataFrame, prefix: str) -> str:
    shown = curves[curves["n"].isin(SHOWN)]
    numbers = shown[[f"{prefix}{name}" for name in ("value", "low", "high")]].to_numpy(float).tolist()
    cells = shown[["cost_model", "n"]].assign(text=[interval(v, low, high, 3) for v, low, high in numbers])
    return _table(cells, list(dict.fromkeys(curves["cost_model"])), curves)


def _coverage(costs: pd.DataFrame, curves: pd.DataFrame) -> str:
    found = calibration(costs[costs["n"].isin(SHOWN)])
    numbers = (100 * found[[*COVERAGE, "cover80_low", "cover80_high"]]).to_numpy(float).tolist()
    text = [f"{a:.0f} / {b:.0f} [{low:.0f}, {high:.0f}] / {c:.0f}" for a, b, c, low, high in numbers]
    return _table(found[["cost_model", "n"]].assign(text=text), models(costs), curves)


def _table(cells: pd.DataFrame, order: list[str], curves: pd.DataFrame) -> str:
    wide = cells.pivot(index="cost_model", columns="n", values="text").reindex(order).fillna("-")
    problems = curves.groupby("n")["problems"].first()
    wide.loc["problems"] = [str(problems[n]) for n in wide.columns]
    return table(wide.rename(columns=lambda n: f"n = {n}").rename_axis("model").reset_index())

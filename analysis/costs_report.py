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
        f"# Cost models\n\nRMSE of log cost, mean over {scope(costs, 'tables')}. {intervals(costs)}",
        _wide(curves, ""),
    ]
    if "off_value" in curves:
        text += ["Paired difference to LV-3 (negative: better than LV-3):", _wide(curves, "off_")]
    text += ["Calibration: percent of costs inside the 50 / 80 / 95 % intervals:", _coverage(costs)]
    path = out_dir / "costs.md"
    write_atomically(path, ("\n\n".join(text) + "\n").encode())
    return path


def _wide(curves: pd.DataFrame, prefix: str) -> str:
    shown = curves[curves["n"].isin(SHOWN)]
    numbers = shown[[f"{prefix}{name}" for name in ("value", "low", "high")]].to_numpy(float).tolist()
    cells = shown[["cost_model", "n"]].assign(text=[interval(v, low, high, 3) for v, low, high in numbers])
    return _table(cells, list(dict.fromkeys(curves["cost_model"])))


def _coverage(costs: pd.DataFrame) -> str:
    found = calibration(costs[costs["n"].isin(SHOWN)])
    numbers = (100 * found[list(COVERAGE)]).to_numpy(float).tolist()
    cells = found[["cost_model", "n"]].assign(text=[" / ".join(f"{v:.0f}" for v in row) for row in numbers])
    return _table(cells, models(costs))


def _table(cells: pd.DataFrame, order: list[str]) -> str:
    wide = cells.pivot(index="cost_model", columns="n", values="text").reindex(order).fillna("-")
    return table(wide.rename(columns=lambda n: f"n = {n}").rename_axis("model").reset_index())

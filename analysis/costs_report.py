"""The numbers about cost models as one page of Markdown."""

from pathlib import Path

import pandas as pd

from analysis.costs import COVERAGE, calibration, comparable, learning_curves, left_out, models, taken
from analysis.markdown import interval, table
from analysis.scope import intervals, scope, sentence
from datasets.errors import BadInput
from datasets.files import write_atomically

SHOWN = (4, 8, 16, 32, 64, 100)  # evaluations


def write(costs: pd.DataFrame, out_dir: Path) -> Path:
    """Write `costs.md`: RMSE at some sizes with intervals, differences to LV-3, and calibration, `costs.csv` as well.

    Raises BadInput where the models have no problem and seed in common after any number of evaluations.
    """
    compared = comparable(costs)[0]
    curves = learning_curves(compared)
    if curves.empty:
        raise BadInput("the records of cost models have no problem, seed and number of evaluations in common")
    text = [
        f"# Cost models\n\n{sentence(_head(compared, curves), left_out(costs))}",
        _wide(curves, ""),
    ]
    if "off_value" in curves:
        text += ["Paired difference to LV-3 (negative: better than LV-3):", _wide(curves, "off_")]
    text += [
        "Calibration, on the same problems: percent of costs inside the 50 / 80 / 95 % intervals, mean -/+ z sd of log "
        "cost for every model (the hybrid's own predictions have longer tails, the warped GP's are skewed); in "
        "brackets the 95 % interval of the second:",
        _coverage(compared, curves),
    ]
    covered = calibration(compared).to_csv(index=False, lineterminator="\n")
    write_atomically(out_dir / "costs.csv", covered.encode())
    path = out_dir / "costs.md"
    write_atomically(path, ("\n\n".join(text) + "\n").encode())
    return path


def _head(compared: pd.DataFrame, curves: pd.DataFrame) -> str:
    cells, least = taken(compared)[0], int(curves["n"].min())
    over = f"mean over {scope(cells, 'tables')}"
    if curves["cells"].nunique() > 1:
        over = (
            f"mean over seeds and over those problems whose tables are long enough for n (`problems`); at n = {least}: "
            f"{scope(cells, 'tables')}; along a row, the problems become fewer"
        )
    return f"RMSE of log cost, {over}. {intervals(cells)}"


def _shown(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the sizes that tables show; of all sizes where there is none of these."""
    some = curves[curves["n"].isin(SHOWN)]
    return some if len(some) else curves


def _wide(curves: pd.DataFrame, prefix: str) -> str:
    shown = _shown(curves)
    numbers = shown[[f"{prefix}{name}" for name in ("value", "low", "high")]].to_numpy(float).tolist()
    cells = shown[["cost_model", "n"]].assign(text=[interval(v, low, high, 3) for v, low, high in numbers])
    return _table(cells, list(dict.fromkeys(curves["cost_model"])), curves)


def _coverage(costs: pd.DataFrame, curves: pd.DataFrame) -> str:
    found = calibration(costs[costs["n"].isin(set(_shown(curves)["n"]))])
    numbers = (100 * found[[*COVERAGE, "cover80_low", "cover80_high"]]).to_numpy(float).tolist()
    text = [f"{a:.0f} / {b:.0f} [{low:.0f}, {high:.0f}] / {c:.0f}" for a, b, c, low, high in numbers]
    return _table(found[["cost_model", "n"]].assign(text=text), models(costs), curves)


def _table(cells: pd.DataFrame, order: list[str], curves: pd.DataFrame) -> str:
    wide = cells.pivot(index="cost_model", columns="n", values="text").reindex(order).fillna("-")
    problems = curves.groupby("n")["problems"].first()
    wide.loc["problems"] = [str(problems[n]) for n in wide.columns]
    return table(wide.rename(columns=lambda n: f"n = {n}").rename_axis("model").reset_index())

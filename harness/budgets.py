"""Budgets by problem, from a CSV file: the unit in which `tau` is given in the time-allocation study."""

import csv
import math
from pathlib import Path

from datasets.errors import BadInput

COLUMNS = ("dataset", "pipeline", "budget_s")


def read_budgets(path: Path) -> dict[str, float]:
    """Return seconds by problem, ``dataset/pipeline``; raises BadInput naming the file and line for what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            missing = [c for c in COLUMNS if c not in (lines.fieldnames or ())]
            if missing:
                raise BadInput(
                    f"budgets: {path} lacks the column(s) {', '.join(missing)}; needed: {', '.join(COLUMNS)}"
                )
            rows = [(lines.line_num, row) for row in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"budgets: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, float] = {}
    for number, row in rows:
        if not (row["dataset"] and row["pipeline"]):
            raise BadInput(f"budgets: {path} line {number} names no problem: dataset and pipeline are needed")
        problem = f"{row['dataset']}/{row['pipeline']}"
        if problem in found:
            raise BadInput(f"budgets: {path} line {number} names {problem} a second time")
        found[problem] = _seconds(row["budget_s"], f"budgets: {path} line {number}")
    if not found:
        raise BadInput(f"budgets: {path} names no problem")
    return found


def _seconds(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise BadInput(f"{where}: budget_s must be a number of seconds > 0, got {text!r}")
    return value

"""Utilities and cost rules side by side: ranks, training time, and the time that the optimizer itself takes.

A method that saves ten seconds of training and thinks for twenty has saved nothing: both totals are shown. A method is
a utility with a cost rule, such as ``kg x cei(lam=0.3)``; everything is paired by problem and seed.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from analysis.bootstrap import bootstrap
from analysis.markdown import interval, table
from analysis.scope import intervals, plural, scope
from analysis.traces import CELL, PROBLEM
from harness.errors import BadInput
from harness.files import write_atomically
from harness.records import read_timings, read_traces

SHARES = (0.25, 0.5, 1.0)  # of the mean training cost of `REFERENCE` on the problem
REFERENCE = "ei x ei"
_THINKING = ("fit_ms", "propose_ms")


def runs(results_dir: Path) -> pd.DataFrame:
    """Return one row per run: cell, label, tau, evaluations, training_s, thinking_s, ms_per_step and its curve.

    errors, costs: lists, step by step; with a tau, only evaluations that end within it. Raises BadInput for records of
    several evaluators, or of a method recorded twice.
    """
    frame = read_traces(results_dir)
    if frame["evaluator"].nunique() > 1:
        raise BadInput(f"the records mix evaluators: {', '.join(sorted(frame['evaluator'].unique()))}")
    frame["label"] = frame["utility"].astype(str) + " x " + frame["method"].astype(str)
    thinking = read_timings(results_dir)
    thinking["ms"] = thinking[list(_THINKING)].sum(axis=1)
    spent = {key: ms.to_numpy(float) for key, ms in thinking.groupby(["spec", "seed"])["ms"]}
    rows = []
    for (spec, seed), part in frame.sort_values("step").groupby(["spec", "seed"], sort=False):
        first, cost = part.iloc[0], part["cost_s"].to_numpy(float)
        inside = np.cumsum(cost) <= (np.inf if np.isnan(first["tau"]) else float(first["tau"]))
        ms = spent.get((spec, seed), np.empty(0))
        key = {name: first[name] for name in ("dataset", "pipeline", "label", "tau")}
        rows.append(
            {
                **key, "seed": seed, "evaluations": int(inside.sum()), "training_s": float(cost[inside].sum()),
                "thinking_s": float(ms.sum()) / 1e3, "ms_per_step": float(np.median(ms)) if len(ms) else np.nan,
                "errors": part["error"].to_numpy(float)[inside], "costs": cost[inside],
            }
        )  # fmt: skip
    found = pd.DataFrame(rows)
    if found.duplicated([*CELL, "label"]).any():
        raise BadInput("a method is recorded twice with different settings: keep one results_dir per study")
    return found


def scores(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the best error by the end, and within shares of the reference's cost: cells x methods, complete cells.

    With a deadline (tau) only the first. NaN: no successful evaluation in time. Raises BadInput without `REFERENCE`, or
    when no cell has every method.
    """
    if REFERENCE not in set(found["label"]):
        raise BadInput(f"ranking utilities needs the method {REFERENCE}: run study=utilities")
    budget = found[found["label"] == REFERENCE].groupby(PROBLEM)["training_s"].mean()
    out = {"at the end": found.assign(score=[_best(e, c, np.inf) for e, c in _curves(found)])}
    if found["tau"].isna().all():
        whole = budget.reindex(pd.MultiIndex.from_frame(found[PROBLEM])).to_numpy(float)
        for share in SHARES:
            values = [_best(e, c, share * b) for (e, c), b in zip(_curves(found), whole, strict=True)]
            out[f"within {share:.0%} of EI's time"] = found.assign(score=values)
    wide = {name: part.pivot(index=CELL, columns="label", values="score") for name, part in out.items()}
    present = found.assign(one=1).pivot(index=CELL, columns="label", values="one").notna().all(axis=1)
    if not present.any():
        raise BadInput("no problem and seed has a run of every method")
    return {name: part[present] for name, part in wide.items()}


def _curves(found: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(found["errors"], found["costs"], strict=True))


def _best(errors: np.ndarray, costs: np.ndarray, budget: float) -> float:
    done = errors[np.cumsum(costs) <= budget]
    done = done[np.isfinite(done)]
    return float(done.min()) if len(done) else float("nan")


def report(results_dir: Path, out_dir: Path) -> Path:
    """Write `utilities.md`: mean ranks with 95 % intervals, and both totals per method; return its path."""
    found = runs(results_dir)
    ranked = {name: _ranks(part) for name, part in scores(found).items()}
    first = next(iter(ranked.values()))
    totals = found.groupby("label")[["evaluations", "training_s", "thinking_s", "ms_per_step"]].mean()
    shown = pd.DataFrame({"method": first.columns})
    for name, part in ranked.items():
        numbers = bootstrap(part)[["value", "low", "high"]].to_numpy(float)
        shown[f"rank {name}"] = [interval(*row) for row in numbers]
    order = np.argsort(first.mean().to_numpy(), kind="stable")
    part = totals.reindex(shown["method"])
    shown["evaluations"], shown["ms per step"] = part["evaluations"].to_numpy(), part["ms_per_step"].to_numpy()
    shown["training (s)"], shown["thinking (s)"] = part["training_s"].to_numpy(), part["thinking_s"].to_numpy()
    shown["both (s)"] = shown["training (s)"] + shown["thinking (s)"]
    cells = first.index.to_frame(index=False)
    text = (
        f"# Utilities\n\nMean ranks (1 is best, ties share) of {len(shown)} methods over "
        f"{scope(cells, 'recorded runs')}; {plural(len(cells), 'cell')} with every method. {intervals(cells)} Times "
        "are means per run; ms per step, of this host, is the mean of the runs' medians.\n\n"
        f"{table(shown.iloc[order])}\n"
    )
    path = out_dir / "utilities.md"
    write_atomically(path, text.encode())
    return path


def _ranks(score: pd.DataFrame) -> pd.DataFrame:
    values = score.to_numpy(float)
    ranks = rankdata(np.where(np.isnan(values), np.inf, values), method="average", axis=1)
    return pd.DataFrame(ranks, index=score.index, columns=score.columns)

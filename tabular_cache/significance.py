"""Which hyperparameters a linear cost model should see, and how strongly it should be held back: measured.

Leave one data set out, and those of the same rows: whatever is chosen (a pair or triple of features, a ridge) is
chosen by its mean score over the problems of the others, and scored on those of the one left out.

    R^2 of the least-squares fit of log cost on the features, over a problem's configurations at their own rounds
    RMSE of log cost at the configurations not learned from, after n of them, for each ridge
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from harness.cost_models import Features
from harness.cost_models.linear import LowVariance
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from tabular_cache.sampled import kin
from tabular_cache.table import Table, load_table

RIDGES = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
SIZES = (4, 6, 8, 12, 16, 32)
ORDERS = 5
LEAST = 20  # configurations to predict
Names = tuple[str, ...]


def explained(tables: Sequence[Table], width: int, among: Names = ()) -> pd.DataFrame:
    """Return R^2 per problem (rows) and set of `width` features (columns), each set containing those `among`."""
    sets = [c for c in combinations(XGBOOST_SPACE.names, width) if set(among) <= set(c)]
    return pd.DataFrame({c: [_r2(t, c) for t in tables] for c in sets}, index=[t.problem for t in tables])


def _r2(table: Table, names: Names) -> float:
    rows = table.longest
    y = np.log(table["scaled_s"][rows])
    A = np.column_stack([np.ones(len(y)), *Features(names).columns(table.unit[rows])])
    residual = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
    return float(1 - residual @ residual / np.square(y - y.mean()).sum())


def ridge_errors(tables: Sequence[Table], features: Names, seed: int = 0) -> pd.DataFrame:
    """Return the mean RMSE of log cost per problem (rows) and (n, ridge) (columns); NaN where a table is too short."""
    rows: dict[str, dict[tuple[int, float], float]] = {}
    for table in tables:
        own = np.flatnonzero(table.longest)
        sums: dict[tuple[int, float], list[float]] = {(n, ridge): [] for n in SIZES for ridge in RIDGES}
        for order in range(ORDERS):
            drawn = stream(seed, "ridge", table.problem, str(order)).permutation(own)
            for (n, ridge), found in sums.items():
                if n + LEAST <= len(drawn):
                    found.append(_rmse(table, features, ridge, drawn[:n], drawn[n : n + 500]))
        rows[table.problem] = {key: float(np.mean(v)) if v else float("nan") for key, v in sums.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def _rmse(table: Table, features: Names, ridge: float, known: np.ndarray, asked: np.ndarray) -> float:
    model = LowVariance(features, ridge)
    model.fit(table.unit[known], table["scaled_s"][known])
    error = model.predict(table.unit[asked])[0] - np.log(table["scaled_s"][asked])
    return float(np.sqrt(np.mean(np.square(error))))


def left_out(scores: pd.DataFrame, best: str) -> tuple[Counter[object], Float[np.ndarray, " p"]]:
    """Return how often each column is chosen, and its score on the problems of the data set left out.

    best: "max" or "min" of the mean over the other data sets' problems, those of its `kin` left out as well.
    """
    datasets = scores.index.str.partition("/").get_level_values(0)
    chosen: Counter[object] = Counter()
    held: list[float] = []
    for dataset in dict.fromkeys(datasets):
        mean = scores[~datasets.isin(kin(dataset))].mean()
        column = mean.idxmax() if best == "max" else mean.idxmin()
        chosen[column] += 1
        held += scores.loc[datasets == dataset, [column]].iloc[:, 0].tolist()
    return chosen, np.array(held)


def report(tables: Sequence[Table], features: Names) -> str:
    """Return the choices and their scores as Markdown."""
    lines = ["| choice | chosen (of the data sets left out) | mean R^2 on the one left out |", "|---|---|---|"]
    cases: Mapping[str, tuple[int, Names]] = {
        "one feature": (1, ()), "two": (2, ()), "three": (3, ()), "the third beside rounds and depth": (3, features[:2])
    }  # fmt: skip
    for title, (width, among) in cases.items():
        chosen, held = left_out(explained(tables, width, among), "max")
        names = "; ".join(f"{', '.join(c)}: {n}" for c, n in chosen.most_common() if isinstance(c, tuple))
        lines.append(f"| {title} | {names} | {held.mean():.3f} |")
    errors = ridge_errors(tables, features)
    lines += ["", f"RMSE of log cost of {', '.join(features)} by ridge, mean over problems:", ""]
    lines += [f"| n | {' | '.join(f'{r:g}' for r in RIDGES)} |", "|---" * (len(RIDGES) + 1) + "|"]
    for n in SIZES:
        lines.append(f"| {n} | {' | '.join(f'{errors[n, r].mean():.3f}' for r in RIDGES)} |")
    by_ridge = errors.T.groupby(level=1).mean().T
    chosen, held = left_out(by_ridge.dropna(), "min")
    counts = "; ".join(f"{r}: {n}" for r, n in chosen.most_common())
    return "\n".join(
        [*lines, "", f"Ridge chosen (mean over n): {counts}; RMSE on the data set left out {held.mean():.3f}."]
    )


def load_all(problems: Sequence[str], folder: Path) -> list[Table]:
    """Return the tables of the problems."""
    return [load_table(problem, folder) for problem in problems]

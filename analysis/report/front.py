"""The numbers behind the page's interactive front: each method's cost and error on every problem, means over seeds.

The page averages them as `analysis.equal_cost` does: over the cells (problem and seed) that all methods have, a mean
within each data set, then the mean over data sets with its t interval. So that this comes of means over seeds, the
number of seeds behind each goes along, which is the weight of a problem within its data set:

    mean of a data set = sum_p w_p v_p / sum_p w_p,   w_p the seeds of problem p, v_p the mean over them.

Notation: M methods, P problems, S numbers of evaluations, B budgets in percent of what EI's N evaluations cost.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import stats

from analysis.captions import intervals, left_out, scope, sentence
from analysis.equal_cost import EqualCost, families
from analysis.methods import EI, PROBLEM, by_method, name_in_text
from analysis.plotting import colour_of
from analysis.selection import sentence_on_sparse_methods
from analysis.statistics import LEVEL, group_means
from analysis.traces import at_step
from datasets.catalogue import entries
from datasets.errors import BadInput
from tabular_cache.card import FLAT

BUDGETS = tuple(range(5, 105, 5))
MOST_LENGTHS = 12  # numbers of evaluations that the page can show
_STEPS = 2**16 - 3  # of a packed number; one more code stands for zero, and one for none


def packed(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Return numbers >= 0 as 16 bits each, evenly spaced in the logarithm, in base64; zero and NaN stay what they are.

    low, high: the logarithms of the smallest positive one and the largest. A number comes back within a relative error
    of (high - low) / 2^17. Raises ValueError for a negative or infinite one.
    """
    if (values < 0).any() or np.isinf(values).any():
        raise ValueError("only finite numbers >= 0 can be packed")
    logs = np.log(values, where=values > 0, out=np.full(values.shape, np.nan))
    low, high = (float(np.nanmin(logs)), float(np.nanmax(logs))) if np.isfinite(logs).any() else (0.0, 0.0)
    codes = np.rint((logs - low) / ((high - low) or 1.0) * _STEPS)
    whole = np.where(np.isfinite(codes), codes, np.where(values == 0, _STEPS + 1, _STEPS + 2)).astype("<u2")
    return {"low": low, "high": high, "data": base64.b64encode(whole.tobytes()).decode()}


def lengths(n: int, design: int) -> list[int]:
    """Return the numbers of evaluations shown: from the initial design to n in about even steps, n among them."""
    step = max(1, -(-n // (MOST_LENGTHS - 2)))
    return sorted({design, *range(step, n, step), n} - set(range(design)))


def _lengths(runs: EqualCost) -> list[int]:
    return lengths(runs.n, int(runs.traces.proposed[runs.rows].argmax(axis=2).max()) or 1)


def numbers(runs: EqualCost) -> dict[str, Any]:
    """Return all that the page needs, as JSON values: methods, problems, packed numbers, and the t quantiles.

    Raises BadInput where no problem and seed has a successful evaluation of every method.
    """
    steps = _lengths(runs)
    cost, error = _after(runs, steps)
    at_budget: np.ndarray = runs.within(BUDGETS)[0] * (100 / runs.over_seeds(runs.final))[:, None, None]
    if not np.isfinite(at_budget).all(axis=2).any():
        raise BadInput("no problem and seed in which every method has a successful evaluation within EI's cost")
    problem, index = runs.cells.groupby(PROBLEM, sort=True).ngroup().to_numpy(), _problems(runs)
    kept_after, kept_within = (np.isfinite(values).all(axis=2) for values in (error, at_budget))
    datasets = index["dataset"].nunique()
    return {
        "n": runs.n, "lengths": steps, "budgets": list(BUDGETS), "judge": runs.traces.judge,
        "methods": _methods(runs), "problems": index.to_dict("records"),
        "quantiles": [float(stats.t.ppf((1 + LEVEL) / 2, df)) for df in range(1, max(datasets, 2))],
        "after": {"weight": _weights(kept_after, problem), "cost": packed(_means(cost, kept_after, problem)),
                  "error": packed(_means(error, kept_after, problem))},
        "within": {"weight": _weights(kept_within, problem),
                   "error": packed(_means(at_budget, kept_within, problem))},
    }  # fmt: skip


def _after(runs: EqualCost, steps: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return cost and error after so many evaluations in percent of EI's after all: (C, S, M) each.

    EI's are means over the problem's seeds. A run of fewer evaluations counts with its last.
    """
    cost, error, (whole, final) = [], [], (runs.over_seeds(values)[:, None] for values in (runs.whole, runs.final))
    for rows in runs.rows.T:
        every = runs.traces.runs["evaluations"].to_numpy()[rows]
        done = np.minimum(np.asarray(steps)[None, :], every[:, None])
        cost.append(100 * at_step(runs.traces.spent_s, done, rows) / whole)
        error.append(100 * at_step(runs.traces.incumbent, done, rows) / final)
    return np.stack(cost, axis=2), np.stack(error, axis=2)


def _weights(kept: Bool[np.ndarray, "C K"], problem: Int[np.ndarray, " C"]) -> list[list[int]]:
    """Return the number of seeds that count at each length or budget, of each problem: (P, K)."""
    counts = np.zeros((problem.max() + 1, kept.shape[1]), dtype=int)
    np.add.at(counts, problem, kept)
    return [[int(n) for n in row] for row in counts]


def _means(
    values: Float[np.ndarray, "C K M"], kept: Bool[np.ndarray, "C K"], problem: Int[np.ndarray, " C"]
) -> Float[np.ndarray, "M P K"]:
    """Return the means over the seeds that count, of each method, problem, and length or budget."""
    held = np.where(kept[:, :, None], values, np.nan)
    flat = group_means(held.reshape(len(held), -1), problem)
    return np.moveaxis(flat.reshape(-1, *values.shape[1:]), 2, 0)


def _problems(runs: EqualCost) -> pd.DataFrame:
    """Return the problems in the order of their numbers: dataset, pipeline, task ("other": not the study's), flat."""
    index = runs.cells[PROBLEM].drop_duplicates().sort_values(PROBLEM, ignore_index=True)
    known = entries()
    tasks = [known[name].task if name in known else "other" for name in index["dataset"]]
    return index.assign(task=tasks, flat=index["dataset"].isin(runs.flat))


def _methods(runs: EqualCost) -> list[Mapping[str, Any]]:
    """Return name, label, family, parameter (alpha or lambda; none for others) and colour of every method, EI first."""
    own = by_method(runs.traces.runs)[["alpha", "lam"]]
    family = {m: name for name, members in families(runs.methods, runs.traces.runs).items() for m in members}
    found: list[Mapping[str, Any]] = []
    for method in runs.methods:
        values = own.loc[[method]].to_numpy(dtype=float)[0]
        known = [float(value) for value in values if np.isfinite(value) and method != EI]
        label = name_in_text(method)
        found.append({"name": method, "label": label, "family": family[method], "colour": colour_of(method),
                      "parameter": known[0] if known else None})  # fmt: skip
    return found


def caption(runs: EqualCost) -> str:
    """Return what is averaged and what is left out, for the page to say under the front."""
    flat = ", ".join(runs.flat) or "none"
    return sentence(
        f"Costs and errors are in percent of EI's after {runs.n} evaluations on the same problem: "
        f"{scope(runs.cells, runs.traces.evaluator)}; EI's are its means over seeds. They are means over data sets of "
        f"the means over what is chosen of each. {intervals(runs.cells, medians=False, scheme='datasets')}",
        left_out(
            (runs.absent, "problem-seed pair", "without runs of every method"),
            (runs.zero, "pair", "in which EI's error is 0"),
            (runs.failed, "pair", "in which all of EI's evaluations failed"),
        ),
        sentence_on_sparse_methods(runs.sparse).strip(),
        f"Flat data sets, on which {FLAT:.0%} or more of random configurations have one and the same error: {flat}. "
        f"The page holds means over seeds at {len(_lengths(runs))} numbers of evaluations and {len(BUDGETS)} budgets, "
        "rounded to a ten-thousandth or so.",
    )

"""How much there is to gain on a problem, a scale that a tiny final error of EI cannot distort; flat and cut tables.

The scale of a problem runs from the best error in its table to what random search finds:

    share = (error - best) / (random - best),

0 at the best row, 1 at the median of random search after as many evaluations as the runs compared have. That median
needs no runs. Of m rows, F of them of full length, random search evaluates i of the F for its initial design and then
N - i of the m - i left, all without replacement; none of the k best rows, f_k of full length, is among them with the
probability

    C(F - f_k, i) / C(F, i) * C(m - i - k, N - i) / C(m - i, N - i).

Source: our reading (STUDY: "Rules of the verdicts").
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from analysis.evaluations import CELL, REPLAYED, Evaluations, table_of
from analysis.methods import EI, PROBLEM
from analysis.traces import Judge, Traces
from datasets.errors import BadInput
from harness.errors import number
from tabular_cache import card
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, first_configs, load_table, table_entry


def flat_datasets(traces: Traces) -> list[str]:
    """Return the data sets on which most random configurations have one and the same error: nothing tells them apart.

    Of each problem's initial designs, those of EI or else of the first method there, over all seeds: the share of the
    commonest error; a data set is flat whose problems' median share is two thirds or more.
    """
    runs = traces.runs.assign(row=np.arange(len(traces.runs)), other=traces.runs["method"] != EI)
    rows = runs.sort_values("other", kind="stable").drop_duplicates(CELL)["row"].to_numpy()
    proposed = traces.proposed[rows]
    steps = np.where(proposed.any(axis=1), proposed.argmax(axis=1), 0)
    design = np.where(np.arange(proposed.shape[1]) < steps[:, None], traces.error[rows], np.nan)
    shares = {}
    for problem, places in traces.runs.iloc[rows].reset_index(drop=True).groupby(PROBLEM, observed=True).groups.items():
        shares[problem] = card.commonest(design[places])
    return card.flat(shares)


def hardly_cut(name: str, share: str, every: Evaluations, *frames: pd.DataFrame | None) -> list[Any]:
    """Return what is about problems of whose trainings a time limit cut at most `share` short; None stays None.

    name: of the setting that gives the share; frames: with a row for each of something. How many problems are left out
    is printed. Raises BadInput for what is no share, where no problem is left, and for one without a shipped table.
    """
    try:
        value: object = float(share)
    except ValueError:
        value = share
    most = number(name, value, "a share in [0, 1]", 0, 1)
    pairs = [(str(a), str(b)) for a, b in every.runs[PROBLEM].drop_duplicates().itertuples(index=False)]
    kept = [pair for pair in pairs if card.cut_short(load_table(problem_name(*pair))) <= most]
    print(f"left out: {len(pairs) - len(kept)} of {len(pairs)} problems, more than {100 * most:g} % of whose trainings "
          "a time limit cut short")  # fmt: skip
    if not kept:
        raise BadInput(f"{name}={share} leaves no problem")

    def among(frame: pd.DataFrame) -> Any:
        return pd.MultiIndex.from_frame(frame[PROBLEM].astype(str)).isin(kept)

    return [every.select(among(every.runs)), *(f if f is None else f[among(f)] for f in frames)]


def of_random_search(
    error: Float[np.ndarray, " m"], judged: Float[np.ndarray, " m"], whole: Bool[np.ndarray, " m"], n: int, initial: int
) -> float:
    """Return the median of the `judged` value of the row of lowest `error` that random search finds in n evaluations.

    whole: the rows of full length, of which the `initial` first ones are drawn. Failed rows are NaN, and draws without
    a success do not count. Equal errors go by the order of the rows. n > m evaluates all rows.
    """
    order = np.argsort(error, kind="stable")  # NaN last
    m, own = len(order), whole[order]
    first = min(initial, n, int(own.sum()))
    before, later = np.concatenate([[0], np.cumsum(own)[:-1]]), min(n, m) - first
    left_whole, left = own.sum() - before, m - first - np.arange(m)
    spared = np.where(own, (left_whole - first) / np.maximum(left_whole, 1), 1.0)
    spared *= np.maximum(left - later, 0) / np.maximum(left, 1)
    none = np.concatenate([[1.0], np.cumprod(np.maximum(spared, 0.0))])
    found = (none[:-1] - none[1:])[np.isfinite(error[order])]  # the probability that the row is the best of the draw
    values = judged[order][: len(found)]
    by_value = np.argsort(values, kind="stable")
    share = np.cumsum(found[by_value])
    return float(values[by_value[int(np.argmax(share >= share[-1] / 2 * (1 - 1e-12)))]])


class OtherTable(BadInput):
    """The table of a problem is not the one that its records are of."""


@lru_cache(maxsize=1024)
def _ends(problem: str, data: str, n: int, initial: int, what: str, judge: Judge, folder: Path) -> tuple[float, float]:
    content, part = table_of(data)
    if table_entry(problem, folder).get("sha256") != content:
        where = "shipped table" if folder == TABLES else f"table in {folder}"
        raise OtherTable(f"the {where} of {problem} is not the one that the records are of")
    table = load_table(problem, folder)
    used = table.measured & first_configs(table, part)
    error, judged = (table[f"{by}_{what}"][used].astype(float) for by in ("val", "val" if judge == "validation" else
                                                                          "test"))  # fmt: skip
    return float(np.nanmin(judged)), of_random_search(error, judged, table.longest[used], n, initial)


def gains(traces: Traces, n: int, folder: Path = TABLES) -> pd.DataFrame:
    """Return `best` and `random` (after n evaluations) per (dataset, pipeline); errors are `traces.judge`'s.

    NaN for problems whose tables in `folder` are others than those of the records. Raises BadInput for runs that are
    not replays, or do not say of which tables, and where the tables of all problems are others.
    """
    if traces.evaluator not in REPLAYED:
        raise BadInput(f"{traces.evaluator} runs have no tables, of which what there was to gain is read")
    what = "loss" if traces.evaluator == "replay_loss" else "error"
    initial = int(np.where(traces.proposed.any(axis=1), traces.proposed.argmax(axis=1), n).min())
    found, changed = dict[tuple[str, str], tuple[float, float]](), list[OtherTable]()
    for dataset, pipeline, data in traces.runs[[*PROBLEM, "data"]].drop_duplicates().to_numpy():
        try:
            ends = _ends(problem_name(dataset, pipeline), data, n, initial, what, traces.judge, folder)
        except OtherTable as error:
            ends = np.nan, np.nan
            changed.append(error)
        found[dataset, pipeline] = ends
    if len(changed) == len(found):
        raise changed[0]
    index = pd.MultiIndex.from_tuples(list(found), names=PROBLEM)
    return pd.DataFrame(list(found.values()), index=index, columns=["best", "random"])


def scale(ends: pd.DataFrame, cells: pd.DataFrame) -> tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """Return the best error of each cell (dataset, pipeline, ...), and how far above it random search ends.

    The latter is NaN where random search ends at the best: nothing can be a share of that; both are where the table is
    another. ends: `gains`.
    """
    own = ends.reindex(pd.MultiIndex.from_frame(cells[PROBLEM]))
    room = (own["random"] - own["best"]).to_numpy()
    return own["best"].to_numpy(), np.where(room > 0, room, np.nan)

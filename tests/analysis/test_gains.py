"""What there is to gain against draws written out, flat data sets, and claims that hold by some numbers only."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from some_claims import enough, verdict_on
from synthetic_records import INITIAL, Way, frame, records

from analysis import gains
from analysis.claims.verdicts import FAILS, HOLDS, PARTLY, UNDECIDED, Condition, Finding
from analysis.methods import PROBLEM
from analysis.statistics import Estimate
from analysis.traces import Traces, collect
from datasets.errors import BadInput
from tabular_cache.table import load_table, table_entry

NAMES = ("wine", *(f"d{k}" for k in range(11)))
WAYS = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (48.0, 101.0)}


def lowest(error: np.ndarray, judged: np.ndarray, whole: np.ndarray, n: int, initial: int) -> list[tuple[float, float]]:
    """Of every draw of an initial design and of what follows: the judged value of the best row, and its probability."""
    designs, found = list(combinations(np.flatnonzero(whole), initial)), []
    for design in designs:
        left = [row for row in range(len(error)) if row not in design]
        later = list(combinations(left, min(n, len(error)) - initial))
        for rows in later:
            drawn = [*design, *rows]
            if np.isfinite(error[drawn]).any():
                found.append((judged[drawn][np.nanargmin(error[drawn])], 1 / len(designs) / len(later)))
    return sorted(found)


@pytest.mark.parametrize("failed", [[], [1, 4]])
def test_the_median_of_random_search_by_all_draws(failed: list[int]) -> None:
    error = np.array([0.5, 0.1, 0.45, 0.4, 0.9, 0.3, 0.8])
    error[failed] = np.nan
    judged = np.random.default_rng(0).uniform(size=7)
    for mask, initial, n in ((0b1111111, 1, 3), (0b0111010, 2, 4), (0b1001101, 2, 2), (0b0111010, 1, 6)):
        whole = np.array([mask >> k & 1 == 1 for k in range(7)])
        for values in (error, judged):
            draws = lowest(error, values, whole, n, initial)
            share = np.cumsum([p for _, p in draws])
            expected = draws[int(np.argmax(share >= share[-1] / 2 - 1e-12))][0]
            assert gains.of_random_search(error, values, whole, n, initial) == expected
    assert gains.of_random_search(error, error, whole, 99, 2) == np.nanmin(error)


def test_shares_by_hand() -> None:
    cells = pd.DataFrame({"dataset": ["a", "b", "a"], "pipeline": "p", "seed": [0, 0, 1]})
    index = pd.MultiIndex.from_tuples([("b", "p"), ("a", "p")], names=PROBLEM)
    zero, unit = gains.scale(pd.DataFrame({"best": [0.2, 0.1], "random": [0.2, 0.3]}, index=index), cells)
    np.testing.assert_allclose((np.array([0.2, 0.5, 0.4]) - zero) / unit, [0.5, np.nan, 1.5])


def tabled(**settings: Any) -> Traces:
    rows = frame([("wind", "clean")], [Way("ei")], (0, 1), 20)
    return collect(rows.assign(data=table_entry("wind/clean")["sha256"], engine="1"), **settings)


def test_what_there_was_to_gain_comes_of_the_tables() -> None:
    found, table = gains.gains(tabled(), 20).loc[("wind", "clean")], load_table("wind/clean")
    errors, rng, best = table["val_error"][table.measured], np.random.default_rng(0), []
    whole = np.flatnonzero(table.longest[table.measured])
    for _ in range(400):
        design = rng.choice(whole, INITIAL, replace=False)
        later = rng.choice(np.delete(np.arange(len(errors)), design), 20 - INITIAL, replace=False)
        best.append(np.nanmin(errors[[*design, *later]]))
    low, high = np.quantile(best, [0.42, 0.58])  # 0.5 give or take three standard errors
    assert found["best"] == np.nanmin(errors) and low <= found["random"] <= high
    rows = frame([("wind", "clean"), ("wine", "clean")], [Way("ei")], (0,), 20)
    names = {"wind": table_entry("wind/clean")["sha256"], "wine": "of an earlier table"}
    some = gains.gains(collect(rows.assign(data=rows["dataset"].map(names), engine="1")), 20)
    assert some.loc[("wind", "clean"), "best"] == found["best"] and some.loc[("wine", "clean")].isna().all()
    tested = gains.gains(tabled(judge="test"), 20).loc[("wind", "clean"), "best"]
    assert tested == np.nanmin(table["test_error"][table.measured])


def varied(flat: str) -> pd.DataFrame:
    """Records of twelve data sets whose initial designs differ in their errors, on one of them in one only."""
    rows = records(WAYS, NAMES, 100)
    spread = (rows["step"] < 5) & ((rows["dataset"] != flat) | (rows["step"] == 0))
    return rows.assign(error=rows["error"] + np.where(spread, 0.01 * rows["step"] + 0.01, 0.0))


def test_a_data_set_is_flat_by_its_random_configurations() -> None:
    assert gains.flat_datasets(collect(varied("wine"))) == ["wine"]
    assert gains.flat_datasets(collect(records(WAYS, NAMES, 100))) == sorted(NAMES)


def test_a_claim_says_by_which_numbers_it_holds() -> None:
    """Nothing is lost but on wine, which is flat, and there so much that the mean is beyond the limit."""
    rows = varied("wine")
    lost = (rows["dataset"] == "wine") & (rows["acq"] == "eialpha") & (rows["step"] >= 50)
    rows.loc[lost, "error"] = 0.5
    with enough(11, 1):
        one = verdict_on(1, rows)
        assert (one.verdict, one.where) == (PARTLY, "medians; means without flat data sets")
        assert "means: undecided, interval across the limit: error added at alpha = 0.1 (known to within" in one.why
        assert "below -8.91 and above 27.41 % is excluded)" in one.why
        assert "not looked at: means of errors as a share" in one.why
        assert verdict_on(1, varied("wine")).verdict == HOLDS
        assert verdict_on(1, rows.assign(cost_s=1.0)).verdict == FAILS
    assert "10 seeds on 0 data sets only: a verdict needs them on 12" in verdict_on(1, rows).why


def test_the_share_of_what_there_was_to_gain_decides_beside_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 % more error of 0.1 is 1 point of a room of 0.1, but 50 points of one of 0.002."""
    rows = varied("wine").assign(data="x")
    for room, word in ((0.1, HOLDS), (0.002, PARTLY)):
        ends = pd.DataFrame({"best": 0.05, "random": 0.05 + room}, index=pd.MultiIndex.from_product([NAMES, ["clean"]]))
        monkeypatch.setattr("analysis.claims.evidence.gains", lambda traces, n, ends=ends: ends.rename_axis(PROBLEM))
        with enough(11, 1):
            one = verdict_on(1, rows)
        assert one.verdict == word and f"error added at alpha = 0.1: {0.1 / room:.2f} points" in one.ours
    with pytest.raises(BadInput, match="the shipped table of wine/clean is not the one that the records are of"):
        gains.gains(collect(rows[rows["dataset"] == "wine"]), 100)


def test_a_verdict_needs_ten_seeds_on_twelve_data_sets() -> None:
    once = records(WAYS, NAMES, 100)
    seeds = pd.concat([once.assign(seed=seed) for seed in range(10)], ignore_index=True)
    assert verdict_on(1, seeds).verdict == HOLDS
    fewer = verdict_on(1, seeds[(seeds["seed"] < 9) | (seeds["dataset"] != "d3")])
    assert fewer.verdict == UNDECIDED and "10 seeds on 11 data sets only: a verdict needs them on 12" in fewer.why


def test_one_of_twelve_conditions_that_is_outside_by_chance_does_not_fail_a_claim() -> None:
    """Conditions that are true, each on its limit: without a correction a third of such claims would fail."""
    rng, half, failed, alone = np.random.default_rng(0), 2.2, 0, 0  # t of 11 degrees of freedom
    for means in rng.standard_t(11, size=(150, 12)):
        estimates = [Estimate(m, m - half, m + half, 11) for m in means.tolist()]
        words = Finding([Condition("x", estimate, at_least=0.0) for estimate in estimates], "").words
        failed += FAILS in words
        alone += bool((means + half < 0).any())
    assert failed / 150 < 0.06 and alone / 150 > 0.2
    sure = [Condition("x", Estimate(1.0, 0.5, 1.5, 11), at_least=0.0)] * 12
    assert Finding(sure, "").word() == HOLDS
    bad = Condition("y", Estimate(-1.0, -1.4, -0.6, 11), at_least=0.0)
    assert Finding([*sure[:11], bad], "").word() == FAILS
    close = Condition("z", Estimate(-1.0, -1.95, -0.05, 11), at_least=0.0)
    found = Finding([*sure[:11], close], "")
    assert found.word() == UNDECIDED and "outside, but not beyond Holm's correction for 12 conditions: z" in found.why()

"""What there is to gain against draws written out, flat data sets, and claims that hold by some numbers only."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from some_claims import enough, verdict_on
from synthetic_records import Way
from test_claims import records

from analysis import gains
from analysis.claims.verdicts import FAILS, HOLDS, PARTLY, UNDECIDED, Condition, Finding
from analysis.statistics import Estimate
from analysis.traces import CELL, collect
from datasets.errors import BadInput

NAMES = ("wine", *(f"d{k}" for k in range(11)))
WAYS = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (48.0, 101.0)}


def test_the_median_of_random_search_by_all_draws() -> None:
    error = np.array([0.5, 0.1, 0.4, 0.4, 0.9, 0.3, 0.8])
    for n in (1, 2, 3, 6):
        lowest = sorted(min(drawn) for drawn in combinations(error, n))
        assert gains.of_random_search(error, n) == lowest[(len(lowest) - 1) // 2]
    assert gains.of_random_search(error, 99) == 0.1


def test_shares_by_hand() -> None:
    index = pd.MultiIndex.from_tuples([("a", "p", 0), ("b", "p", 0)], names=CELL)
    ends = pd.DataFrame({"best": [0.1, 0.2], "random": [0.3, 0.2]}, index=index.droplevel("seed"))
    found = gains.shares(pd.DataFrame({"x": [0.2, 0.5], "y": [0.4, 0.2]}, index=index), ends)
    assert found.index.tolist() == [("a", "p", 0)] and found.to_numpy()[0] == pytest.approx([0.5, 1.5])


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
        monkeypatch.setattr("analysis.claims.verdicts.gains", lambda frame, n, ends=ends: ends.rename_axis(CELL[:2]))
        with enough(11, 1):
            one = verdict_on(1, rows)
        assert one.verdict == word and f"error added at alpha = 0.1 {0.1 / room:.2f} points" in one.ours
    with pytest.raises(BadInput, match="of replayed tables only"):
        gains.gains(rows.drop(columns="data"), 100)


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
        words = Finding([Condition("x", estimate, at_least=0.0) for estimate in estimates], "").words()
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

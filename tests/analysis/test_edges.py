"""Records that are legal and scanty: short runs, a method that never succeeds, EI under one cost model only."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from some_claims import enough, under, verdict_on
from synthetic_records import DATASETS, Way, frame, on_disk

from analysis import anytime
from analysis.__main__ import main
from analysis.claims.evidence import SHARE
from analysis.claims.verdicts import FAILS, HOLDS, UNDECIDED, Condition, Finding
from analysis.figures.f3_f5 import _beside
from analysis.statistics import Estimate
from analysis.traces import collect
from analysis.tradeoffs import tenths
from datasets.errors import BadInput

WAYS = [Way("ei"), *(Way("eialpha", alpha=a) for a in (0.2, 0.5)), *(Way("cei", lam=v) for v in (0.1, 0.5))]
PROBLEMS = [(d, "clean") for d in ("wind", "wine", "abalone")]

pytestmark = pytest.mark.usefixtures("undrawn")


def test_what_noise_adds_to_decides_against_nothing() -> None:
    share = Estimate(0.5, 0.4, 0.6)
    assert Condition("x", share, at_most=0.2).word == FAILS
    noisy = Condition("x", share, at_most=0.2, noise_adds=True)
    assert noisy.word == UNDECIDED and Finding([noisy], "").word() == UNDECIDED
    assert Condition("x", Estimate(0.1, 0.05, 0.15), at_most=0.2, noise_adds=True).word == HOLDS


def test_what_only_the_correction_leaves_undecided_is_not_called_outside() -> None:
    good = Condition("g", Estimate(2, 1, 3), at_least=0.0)
    slightly = [Condition(w, Estimate(-1, -2, -0.01), at_least=0.0) for w in "ab"]  # p just below 0.05, each
    found = Finding([good], "", any_of=[[slightly[0], good], [slightly[1], good]])
    assert found.word() == UNDECIDED
    assert found.why().startswith("outside, but not beyond Holm's correction for 2 conditions: a (known")
    open_ = Condition("o", Estimate(0, -1, 1), at_least=0.0)
    assert "outside: a; interval across" in Finding([good], "", any_of=[[slightly[0]], [open_]]).why()


@pytest.mark.parametrize("steps", [5, 6, 8])
def test_errors_at_equal_cost_of_very_short_runs(steps: int, tmp_path: Path) -> None:
    assert tenths(6) == [1, 2, 3, 4, 5] and tenths(100) == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    found = anytime(frame(PROBLEMS, WAYS, [0, 1], steps))
    assert not found.duplicated(["family", "method", "measure", "statistic", "cost_pct"]).any()
    on_disk(tmp_path / "results", PROBLEMS, WAYS, [0, 1], steps)
    assert main(["anytime", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path}"]) == 0


def test_the_trade_off_of_short_runs_with_a_short_design() -> None:
    rows = frame(PROBLEMS, WAYS, [0, 1], 8)
    rows = rows[rows["step"] >= 3].assign(step=lambda part: part["step"] - 3)  # two of the initial design, three chosen
    stopped = _beside(collect(rows), 5).query("acq == 'ei-n'")
    assert not stopped.duplicated(["dataset", "pipeline", "seed", "method"]).any()
    assert set(stopped["evaluations"]) == {3, 4}


def test_a_method_that_never_succeeds_leaves_no_error_at_equal_cost() -> None:
    rows = frame(PROBLEMS, WAYS, [0, 1], 12)
    rows.loc[(rows["acq"] == "cei") & (rows["lam"] == 0.5), ["error", "test_error"]] = np.nan
    with pytest.raises(BadInput, match="no problem and seed in which every method has a successful evaluation"):
        anytime(rows)
    rows.loc[rows["acq"] == "ei", "error"] = np.nan
    with pytest.raises(BadInput, match=r"\(0 lack some\), in which EI has a successful evaluation \(6 have none\)"):
        anytime(rows)


def test_claim_7_without_ei_stopped_early_or_where_a_rival_ran_elsewhere() -> None:
    with enough(3, 1):
        short = verdict_on(7, frame(PROBLEMS, WAYS, [0, 1], 7))
        assert "hypervolumes " in short.ours and "EI stopped early" not in short.ours
        rows = frame(PROBLEMS, WAYS, [0, 1], 20)
        elsewhere = frame([("spam", "clean"), ("bach", "clean")], [Way("ei"), Way("random")], [0, 1], 20)
        one, two = (verdict_on(7, part) for part in (rows, pd.concat([rows, elsewhere])))
    assert two.ours == one.ours and "EI stopped early" in one.ours


def test_claim_11_takes_ei_from_whichever_cost_model_it_ran_under(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the share of what there was to gain (0.2, twice EI's error), after as many iterations as both have."""
    asked = list[int]()

    def gains(traces: object, n: int) -> pd.DataFrame:
        asked.append(n)
        index = pd.MultiIndex.from_tuples([(d, "clean") for d in DATASETS], names=["dataset", "pipeline"])
        return pd.DataFrame({"best": 0.0, "random": 0.2}, index=index)

    monkeypatch.setattr("analysis.claims.cost_models.gains", gains)
    parts = [under("lv3", 101.0), under("gp", 110.0, steps=80)]
    without = pd.concat([parts[0][parts[0]["acq"] != "ei"], parts[1]])
    with enough(5, 1):
        both, under_gp = (verdict_on(11, rows) for rows in (pd.concat(parts), without))
    assert both.ours == under_gp.ours and set(asked) == {80}
    share = next(line for line in both.ours.splitlines() if line.startswith(SHARE))
    assert "error added, LV-3 minus GP: -4.50 points" in share, "half of -9 points of EI's error"

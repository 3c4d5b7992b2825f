"""Verdicts under several settings, compared on what they have in common."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from some_claims import enough, verdict_on
from synthetic_records import DATASETS, Way, frame, on_disk, records

from analysis.__main__ import main
from analysis.claims.verdicts import Condition, Finding
from analysis.report import sections
from analysis.sensitivities import CHANGES, CLAIMS_COMPARED, TEST, _in_shared, compare_settings, from_other_data, read
from analysis.statistics import Estimate
from datasets.errors import BadInput
from harness.records import read_traces

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module", autouse=True)
def few_suffice() -> Iterator[None]:
    with enough(5, 1):
        yield


SAVES = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (48.0, 101.0)}
WASTES = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (90.0, 101.0)}


def test_only_what_both_have_is_compared() -> None:
    """The base has two more data sets, a setting one more method; both are left out."""
    base = pd.concat([records(SAVES, steps=100), records(WASTES, ("wind2", "wine2"), 100)])
    found = compare_settings("hist", base, records({**SAVES, Way("eipu"): (1.0, 1.0)}, steps=100))
    assert sorted(found.cells["dataset"]) == sorted(DATASETS) and found.methods == 2
    assert found.changed == [] and "[52.0, 52.0]" in found.base[0].ours
    with pytest.raises(BadInput, match="setting hist: no problem, seed, method and length of runs in common"):
        compare_settings("hist", base, frame([("letters", "onehot")], [Way("ei")], [0], 6))


@pytest.mark.slow
def test_claim_8_is_compared_at_the_lowest_budget_alone() -> None:
    """At 50 % of EIpu's cost only a frugal CEI has improved. Runs of 100 iterations do not decide larger budgets."""
    frugal = {Way("ei"): (100.0, 100.0), Way("eipu"): (20.0, 120.0), Way("cei", lam=0.3): (15.0, 90.0)}
    better = records(frugal, steps=100)
    whole = verdict_on(8, better)
    assert whole.verdict == "undecided" and "planned too short" in whole.why
    found = compare_settings("mine", better, records({**frugal, Way("cei", lam=0.3): (300.0, 90.0)}, steps=100))
    base, own = (next(v for v in verdicts if v.number == 8) for verdicts in (found.base, found.own))
    assert (base.verdict, base.why, own.verdict) == ("holds", "every condition holds", "undecided")
    assert base.ours.count("rank of CEI minus") == base.ours.count("at 50%") == 2
    assert 8 in found.changed
    (lacking,) = [v for v in compare_settings("mine", *[records(SAVES, steps=100)] * 2).own if v.number == 8]
    assert lacking.verdict == "undecided" and "needs ei, eipu and cei" in lacking.why


@pytest.mark.slow
def test_another_table_is_a_setting_of_its_own_and_no_part_of_another() -> None:
    base, own = (records(SAVES, steps=100).assign(data=data) for data in ("old", "new"))
    for setting in ("ard_off", "coarse", "exact"):
        with pytest.raises(BadInput, match=f": base and {setting} were replayed from different tables"):
            compare_settings(setting, base, own)
    assert compare_settings("hist", base, own).changed == compare_settings("mine", base, own).changed == []
    assert compare_settings("exact", base, base.assign(data="old-first-64")).changed == []
    assert compare_settings("surface", base, own.assign(evaluator="surface")).changed == []


def test_a_setting_that_shares_nothing_is_left_out_with_its_reason(tmp_path: Path) -> None:
    for name, problems in (("base", ["wind"]), ("cpu", ["wind"]), ("log_loss", ["wind"]), ("wall", ["wine"])):
        on_disk(tmp_path / name, [(d, "clean") for d in problems], list(SAVES), [0], 6)
    assert main(["sensitivities", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'o'}"]) == 0
    text = (tmp_path / "o" / "sensitivities.md").read_text()
    assert "`cpu`" in text and "setting log_loss: of classification only, and all runs shared are of regression" in text
    assert "setting wall: no problem, seed, method and length of runs in common with the cpu" in text


def test_log_loss_is_compared_on_classification_problems_only() -> None:
    """Of the five data sets, wind, wine and abalone are regression problems, whose loss is their error."""
    every = records(SAVES, steps=100)
    assert {*compare_settings("log_loss", every, every).cells["dataset"]} == {"spam", "letters"}
    assert {*compare_settings("wall", every, every).cells["dataset"]} == set(DATASETS)
    with pytest.raises(BadInput, match="setting log_loss: of classification only"):
        compare_settings("log_loss", *[records(SAVES, ("wind",), 100)] * 2)


def test_numbers_move_by_the_paired_difference() -> None:
    """EI^0.1 saves 52 % under the base; under the setting 10 to 30, so that the change has an interval."""
    alpha = Way("eialpha", alpha=0.1)
    parts = [
        records({Way("ei"): (100.0, 100.0), alpha: (90.0 - 4 * k, 101.0 + k)}, (name,))
        for k, name in enumerate(DATASETS)
    ]
    moved = compare_settings("mine", records(SAVES), pd.concat(parts, ignore_index=True)).shifts.set_index("number")
    assert list(moved.index) == ["alpha = 0.1: time saved, %", "error added, %"], "no EIpu, no families"
    for name, before, after in zip(
        moved.index,
        (52.0, 1.0),
        ([10.0 + 4 * k for k in range(len(DATASETS))], [1.0 + k for k in range(len(DATASETS))]),
        strict=True,
    ):
        row, change = moved.loc[name], np.array(after) - before
        half = stats.t.ppf(0.975, len(change) - 1) * change.std(ddof=1) / np.sqrt(len(change))
        assert (row["against"], row["own"]) == pytest.approx((before, np.mean(after)), rel=1e-3)
        assert (row["change"], row["low"], row["high"]) == pytest.approx(
            (change.mean(), change.mean() - half, change.mean() + half), rel=1e-3
        )


def test_a_method_beside_itself_under_a_setting() -> None:
    """Costs and errors after the first step under a setting: against a loop over the pairs of runs."""
    seeds, problems = (0, 1, 2), [("wind", "clean"), ("spam", "clean"), ("letters", "clean")]
    base = frame(problems, [Way("ei"), Way("cei", lam=0.3)], list(seeds), 12)
    rng, later = np.random.default_rng(0), base["step"] > 0
    own = base.assign(
        error=base["error"].where(~later, base["error"] * rng.uniform(0.8, 1.1, len(base))),
        cost_s=base["cost_s"].where(~later, base["cost_s"] * rng.uniform(0.5, 1.8, len(base))),
    )
    rows = compare_settings("mine", base, own).itself.set_index(["task", "method", "measure"])
    key = ["dataset", "method", "seed"]
    runs = [{name: (run["cost_s"].cumsum().array, run["error"].cummin().array) for name, run in one.groupby(key)}
            for one in (base, own)]  # fmt: skip
    for method in ("ei", "cei(lam=0.3)"):
        changes = {measure: [] for measure in CHANGES}
        for dataset, _ in problems:
            sums = {measure: np.zeros(2) for measure in CHANGES}
            for seed in seeds:
                pair = [one[dataset, method, seed] for one in runs]
                least = min(spent[-1] for spent, _ in pair)
                for k, (spent, best) in enumerate(pair):
                    sums["error"][k] += best[-1]
                    sums["cost"][k] += spent[-1]
                    sums["error at equal cost"][k] += best[np.flatnonzero(spent <= least)[-1]]
            for measure, (without, under) in sums.items():
                changes[measure].append(100 * (under / without - 1))
        for measure, values in changes.items():
            row, half = rows.loc["all", method, measure], stats.sem(values) * stats.t.ppf(0.975, 2)
            wanted = [np.mean(values), np.mean(values) - half, np.mean(values) + half, 9]
            assert row[["change", "low", "high", "n"]].tolist() == pytest.approx(wanted)
            assert rows.loc["classification", method, measure]["change"] == pytest.approx(np.mean(values[1:]))
            assert rows.loc["regression", method, measure]["change"] == pytest.approx(values[0])


@pytest.mark.parametrize("column", ["cost_s", "error"])
def test_a_method_is_not_beside_itself_where_quantities_differ(column: str) -> None:
    base = frame([("wind", "clean"), ("spam", "clean")], [Way("ei")], [0], 12)
    other = compare_settings("mine", base, base.assign(**{column: base[column] * 1.01}))
    assert other.itself.empty and len(compare_settings("mine", base, base).itself) == 9
    assert compare_settings(TEST, base, base, "test").itself.empty, "the test error is another quantity"


def test_settings_stand_beside_the_one_that_differs_in_one_thing(tmp_path: Path) -> None:
    """Wall-clock beside measured CPU seconds, hist beside exact with as many configurations; else beside the base."""
    problems, ways = [("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eialpha", alpha=0.1)]
    for name, held in (("base", 2), ("wall", 2), ("cpu", 1), ("hist", 2)):
        on_disk(tmp_path / name, problems[:held], ways, (0,), 12)
    found = {one.setting: one for one in read(tmp_path)[0]}
    assert list(found) == [TEST, "cpu", "wall", "hist"]
    assert [one.against for one in found.values()] == ["base", "base", "cpu", "base"]
    assert len(found["wall"].cells) == 1 and len(found["hist"].cells) == 2
    assert found["wall"].title == "wall-clock seconds as measured, for CPU seconds as measured (`cpu`)"
    assert found["hist"].title.endswith("with other numbers of configurations, which may be the cause")
    beside = replace(found["hist"], against="exact").title
    assert beside == "tree_method=hist, for exact with as many configurations of each problem (`exact`)"


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [("wind", "clean"), ("wine", "clean")]
    for name in ("base", "wall", "mine"):
        on_disk(tmp_path / "all" / name, problems, [Way("ei"), Way("eialpha", alpha=0.1)], (0, 1), 12)
    assert main(["sensitivities", f"results_dir={tmp_path / 'all'}", f"out_dir={tmp_path / 'o'}"]) == 0
    text = (tmp_path / "o" / "sensitivities.md").read_text()
    assert (
        "| `wall`: wall-clock seconds as measured, for CPU seconds at the pace of the reference machine | 2 x 2 |"
        in text
    )
    assert "| claim 7 | claim 8 at 50% |" in text and "Of claim 8 only the ranks at 50% of the minimal budget" in text
    first, last = (
        str(CLAIMS_COMPARED[0]),
        ", ".join(map(str, CLAIMS_COMPARED[1:])),
    )  # nothing was decided, of one alpha little estimated
    assert f"says nothing of a change: test ({first}); wall ({first}); mine ({first})." in text
    assert f"Not estimated under either: test ({last}); wall ({last}); mine ({last})." in text
    assert "| undecided | not estimated | not estimated | not estimated | not estimated |" in text
    assert (
        "Not among those compared: claims 4 to 6, which need longer runs, and 9 to 12" in text
        and "`mine`: as its records say" in text
    )
    assert "How far do the numbers move?" in text and "| `wall` | " in text
    assert "What does a setting do to a method itself?" in text
    assert "| `mine` | EI^0.1 | 0.00 [0.00, 0.00] | 0.0 [0.0, 0.0] | 0.00 [0.00, 0.00] |" in text
    assert set(pd.read_csv(tmp_path / "o" / "sensitivities_methods.csv")["setting"]) == {"wall", "mine"}
    shifts = pd.read_csv(tmp_path / "o" / "sensitivities_shifts.csv")
    assert set(shifts["setting"]) == {"test", "wall", "mine"} and shifts["change"].abs().max() < 1e-12
    rows = pd.read_csv(tmp_path / "o" / "sensitivities.csv")
    assert len(rows) == 3 * 2 * 5 and set(rows["compared"]) == {"test", "wall", "mine"}
    same = read_traces(tmp_path / "all" / "base")
    assert from_other_data(tmp_path / "o", same) == ""
    part = same.assign(data=same["data"].astype(str) + "-first-4")
    assert from_other_data(tmp_path / "o", part) == "", "a part of a table is of that table"
    newer = same.assign(data=same["data"].astype(str).where(same["dataset"] != "wine", "another table"))
    assert "other tables than the rest of this page on 1 problem." in from_other_data(tmp_path / "o", newer)
    live = newer.assign(evaluator="live")
    assert from_other_data(tmp_path / "o", pd.concat([same, live])) == "", "a live run's data are not those of a table"
    (page,) = sections.sensitivities(tmp_path / "o", newer)
    assert page.text[0].startswith("**Made earlier, from other tables") and len(page.text) == 2
    (tmp_path / "o" / "sensitivities_data.csv").unlink()
    assert "not known which tables" in from_other_data(tmp_path / "o", same)
    (tmp_path / "all" / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="needs a folder 'base' of records to compare with; folders there: mine, wall"):
        read(tmp_path / "all")


def test_a_view_that_one_side_lacks_changes_no_verdict() -> None:
    own = Condition("time saved", Estimate(50.0, 49.0, 51.0), at_least=60.0)
    held = Condition("time saved", Estimate(50.0, 49.0, 51.0), at_least=40.0)
    base = Finding([held], "all", view="means", views=[Finding([own], "all", view="shares")])
    assert base.word() == "holds only where"
    shared = _in_shared(base, {"means"})
    assert shared.word() == "holds" and "shares (not to be had under both)" in shared.why()
    assert _in_shared(base, {"means", "shares"}).word() == base.word()

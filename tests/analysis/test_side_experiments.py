"""Records of a study and of something beside it: what one asks of a few problems must not hide the rest."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from some_claims import verdicts_on
from synthetic_records import EVERY, Way, frame, on_disk

from analysis.__main__ import main
from analysis.claims import evaluate
from analysis.claims.verdicts import FAILS, HOLDS, UNDECIDED, Condition, Finding
from analysis.cost_models import compare_cost_models
from analysis.figures import f3_f5
from analysis.figures.critical_difference import ahead, critical, pairwise
from analysis.hypervolumes import families_of
from analysis.report import sections
from analysis.selection import horizon, sparse_methods
from analysis.sensitivities import compare_settings
from analysis.statistics import Estimate
from analysis.traces import collect
from datasets.errors import BadInput

pytestmark = pytest.mark.usefixtures("undrawn")

PROBLEMS = [(d, "clean") for d in ("wind", "wine", "abalone", "spam", "letters")]
SIDE = Way("eialpha", alpha=0.25)


def test_a_method_on_one_problem_changes_no_verdict() -> None:
    study = frame(PROBLEMS, EVERY, [0, 1])
    beside = pd.concat([study, frame(PROBLEMS[:1], [SIDE], [0])], ignore_index=True)
    before, after = evaluate(study), evaluate(beside)
    for one, other in zip(before, after, strict=True):
        assert (one.verdict, one.ours) == (other.verdict, other.ours), one.number
    assert "not compared, for want of runs on half of EI's problem-seed pairs: EI^0.25" in after[6].taken_over
    assert SIDE.method not in families_of(collect(beside).runs)["alpha"]


def test_a_cost_model_on_one_problem_leaves_the_others_comparable() -> None:
    ways = [Way("ei"), Way("eialpha", alpha=0.3), Way("eipu")]
    both = [frame(PROBLEMS, ways, [0, 1]), frame(PROBLEMS, ways, [0, 1]).assign(cost_model="gp", spec="gp")]
    short = frame(PROBLEMS[:1], ways, [0], 20).assign(cost_model="oracle", spec="oracle")
    found = compare_cost_models(pd.concat([*both, short], ignore_index=True))
    assert list(found.pairs) == ["lv3", "gp"] and found.few == ["oracle"] and found.n == 100 and found.dropped == 0


def test_contextual_runs_elsewhere_than_ei_are_refused_in_one_line(tmp_path: Path) -> None:
    apart = [frame([("abalone", "clean")], [Way("ei")], [0]), frame([("wind", "clean")], [Way("cei", lam=0.1)], [0])]
    with pytest.raises(BadInput, match=r"F5: no run of cei can be compared with EI's on the same problem and seed"):
        f3_f5.f5(collect(pd.concat(apart, ignore_index=True)), tmp_path)


def test_one_longer_run_of_another_method_leaves_the_length_of_eis() -> None:
    demo = frame(PROBLEMS, [Way("ei"), Way("eipu")], [0], 30)
    longer = frame(PROBLEMS[:1], [Way("cei", lam=0.1)], [0], 60)
    assert horizon(collect(pd.concat([demo, longer], ignore_index=True))) == 30


def test_one_longer_run_of_ei_does_not_hide_a_shorter_study() -> None:
    demo = frame(PROBLEMS, [Way("ei"), Way("eipu")], [0], 30)
    longer = frame(PROBLEMS, [Way("ei")], [0], 60)
    some = longer[longer["dataset"].isin(sorted({d for d, _ in PROBLEMS})[:1])]
    assert horizon(collect(pd.concat([demo, some], ignore_index=True))) == 30
    assert horizon(collect(pd.concat([demo, longer], ignore_index=True))) == 60, "half of EI's pairs reach it"


def test_runs_of_ei_cool_of_another_length_are_counted(tmp_path: Path) -> None:
    cool = [frame(PROBLEMS[:2], [Way("eicool")], [0]), frame(PROBLEMS[2:], [Way("eicool")], [0], 60)]
    runs = collect(pd.concat([frame(PROBLEMS, [Way("ei"), Way("eipu")], [0]), *cool], ignore_index=True))
    assert (
        "Left out: 3 runs of fewer than 100 iterations or planned for another length"
        in f3_f5.f3(runs, tmp_path).caption
    )


def test_methods_on_fewer_pairs_than_others_are_named(tmp_path: Path) -> None:
    parts = [frame(PROBLEMS, [Way("ei"), Way("eipu")], [0]), frame(PROBLEMS[:2], [Way("eialpha", alpha=0.1)], [0])]
    caption = " ".join(f3_f5.f3(collect(pd.concat(parts, ignore_index=True)), tmp_path).caption.split())
    assert f"On fewer than all {len(PROBLEMS)} pairs, and not quite comparable: EI^0.1 (2)." in caption
    assert "not quite comparable" not in f3_f5.f3(collect(parts[0]), tmp_path).caption


def test_alternatives_that_were_not_looked_at_do_not_fail() -> None:
    good, bad = (Condition(w, Estimate(v, v - 1, v + 1), at_least=0.0) for w, v in (("g", 2), ("b", -2)))
    open_ = Finding([good], "", any_of=[[bad]], unseen=["c"])
    assert open_.word() == UNDECIDED and open_.why() == "outside: b; not looked at: c"
    assert open_.deciding() == "b: -2.0 [-3.0, -1.0]; 1 of 2 conditions hold"
    assert Finding([good], "", any_of=[[bad], [good]], unseen=["c"]).word() == HOLDS
    assert Finding([bad], "", any_of=[[bad]], unseen=["c"]).word() == FAILS
    assert Finding([good], "", any_of=[[bad], [good]]).why() == "every condition holds", (
        "a failing alternative is no flaw"
    )


def test_claims_about_ei_are_not_decided_by_another_utility() -> None:
    kg = frame(PROBLEMS, EVERY, [0, 1]).assign(utility="kg")
    both = pd.concat([kg, kg.assign(cost_model="gp", spec="under gp")], ignore_index=True)
    first, eleventh = verdicts_on([1, 11], both).values()
    for verdict in (first, eleventh):
        assert verdict.verdict == UNDECIDED and "runs of utility=kg, and the claim is about utility=ei" in verdict.why
    assert first.ours.startswith("means: time saved"), "the numbers stand there all the same"
    assert eleventh.number == 11 and eleventh.ours.startswith("means: error added")


def test_pairs_of_methods_are_tested_without_the_others() -> None:
    rng = np.random.default_rng(0)
    cells = pd.MultiIndex.from_product([range(9), range(20)], names=["dataset", "seed"])
    error = pd.DataFrame(rng.normal([0.0, 0.4, 0.1, 0.2], size=(len(cells), 4)), index=cells, columns=list("abcd"))
    few, rank = error[["a", "b"]].rank(axis=1), error.rank(axis=1)
    difference = ahead(rank)("a", "b")
    by_hand = [
        np.mean([np.sign(a - b) for a, b in rows[["a", "b"]].to_numpy()]) for _, rows in error.groupby("dataset")
    ]
    np.testing.assert_allclose(difference, by_hand)
    np.testing.assert_array_equal(difference, ahead(few)("a", "b"))
    means = rank.groupby(level="dataset").mean()
    assert critical(means, ahead(rank)).ranks.equals(critical(means).ranks), "places on the axis stay"
    alone = critical(means[["a", "b"]], ahead(few)).p.loc["a", "b"]
    assert pairwise(means[["a", "b"]], ahead(rank)).loc["a", "b"] == alone != pairwise(means[["a", "b"]]).loc["a", "b"]
    assert not critical(means, ahead(rank)).p.equals(critical(means).p)


def test_ei_far_ahead_of_the_others_is_compared_on_what_they_have() -> None:
    runs = [frame(PROBLEMS, [Way("ei")], range(9), 20), frame(PROBLEMS, EVERY[1:9], [0, 1, 2, 3], 20)]
    assert sparse_methods(collect(pd.concat(runs, ignore_index=True)).runs) == []
    assert sparse_methods(collect(runs[0]).runs) == []


def test_settings_are_compared_on_runs_of_one_length() -> None:
    ways = [Way("ei"), Way("eialpha", alpha=0.1)]
    base = pd.concat([frame(PROBLEMS, ways, [0], 100), frame(PROBLEMS, ways, [0], 60)], ignore_index=True)
    found = compare_settings("ard_off", base, frame(PROBLEMS, ways, [0], 60))
    assert all("these have 60" in one.why for one in found.base if one.number == 1) and not found.changed
    with pytest.raises(BadInput, match="no problem, seed, method and length of runs in common with the base"):
        compare_settings("ard_off", frame(PROBLEMS, ways, [0], 100), frame(PROBLEMS, ways, [0], 60))


def test_f9_is_drawn_without_records_of_cost_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("lv3", "gp"):
        on_disk(tmp_path / "results", PROBLEMS[:1], [Way("ei"), Way("eipu")], [0], 20, cost_model=model)
    assert main(["costs", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]) == 3
    told = capsys.readouterr()
    assert "f9.png" in told.out and told.err.count("no records of cost models") == 3


def test_a_report_is_made_though_the_tables_are_gone(tmp_path: Path) -> None:
    evaluator = {"_target_": "tabular_cache.replay.Replay", "tables": str(tmp_path / "moved")}
    settings = {"components": Counter([json.dumps({"evaluator": evaluator})])}
    page = sections.problems(settings, collect(frame(PROBLEMS[:1], [Way("ei")], [0], 20)), tmp_path / "out")[0]
    assert "the tables cannot be read now" in page.text[0] and "wind" in page.text[1]

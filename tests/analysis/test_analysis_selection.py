"""Traces as arrays, canonical methods, and which runs an analysis takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic_records import EVERY, Way, block, frame, spec

from analysis.evaluations import read_evaluations
from analysis.methods import PROBLEM, name_in_text, ordered
from analysis.selection import at_horizon, for_budgets, horizon, rivals_within_budgets, select_families_and_rivals
from analysis.traces import collect
from datasets.errors import BadInput
from harness.records import MODELS, block_files, read_traces, write_block

ONE = [("wind", "clean")]


def no_budgets() -> pd.DataFrame:
    """Problems whose minimal budget is not known."""
    return pd.DataFrame({"budget_s": []}, index=pd.MultiIndex.from_tuples([], names=PROBLEM))


def test_arrays_hold_what_the_frame_held_whatever_the_order_of_rows() -> None:
    rows = frame([("wind", "clean"), ("wine", "onehot")], [Way("ei"), Way("cei", lam=0.1)], (0, 3), 12, fail=0.2)
    traces = collect(rows.sample(frac=1, random_state=1))
    assert len(traces.runs) == 8
    for r, run in traces.runs.iterrows():
        mine = rows[(rows.dataset == run.dataset) & (rows.method == run.method) & (rows.seed == run.seed)]
        mine = mine.sort_values("step")
        np.testing.assert_array_equal(traces.error[r], mine["error"])
        np.testing.assert_array_equal(traces.cost_s[r], mine["cost_s"])
        np.testing.assert_array_equal(traces.effective_alpha[r], mine["effective_alpha"])
        np.testing.assert_array_equal(traces.proposed[r], np.arange(12) >= 5)
        assert run.evaluations == 12


@pytest.mark.parametrize(
    ("method", "written"),
    [
        ("eialpha(alpha=0.3)", "EI^0.3"),
        ("eialpha(alpha=0.3,cost_model=hybrid)", "EI^0.3(cost_model=hybrid)"),
        ("cei(lam=0.1,utility=pi)", "CEI 0.1(utility=pi)"),
        ("ei(curves=stopped)", "EI(curves=stopped)"),
    ],
)
def test_names_in_figures(method: str, written: str) -> None:
    assert name_in_text(method) == written


def test_methods_have_one_name_and_an_order() -> None:
    rows = frame(ONE, [*EVERY, Way("eialpha", alpha=1.0), Way("eialpha", alpha=0.0)], [0], 6)
    rows.loc[(rows["alpha"] == 1.0) | (rows["alpha"] == 0.0), "iterations"] = 7  # other runs of eipu and ei
    alphas = [f"eialpha(alpha={a:g})" for a in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)]
    lams = [f"cei(lam={v:g})" for v in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)]
    runs = collect(rows).runs
    assert ordered(runs) == ["ei", *alphas, "eipu", *lams, "eicool"]
    axis = runs.drop_duplicates("method").set_index("method")
    assert axis.loc["ei", "alpha"] == 0 and axis.loc["eipu", "alpha"] == 1
    assert np.isnan(axis.loc["cei(lam=0.3)", "alpha"]) and axis.loc["cei(lam=0.3)", "lam"] == 0.3


def test_ei_and_eipu_by_name_go_before_eialpha() -> None:
    rows = frame(ONE, [Way("eialpha", alpha=1.0), Way("eipu")], [0], 9)
    chosen, _ = at_horizon(collect(rows), 9)
    assert chosen.runs["acq"].tolist() == ["eipu"]


def test_at_horizon_cuts_long_runs_counts_short_ones_and_keeps_one_each() -> None:
    ei, eicool = Way("ei"), Way("eicool")
    rows = pd.concat([
        frame(ONE, [ei], [0], 12), frame(ONE, [ei], [0], 20),  # the same run twice, once longer
        frame(ONE, [ei], [1], 20), frame(ONE, [ei], [2], 7),  # seed 2 is too short
        frame(ONE, [eicool], [0], 12), frame(ONE, [eicool], [1], 20),  # plans with its length: only 12 counts
    ])  # fmt: skip
    chosen, short = at_horizon(collect(rows), 12)
    kept = chosen.runs[["method", "seed", "iterations", "evaluations"]].to_numpy().tolist()
    assert sorted(kept) == [["ei", 0, 12, 12], ["ei", 1, 20, 12], ["eicool", 0, 12, 12]]
    assert chosen.error.shape[1] == 12
    assert short == 2, "ei of seed 2, eicool of seed 1"


def test_budgets_take_the_run_with_most_evaluations_and_no_eicool_without_one() -> None:
    rows = pd.concat([frame(ONE, [Way("ei"), Way("eicool")], [0], n) for n in (6, 11)])
    runs = for_budgets(collect(rows), no_budgets()).runs
    assert runs[["method", "evaluations"]].to_numpy().tolist() == [["ei", 11]]


@pytest.mark.parametrize(("tau", "taken"), [(np.nan, 300), (40.0, 300), (39.0, 100), (2.0, 100)])
def test_budgets_take_the_run_of_the_time_study_where_that_ended_sooner(tau: float, taken: int) -> None:
    """Planned for 300 iterations and the largest budget, 20 x 2 s, it ended with 60; one planned for 100 made these."""
    study = frame(ONE, [Way("ei")], [0], 300).query("step < 60").assign(tau=tau)
    rows = pd.concat([study, frame(ONE, [Way("ei")], [0], 100)])
    budgets = pd.DataFrame({"budget_s": 2.0}, index=pd.MultiIndex.from_tuples(ONE, names=PROBLEM))
    assert for_budgets(collect(rows), budgets).runs["iterations"].tolist() == [taken]


def test_the_horizon_is_one_that_some_run_was_planned_for() -> None:
    """EI-cool under a budget went on for 20 evaluations; nothing has 20 as a plan, or beyond any plan."""
    rows = pd.concat([frame(ONE, [Way("ei"), Way("eipu")], [0], 12), frame(ONE, [Way("eicool")], [0], 20)])
    rows.loc[rows["acq"] == "eicool", "tau"] = 50.0
    traces = collect(rows)
    assert horizon(traces) == 12 and at_horizon(traces, 12)[0].runs["method"].tolist() == ["ei", "eipu"]
    alone = collect(rows[rows["acq"] == "eicool"])
    with pytest.raises(BadInput, match="no run was planned for a number of iterations and reached it"):
        horizon(alone)


@pytest.mark.parametrize(("utility", "kept"), [("mcms", [(0, 12)]), ("kg", [(0, 12), (1, 12)])])
def test_a_utility_that_looks_ahead_plans_under_any_rule(utility: str, kept: list[tuple[int, int]]) -> None:
    """Of seed 1 there is a run planned for 30 only: its first 12 steps are not those of a run planned for 12."""
    rows = pd.concat([frame(ONE, [Way("eipu")], [seed], n) for seed, n in ((0, 12), (1, 30))]).assign(utility=utility)
    traces = collect(rows)
    chosen, short = at_horizon(traces, 12)
    assert list(chosen.runs[["seed", "evaluations"]].itertuples(index=False, name=None)) == kept
    assert short == 2 - len(kept)
    found = for_budgets(traces, no_budgets()).runs["evaluations"].tolist()
    assert found == ([] if utility == "mcms" else [12, 30])
    budgeted = for_budgets(collect(rows.assign(tau=50.0)), no_budgets())
    assert budgeted.runs["evaluations"].tolist() == [12, 30]


def test_components_are_never_mixed() -> None:
    both = pd.concat([frame(ONE, [Way("ei")], [0], 6, evaluator=e) for e in ("live", "replay")])
    assert collect(both).evaluator == "replay" and len(collect(both).runs) == 1
    assert collect(both, {"evaluator": "live"}).evaluator == "live"
    assert collect(both[both["evaluator"] == "live"]).evaluator == "live"
    with pytest.raises(BadInput, match=r"^no runs of evaluator=surface; the records hold: live, replay$"):
        collect(both, {"evaluator": "surface"})
    with pytest.raises(BadInput, match=r"^no runs of evaluator=replay; the records hold: live, surface$"):
        collect(both.assign(evaluator=both["evaluator"].replace("replay", "surface")))
    models = pd.concat([both, both[both["evaluator"] == "replay"].assign(cost_model="gp", spec="other")])
    assert collect(models).components == {
        "evaluator": "replay", "utility": "ei", "surrogate": "gp", "cost_model": "lv3", "cost_statistic": "exp_mean"
    }  # fmt: skip
    assert len(collect(models, {"cost_model": "gp"}).runs) == 1
    with pytest.raises(BadInput, match=r"no runs of cost_model=gp with evaluator=live, utility=ei, surrogate=gp;"):
        collect(models, {"cost_model": "gp", "evaluator": "live"})


def test_what_runs_have_beside_a_surrogate_makes_methods_of_them_where_others_have_less() -> None:
    plain = frame(ONE, [Way("ei"), Way("eialpha", alpha=0.3)], [0], 6)
    more = plain.assign(surrogate="gp+stopped+price", spec=plain["spec"].astype(str) + "more")
    both = pd.concat([plain, more])
    expected = {"ei", "eialpha(alpha=0.3)", "ei(curves=stopped,stopping=price)",
                "eialpha(alpha=0.3,curves=stopped,stopping=price)"}  # fmt: skip
    found = collect(both)
    assert set(found.runs["method"]) == expected and found.components["surrogate"] == "gp"
    assert not found.runs["plans"].any() and set(found.runs["alpha"].dropna()) == {0.0, 0.3}
    assert collect(both.assign(acq="eicool", method="eicool")).runs["plans"].all()
    for records, wanted, surrogate in ((both, {"surrogate": "gp+stopped+price"}, "gp+stopped+price"),
                                       (both, {"surrogate": "gp"}, "gp"), (more, {}, "gp+stopped+price")):  # fmt: skip
        found = collect(records, wanted)
        assert set(found.runs["method"]) == {"ei", "eialpha(alpha=0.3)"} and found.components["surrogate"] == surrogate
    logs = both.assign(surrogate=both["surrogate"] + ":log")
    assert set(collect(logs).runs["method"]) == expected and collect(logs).components["surrogate"] == "gp:log"


def test_wrong_records_are_refused_in_one_line() -> None:
    rows = frame(ONE, [Way("ei")], [0, 1], 6)
    with pytest.raises(BadInput, match=r"run ei on wind/clean seed 1 is recorded twice \(spec [0-9a-f]{16}, other\)"):
        collect(pd.concat([rows, rows[rows["seed"] == 1].assign(spec="other")]))
    with pytest.raises(BadInput, match=r"run ei on wind/clean seed 0 lacks steps"):
        collect(rows[(rows["seed"] != 0) | (rows["step"] != 3)])
    with pytest.raises(BadInput, match="no evaluation"):
        collect(rows.iloc[:0])
    with pytest.raises(BadInput, match=r"lack the column\(s\) cost_s, step"):
        collect(rows.drop(columns=["cost_s", "step"]))
    with pytest.raises(BadInput, match="no recorded run has 7 iterations; the longest has 6"):
        at_horizon(collect(rows), 7)


def test_rivals_are_ranked_where_their_runs_are_as_long_as_eis() -> None:
    """EI-cool without tau, and random search with too short runs, stand beside trade-offs only."""
    long = frame(ONE, [Way("ei"), Way("eipu"), Way("sobol")], [0, 1], 30)
    short = frame(ONE, [Way("random"), Way("eicool")], [0, 1], 12)
    planned = frame(ONE, [Way("carbo")], [0, 1], 12).assign(tau=50.0)
    traces = collect(pd.concat([long.assign(plans_ahead=False), short, planned]))
    assert rivals_within_budgets(traces, no_budgets()) == ["carbo", "sobol"]
    assert ordered(select_families_and_rivals(traces, 12, "alpha").runs) == ["ei", "eipu", "eicool", "random", "sobol"]
    assert ordered(select_families_and_rivals(traces, 30, "alpha").runs) == ["ei", "eipu", "sobol"]


def test_evaluations_read_from_disk_have_both_ends_of_alpha(tmp_path: Path) -> None:
    """One block with models, in another order than its trace; one without."""
    for way in (Way("ei"), Way("cei", lam=0.1)):
        trace, described = block(*ONE[0], way, [0, 1], 8), spec(*ONE[0], way, 8)
        timings = {"seed": trace["seed"], "step": trace["step"]} | dict.fromkeys(("fit_ms", "propose_ms"), [1.0] * 16)
        seeds, steps = [1] * 3 + [0] * 3, [7, 6, 5, 5, 6, 7]
        models = {name: [None] * 6 for name in MODELS.names} | {"seed": seeds, "step": steps}
        models["effective_alpha_high"] = [10.0 * s + t for s, t in zip(seeds, steps, strict=True)]
        given = models if way.acq == "cei" else None
        write_block(tmp_path, block_files(described, [0, 1], trace, timings, models=given))
    found = read_evaluations(tmp_path)
    assert found.runs["evaluations"].tolist() == [8] * 4 and len(found.headers) == 2
    expected = [np.where(np.arange(8) >= 5, 10.0 * seed + np.arange(8), np.nan) for seed in (0, 1)]
    runs = collect(found)
    assert runs.runs["method"].tolist() == ["cei(lam=0.1)"] * 2 + ["ei"] * 2
    np.testing.assert_array_equal(runs.effective_alpha_high[:2], expected)
    assert np.isnan(runs.effective_alpha_high[2:]).all()
    frame, every = read_traces(tmp_path), collect(read_traces(tmp_path).sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(every.runs, runs.runs)
    for name in ("error", "test_error", "cost_s", "effective_alpha", "log_ei", "predicted_cost_s"):
        np.testing.assert_array_equal(getattr(runs, name), getattr(every, name))
    ei, own = found.select((found.runs["method"] == "ei").to_numpy()), frame[frame["method"] == "ei"]
    np.testing.assert_array_equal(collect(ei.first(5)).error, own["error"].to_numpy().reshape(2, 8)[:, :5])
    write_block(tmp_path, block_files(described, [1], *(part_of(part, 1) for part in (trace, timings))))
    assert len(read_evaluations(tmp_path).runs) == 4 and len(read_traces(tmp_path)) == 32, (
        "a seed in two files is one run"
    )
    lacking = {name: values[1:] for name, values in part_of(trace, 1).items()}
    write_block(tmp_path, block_files(described | {"tau": 5.0}, [1], lacking, part_of(timings, 1)))
    with pytest.raises(BadInput, match=r"seeds-1.parquet lacks steps: a trace counts 0, 1, 2, ... without gaps"):
        read_evaluations(tmp_path)


def part_of(columns: dict[str, list[Any]], seed: int) -> dict[str, list[Any]]:
    """Return the rows of one seed."""
    kept = [s == seed for s in columns["seed"]]
    return {name: [v for v, k in zip(values, kept, strict=True) if k] for name, values in columns.items()}

"""Relative cost and error, minimal budgets and ranks, worked by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_records import Way, frame

import analysis
from analysis.captions import ended_early, ranks_left_out, too_short_notes
from analysis.methods import PROBLEM
from analysis.ranks import minimal_budgets, rank_curves, ranks
from analysis.selection import BUDGET_MULTIPLES
from analysis.traces import Traces, collect
from analysis.tradeoffs import relative_to_ei
from datasets.errors import BadInput

NAN = np.nan


def traces(*runs: tuple[str, str, str, int, list[float], list[float]]) -> Traces:
    """Traces of (dataset, pipeline, method, seed, errors, costs); a method is acq or acq:value."""
    parts = []
    for dataset, pipeline, method, seed, error, cost in runs:
        acq, _, value = method.partition(":")
        parts.append(pd.DataFrame({
            "dataset": dataset, "pipeline": pipeline, "acq": acq, "method": method, "evaluator": "replay",
            "utility": "ei", "surrogate": "gp", "cost_model": "lv3", "cost_statistic": "exp_mean", "spec": "one",
            "lam": float(value) if acq == "cei" else NAN, "alpha": float(value) if acq == "eialpha" else NAN,
            "tau": NAN, "iterations": len(error), "seed": seed, "step": range(len(error)), "error": error,
            "test_error": np.add(error, 1.0),
            "cost_s": cost, "effective_alpha": NAN, "predicted_cost_s": NAN,
        }))  # fmt: skip
    return collect(pd.concat(parts, ignore_index=True))


def test_relative_percentages_by_hand() -> None:
    found = relative_to_ei(traces(
        ("d", "p", "ei", 0, [0.5, 0.4, 0.45], [10, 20, 10]),
        ("d", "p", "eipu", 0, [0.5, 0.42, NAN], [10, 2, 8]),
        ("d", "p", "ei", 1, [0.3, 0.2, 0.1], [1, 1, 2]),
        ("d", "p", "cei:0.1", 1, [0.3, 0.1, 0.05], [1, 1, 1]),
    ))  # fmt: skip
    table = found.table.set_index(["method", "seed"])[["cost_pct", "error_pct"]]
    np.testing.assert_allclose(table.loc[("eipu", 0)], [50.0, 105.0])
    np.testing.assert_allclose(table.loc[("cei:0.1", 1)], [75.0, 50.0])
    np.testing.assert_allclose(table.loc["ei"], 100.0)
    assert len(table) == 4 and (found.unpaired, found.zero, found.failed) == (0, 0, 0)
    wide = found.wide("error_pct", ["eipu", "cei:0.1"])
    assert wide.loc[("d", "p", 0), "eipu"] == pytest.approx(105) and np.isnan(wide.loc[("d", "p", 1), "eipu"])


def test_means_are_of_sums_over_seeds_and_medians_of_single_runs() -> None:
    found = relative_to_ei(traces(
        ("d", "p", "ei", 0, [0.5, 0.4], [10, 30]), ("d", "p", "eipu", 0, [0.5, 0.1], [10, 2]),
        ("d", "p", "ei", 1, [0.3, 0.2], [1, 9]), ("d", "p", "eipu", 1, [0.3, 0.25], [1, 7]),
        ("d", "q", "ei", 0, [0.3, 0.2], [1, 1]), ("d", "q", "eipu", 0, [0.3, 0.3], [1, 2]),
        ("d", "q", "ei", 1, [0.3, 0.2], [3, 3]),  # without a partner
    ))  # fmt: skip
    for measure, single, sums in (
        ("cost_pct", [30, 80, 150], [40, 150]),
        ("error_pct", [25, 125, 150], [350 / 6, 150]),
    ):
        assert found.wide(measure, ["eipu"], "median")["eipu"].dropna().tolist() == pytest.approx(single)
        assert found.wide(measure, ["eipu"])["eipu"].groupby("pipeline").mean().tolist() == pytest.approx(sums)
        for statistic in ("mean", "median"):
            np.testing.assert_allclose(found.wide(measure, ["ei"], statistic), 100.0)


def test_pairs_that_do_not_exist_are_counted_and_left_out() -> None:
    found = relative_to_ei(traces(
        ("d", "p", "ei", 0, [0.5, 0.0], [1, 1]), ("d", "p", "eipu", 0, [0.5, 0.1], [1, 1]),  # EI reached 0
        ("d", "p", "ei", 1, [NAN, NAN], [1, 1]), ("d", "p", "eipu", 1, [0.5, 0.1], [1, 1]),  # EI never worked
        ("d", "p", "ei", 2, [0.5, 0.4], [1, 1]), ("d", "p", "eipu", 2, [NAN, NAN], [1, 1]),  # EIpu never did
        ("d", "p", "eipu", 3, [0.5, 0.4], [1, 1]), ("d", "q", "eipu", 0, [0.5, 0.4], [1, 1]),  # no EI there
    ))  # fmt: skip
    assert found.table[["method", "seed"]].to_numpy().tolist() == [["ei", 2]]
    assert (found.unpaired, found.zero, found.failed) == (2, 2, 3)  # EI's own pairs count too


def test_where_no_pair_exists_one_line_says_why() -> None:
    rows = frame([("wind", "clean")], [Way("ei"), Way("eipu")], (0, 1), 12)
    zero = rows.assign(error=rows["error"].where((rows["acq"] != "ei") | (rows["step"] != 7), 0.0))
    failed = rows.assign(error=rows["error"].where(rows["acq"] != "ei"))
    for changed, counts in (
        (zero, "4 where EI's error is 0, 0 without"),
        (failed, "0 where EI's error is 0, 4 without"),
    ):
        with pytest.raises(
            BadInput, match=f"F3 needs a run to compare with EI's .*0 without it, {counts} a successful"
        ):
            relative_to_ei(collect(changed), "F3")


def test_minimal_budget_by_hand() -> None:
    def run(pipeline: str, method: str, seed: int, total: float) -> tuple:
        return ("d", pipeline, method, seed, [0.5, 0.4], [total / 2, total / 2])

    budgets = minimal_budgets(traces(
        run("p", "ei", 0, 90), run("p", "ei", 1, 100), run("p", "ei", 2, 800),  # median 100
        run("p", "eialpha:0.2", 0, 10), run("p", "eialpha:0.2", 1, 60), run("p", "eialpha:0.2", 2, 70),  # 60
        run("p", "eipu", 0, 40), run("p", "eipu", 1, 90),  # median of two: 65
        run("p", "cei:0.9", 0, 1), run("p", "cei:0.9", 1, 1), run("p", "cei:0.9", 2, 1),  # not of EI^alpha
        run("p", "eialpha:2", 0, 2), run("p", "eialpha:2", 1, 2), run("p", "eialpha:2", 2, 2),  # beyond the paper's
        run("q", "eipu", 0, 8),
    ))  # fmt: skip
    p, q = budgets.loc[("d", "p")], budgets.loc[("d", "q")]
    assert (p["budget_s"], p["method"], p["methods"], p["runs"]) == (60.0, "eialpha(alpha=0.2)", 3, 8)
    assert (q["budget_s"], q["method"], q["methods"], q["runs"]) == (8.0, "eipu", 1, 1)
    assert BUDGET_MULTIPLES == (0.5, 1, 2, 5, 10, 20)
    with pytest.raises(BadInput, match=r"F6 needs a method of EI\^alpha"):
        minimal_budgets(traces(run("p", "cei:0.9", 0, 1)), "F6")


def budget(**seconds: float) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples([("d", p) for p in seconds], names=["dataset", "pipeline"])
    return pd.DataFrame({"budget_s": list(seconds.values())}, index=index)


def test_ranks_by_hand() -> None:
    runs = traces(
        ("d", "p", "ei", 0, [0.5, 0.1], [4, 16]),  # 0.5 from 4 s, 0.1 from 20 s
        (
            "d",
            "p",
            "eipu",
            0,
            [0.5, 0.3, 0.2],
            [4, 1, 1],
        ),  # 0.5 at 4 s, 0.3 at 5 s, 0.2 at 6 s, no more
        ("d", "p", "cei:0.1", 0, [NAN, 0.5, 0.2], [3, 3, 4]),  # 0.5 from 6 s, 0.2 from 10 s
        ("d", "p", "ei", 1, [0.5], [1]),  # seed 1 lacks the others
    )
    found = ranks(runs, budget(p=10.0), ["ei", "eipu", "cei:0.1"], multiples=(0.5, 1.0, 2.0),
                  shares=np.array([0.0, 0.8, 1.0]))  # fmt: skip
    assert found.left_out == 1 and found.cells.to_numpy().tolist() == [["d", "p", 0]]
    expected = [
        [
            [2, 2, 2],
            [1.5, 1.5, 3],
            [2, 1, 3],
        ],  # 0, 4 and 5 s: nothing; EI and EIpu tie; EIpu leads, CEI has none
        [[2, 2, 2], [2.5, 1, 2.5], [3, 1.5, 1.5]],  # 0, 8 and 10 s
        [[2, 2, 2], [3, 1.5, 1.5], [1, 2.5, 2.5]],  # 0, 16 and 20 s
    ]
    np.testing.assert_array_equal(found.rank[0], expected)
    np.testing.assert_array_equal(found.capped[0], [[False] * 3, [False, True, False], [False, True, True]])
    np.testing.assert_array_equal(found.unfinished[0], [[False, False, True], [False] * 3, [False] * 3])


def test_mean_ranks_average_over_cells_and_add_up() -> None:
    rng = np.random.default_rng(0)
    names = ["ei", "eialpha:0.2", "eipu", "cei:0.1"]
    runs = traces(*(
        ("d", p, m, s, rng.integers(1, 4, 6).tolist(), rng.uniform(1, 3, 6).tolist())
        for p in "pq" for m in names for s in range(3)
    ))  # fmt: skip
    labels = ["ei", "eialpha(alpha=0.2)", "eipu", "cei:0.1"]
    found = ranks(runs, budget(p=5.0, q=6.0), labels, multiples=(1.0,), shares=np.array([0.5, 1.0]))
    np.testing.assert_allclose(found.rank.sum(axis=-1), 10.0)
    curves = rank_curves(found).set_index(["share", "method"])["value"]
    for share in (0.5, 1.0):
        by_hand = []
        for (_, pipeline, _), cell in runs.runs.groupby(["dataset", "pipeline", "seed"]):
            reached = []
            for m in labels:
                row = cell.index[cell["method"] == m][0]
                done = np.cumsum(runs.cost_s[row]) <= share * {"p": 5.0, "q": 6.0}[pipeline]
                reached.append(runs.error[row][done].min(initial=np.inf))
            by_hand.append(stats.rankdata(reached))
        np.testing.assert_allclose(curves[share].loc[labels], np.mean(by_hand, axis=0))


def test_cells_without_a_budget_are_left_out_and_too_little_is_refused() -> None:
    runs = traces(
        ("d", "p", "ei", 0, [0.5], [1]), ("d", "p", "eipu", 0, [0.5], [1]),
        ("d", "q", "ei", 0, [0.5], [1]), ("d", "q", "eipu", 0, [0.5], [1]),
        ("d", "q", "cei:0.1", 1, [0.5], [1]),
    )  # fmt: skip
    found = ranks(runs, budget(p=1.0), ["ei", "eipu"])
    assert found.cells["pipeline"].tolist() == ["p"] and found.left_out == 2
    with pytest.raises(BadInput, match="F6 needs two methods or more, got: ei"):
        ranks(runs, budget(p=1.0), ["ei"], what="F6")
    with pytest.raises(BadInput, match=r"needs a problem and seed with runs of all of ei, cei:0\.1"):
        ranks(runs, budget(p=1.0), ["ei", "cei:0.1"])


def planned(tau: float, seed: int, error: list[float], cost: list[float], iterations: int = 300) -> pd.DataFrame:
    """A run of EI-cool planned for a budget, as `collect` takes it."""
    found = frame([("wind", "clean")], [Way("eicool")], [seed], 5).query(f"step < {len(error)}")
    return found.assign(tau=tau, iterations=iterations, error=error, cost_s=cost, spec=f"cool-{tau}")


def test_ei_cool_is_ranked_where_it_has_a_run_for_the_budget() -> None:
    """Budgets of 3 s (50 %) and 6 s (100 %): EI reaches 0.4 and 0.2, EIpu 0.3 and 0.3; EI-cool 0.1 and 0.25."""
    parts = []
    for way, error, cost in (
        (Way("ei"), [0.5, 0.4, 0.2], [1.0, 2.0, 3.0]),
        (Way("eipu"), [0.5, 0.3, 0.3], [1.0, 2.0, 4.0]),
    ):
        rows = frame([("wind", "clean")], [way], [0, 1], 5).query("step < 3")
        parts.append(rows.assign(error=2 * error, cost_s=2 * cost))
    budget = pd.DataFrame({"budget_s": 6.0}, index=pd.MultiIndex.from_tuples([("wind", "clean")], names=PROBLEM))
    cool = [planned(3.0, s, [0.5, 0.1], [1.0, 1.5]) for s in (0, 1)] + [planned(6.0, 0, [0.5, 0.25], [1.0, 6.0])]
    methods = ["ei", "eipu", "eicool"]
    both = collect(pd.concat([*parts, *cool, planned(6.0 * (1 + 1e-9), 1, [0.5, 0.25], [1.0, 4.0])]))
    found = ranks(both, budget, methods, (0.5, 1.0), np.ones(1))
    assert found.present.all() and found.left_out == 0
    np.testing.assert_array_equal(found.rank[0, :, 0], [[3, 2, 1], [1, 2, 3]])  # 0.25 ends at 7 s: not yet at 6 s
    np.testing.assert_array_equal(found.rank[1, :, 0], [[3, 2, 1], [1, 3, 2]])
    np.testing.assert_array_equal(found.capped[:, :, 2], [[True, False], [True, True]])
    assert not found.short[:, :, 2].any() and not found.short[:, :, 0].any(), "EI spends 6 s, EI-cool had 300 planned"
    lacking = collect(pd.concat([*parts, *cool]))
    found = ranks(lacking, budget, methods, (0.5, 1.0), np.ones(1))
    np.testing.assert_array_equal(found.present, [[True] * 3, [True, True, False]])
    np.testing.assert_array_equal(found.rank[:, 1, 0], [[1, 2, np.nan]] * 2)
    curves = rank_curves(found)
    assert len(curves) == 5 and "where nine in ten pairs have the runs of all that do: at 50%" in ranks_left_out(found)
    with pytest.raises(BadInput, match="needs a problem and seed with runs of all"):
        ranks(lacking, budget, ["ei", "eicool"])


def test_from_python_all_methods_that_can_be_are_ranked() -> None:
    ways = [Way("ei"), Way("eipu"), Way("eicool")]
    rows = frame([("wind", "clean"), ("wine", "clean")], ways, [0, 1], 12)  # EI-cool without a budget
    assert set(analysis.mean_ranks(rows)["method"]) == {"ei", "eipu"}
    with pytest.raises(BadInput, match=r"ranking needs runs planned for a budget \(tau\): eicool has none"):
        analysis.mean_ranks(rows, ["ei", "eipu", "eicool"])


def test_a_method_whose_runs_all_failed_keeps_its_parameter() -> None:
    rows = frame([("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eipu")], [0, 1], 12)
    rows.loc[rows["method"] == "eipu", "error"] = np.nan
    found = analysis.tradeoff(rows).query("method == 'eipu'")
    assert found["alpha"].tolist() == [1.0, 1.0] and found["n"].tolist() == [0, 0]


def test_one_missing_run_of_ei_cool_costs_one_cell_not_the_method() -> None:
    seeds = list(range(12))
    parts = [
        frame([("wind", "clean")], [Way(name)], seeds, 5).query("step < 3").assign(error=error, cost_s=2.0)
        for name, error in (("ei", 0.2), ("eipu", 0.3))
    ]
    budget = pd.DataFrame({"budget_s": 6.0}, index=pd.MultiIndex.from_tuples([("wind", "clean")], names=PROBLEM))
    cool = [planned(6.0, s, [0.5, 0.25], [1.0, 6.0]) for s in seeds[1:]]
    found = ranks(collect(pd.concat([*parts, *cool])), budget, ["ei", "eipu", "eicool"], (1.0,), np.ones(1))
    assert found.present.all() and found.left_out == 0
    at = found.at(1.0)
    assert at.index.get_level_values("seed").tolist() == seeds[1:] and (at == [1.0, 2.0, 3.0]).all(axis=None)
    assert "for want of such a run: 1 (100%)" in ranks_left_out(found)
    few = ranks(collect(pd.concat([*parts, *cool[:9]])), budget, ["ei", "eipu", "eicool"], (1.0,), np.ones(1))
    assert few.taking_part == ["ei", "eipu"] and len(few.at(1.0)) == 12, "9 of 12 are too few: EI-cool has no part"


def test_methods_that_plan_may_together_lack_a_tenth_of_the_cells() -> None:
    """Of two that each lack one cell of twelve both take part where it is the same one, else the first alone."""
    seeds, error = list(range(12)), [0.5, 0.25]
    ei = frame([("wind", "clean")], [Way("ei")], seeds, 5).query("step < 3").assign(error=0.2, cost_s=2.0)
    eipu = frame([("wind", "clean")], [Way("eipu")], seeds, 5).query("step < 3").assign(error=0.3, cost_s=2.0)
    budget = pd.DataFrame({"budget_s": 6.0}, index=pd.MultiIndex.from_tuples([("wind", "clean")], names=PROBLEM))
    every = pd.concat([planned(6.0, seed, error, [1.0, 6.0]) for seed in seeds])
    carbo = every.assign(acq="carbo", method="carbo", spec="c" + every["spec"].astype(str))
    for lacking, taking_part in ((0, ["ei", "eipu", "eicool", "carbo"]), (1, ["ei", "eipu", "eicool"])):
        rows = pd.concat([ei, eipu, every[every["seed"] != 0], carbo[carbo["seed"] != lacking]])
        found = ranks(collect(rows), budget, ["ei", "eipu", "eicool", "carbo"], (1.0,), np.ones(1))
        assert found.taking_part == taking_part and len(found.at(1.0)) == 11


def test_a_method_tried_once_hides_none_of_the_others() -> None:
    ways = [Way("ei"), Way("eipu")]
    runs = frame([("wind", "clean"), ("wind", "onehot")], ways, [0, 1, 2], 5).assign(cost_s=2.0)
    once = frame([("wind", "clean")], [Way("eialpha", alpha=0.25)], [0], 5).assign(cost_s=0.1)
    traces = collect(pd.concat([runs, once]))
    budgets = minimal_budgets(traces)
    assert (budgets["budget_s"] == 10.0).all() and (budgets["methods"] == 2).all(), "one cheap run is no median"
    found = ranks(traces, budgets, ["ei", "eialpha(alpha=0.25)", "eipu"], (1.0,), np.ones(1))
    assert found.methods == ["ei", "eipu"] and len(found.cells) == 6 and found.left_out == 0
    assert "want of runs on half of EI's problem-seed pairs: EI^0.25." in ranks_left_out(found)


def test_equal_money_by_hand() -> None:
    """Runs of 300 evaluations that spend 30 s and 300 s of a budget of 100 s: at equal money both have 30 s."""
    parts = []
    for way, cost, late in ((Way("eipu"), 0.1, 0.3), (Way("ei"), 1.0, 0.2)):
        rows = frame([("wind", "clean")], [way], [0, 1], 300)
        parts.append(rows.assign(cost_s=cost, error=np.where(rows["step"] < 50, 0.4 if cost == 1.0 else 0.5, late)))
    both = collect(pd.concat(parts))
    budget = pd.DataFrame({"budget_s": [20.0]}, index=pd.MultiIndex.from_tuples([("wind", "clean")], names=PROBLEM))
    planned = ranks(both, budget, ["ei", "eipu"], (1.0, 5.0), np.ones(1))
    equal = ranks(both, budget, ["ei", "eipu"], (1.0, 5.0), np.ones(1), equal_money=True)
    np.testing.assert_array_equal(planned.rank[:, :, 0], [[[2, 1], [1, 2]]] * 2)  # 20 s: EIpu has got to 0.3
    np.testing.assert_array_equal(equal.rank[:, :, 0], [[[2, 1], [2, 1]]] * 2)  # 30 s: EI has not
    np.testing.assert_allclose(equal.money, [[1.0, 0.3]] * 2)
    assert planned.using_up.tolist() == [1.0, 0.5] and planned.counting.tolist() == [True, False]
    assert equal.counting.all() and planned.long_enough.all()
    assert too_short_notes(planned) == ["", "only 50.0% of runs use it up"]
    assert "fewer than 90% of all runs use up" in ended_early(planned) and "30% (500%) of it" in ended_early(equal)

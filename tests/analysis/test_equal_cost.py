"""Errors at equal cost, against brute force on made-up records."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_records import INITIAL, Way, frame, on_disk

import analysis
from analysis.__main__ import main
from analysis.equal_cost import RULES, at_equal_cost, pair_runs, priced
from analysis.evaluations import CELL
from analysis.methods import PROBLEM
from analysis.traces import collect
from datasets.errors import BadInput
from harness.surrogates.gp import standardise

GRID = [("wind", "clean"), ("wind", "onehot"), ("hiva", "clean"), ("wine", "clean")]
WAYS = (Way("ei"), Way("eipu"), Way("eialpha", alpha=0.1), Way("cei", lam=0.1), Way("cei", lam=0.9), Way("random"))
FAMILIES = {"EI-n": ["ei"], "EI^alpha": ["eialpha(alpha=0.1)", "eipu"], "CEI": ["cei(lam=0.1)", "cei(lam=0.9)"],
            "random": ["random"]}  # fmt: skip
STEPS, PRICES = 20, (0.02, 0.2, 1.0)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Runs of which some evaluations fail, with log EI and predicted costs of any size; hiva is flat."""
    made, rng = frame(GRID, WAYS, (0, 1), STEPS, fail=0.15), np.random.default_rng(0)
    chosen = made["step"] >= INITIAL
    design = ~chosen & (made["dataset"] == "hiva")
    made.loc[design, "error"] = np.where(made.loc[design, "step"] == 0, 0.7, 0.5)
    made["log_ei"] = np.where(chosen, rng.normal(-4, 2, len(made)), np.nan)
    made["predicted_cost_s"] = np.where(chosen, rng.lognormal(0, 2, len(made)), np.nan)
    return made


@pytest.fixture(scope="module")
def scale() -> pd.DataFrame:
    """What there was to gain, none on one problem."""
    index = pd.MultiIndex.from_tuples(GRID, names=PROBLEM)
    return pd.DataFrame({"best": [0.01, 0.02, 0.03, 0.04], "random": [0.2, 0.4, 0.3, 0.04]}, index=index)


def within(run: pd.DataFrame, budget: float) -> float:
    """The lowest error of what ends within a budget, evaluation by evaluation; NaN without one."""
    paid, best = 0.0, np.inf
    for error, cost in zip(run["error"], run["cost_s"], strict=True):
        paid += cost
        if paid <= budget and error < best:
            best = error
    return best if best < np.inf else np.nan


def of_ei(rows: pd.DataFrame) -> pd.Series:
    """EI's final error, its mean over the seeds of a problem, by cell."""
    final = rows[rows["method"] == "ei"].groupby(CELL)["error"].min()
    return pd.Series({cell: final.loc[cell[:2]].mean() for cell in final.index}).rename_axis(CELL)


def errors(rows: pd.DataFrame, percent: float, single: bool = False) -> pd.DataFrame:
    """Every method's error at a budget in percent of EI's final one, its mean over seeds or the single run's."""
    found, final = {}, rows[rows["method"] == "ei"].groupby(CELL)["error"].min() if single else of_ei(rows)
    for cell, part in rows.groupby(CELL):
        runs = dict(list(part.groupby("method")))
        ei = runs["ei"]
        whole = np.cumsum(ei["cost_s"].to_numpy())[-1]
        found[cell] = {m: 100 * within(r, percent / 100 * whole) / final[cell] for m, r in runs.items()}
    return pd.DataFrame(found).T.rename_axis(CELL).dropna()


def beside_spent(rows: pd.DataFrame, method: str, percent: float) -> pd.Series:
    """EI's error with what a method's run has spent within the budget, in percent of EI's final one."""
    final, found = of_ei(rows), {}
    for cell, part in rows.groupby(CELL):
        ei, own = part[part["method"] == "ei"], part[part["method"] == method]
        whole, paid = (np.cumsum(run["cost_s"].to_numpy())[-1] for run in (ei, own))
        found[cell] = 100 * within(ei, min(percent / 100 * whole, paid)) / final[cell]
    return pd.Series(found).rename_axis(CELL)


def interval(values: pd.Series) -> list[float]:
    means = values.groupby("dataset").mean()
    return [means.mean(), *stats.ttest_1samp(means, 0.0).confidence_interval(0.95)]


@pytest.mark.parametrize("percent", [10, 60, 100])
def test_families_at_equal_cost_are_those_of_brute_force(rows: pd.DataFrame, percent: int) -> None:
    found = at_equal_cost(pair_runs(collect(rows), "none"), [percent])
    found = found[found["family"].isin(FAMILIES)].set_index(["statistic", "family"])
    cells, alone = errors(rows, percent), errors(rows, percent, single=True)
    assert found.loc["mean", "n"].unique().tolist() == [len(cells)]
    means, per_dataset = cells.groupby("dataset").mean().mean(), cells.groupby("dataset").mean()
    taken, poorer = {}, False
    for family, members in FAMILIES.items():
        row = found.loc[("mean", family)]
        assert row["method"] == means[members].idxmin() and row["members"] == len(members)
        taken[family] = cells[row["method"]]
        np.testing.assert_allclose(row[["value", "low", "high"]].tolist(), interval(taken[family]), rtol=1e-12)
        off = taken[family] - cells["ei"]
        if family != "EI-n":
            np.testing.assert_allclose(row[["off", "off_low", "off_high"]].tolist(), interval(off), rtol=1e-9)
        middle = found.loc[("median", family)]
        own = alone[row["method"]]
        assert [middle["value"], middle["off"]] == pytest.approx([own.median(), (own - alone["ei"]).median()])
        spent = found.loc[("mean, beside EI at what was spent", family)]
        beside = beside_spent(rows, row["method"], percent).reindex(cells.index)
        assert spent["method"] == row["method"] and spent["n"] == len(cells)
        off = (taken[family] - beside).groupby("dataset").mean().mean()
        np.testing.assert_allclose(spent["off"], off, rtol=1e-9, atol=1e-12)
        poorer |= spent["off"] < row["off"]
        assert row["ended"] > 0 or spent["off"] == row["off"]
        others = {d: per_dataset.drop(d)[members].mean().idxmin() for d in per_dataset.index}
        held = cells.apply(lambda cell, others=others: cell[others[cell.name[0]]], axis=1)
        row = found.loc[("mean, held out", family)]
        np.testing.assert_allclose(row[["value", "low", "high"]].tolist(), interval(held), rtol=1e-12)
    assert poorer or percent < 100, "some have ended before all of EI's cost is spent, and EI has less there then"
    problems = pd.DataFrame(taken).groupby(PROBLEM).mean()
    best = problems.eq(problems.min(axis=1), axis=0)
    shares = best.div(best.sum(axis=1), axis=0).mean()
    assert found.loc["mean", "won"].to_dict() == pytest.approx(shares.to_dict())


def test_the_share_of_the_gain_leaves_out_where_there_is_none(rows: pd.DataFrame, scale: pd.DataFrame) -> None:
    runs = pair_runs(collect(rows), scale)
    assert runs.flat == ["hiva"]
    found = at_equal_cost(runs, [60]).set_index(["measure", "statistic", "family"]).sort_index()
    cells = errors(rows, 60)
    error = cells.mul(of_ei(rows).reindex(cells.index) / 100, axis=0)
    own = scale.reindex(error.index.droplevel("seed")).set_axis(error.index)
    regret = error.sub(own["best"], axis=0).div(own["random"] - own["best"], axis=0).drop(index="wine")
    row = found.loc[("regret", "mean", "CEI")]
    assert row["n"] == len(regret) and row["datasets"] == 2
    np.testing.assert_allclose(row[["value", "low", "high"]].tolist(), interval(regret[row["method"]]), rtol=1e-12)
    steep = found.loc[("error_pct", "mean, not flat", "CEI")]
    assert steep["method"] == found.loc[("error_pct", "mean", "CEI"), "method"]
    np.testing.assert_allclose(
        steep[["value", "low", "high"]].tolist(), interval(cells[steep["method"]].drop(index="hiva")), rtol=1e-12
    )


def stops(run: pd.DataFrame, price: float) -> int:
    """After how many evaluations EI stops: before the first choice that is not worth its predicted cost."""
    run = run.reset_index(drop=True)
    for t in range(INITIAL, len(run)):
        seen = run["error"][:t]
        sd = standardise(seen.fillna(seen.max()).fillna(0.0).to_numpy())[1][1]
        limit = price * sd / run["cost_s"][:INITIAL].mean()
        if np.exp(run["log_ei"][t]) < limit * run["predicted_cost_s"][t]:
            return t
    return len(run)


def test_ei_stops_before_the_first_choice_that_does_not_pay(rows: pd.DataFrame) -> None:
    own = rows[rows["method"] == "ei"]
    expected = [[stops(run, price) for price in PRICES] for _, run in own.groupby(CELL)]
    found = priced(collect(own), PRICES)
    assert found.tolist() == expected and len(np.unique(found)) > 5
    units = own.assign(error=own["error"] * 60, log_ei=own["log_ei"] + np.log(60), cost_s=own["cost_s"] * 7,
                       predicted_cost_s=own["predicted_cost_s"] * 7)  # fmt: skip
    assert priced(collect(units), PRICES).tolist() == expected, "neither unit matters"
    assert (np.diff(found, axis=1) <= 0).all(), "a higher price stops sooner"


def test_what_stops_by_rule_is_held_against_ei_at_its_own_mean_cost(rows: pd.DataFrame) -> None:
    runs = pair_runs(collect(rows), "none")
    found = at_equal_cost(runs, [100], PRICES).set_index(["method", "statistic"])
    ei = dict(list(rows[rows["method"] == "ei"].groupby(CELL)))
    eipu = dict(list(rows[rows["method"] == "eipu"].groupby(CELL)))
    rules = {"n=6": (ei, lambda run: 6), "price=0.2": (ei, lambda run: stops(run, 0.2)), "eipu": (eipu, len)}
    found = found.loc[list(rules)]
    found = found[found["family"].isin(RULES)]
    for name, (own, rule) in rules.items():
        kept = {cell: rule(run) for cell, run in own.items()}
        index = pd.MultiIndex.from_tuples(own, names=CELL)
        cost = pd.Series([run["cost_s"][: kept[c]].sum() for c, run in own.items()], index).groupby(PROBLEM).sum()
        whole = pd.Series([ei[c]["cost_s"].sum() for c in own], index).groupby(PROBLEM).sum()
        percent = 100 * (cost / whole).groupby("dataset").mean().mean()
        row = found.loc[(name, "mean")]
        assert row["cost_pct"] == pytest.approx(percent)
        final = of_ei(rows)
        error = pd.Series([100 * run["error"][: kept[c]].min() / final[c] for c, run in own.items()], index)
        beside = errors(rows[rows["method"] == "ei"], percent)["ei"]
        off = (error - beside).dropna()
        assert row["n"] == len(off)
        np.testing.assert_allclose(row[["off", "off_low", "off_high"]].tolist(), interval(off), rtol=1e-9)


def test_longer_runs_go_on_and_shorter_ones_are_said_to_have_ended() -> None:
    rows = frame(GRID[:1], [Way("ei"), Way("eipu")], [0], 30)
    rows["cost_s"] = np.where(rows["method"] == "ei", 2.0, 1.0)
    rows["error"] = 1.0 + 0.9 ** rows["step"]
    short = rows[(rows["method"] == "eipu") | (rows["step"] < 10)].assign(plans_ahead=False)
    short["iterations"] = np.where(short["method"] == "ei", 10, 30)
    for cut, used, ended in ((short, 20, 0.0), (short[short["step"] < 10].assign(iterations=10), 10, 1.0)):
        row = at_equal_cost(pair_runs(collect(cut), "none"), [100]).set_index(["statistic", "family"]).loc["mean"]
        assert row.loc["EI^alpha", "evaluations"] == used and row.loc["EI^alpha", "ended"] == ended
        assert row.loc["EI^alpha", "value"] == pytest.approx(100 * (1 + 0.9 ** (used - 1)) / (1 + 0.9**9))
        assert np.isnan(row.loc["EI^alpha", "low"]) and row.loc["EI^alpha", "used_up"] == 1 - ended / 2


def test_a_run_that_spent_what_ei_did_in_fewer_evaluations_counts() -> None:
    """EI's ten cost 20 s; five at 4 s spend as much (seed 0), four do not (seed 1)."""
    rows = frame(GRID[:1], [Way("ei"), Way("eipu")], [0, 1], 10).assign(plans_ahead=False)
    rows["cost_s"] = np.where(rows["method"] == "ei", 2.0, 4.0)
    cut = rows[(rows["method"] == "ei") | (rows["step"] < 5 - rows["seed"])]
    runs = pair_runs(collect(cut), "none")
    assert runs.cells["seed"].tolist() == [0] and (runs.n, runs.absent, runs.short) == (10, 1, 1)
    error, done, ended = (of_budget[0, 0] for of_budget in runs.within([100.0]))
    best = rows[(rows["method"] == "eipu") & (rows["seed"] == 0) & (rows["step"] < 5)]["error"].min()
    assert error[1] == best and done.tolist() == [10, 5] and not ended.any()


def test_tables_other_than_those_replayed_serve_nothing(rows: pd.DataFrame) -> None:
    runs = pair_runs(collect(rows))
    assert isinstance(runs.scale, str) and "is not the one that the records are of" in runs.scale
    assert set(at_equal_cost(runs)["measure"]) == {"error_pct"}
    live = pair_runs(collect(rows.assign(evaluator="live")))
    assert live.scale == "live runs have no tables, of which what there was to gain is read"


@pytest.mark.usefixtures("laid_out")
def test_the_command_draws_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_disk(tmp_path / "results", GRID[1:], WAYS[:4], [0, 1], 12)
    assert main(["anytime", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [str(tmp_path / "anytime.md"), str(tmp_path / "anytime.png")]
    caption, page = (tmp_path / "anytime.txt").read_text(), (tmp_path / "anytime.md").read_text()
    assert "over 3 of 144 problems, 2 seeds (replay); bands: 95 % t intervals over 3 data sets." in caption
    assert "No share of what there was to gain" in caption and "one choice for all problems" in caption
    numbers = pd.read_csv(tmp_path / "anytime.csv")
    row = numbers.query("family == 'CEI' and statistic == 'mean' and cost_pct == 40").iloc[0]
    assert f"| CEI | mean | {row['off']:.2f} [".split("mean")[0] in page and f"{row['off']:.2f} [" in page
    on_disk(tmp_path / "blind", GRID[1:], WAYS[1:2], [0], 12)
    assert main(["anytime", f"results_dir={tmp_path / 'blind'}", f"out_dir={tmp_path}"]) == 3
    assert "errors at equal cost needs the method ei: the records hold eipu" in capsys.readouterr().err


def test_from_python_bad_budgets_have_one_clear_line(rows: pd.DataFrame) -> None:
    found = analysis.anytime(rows, budgets=[30.0])
    assert (found.query("family == 'EI-n'")["off"] == 0).all()
    pd.testing.assert_frame_equal(found, analysis.anytime(rows, budgets=np.array([30.0])))
    for budgets in ([], [0.0], [120.0]):
        with pytest.raises(BadInput, match="budgets must be percentages above 0, up to 100"):
            analysis.anytime(rows, budgets=budgets)

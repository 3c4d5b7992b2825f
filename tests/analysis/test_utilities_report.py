"""The report on utilities, from records of a small study; its numbers against ones worked out by hand."""

from pathlib import Path

import pandas as pd
import pytest

from analysis import report, utilities, utilities_figure, utilities_report
from analysis.__main__ import main
from harness.errors import BadInput
from harness.records import TIMINGS, TRACE, block_files, read_timings, read_traces, write_block

ERRORS = {"ei": [0.5, 0.4, 0.2], "kg": [0.5, 0.1, 0.1], "mes": [0.5, 0.4, 0.2]}
COSTS = {"ei": [1.0, 1.0, 2.0], "kg": [1.0, 4.0, 1.0], "mes": [1.0, 0.5, 0.5]}


def record(folder: Path, utility: str, seed: int, **changes: object) -> None:
    n = len(ERRORS[utility])
    numbers = {"seed": [seed] * n, "step": list(range(n)), "candidate": list(range(n))}
    trace = {
        **{name: [0.5] * n for name in TRACE.names}, **numbers, "status": ["ok"] * n, "error": ERRORS[utility],
        "cost_s": COSTS[utility],
    }  # fmt: skip
    timings = {"seed": [seed], "step": [2], "fit_ms": [100.0], "propose_ms": [400.0 if utility == "kg" else 0.0]}
    assert set(timings) == set(TIMINGS.names)
    spec = {
        "dataset": "wine", "pipeline": "clean", "acq": "ei", "method": "ei", "evaluator": "replay", "utility": utility,
        "surrogate": "gp", "cost_model": "lv3", "cost_statistic": "exp_mean", "lam": None, "alpha": None, "tau": None,
        "iterations": 3, **changes,
    }  # fmt: skip
    write_block(folder, block_files(spec, [seed], trace, timings))


def arranged(folder: Path) -> utilities.Runs:
    return utilities.arrange(read_traces(folder), read_timings(folder))


def numbers(found: pd.DataFrame, measure: str) -> dict[str, float]:
    return found[found["measure"] == measure].set_index("label")["value"].to_dict()


def test_ranks_fronts_and_both_totals(tmp_path: Path) -> None:
    for seed in (0, 1):
        for utility in ERRORS:
            record(tmp_path, utility, seed)
    whole, n, short = utilities.at_horizon(arranged(tmp_path))
    found = utilities.complete(whole)
    assert (n, short, found.missing, found.partial) == (3, {}, {}, 0)
    ranks, relative = utilities_report.ranks(found), utilities_report.relative(found)
    assert numbers(ranks, "at the end") == {"ei x ei": 2.5, "kg x ei": 1.0, "mes x ei": 2.5}
    # EI trains for 4 s: within 2 s it has 0.4, kg its first 0.5, mes its last 0.2
    assert numbers(ranks, "within 50% of EI's training") == {"ei x ei": 2.0, "kg x ei": 3.0, "mes x ei": 1.0}
    # EI trains and thinks for 4.1 s: kg's second evaluation ends after 5 s
    assert numbers(ranks, "within EI's training + thinking") == {"ei x ei": 1.5, "kg x ei": 3.0, "mes x ei": 1.5}
    assert numbers(relative, "cost") == {"ei x ei": 100.0, "kg x ei": 150.0, "mes x ei": 50.0}
    assert numbers(relative, "error") == pytest.approx({"ei x ei": 100.0, "kg x ei": 50.0, "mes x ei": 100.0})
    assert numbers(relative, "both") == pytest.approx({"ei x ei": 100.0, "kg x ei": 650 / 4.1, "mes x ei": 210 / 4.1})
    parts, _ = utilities_report.tables(arranged(tmp_path))
    text = utilities_report.write(parts, ranks.assign(part="ranks"), tmp_path).read_text()
    assert "| kg x ei | 1.0 [1.0, 1.0] | 2.0 [2.0, 2.0] | 3.0 [3.0, 3.0] |" in text
    assert "| kg x ei | 150.0 [150.0, 150.0] | 50.0 [50.0, 50.0] | 500 | 6 | 0.5 | 6.5 |" in text
    assert "1 of 144 problems, 2 seeds (replay), 2 cells with every one of them" in text
    assert len(pd.read_csv(tmp_path / "utilities_numbers.csv")) == len(ranks)


def test_a_stall_of_the_host_is_not_thinking(tmp_path: Path) -> None:
    record(tmp_path, "kg", 0)
    timings = pd.DataFrame({"spec": read_traces(tmp_path)["spec"].iloc[0], "seed": 0, "step": [0, 1, 2],
                            "fit_ms": 1.0, "propose_ms": [1.0, 1.0, 99_999.0]})  # fmt: skip
    runs = utilities.arrange(read_traces(tmp_path), timings)
    assert runs.thought_s.tolist() == pytest.approx([0.024])
    assert runs.table["ms_per_step"].tolist() == [2.0]


def test_with_a_deadline_only_what_ends_in_time_counts_and_the_deadline_has_a_name(tmp_path: Path) -> None:
    for utility in ERRORS:
        record(tmp_path, utility, 0, tau=3.0)
    runs = arranged(tmp_path)
    part = utilities.with_deadlines(runs)["3 s"]
    assert dict(zip(part.table["utility"], part.final, strict=True)) == {"ei": 0.4, "kg": 0.5, "mes": 0.2}
    budgets = pd.Series([1.5], index=pd.MultiIndex.from_tuples([("wine", "clean")], names=["dataset", "pipeline"]))
    assert list(utilities.with_deadlines(runs, budgets)) == ["200% of the minimal budget"]
    parts = dict(utilities_report.tables(runs)[0])
    assert "Not computed: the runs of utilities other than ei all have a deadline." in parts["Utilities and cost rules"]
    assert "| mes x ei | 1.0 [1.0, 1.0] | 3 | 100 | 2 |" in parts["Utilities and cost rules within a deadline: 3 s"][-1]


def test_utilities_that_plan_count_only_where_they_planned_for_it(tmp_path: Path) -> None:
    """A longer run of kg begins with the shorter one; mcms would have chosen otherwise."""
    for utility in ("ei", "kg", "mcms"):
        ERRORS.setdefault(utility, ERRORS["kg"]), COSTS.setdefault(utility, COSTS["kg"])
        record(tmp_path, utility, 0, iterations=4)
    with pytest.raises(BadInput, match="needs runs of ei x ei with 3 evaluations"):
        record(tmp_path / "other", "kg", 0)
        utilities.at_horizon(arranged(tmp_path / "other"))
    found, n, short = utilities.at_horizon(arranged(tmp_path))
    assert sorted(found.table["label"]) == ["ei x ei", "kg x ei"]
    assert short == {"mcms x ei": 1}
    lead = utilities_report.tables(arranged(tmp_path))[0][0][1]
    assert f"Left out, shorter than {n} evaluations or planned for another length: mcms x ei (1 run)." in lead
    record(tmp_path, "mcms", 0)
    assert "mcms x ei" in set(utilities.at_horizon(arranged(tmp_path))[0].table["label"])


def test_of_a_study_that_is_under_way_the_part_with_most_runs_is_compared_and_named(tmp_path: Path) -> None:
    for seed in range(3):
        record(tmp_path, "ei", seed)
        record(tmp_path, "kg", seed)
    record(tmp_path, "mes", 0)
    found = utilities.complete(utilities.at_horizon(arranged(tmp_path))[0])
    assert found.labels == ["ei x ei", "kg x ei"]
    assert found.missing == {"mes x ei": 1}
    assert len(found.runs.table) == 6
    record(tmp_path, "mes", 1)
    record(tmp_path, "mes", 2)
    record(tmp_path, "ei", 3)
    found = utilities.complete(utilities.at_horizon(arranged(tmp_path))[0])
    assert (len(found.labels), found.missing, found.partial) == (3, {}, 1)


def test_an_error_over_fewer_cells_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where EI's error is 0 there is no percentage of it."""
    for seed in (0, 1):
        for utility in ("ei", "kg"):
            errors = [0.0] * 3 if (utility, seed) == ("ei", 1) else ERRORS[utility]
            monkeypatch.setitem(ERRORS, utility, errors)
            record(tmp_path, utility, seed)
            monkeypatch.undo()
    lines = utilities_report.tables(arranged(tmp_path))[0][0][1]
    assert any("| kg x ei | 150.0 [150.0, 150.0] | 50.0 [50.0, 50.0] (1 cells) |" in line for line in lines)


def test_rules_that_only_ei_has_are_not_compared(tmp_path: Path) -> None:
    for utility, rule in (("ei", "ei"), ("kg", "ei"), ("ei", "eicool")):
        record(tmp_path, utility, 0, acq=rule, method=rule)
    assert set(arranged(tmp_path).table["label"]) == {"ei x ei", "kg x ei"}


def test_the_report_holds_them_and_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.draw_all", lambda *given: [])  # drawn in test_report
    for utility in ("ei", "kg"):
        record(tmp_path / "results", utility, 0)
    report.write(tmp_path / "results", tmp_path / "out", {}, say=lambda line: None)
    text = (tmp_path / "out/report.md").read_text()
    assert "2 methods after 3 evaluations, over 1 of 144 problems, 1 seed (replay)" in text
    assert "![UTILITIES: cost against error, and mean ranks](utilities.png)" in text
    assert (tmp_path / "out/utilities.svg").stat().st_size > 0
    record(tmp_path / "plain", "ei", 0)
    report.write(tmp_path / "plain", tmp_path / "again", {}, say=lambda line: None)
    assert f"Not made: {utilities.NONE}." in (tmp_path / "again/report.md").read_text()


def test_the_command_and_what_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, "kg", 0)
    arguments = ["utilities", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]
    assert main(arguments) == 3
    assert "needs runs of ei x ei with 3 evaluations" in capsys.readouterr().err
    record(tmp_path, "ei", 1)
    with pytest.raises(BadInput, match="no problem and seed has runs of ei x ei and of another utility"):
        utilities_figure.draw(arranged(tmp_path), tmp_path)
    record(tmp_path, "ei", 0)
    assert main(arguments) == 0
    assert str(tmp_path / "out/utilities.png") in capsys.readouterr().out
    assert main([*arguments, "judge=test"]) == 0

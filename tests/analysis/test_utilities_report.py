"""The report on utilities, from records of a small study; its numbers against ones worked out by hand."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from analysis import utilities
from analysis import utilities as utilities_numbers
from analysis.__main__ import main
from analysis.evaluations import read_evaluations
from analysis.figures import utilities as utilities_figure
from analysis.figures import utilities as utilities_report
from analysis.statistics import resampling
from analysis.utilities import Runs, complete, refusal, utilities_at_horizon, with_deadlines
from datasets.errors import BadInput
from harness.records import TIMINGS, TRACE, block_files, read_timings, read_traces, write_block

ERRORS = {"ei": [0.5, 0.4, 0.2], "kg": [0.5, 0.1, 0.1], "mes": [0.5, 0.4, 0.2]}
COSTS = {"ei": [1.0, 1.0, 2.0], "kg": [1.0, 4.0, 1.0], "mes": [1.0, 0.5, 0.5]}


@pytest.fixture(autouse=True)
def only_these() -> Iterator[None]:
    """Take back what a test adds to ERRORS and COSTS."""
    before = dict(ERRORS), dict(COSTS)
    yield
    for own, was in zip((ERRORS, COSTS), before, strict=True):
        own.clear()
        own.update(was)


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


def arranged(folder: Path) -> Runs:
    return utilities.arrange(read_traces(folder), partial(read_timings, folder))


def numbers(found: pd.DataFrame, measure: str) -> dict[str, float]:
    return found[found["measure"] == measure].set_index("label")["value"].to_dict()


def test_means_relative_to_ei_are_of_sums_over_seeds(tmp_path: Path) -> None:
    for seed in (0, 1):
        for utility in ERRORS:
            record(tmp_path, utility, seed)
        COSTS["ei"] = [3 * cost for cost in COSTS["ei"]]
    found = utilities_numbers.relative(complete(utilities_at_horizon(arranged(tmp_path))[0]))
    expected = {"ei x ei": 100.0, "kg x ei": 100 * (6 + 6) / (4 + 12), "mes x ei": 100 * (2 + 2) / (4 + 12)}
    assert numbers(found, "cost") == pytest.approx(expected)


def test_ranks_fronts_and_both_totals(tmp_path: Path) -> None:
    for seed in (0, 1):
        for utility in ERRORS:
            record(tmp_path, utility, seed)
    whole, n, short = utilities_at_horizon(arranged(tmp_path))
    found = complete(whole)
    assert (n, short, found.missing, found.partial) == (3, {}, {}, 0)
    ranks, relative = utilities_numbers.utility_ranks(found), utilities_numbers.relative(found)
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
    assert "| kg x ei | 1.0 | -1.5 | 2.0 | 3.0 |" in text
    assert "| kg x ei | 150.0 | 50.0 | 500 | 6 | 0.5 | 6.5 |" in text
    assert "| mes x ei | 0% | 0% | 100% |" in text and "| kg x ei | 0% | 0% | 0% |" in text  # mes trains for 2 s, kg 6
    assert "1 of 144 problems, 2 seeds (replay), 2 cells with every one of them" in text
    assert len(pd.read_csv(tmp_path / "utilities_numbers.csv")) == len(ranks)


def test_a_stall_of_the_host_is_not_thinking(tmp_path: Path) -> None:
    record(tmp_path, "kg", 0)
    timings = pd.DataFrame({"spec": read_traces(tmp_path)["spec"].iloc[0], "seed": 0, "step": [0, 1, 2],
                            "fit_ms": 1.0, "propose_ms": [1.0, 1.0, 99_999.0]})  # fmt: skip
    runs = utilities.arrange(read_traces(tmp_path), lambda _: timings)
    assert runs.thought_s.tolist() == pytest.approx([0.024])
    assert runs.table["ms_per_step"].tolist() == [2.0]


def test_with_a_deadline_only_what_ends_in_time_counts_and_the_deadline_has_a_name(tmp_path: Path) -> None:
    for utility in ERRORS:
        record(tmp_path, utility, 0, tau=3.0)
    runs = arranged(tmp_path)
    part = with_deadlines(runs)["3 s"]
    assert dict(zip(part.table["utility"], part.final, strict=True)) == {"ei": 0.4, "kg": 0.5, "mes": 0.2}
    shorter = [f"{multiple} of the minimal budget" for multiple in ("50%", "100%", "200%")]
    assert list(with_deadlines(runs, BUDGETS)) == shorter
    parts = dict(utilities_report.tables(runs)[0])
    assert "Not computed: the runs of utilities other than ei all have a deadline." in parts["Utilities and cost rules"]
    assert "| mes x ei | 1.0 | -1.0 | 3 | 100 | 2 |" in parts["Utilities and cost rules within a deadline: 3 s"][-1]


BUDGETS = pd.Series([1.5], index=pd.MultiIndex.from_tuples([("wine", "clean")], names=["dataset", "pipeline"]))


def test_one_long_run_of_a_method_that_does_not_plan_serves_every_deadline(tmp_path: Path) -> None:
    """ei and kg ran for 5 s, mes without a deadline; mcms and EI-cool plan, and serve what they were made for."""
    for utility in ("ei", "kg"):
        record(tmp_path, utility, 0, tau=5.0)
    record(tmp_path, "mes", 0)
    for name in ("mcms", "bmsei"):
        ERRORS.setdefault(name, ERRORS["kg"]), COSTS.setdefault(name, [1.0, 1.0, 1.0])
    record(tmp_path, "mcms", 0, tau=3.0)
    record(tmp_path, "bmsei", 0, tau=5.0)
    for utility in ("ei", "kg"):
        record(tmp_path, utility, 0, tau=5.0, acq="eicool", method="eicool")
    runs = arranged(tmp_path)
    found = with_deadlines(runs, BUDGETS)
    multiples = [f"{multiple} of the minimal budget" for multiple in ("50%", "100%", "200%")]
    assert list(found) == [*multiples, "5 s"]

    def reached(name: str) -> dict[str, tuple[int, float, bool]]:
        part = found[name]
        rows = zip(part.table["evaluations"], part.final, part.table["capped"], strict=True)
        return dict(zip(part.table["label"], rows, strict=True))

    assert reached("200% of the minimal budget") == {
        "ei x ei": (2, 0.4, False), "kg x ei": (1, 0.5, False), "mcms x ei": (3, 0.1, False),
    }  # fmt: skip
    assert reached("5 s") == {
        "ei x ei": (3, 0.2, True), "kg x ei": (2, 0.1, False), "bmsei x ei": (3, 0.1, True),
        "ei x eicool": (3, 0.2, True), "kg x eicool": (2, 0.1, False),
    }  # fmt: skip
    assert {label: row[:2] for label, row in reached("100% of the minimal budget").items()} == {
        "ei x ei": (1, 0.5), "kg x ei": (1, 0.5), "mes x ei": (2, 0.4),
    }  # fmt: skip
    parts = dict(utilities_report.tables(runs, BUDGETS)[0])
    lead = " ".join(parts["Utilities and cost rules within a deadline: 5 s"])
    assert "3 runs made the last iteration before the deadline." in lead


def test_pairs_that_cannot_be_are_named_with_the_reason(tmp_path: Path) -> None:
    for tau in (None, 3.0):
        for utility, rules in (("ei", ("ei", "eipu")), ("kg", ("ei", "eipu")), ("pbgi", ("ei",)), ("mcms", ("ei",))):
            ERRORS.setdefault(utility, ERRORS["kg"]), COSTS.setdefault(utility, COSTS["kg"])
            for rule in rules:
                record(tmp_path, utility, 0, tau=tau, acq=rule, method=rule)
    parts = dict(utilities_report.tables(arranged(tmp_path))[0])
    free = parts["Utilities and cost rules: cost, error and thinking time"]
    timed = parts["Utilities and cost rules within a deadline: 3 s"]
    for lines in (free, timed):
        assert "Not defined: pbgi x eipu, since utility=pbgi has the cost inside its index" in " ".join(lines)
    assert "Not defined: mcms" not in " ".join(free)
    assert "Not defined: mcms x eipu, since utility=mcms with a deadline (tau)" in " ".join(timed)
    assert refusal("pbgi", "cei(lam=0.3)", False) and refusal("bmsei", "eialpha(alpha=0.5)", True)
    assert refusal("kg", "eipu", True) is refusal("bmsei", "cei(lam=0.3)", True) is refusal("own", "eipu", True) is None


def test_records_of_two_tables_or_two_settings_stand_together_only_where_that_is_said(tmp_path: Path) -> None:
    for utility, data in (("ei", "a"), ("kg", "b")):
        record(tmp_path / "tables", utility, 0, data=data, engine=2)
    for seed, made in ((0, {"_target_": "kg"}), (1, {"_target_": "kg", "marginal": True})):
        for utility in ("ei", "kg"):
            record(tmp_path / "settings", utility, seed, components={"utility": made if utility == "kg" else {}})
    record(tmp_path / "one", "kg", 1, components={"utility": {"_target_": "kg"}})

    def arranged_of(name: str, mixed: bool = False) -> Runs:
        folder = tmp_path / name
        return utilities.arrange(read_evaluations(folder), partial(read_timings, folder), mixed=mixed)

    with pytest.raises(BadInput, match=r"different tables .* or say mixed=true"):
        arranged_of("tables")
    with pytest.raises(BadInput, match=r"utility=kg were made with different settings of it: .* or say mixed=true"):
        arranged_of("settings")
    assert [len(arranged_of(name, mixed=True).table) for name in ("tables", "settings")] == [2, 4]
    assert len(arranged_of("one").table) == 1


@pytest.mark.usefixtures("undrawn")
def test_the_command_takes_budgets_from_the_runs_of_the_components_asked_for(tmp_path: Path) -> None:
    """Records of two evaluators without replay: nothing could be chosen but by the argument."""
    for evaluator in ("live", "surface"):
        for utility in ("ei", "kg"):
            record(tmp_path, utility, 0, evaluator=evaluator)
    arguments = ["utilities", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]
    assert main([*arguments, "evaluator=surface"]) == 0
    assert "1 seed (surface)" in (tmp_path / "out/utilities.md").read_text()


def test_one_longer_run_does_not_hide_the_others(tmp_path: Path) -> None:
    for utility in ("ei", "kg"):
        for seed in (0, 1, 2):
            record(tmp_path, utility, seed)
    ERRORS["mes"], COSTS["mes"] = [*ERRORS["kg"], 0.1], [*COSTS["kg"], 1.0]
    record(tmp_path, "mes", 0, iterations=4, dataset="wind")
    _, n, short = utilities.utilities_at_horizon(arranged(tmp_path))
    assert n == 3 and not short


def test_utilities_that_plan_count_only_where_they_planned_for_it(tmp_path: Path) -> None:
    """A longer run of kg begins with the shorter one; mcms would have chosen otherwise."""
    for utility in ("ei", "kg", "mcms"):
        ERRORS.setdefault(utility, ERRORS["kg"]), COSTS.setdefault(utility, COSTS["kg"])
        record(tmp_path, utility, 0, iterations=4)
    with pytest.raises(BadInput, match="needs runs of ei x ei with 3 evaluations"):
        record(tmp_path / "other", "kg", 0)
        utilities_at_horizon(arranged(tmp_path / "other"))
    found, n, short = utilities_at_horizon(arranged(tmp_path))
    assert sorted(found.table["label"]) == ["ei x ei", "kg x ei"]
    assert short == {"mcms x ei": 1}
    lead = utilities_report.tables(arranged(tmp_path))[0][0][1]
    assert f"Left out, shorter than {n} evaluations or planned for another length: mcms x ei (1 run)." in lead
    record(tmp_path, "mcms", 0)
    assert "mcms x ei" in set(utilities_at_horizon(arranged(tmp_path))[0].table["label"])


def test_of_a_study_that_is_under_way_the_part_with_most_runs_is_compared_and_named(tmp_path: Path) -> None:
    for seed in range(3):
        record(tmp_path, "ei", seed)
        record(tmp_path, "kg", seed)
    record(tmp_path, "mes", 0)
    found = complete(utilities_at_horizon(arranged(tmp_path))[0])
    assert found.labels == ["ei x ei", "kg x ei"]
    assert found.missing == {"mes x ei": 1}
    assert len(found.runs.table) == 6
    record(tmp_path, "mes", 1)
    record(tmp_path, "mes", 2)
    record(tmp_path, "ei", 3)
    found = complete(utilities_at_horizon(arranged(tmp_path))[0])
    assert (len(found.labels), found.missing, found.partial) == (3, {}, 1)


def test_one_method_recorded_twice_is_refused(tmp_path: Path) -> None:
    for n_initial in (5, 10):
        record(tmp_path, "kg", 0, n_initial=n_initial)
    with pytest.raises(BadInput, match=r"the run kg x ei on wine/clean seed 0 is recorded twice \(spec \w+, \w+\)"):
        arranged(tmp_path)


def test_a_rule_of_a_users_own_that_does_not_plan_serves_what_is_shorter(tmp_path: Path) -> None:
    for utility in ("ei", "kg"):
        record(tmp_path, utility, 0, acq="frugal", method="frugal(k=1)", plans_ahead=False, tau=5.0)
        record(tmp_path, utility, 0, tau=3.0)
    labels = set(with_deadlines(arranged(tmp_path))["3 s"].table["label"])
    assert labels == {"ei x ei", "kg x ei", "ei x frugal(k=1)", "kg x frugal(k=1)"}


def test_differences_of_ranks_are_paired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On seed 1 everything is as good; on seed 0 kg is 1.5 ranks ahead of the other two."""
    for seed in (0, 1):
        for utility in ERRORS:
            monkeypatch.setitem(ERRORS, utility, ERRORS[utility] if seed == 0 else ERRORS["ei"])
            record(tmp_path, utility, seed)
    found = complete(utilities_at_horizon(arranged(tmp_path))[0])
    with resampling("plain"):  # runs of one data set
        end = utilities_numbers.utility_ranks(found).query("measure == 'at the end'").set_index("label")
    assert end["value"].to_dict() == {"ei x ei": 2.25, "kg x ei": 1.5, "mes x ei": 2.25}
    assert end["off_value"].to_dict() == {"ei x ei": 0.0, "kg x ei": -0.75, "mes x ei": 0.0}
    assert (end.loc["mes x ei", "off_low"], end.loc["mes x ei", "off_high"]) == (0.0, 0.0)
    with resampling("plain"):
        parts, _ = utilities_report.tables(arranged(tmp_path))
    assert "| kg x ei | 1.5 [1.0, 2.0] | -0.8 [-1.5, 0.0] |" in parts[1][1][1]


def test_deadlines_of_other_budgets_are_one_line(tmp_path: Path) -> None:
    """Two problems with two deadlines each: of these budgets none is a multiple, of those all are."""
    for dataset in ("wine", "wind"):
        for tau in (1.5, 3.0):
            for utility in ("ei", "kg"):
                record(tmp_path, utility, 0, tau=tau, dataset=dataset)
    runs, at = arranged(tmp_path), pd.MultiIndex.from_product([["wine", "wind"], ["clean"]])
    own, other = (pd.Series(s, index=at.set_names(["dataset", "pipeline"])) for s in (1.5, 1.4))
    assert "within other deadlines" not in str(utilities_report.tables(runs, own)[0])
    titles = dict(utilities_report.tables(runs, other)[0])
    (line,) = titles["Utilities and cost rules within other deadlines"]
    assert line.startswith("Left out: 4 runs on 2 problems with deadlines that are no multiple")
    assert "the study's runs in this results_dir" in line
    assert not any(title.endswith(" s") for title in titles)


@pytest.mark.usefixtures("undrawn")
def test_the_command_and_what_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, "kg", 0)
    arguments = ["utilities", f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"]
    assert main(arguments) == 3
    assert "needs runs of ei x ei with 3 evaluations" in capsys.readouterr().err
    record(tmp_path, "ei", 1)
    with pytest.raises(BadInput, match="no problem and seed has runs of ei x ei and of another utility"):
        utilities_figure.draw_utilities(arranged(tmp_path), tmp_path)
    record(tmp_path, "ei", 0)
    assert main(arguments) == 0
    assert str(tmp_path / "out/utilities.png") in capsys.readouterr().out
    assert main([*arguments, "judge=test"]) == 0

"""The summary, the problem table, and the command line."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables
from synthetic_records import Way, block, frame, on_disk, percent_of_sums, spec

from analysis import captions, report
from analysis.__main__ import COMMANDS, Arguments, main, parse
from analysis.captions import caveats, footnote, with_caveat
from analysis.claims.verdicts import Verdict
from analysis.figures import tables as problems
from analysis.report import summary
from analysis.report.sections import Records
from analysis.report.summary import lines, provenance
from analysis.traces import collect
from datasets.errors import BadInput
from harness.records import TIMINGS, block_files, specs, write_block
from tabular_cache.table import read_table, table_entry

ALLOWED = "results_dir, out_dir, bootstrap, judge, mixed, evaluator, utility, surrogate, cost_model, cost_statistic"
WAYS = [Way("ei"), Way("eialpha", alpha=0.2), Way("eipu"), Way("cei", lam=0.1), Way("eicool")]
GRID = [("wind", "clean"), ("wine", "onehot"), ("hiva", "clean")]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """A small grid with a marked data set and failures."""
    return frame(GRID, WAYS, [0, 1], 25, fail=0.05)


def cell(text: str, section: str, method: str, column: str) -> str:
    """The entry of a printed table."""
    table = [line for line in text.split(f"## {section}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    split = [[c.strip() for c in line.strip("|").split(" | ")] for line in table]
    row = next(r for r in split if r[0] == method)
    return row[split[0].index(column)]


def test_summary_numbers_with_and_without_marked_data_sets(rows: pd.DataFrame, tmp_path: Path) -> None:
    text = summary.write(collect(rows), {}, {}, tmp_path)
    assert (tmp_path / "summary.md").read_text() == text
    cost = rows.groupby(["dataset", "seed", "method"])["cost_s"].sum().unstack("method")
    percent, sums = 100 * cost["cei(lam=0.1)"] / cost["ei"], percent_of_sums(cost, "cei(lam=0.1)")
    heading = "Cost and error relative to EI"
    assert cell(text, heading, "CEI 0.1", "mean cost (%)").startswith(f"{sums.mean():.2f} [")
    assert cell(text, heading, "CEI 0.1", "median cost (%)") == f"{percent.median():.2f}"  # of few data sets
    assert cell(text, heading, "EI-cool", "pairs") == "6"
    assert cell(text, heading, "EI", "mean error (%)") == "100.00 [100.00, 100.00]"
    unmarked = sums.drop("hiva").mean()
    assert cell(text, f"{heading}, without hiva", "CEI 0.1", "mean cost (%)").startswith(f"{unmarked:.2f} [")
    numbers = pd.read_csv(tmp_path / "relative.csv", keep_default_na=False)
    assert set(numbers["without"]) == {"", "hiva"}
    failed = int(rows["error"].isna().sum())
    assert f"30 runs, {len(rows)} evaluations, of which {failed} failed" in text
    assert "| hiva† (partial) |" in text and "Marked data sets: hiva† (partial)." in text


def test_the_summary_names_the_error_that_was_judged(rows: pd.DataFrame, tmp_path: Path) -> None:
    text = summary.write(collect(rows, judge="test"), {}, {}, tmp_path)
    assert all(said in text for said in ("Errors are test errors", "best test error after", "by the test error"))
    assert all(set(pd.read_csv(tmp_path / f"{name}.csv")["judge"]) == {"test"} for name in ("relative", "ranks"))


def test_summary_ranks_are_those_of_their_family(rows: pd.DataFrame, tmp_path: Path) -> None:
    summary.write(collect(rows), {}, {}, tmp_path)
    ranks = pd.read_csv(tmp_path / "ranks.csv", keep_default_na=False)
    whole = ranks[ranks["without"] == ""]
    assert set(whole.loc[whole["family"] == "cei", "method"]) == {"ei", "eipu", "cei(lam=0.1)"}
    assert set(whole.loc[whole["family"] == "eialpha", "method"]) == {"ei", "eialpha(alpha=0.2)", "eipu"}
    sums = ranks.groupby(["family", "without", "multiple", "equal_money"])["value"].sum()
    np.testing.assert_allclose(sums, 6.0, rtol=1e-4)
    assert set(ranks["multiple"]) == {0.5, 1, 2, 5, 10, 20}


def test_summary_says_what_it_cannot_compute(rows: pd.DataFrame, tmp_path: Path) -> None:
    text = summary.write(collect(rows[rows["method"] == "eipu"]), {}, {"f3": "F3 needs the method ei"}, tmp_path)
    assert "Not computed: the summary needs the method ei: the records hold eipu." in text
    assert "Not computed: the summary needs two methods or more, got: eipu." in text
    assert "F3 was not drawn: F3 needs the method ei." in text
    assert not (tmp_path / "relative.csv").exists()


def test_provenance_lists_what_the_grid_does_not_vary(tmp_path: Path) -> None:
    on_disk(tmp_path, GRID, WAYS, [0, 1], 6)
    settings = provenance(specs(tmp_path))
    assert settings["evaluator"] == Counter({'"replay"': 15})
    assert "lam" not in settings and "dataset" not in settings
    assert '- surrogate: `"gp"`' in lines(settings) and "- n_initial: `5`" in lines(settings)
    many = {"seed": Counter({str(i): 1 for i in range(4)}), "two": Counter({"1": 2, "2": 1})}
    assert lines(many) == ["- seed: 4 different values", "- two: `1` (2 blocks), `2` (1 blocks)"]
    on_disk(tmp_path, GRID[:1], WAYS[:1], [0], 6, plans_ahead=False, n_initial=4)
    assert "- plans_ahead: `false` (1 blocks), not set (15 blocks)" in lines(provenance(specs(tmp_path)))


def test_a_problem_whose_runs_all_failed_has_no_best_error(rows: pd.DataFrame) -> None:
    failed = rows.assign(error=rows["error"].where(rows["dataset"] != "wind"))
    found = problems.seen(collect(failed)).set_index("dataset")
    assert found.loc["wind", ["best error", "worst error"]].isna().all()
    own = rows.loc[rows["dataset"] == "hiva", "error"]
    assert (found.loc["hiva† (partial)", ["best error", "worst error"]] == [own.min(), own.max()]).all()


def test_caveats_are_the_catalogues() -> None:
    assert caveats() == {"bach": "identity uncertain", "hiva": "partial", "mtp": "stand-in"}
    assert with_caveat("hiva") == "hiva† (partial)" and with_caveat("wind") == "wind"
    assert footnote(["wind", "mtp", "mtp"]) == "Marked data sets: mtp† (stand-in)."
    assert footnote(["wind"]) == ""


def test_markdown() -> None:
    table = captions.markdown_table(pd.DataFrame({"a|b": ["x|y"], "n": [1234.0], "m": [0.012345]}))
    assert table.splitlines() == ["| a|b | n | m |", "| --- | ---: | ---: |", "| x\\|y | 1,234 | 0.01235 |"]
    assert captions.format_number(np.nan) == "-" and captions.format_interval(np.nan, 0, 1) == "-"


META = {
    "n_train": 60,
    "n_valid": 20,
    "n_test": 20,
    "width_before": 4,
    "width_after": 9,
    "task": "binary",
    "n_classes": 2,
    "configs": 3,
}


def test_problem_lines_by_hand(tmp_path: Path) -> None:
    rows = pd.DataFrame({"val_error": [0.5, 0.2, np.nan, 0.3], "scaled_s": [1.0, 8.0, 90.0, 3.0]})
    line = problems.problem("hiva/clean", rows, META)
    assert line["rows"] == 100 and line["width"] == 9 and line["classes"] == 2 and line["failed"] == 1
    assert (line["mean cost (s)"], line["maximum cost (s)"], line["slowest/fastest"]) == (4.0, 8.0, 8.0)
    assert (line["best error"], line["worst error"]) == (0.2, 0.5)
    other = problems.problem("abalone/clean", rows, META)
    found = problems.write([line, other], tmp_path)
    assert found["dataset"].tolist() == ["abalone", "hiva"]
    text = (tmp_path / "problems.md").read_text()
    assert "| hiva† (partial) | clean | 100 |" in text
    assert pd.read_csv(tmp_path / "problems.csv")["dataset"].tolist() == ["abalone", "hiva"]


def test_problem_tables_that_say_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a/b has no successful row"):
        problems.problem("a/b", pd.DataFrame({"val_error": [np.nan], "scaled_s": [1.0]}), META)
    with pytest.raises(BadInput, match="no tables to describe"):
        problems.write([], tmp_path)


def test_the_problems_of_replayed_records_are_described_from_their_tables(tmp_path: Path) -> None:
    tables = make_tables(tmp_path / "tables", ["wind/clean", "wine/onehot"], 8)
    traces = collect(frame(GRID[:2], WAYS, [0], 12))
    evaluator = {"_target_": "tabular_cache.replay.Replay", "tables": str(tables)}
    settings = {"components": Counter([json.dumps({"evaluator": evaluator})])}
    text = problems.of_records(settings, traces, tmp_path)
    rows = sum(len(read_table(name, tables)) for name in ("wind/clean", "wine/onehot"))
    assert f"describes the 2 measured tables: {rows} rows. 0 of 16 trainings were cut short" in text
    found = pd.read_csv(tmp_path / "problems.csv").set_index("dataset")
    table = read_table("wind/clean", tables)
    assert found.loc["wind", "best error"] == pytest.approx(table["val_error"].min(), rel=1e-5)
    assert found.loc["wind", "maximum cost (s)"] == pytest.approx(table["scaled_s"].max(), rel=1e-5)
    assert found.loc["wind", "cut short"] == 0
    live = collect(frame(GRID[:2], WAYS, [0], 12, evaluator="live"), {"evaluator": "live"})
    assert "is made for replayed records" in problems.of_records(settings, live, tmp_path)


def test_records_of_other_tables_than_those_described_are_told(tmp_path: Path) -> None:
    tables = make_tables(tmp_path, ["wind/clean", "wine/onehot"], 8)
    now = {name: table_entry(name, tables)["sha256"] for name in ("wind/clean", "wine/onehot")}
    rows = [{"dataset": n.partition("/")[0], "pipeline": n.partition("/")[2], "data": sha} for n, sha in now.items()]
    same = pd.DataFrame([*rows, {"dataset": "a1a", "pipeline": "clean", "data": "of another folder"}])
    part = same.assign(data=same["data"] + "-first-4")
    other = same.assign(data=["older", *same["data"][1:]])
    assert problems.of_other_tables({"the runs": same, "the fronts": part, "costs": None}, tables) == ""
    told = problems.of_other_tables({"the runs": other, "the fronts": same}, tables)
    assert told.endswith("which changed since: the runs on 1 problem.")


def no_claims(records: Records) -> list[Verdict]:
    raise BadInput("none here")


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_when_tables_have_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.draw_all", lambda *given, **which: [])
    tables = make_tables(tmp_path / "tables", ["wind/clean"], 8)
    for name, data in (("same", table_entry("wind/clean", tables)["sha256"]), ("older", "another")):
        for way in (Way("ei"), Way("eipu")):
            evaluator = {"_target_": "tabular_cache.replay.Replay", "tables": str(tables)}
            described = spec("wind", "clean", way, 7) | {"data": data, "components": {"evaluator": evaluator}}
            timings: dict[str, list[float]] = {column: [] for column in TIMINGS.names}
            write_block(tmp_path / name, block_files(described, [0], block("wind", "clean", way, [0], 7), timings))
        report.write(tmp_path / name, tmp_path / f"{name}-page", {}, evaluate=no_claims, say=lambda line: None)
        page = (tmp_path / f"{name}-page" / "report.md").read_text()
        assert page.count("changed since: the runs on 1 problem.") == (0 if name == "same" else 2)


def test_arguments(tmp_path: Path) -> None:
    usual = {"bootstrap": "datasets", "judge": "validation", "mixed": "false"}
    assert parse([f"results_dir={tmp_path}"]) == Arguments("all", tmp_path, Path("report"), {}, usual)
    found = parse(["out_dir=x/y", "figures", f"results_dir={tmp_path}", "evaluator=live", "judge=test"])
    assert found == Arguments("figures", tmp_path, Path("x/y"), {"evaluator": "live"}, {**usual, "judge": "test"})


def test_help_names_every_command_with_the_first_line_of_its_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    for name, command in COMMANDS.items():
        assert command.summary.endswith(".") and f"  {name:<13}  {command.summary}" in lines


@pytest.mark.parametrize(("argv", "line"), [
    (["figure"], r"unknown command 'figure' \(did you mean figures\?\); allowed: all, figures"),
    (["result_dir=x"], rf"unknown setting 'result_dir' \(did you mean results_dir\?\); allowed: {ALLOWED}"),
    (["out_dir="], r"out_dir is empty"),
    (["all", "figures"], r"command is given twice"),
    (["results_dir=nowhere"], r"results_dir=nowhere is no folder"),
    (["bootstrap=both"], r"bootstrap must be one of datasets, hierarchical, plain, got 'both'"),
    (["judge=me"], r"judge must be one of validation, test, got 'me'"),
])  # fmt: skip
def test_wrong_arguments_are_refused(argv: list[str], line: str) -> None:
    with pytest.raises(BadInput, match=line):
        parse(argv)


def test_records_that_are_not_there_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"no records in {tmp_path}"):
        main([f"results_dir={tmp_path}", f"out_dir={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()


def test_an_out_dir_that_cannot_be_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for out in (file, file / "below"):
        with pytest.raises(BadInput, match=f"out_dir: {file} is not a folder"):
            parse([f"results_dir={tmp_path}", f"out_dir={out}"])


@pytest.mark.slow
@pytest.mark.usefixtures("laid_out")
def test_the_command_writes_figures_and_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    on_disk(results, [("wind", "clean")], WAYS, [0], 12)
    assert main(["all", f"results_dir={results}", f"out_dir={out}"]) == 0
    said = capsys.readouterr()
    listed = {Path(line).name for line in said.out.splitlines()}
    assert said.err == "" and listed == {
        "summary.md",
        *(f"{f}.{s}" for f in ("f3", "f4", "f5", "f6", "anytime", "cd") for s in ("png", "svg", "csv", "txt")),
    }
    assert {p.name for p in out.iterdir()} == listed | {"relative.csv", "ranks.csv"}
    text = (out / "summary.md").read_text()
    assert "![F5](f5.png)" in text and "- surrogate: " in text


@pytest.mark.usefixtures("undrawn")
def test_figures_that_cannot_be_drawn_are_said_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    on_disk(results, [("wind", "clean")], [Way("eipu")], [0], 8)
    assert main(["all", f"results_dir={results}", f"out_dir={out}"]) == 3
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 6 and err[0].startswith("error: f3 was not drawn: F3 needs the method ei")
    assert [p.name for p in out.iterdir()] == ["summary.md"]


def test_an_evaluator_without_records_is_refused(tmp_path: Path) -> None:
    on_disk(tmp_path, [("wind", "clean")], [Way("ei")], [0], 8)
    with pytest.raises(BadInput, match="no runs of evaluator=live; the records hold: replay"):
        main(["summary", f"results_dir={tmp_path}", "evaluator=live", f"out_dir={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()

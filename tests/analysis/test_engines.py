"""Engines compared on made-up records."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic_records import Way, on_disk

from analysis import density
from analysis.__main__ import main
from analysis.density import settings
from analysis.evaluations import check_same_tables
from datasets.errors import BadInput
from harness.records import read_traces

WAYS = (Way("ei"), Way("cei", lam=0.1))
PROBLEMS = [("a", "p"), ("a", "q"), ("b", "p")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("fast", "gpyopt"):
        on_disk(tmp_path / "all" / name, PROBLEMS, WAYS, (0, 1, 2), 20)
    return tmp_path / "all"


def test_ratios_by_hand(folder: Path) -> None:
    traces = settings(folder, "fast")
    assert list(traces) == ["fast", "gpyopt"]
    own = traces["gpyopt"]
    dearer = replace(own, cost_s=own.cost_s * np.where(own.runs["method"] == "ei", 1.5, 1.0)[:, None])
    found = density.ratios({"fast": traces["fast"], "gpyopt": dearer}).set_index(["measure", "method"])
    assert found.loc[("total_cost_s", "ei"), ["value", "low", "high"]].to_numpy() == pytest.approx([50.0] * 3)
    assert found.loc[("total_cost_s", "cei(lam=0.1)"), "value"] == pytest.approx(0.0)
    assert found.loc[("final_error", "ei"), "value"] == pytest.approx(0.0)
    assert (found["n"] == 9).all()


def test_the_report_has_every_table(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines", f"results_dir={folder}", f"out_dir={tmp_path / 'out'}"]) == 0
    text = Path(capsys.readouterr().out.strip()).read_text()
    assert "Runs of 20 evaluations, paired by problem and seed. 95 % t intervals over data sets" in text
    assert "over the 3 problems and 9 problem-seed pairs that every engine was run on" in text
    assert text.count("| gpyopt | ei | 0.00 [0.00, 0.00] | 0.00 [0.00, 0.00] | 9 |") == 1
    assert "| cei(lam=0.1) | gpyopt |" in text and "### Error added" in text


def test_engines_on_different_tables_are_refused(folder: Path) -> None:
    traces = {n: read_traces(folder / n).assign(data=d) for n, d in (("fast", "old"), ("gpyopt", "new"))}
    with pytest.raises(BadInput, match="a/p: fast and gpyopt were replayed from different tables"):
        check_same_tables(traces)
    check_same_tables({n: frame.assign(evaluator="live") for n, frame in traces.items()})
    check_same_tables({"exact": traces["fast"].assign(data="old-first-64"), "base": traces["fast"]})


def test_nothing_to_compare_is_one_line(folder: Path) -> None:
    traces = settings(folder, "fast")
    free = replace(traces["gpyopt"], error=0.0 * traces["gpyopt"].error)
    with pytest.raises(BadInput, match="gpyopt and fast: no problem, seed and method with a final error under"):
        density.ratios({"fast": traces["fast"], "gpyopt": free})


@pytest.mark.parametrize(("gone", "message"), [("fast", "needs a folder 'fast'"), ("gpyopt", "no engine to compare")])
def test_one_engine_alone_is_refused(folder: Path, tmp_path: Path, gone: str, message: str) -> None:
    (folder / gone).rename(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=message):
        density.engines_page(folder, tmp_path / "out")

"""The live runs that replay is held against: gathered without a change, and those shipped."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, on_disk

from datasets.errors import BadInput
from harness.problem import OK
from harness.records import read_header, read_timings, read_traces, trace_files
from tabular_cache import live_truth
from tabular_cache.__main__ import main
from tabular_cache.schema import problem_name
from tabular_cache.table import read_manifest

WAYS = (Way("ei"), Way("cei", lam=0.3))
PROBLEMS = [("abalone", "clean"), ("abalone", "onehot"), ("wine", "clean")]
RUN = ["dataset", "pipeline", "method", "seed", "step"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for seeds in ((2, 3), (0,), (1,)):
        on_disk(tmp_path / "results", PROBLEMS, WAYS, seeds, 12)
    return tmp_path / "results"


def test_what_is_gathered_is_what_was_run(results: Path, tmp_path: Path) -> None:
    found = live_truth.gather_live_runs(results, {("abalone", "clean"), ("wine", "clean")}, tmp_path / "truth")
    assert [runs for _, runs in found] == [4] * 4
    files = trace_files(tmp_path / "truth")
    assert [path.name for path in files] == ["seeds-0-3.parquet"] * 4
    assert {tuple(read_header(path)["seeds"]) for path in files} == {(0, 1, 2, 3)}
    one, other = read_traces(results), read_traces(tmp_path / "truth")
    one = one[(one["pipeline"] == "clean")]
    kinds = dict.fromkeys(one.select_dtypes("category").columns, str)
    one, other = (frame.astype(kinds).sort_values(RUN, ignore_index=True) for frame in (one, other))
    pd.testing.assert_frame_equal(one, other)
    own = read_timings(results).merge(read_timings(tmp_path / "truth"), on=["spec", "seed", "step"])
    assert len(own) == 4 * 4 * 12
    np.testing.assert_array_equal(own["fit_ms_x"], own["fit_ms_y"])


def test_versions_are_those_of_the_runs(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.records.versions", lambda: {"numpy": "0"})
    live_truth.gather_live_runs(results, {("wine", "clean")}, tmp_path / "truth")
    (first, second) = trace_files(tmp_path / "truth")
    assert read_header(first)["versions"] == read_header(second)["versions"] != {"numpy": "0"}
    on_disk(results, [("wine", "clean")], WAYS, (7,), 12)
    with pytest.raises(BadInput, match="made with several versions of the libraries cannot be one block"):
        live_truth.gather_live_runs(results, {("wine", "clean")}, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("damage", ["flip", "missing"])
def test_damaged_milliseconds_are_refused_before_anything_is_written(
    damage: str, results: Path, tmp_path: Path
) -> None:
    path = sorted(results.rglob("*.timings.parquet"))[-1]
    content = path.read_bytes()
    at = len(content) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    if damage == "missing":
        path.unlink()
    problem = (path.parts[-4], path.parts[-3])
    with pytest.raises(BadInput, match=f"damaged record .*{path.name}"):
        live_truth.gather_live_runs(results, {problem}, tmp_path / "truth")
    assert not (tmp_path / "truth").exists()


def test_nothing_is_written_over(results: Path, tmp_path: Path) -> None:
    live_truth.gather_live_runs(results, {("wine", "clean")}, tmp_path / "truth")
    before = {path: path.read_bytes() for path in trace_files(tmp_path / "truth")}
    with pytest.raises(BadInput, match="has runs of it already: move them away"):
        live_truth.gather_live_runs(results, {("wine", "clean"), ("abalone", "clean")}, tmp_path / "truth")
    assert {path: path.read_bytes() for path in trace_files(tmp_path / "truth")} == before


def test_the_command(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["truth", f"results_dir={results}", f"truth={tmp_path / 'truth'}", "dataset=[wine]"]
    monkeypatch.setattr("sys.argv", ["tabular_cache", *arguments])
    assert main() == 0
    assert capsys.readouterr().out.splitlines() == ["wine/clean cei(lam=0.3): 4 runs", "wine/clean ei: 4 runs"]
    monkeypatch.setattr("sys.argv", ["tabular_cache", *arguments[:2], "dataset=[hiva]"])
    with pytest.raises(BadInput, match="no runs of these problems"):
        main()


def test_the_shipped_runs_are_those_of_the_comparison() -> None:
    frame, tables = read_traces(live_truth.TRUTH), read_manifest()["tables"]
    assert set(frame["evaluator"]) == {"live_paced"} and (frame["status"] == OK).all()
    runs = frame.groupby(["dataset", "pipeline", "method"], observed=True)
    assert len(runs) == 6 * 8 and (runs["seed"].nunique() == 10).all() and (runs.size() == 10 * 100).all()
    for (dataset, pipeline), part in frame.groupby(["dataset", "pipeline"], observed=True):
        assert set(part["data"]) == {tables[problem_name(dataset, pipeline)]["data_hash"]}
        assert tables[problem_name(dataset, pipeline)]["configs"] == 4096

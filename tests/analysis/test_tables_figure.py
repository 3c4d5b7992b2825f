"""The picture of the tables: fronts against brute force, and the command."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
import pipelines
from analysis.__main__ import main
from analysis.figures.tables import numbers
from analysis.traces import front
from datasets.errors import BadInput
from tabular_cache.table import read_table

VALUES = st.lists(st.tuples(st.integers(1, 6), st.one_of(st.integers(0, 6), st.just(float("nan")))), max_size=25)


@given(VALUES)
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    cost, error = np.array([p[0] for p in points], float), np.array([p[1] for p in points], float)
    rows = front(cost, error)
    found = list(zip(cost[rows], error[rows], strict=True))
    finite = {(c, e) for c, e in points if np.isfinite(e)}
    best = {p for p in finite if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in finite)}
    assert found == sorted(best)


def test_every_problem_is_there_with_its_lowest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "names", lambda: ["wine", "hiva"])
    found = numbers()
    assert len(found.drop_duplicates(["dataset", "pipeline"])) == 2 * len(pipelines.names())
    own = found[(found["dataset"] == "wine") & (found["pipeline"] == "clean")]
    table = read_table("wine/clean")
    errors = table["val_error"][table.measured]
    assert own["error"].min() == np.nanmin(errors)
    assert own["cost_s"].min() == table["scaled_s"][table.measured].min()
    assert (np.diff(own["cost_s"]) > 0).all() and (np.diff(own["error"]) < 0).all()


@pytest.mark.usefixtures("laid_out")
def test_the_command_draws_without_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "names", lambda: ["wine", "hiva"])
    assert main(["tables", f"out_dir={tmp_path}"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"tables.{end}" for end in ("png", "svg", "csv", "txt")}
    caption = (tmp_path / "tables.txt").read_text()
    assert "16 problems" in caption and "hiva† (partial)" in caption
    assert "tables.png" in capsys.readouterr().out


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no tables in"):
        numbers(tmp_path)

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fakes import make_tables

import datasets
from datasets.errors import BadInput
from tabular_cache import card
from tabular_cache.__main__ import main
from tabular_cache.schema import file_stem, sha256_of
from tabular_cache.table import TABLES, has_base, load_table, read_manifest

SHIPPED = TABLES.parent / card.CROISSANT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tables(tmp_path / "tables", ["a/p", "a/q"])


def test_a_line_is_what_the_rows_of_its_table_say(folder: Path) -> None:
    table = load_table("a/p", folder)
    again = pd.DataFrame({"problem": ["a/p", "a/p", "a/q"], "cv_scaled": [0.1, 0.3, 0.9]})
    found = card.line(table, again)
    rows = pq.read_table(folder / "a--p.parquet").to_pandas()
    own = rows[rows["own"]]
    cut = own["status"] == "timeout"
    assert (found.rows, found.configs) == (len(rows), rows["config"].nunique())
    assert found.cut == cut.mean()
    assert (found.least_s, found.most_s) == (own["scaled_s"].min(), own["scaled_s"].max())
    assert found.best_error == pytest.approx(rows["val_error"].min())
    last = rows[rows["status"] != "timeout"].sort_values("n_estimators").groupby("config").tail(1)["val_error"].dropna()
    assert found.commonest == pytest.approx(last.value_counts().iloc[0] / len(last))
    assert (found.noise, found.repeated) == (pytest.approx(0.2), 2)


def test_a_data_set_is_flat_by_the_median_of_its_problems() -> None:
    shares = {"x": [0.5, 0.7, 0.9], "y": [0.9, 0.6, 0.65], "z": [2 / 3]}
    assert card.flat({(name, str(k)): s for name, all_ in shares.items() for k, s in enumerate(all_)}) == ["x", "z"]


def test_rows_seen_in_training_are_counted_by_all_their_inputs() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.integers(0, 6, 200), "s": pd.Categorical(rng.choice(list("abc"), 200))})
    dataset = datasets.Dataset("made", frame, rng.normal(size=200), "regression", (), "", "", "")
    split = datasets.split(dataset)
    rows = [tuple(row) for row in frame.astype(object).to_numpy()]
    assert card.seen_in_training(dataset) == tuple(
        sum(any(rows[i] == rows[j] for j in split.train) for i in part) / len(part)
        for part in (split.valid, split.test)
    )


def test_the_card_is_written_above_its_tables_and_says_what_they_hold(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tabular_cache", "card", f"tables={folder}"])
    assert main() == 0
    text = (folder.parent / "CARD.md").read_text()
    assert str(folder.parent / "CARD.md") in capsys.readouterr().out
    assert "2 tables, 32 configurations" in text and "| a/q |" in text
    described = json.loads((folder.parent / "croissant.json").read_text())
    names = [each["@id"] for each in described["distribution"] if each["@type"] == "cr:FileObject"]
    assert names == ["tables/a--p.parquet", "tables/a--q.parquet", "tables/noise.parquet"]


def test_a_folder_that_the_tables_are_not_below_is_refused_in_a_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must lie above"):
        card.write([("a", "p")], folder, tmp_path / "elsewhere")


def test_the_shipped_description_is_of_the_shipped_files_and_their_columns() -> None:
    described = json.loads(SHIPPED.read_text())
    files = {f["@id"]: f["sha256"] for f in described["distribution"] if f["@type"] == "cr:FileObject"}
    assert len(files) > 144
    for problem, entry in read_manifest(TABLES)["tables"].items():  # what a table measured from scratch replaced is not
        assert (f"tables/{file_stem(problem)}.parquet" in files) == has_base(entry), problem
    assert {name: sha256_of((SHIPPED.parent / name).read_bytes()) for name in files} == files
    for records, pattern in (("rows", "abalone--clean.parquet"), ("repeated", "noise.parquet")):
        fields = next(r["field"] for r in described["recordSet"] if r["@id"] == records)
        columns = [f["source"]["extract"]["column"] for f in fields if "column" in f["source"]["extract"]]
        assert columns == pq.read_schema(TABLES / pattern).names
        assert all(len(f["description"]) > 5 for f in fields)


def test_mlcroissant_reads_the_shipped_description_without_a_complaint() -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed: its stubs disturb mypy's")
    found = mlcroissant.Dataset(str(SHIPPED))
    assert not found.metadata.ctx.issues.errors and not found.metadata.ctx.issues.warnings
    row = next(itertools.islice(found.records("rows"), 5, None))
    assert (row["rows/dataset"], row["rows/pipeline"]) == (b"abalone", b"clean")
    table = load_table("abalone/clean")
    assert row["rows/val_error"] == pq.read_table(TABLES / "abalone--clean.parquet")["val_error"][5].as_py()
    assert row["rows/config"] == table["config"][5]

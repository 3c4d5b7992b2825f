"""Rows of tables: what trainings become, which measurement is kept, and tables whose contents make no sense."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, make_tables, vouch

from datasets.errors import BadInput
from tabular_cache.schema import METRICS, SCHEMA, SEAL, configuration, merge_rows, to_rows
from tabular_cache.store import Store
from tabular_cache.table import load_table, read_manifest

Rows = Callable[[pa.Table], pa.Table]


def test_a_journal_line_becomes_rows_to_the_last_bit() -> None:
    line = journal_line(5)
    rows = to_rows(line)
    assert rows.schema.names == SCHEMA.names
    for name in METRICS:
        assert np.array_equal(rows[name].to_numpy(), np.float32(line[name]))
    assert rows["n_estimators"].to_pylist() == line["rounds"]
    assert rows["own"].to_pylist() == [r == configuration(5)[0] for r in line["rounds"]]
    assert rows["subsample"].to_pylist() == [np.float32(configuration(5)[5])] * len(rows)


def test_a_failed_training_is_one_row_with_its_cost_and_no_error() -> None:
    line = journal_line(5, status="failed") | {"rounds": [], **{name: [] for name in METRICS}}
    rows = to_rows(line)
    assert len(rows) == 1
    assert (rows["status"].to_pylist(), rows["own"].to_pylist()) == (["failed"], [True])
    assert np.isnan(rows["val_error"].to_numpy()).all()
    assert rows["cpu_s"].to_pylist() == [np.float32(line["spent_cpu_s"])]


def test_what_is_no_problem_is_named(tmp_path: Path) -> None:
    for name in ("a--p", "/p", "a/"):
        with pytest.raises(BadInput, match=f"a problem is DATASET/PIPELINE, such as abalone/clean, got '{name}'"):
            load_table(name, make_tables(tmp_path, ["a/p"], 8))


def repeat(config: int, factor: float, later: float = 100.0, **changes: object) -> dict[str, Any]:
    """A repeat of a disturbed training that costs `factor` times as much."""
    line = journal_line(config) | {"purpose": "again", "busy": 0.5, **changes}
    times = {name: [v * factor for v in line[name]] for name in ("cpu_s", "wall_s", "scaled_s")}
    return line | times | {"started": line["started"] + later}


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_repeat_keeps_the_cheaper_and_counts(factor: float) -> None:
    first = journal_line(7) | {"busy": 2.0}
    rows = merge_rows(merge_rows(None, [first]), [repeat(7, factor)])
    assert rows is not None
    assert rows["scaled_s"].to_numpy() == pytest.approx(np.array(first["scaled_s"]) * min(1.0, factor), rel=1e-6)
    assert rows["busy"][0].as_py() == (0.5 if factor < 1 else 2.0)
    assert set(rows["repeats"].to_pylist()) == {1}
    assert rows.equals(merge_rows(rows, [repeat(7, factor)]))  # packed twice after a kill
    assert set(merge_rows(rows, [repeat(7, factor, 200.0)])["repeats"].to_pylist()) == {2}  # type: ignore[index]


def shortened(line: dict[str, Any], n: int) -> dict[str, Any]:
    """A training that was cut short after its first n prefixes."""
    return {name: value[:n] if isinstance(value, list) else value for name, value in line.items()}


@pytest.mark.parametrize(("factor", "kept"), [(0.5, 3), (1.5, 5)])
def test_two_that_were_cut_are_compared_where_both_have_been(factor: float, kept: int) -> None:
    """The repeat came less far; that says nothing of its pace."""
    first = shortened(journal_line(7, status="timeout"), 5)
    rows = merge_rows(merge_rows(None, [first]), [shortened(repeat(7, factor, status="timeout"), 3)])
    assert rows is not None and len(rows) == kept + 1
    expected = np.array(first["scaled_s"])[:kept] * min(1.0, factor)
    assert rows["scaled_s"].to_numpy()[:kept] == pytest.approx(expected, rel=1e-6)


def test_a_training_that_ended_is_preferred_to_one_cut_short() -> None:
    cut = shortened(journal_line(7, status="timeout"), 3)
    for lines in ([cut, repeat(7, 2.0)], [journal_line(7), shortened(repeat(7, 0.5, status="timeout"), 3)]):
        assert set(merge_rows(merge_rows(None, lines[:1]), lines[1:])["status"].to_pylist()) == {"ok"}  # type: ignore[index]


# What is read is checked, whatever the checksums say; tests/chaos/hostile.py has more of the kind.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One table of eight trainings, the last of which the time limit ended."""
    make_tables(tmp_path, ["a/p"], 7)
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(7, "a/p", status="timeout"))
        store.pack("a/p")
    return tmp_path


def cell(name: str, row: int, value: Any) -> Rows:
    def change(table: pa.Table) -> pa.Table:
        i = table.schema.get_field_index(name)
        values = table[name].to_pylist()
        values[row] = value
        return table.set_column(i, table.schema.field(i), pa.array(values, table.schema.field(i).type))

    return change


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (cell("val_error", 2, -0.5), "val_error must be finite and >= 0 in rows marked ok, row 2 has -0.5"),
        (cell("val_error", -1, 0.25), "val_error must be missing in rows not marked ok, row [0-9]+ has 0.25"),
        (cell("cpu_s", 4, float("nan")), "cpu_s must be finite and > 0 in every row, row 4 has nan"),
        (cell("status", 0, None), "status must be one of ok, failed, timeout, out_of_memory"),
        (lambda t: pa.concat_tables([t[:1], t]), "ascending from row to row, none twice, row 1 has 0"),
        (cell("config", -1, 1 << 20), "config must be from 0 to 16383, got 0 to 1048576"),
        (lambda t: t[:-1], "it has [0-9]+ rows, the manifest says [0-9]+"),
    ],
)  # fmt: skip
def test_impossible_rows_are_one_line(change: Rows, reported: str, folder: Path) -> None:
    path = folder / "a--p.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    vouch(folder, "a/p")
    with pytest.raises(BadInput, match=rf"a--p\.parquet is no table of measurements .*{reported}") as caught:
        load_table("a/p", folder)
    assert "\n" not in str(caught.value)


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["tables"]["a/p"].update(n_train=61),
        lambda m: m["tables"]["a/p"].update(note="mine"),
        lambda m: m["tables"]["a/p"].pop("last_journal"),
        lambda m: m.update(tree_method="hist"),
        lambda m: m["tables"].update({"b/p": m["tables"].pop("a/p")}),
    ],
)
def test_a_manifest_edited_by_hand_is_refused(change: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    """Whatever makes sense in itself, but is not what was written; a build would write it anew, under its own seal."""
    (folder / "b--p.parquet").write_bytes((folder / "a--p.parquet").read_bytes())
    edited(folder, change)
    before = (folder / "manifest.json").read_bytes()
    name = next(iter(json.loads(before)["tables"]))
    for read in (lambda: load_table(name, folder), lambda: Store(folder)):
        with pytest.raises(BadInput, match="its seal is that of other values; restore it"):
            read()
    assert (folder / "manifest.json").read_bytes() == before


def test_tables_of_before_there_were_seals_are_read_and_sealed_by_the_next_build(folder: Path) -> None:
    edited(folder, lambda m: m["tables"]["a/p"].pop(SEAL))
    assert SEAL not in load_table("a/p", folder).meta
    store = Store(folder)
    with store.locked():
        store.write_manifest()
    assert SEAL in read_manifest(folder)["tables"]["a/p"]

"""Tables whose checksums are right and whose contents are not: one line each."""

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
from tabular_cache.schema import SEAL
from tabular_cache.store import Store
from tabular_cache.table import cargo, load_table, read_manifest

Rows = Callable[[pa.Table], pa.Table]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One table of eight trainings, the last of which the time limit ended."""
    make_tables(tmp_path, ["a/p"], 7)
    store = Store(tmp_path)
    with store.locked():
        store.append("a/p", journal_line(7, "a/p", status="timeout"))
        store.pack("a/p")
    return tmp_path


def rewritten(folder: Path, change: Rows) -> None:
    """Other rows, under checksums of their own."""
    path = folder / "a--p.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    vouch(folder, "a/p")


def cell(name: str, row: int, value: Any) -> Rows:
    def change(table: pa.Table) -> pa.Table:
        i = table.schema.get_field_index(name)
        values = table[name].to_pylist()
        values[row] = value
        return table.set_column(i, table.schema.field(i), pa.array(values, table.schema.field(i).type))

    return change


def swapped(i: int, j: int) -> Rows:
    def change(table: pa.Table) -> pa.Table:
        order = np.arange(len(table))
        order[[i, j]] = order[[j, i]]
        return table.take(order)

    return change


def test_what_the_store_writes_is_read(folder: Path) -> None:
    rewritten(folder, lambda table: table)
    assert load_table("a/p", folder).statuses == ("ok", "timeout")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        *((cell(name, 2, -0.5), f"{name} must be finite and >= 0 in rows marked ok, row 2 has -0.5")
          for name in ("val_error", "test_error", "val_loss", "test_loss")),
        (cell("val_error", 0, float("nan")), "val_error must be finite and >= 0 in rows marked ok, row 0 has nan"),
        (cell("test_loss", 1, float("inf")), "test_loss must be finite and >= 0 in rows marked ok, row 1 has inf"),
        (cell("val_error", 3, None), "val_error must be finite and >= 0 in rows marked ok, row 3 has nan"),
        (cell("test_error", 3, 1.25), "test_error must be a rate, at most 1, of a classification, row 3 has 1.25"),
        (cell("val_error", -1, 0.25), "val_error must be missing in rows not marked ok, row [0-9]+ has 0.25"),
        *((cell(name, 4, bad), f"{name} must be finite and > 0 in every row, row 4 has {bad}")
          for name in ("cpu_s", "wall_s", "scaled_s") for bad in (-1.0, 0.0, float("nan"), float("inf"))),
        (cell("status", 0, "fine"), "status must be one of ok, failed, timeout, out_of_memory in every row, got "),
        (cell("status", 0, None), "status must be one of ok, failed, timeout, out_of_memory in every row"),
        (swapped(0, 1), "config and n_estimators must be ascending from row to row, none twice, row 1 has 0"),
        (swapped(0, -1), "config and n_estimators must be ascending from row to row, none twice"),
        (lambda t: pa.concat_tables([t.slice(0, 1), t]), "ascending from row to row, none twice, row 1 has 0"),
        (cell("config", -1, 1 << 20), "config must be from 0 to 16383, got 0 to 1048576"),
        (cell("config", 0, -1), "config must be from 0 to 16383, got -1 to 7"),
        (lambda t: t.slice(0, len(t) - 1), "it has [0-9]+ rows, the manifest says [0-9]+"),
    ],
)  # fmt: skip
def test_impossible_rows_are_one_line(change: Rows, told: str, folder: Path) -> None:
    rewritten(folder, change)
    with pytest.raises(BadInput, match=rf"a--p\.parquet is no table of measurements .*{told}") as caught:
        load_table("a/p", folder)
    assert "\n" not in str(caught.value)


def test_a_count_of_configurations_is_checked(folder: Path) -> None:
    vouch(folder, "a/p", configs=9)
    with pytest.raises(BadInput, match="it has 8 configs, the manifest says 9"):
        load_table("a/p", folder)
    vouch(folder, "a/p", configs=8, bytes=5)
    with pytest.raises(BadInput, match=r"it has [0-9]+ bytes, the manifest says 5"):
        load_table("a/p", folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"task": "ranking"}, "task must be one of regression, binary, multiclass, it is 'ranking'"),
        ({"task": "regression"}, "n_classes=2 contradicts task=regression"),
        ({"n_classes": 3}, "n_classes=3 contradicts task=binary"),
        ({"n_classes": "2"}, "n_classes must be a whole number >= 0, it is '2'"),
        ({"n_train": 0}, "n_train must be a whole number >= 1, it is 0"),
        ({"n_train": 60.0}, "n_train must be a whole number >= 1, it is 60.0"),
        ({"width_after": True}, "width_after must be a whole number >= 1, it is True"),
        ({"core_s": -1}, "core_s must be seconds >= 0, it is -1"),
        ({"core_s": float("nan")}, "core_s must be seconds >= 0, it is nan"),
        ({"mark": None}, "mark must be text, it is None"),
        ({"data_hash": ""}, "data_hash must be a hash, it is ''"),
        ({"time_limit_s": 0}, "time_limit_s must be seconds > 0 or null, it is 0"),
        ({"sha256": "abc"}, "sha256 must be 64 hexadecimal digits, it is 'abc'"),
        ({"identity": {"version": 1}}, "the identity is no record of one"),
    ],
)
def test_an_impossible_entry_is_one_line(changes: dict[str, Any], told: str, folder: Path) -> None:
    """Also under a seal, and also in a manifest that has none."""
    for seal in (True, False):
        vouch(folder, "a/p", seal, **changes)
        with pytest.raises(BadInput, match=rf"manifest\.json: the entry of a/p is wrong: {told}") as caught:
            load_table("a/p", folder)
        assert "\n" not in str(caught.value)
        with pytest.raises(BadInput, match="the entry of a/p is wrong"):
            Store(folder)  # which would write it anew, under its own seal


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["tables"]["a/p"].update(n_train=61),
        lambda m: m["tables"]["a/p"].update(mark="stand-in"),
        lambda m: m["tables"]["a/p"].update(data_hash="1" * 64),
        lambda m: m["tables"]["a/p"].update(width_after=4, width_before=4),
        lambda m: m["tables"]["a/p"].update(task="multiclass", n_classes=3),
        lambda m: m["tables"]["a/p"].update(core_s=1.0),
        lambda m: m["tables"]["a/p"].update(time_limit_s=5.0),
        lambda m: m["tables"]["a/p"].update(note="mine"),
        lambda m: m["tables"]["a/p"].pop("last_journal"),
        lambda m: m.update(tree_method="hist"),
        lambda m: m["tables"].update({"b/p": m["tables"].pop("a/p")}),
    ],
)
def test_a_manifest_edited_by_hand_is_refused(change: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    """Whatever makes sense in itself, but is not what was written."""
    (folder / "b--p.parquet").write_bytes((folder / "a--p.parquet").read_bytes())
    edited(folder, change)
    name = next(iter(json.loads((folder / "manifest.json").read_text())["tables"]))
    told = (
        r"is wrong: (it is not as it was written: its seal is that of other values; restore it|it has no last_journal)$"
    )
    with pytest.raises(BadInput, match=told):
        load_table(name, folder)
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(BadInput, match=told):
        Store(folder)
    assert (folder / "manifest.json").read_bytes() == before


def test_the_head_of_a_manifest_is_checked(folder: Path) -> None:
    edited(folder, lambda m: m.update(sobol_seed=7))
    with pytest.raises(BadInput, match=r"manifest.json: sobol_seed must be 20201, it is 7"):
        load_table("a/p", folder)
    edited(folder, lambda m: m.update(sobol_seed=20201, tree_method=None))
    with pytest.raises(BadInput, match=r"manifest.json: tree_method must be text, it is None"):
        load_table("a/p", folder)


def test_tables_of_before_there_were_seals_are_read_and_sealed_by_the_next_build(folder: Path) -> None:
    edited(folder, lambda m: m["tables"]["a/p"].pop(SEAL))
    assert SEAL not in load_table("a/p", folder).meta
    store = Store(folder)
    with store.locked():
        store.write_manifest()
    assert SEAL in read_manifest(folder)["tables"]["a/p"]
    edited(folder, lambda m: m["tables"]["a/p"].update(n_train=61))
    with pytest.raises(BadInput, match="seal"):
        load_table("a/p", folder)


def test_a_table_sent_elsewhere_keeps_its_seal(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for name, content in cargo("a/p", folder).items():
        (there / name).write_bytes(content)
    assert load_table("a/p", there).meta == load_table("a/p", folder).meta

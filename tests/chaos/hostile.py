"""Hostile inputs: each is refused with one line and exit code 2, writes nothing, and does not hang."""

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fakes import make_tables, vouch

from datasets.catalogue import File
from datasets.download import member
from datasets.errors import BadInput
from datasets.formats import read_arff, read_csv, read_libsvm
from harness.config import check_external_configs
from harness.records import read_traces
from tabular_cache.table import load_table, read_manifest

Case = tuple[str, Callable[[Path], Any]]
MARK = "hostile-was-here"
_BOMB = b"\0" * 30_000_000


def configs() -> Iterator[Case]:
    """Config files of strangers, as a search path brings them."""
    run = f"touch {MARK}"
    for name, text in {
        "acq/a.yaml": f"name: a\nrule:\n  _target_: os.system\n  command: {run}\n",
        "acq/b.yaml": f"name: b\nrule:\n  _target_: datasets.files.os.system\n  command: {run}\n",
        "acq/c.yaml": "rule:\n  _target_: datasets.files.write_atomically\n  path: x\n  content: !!binary AAAA\n",
        "acq/d.yaml": f"!!python/object/apply:os.system ['{run}']\n",
        "acq/e.yaml": f"name: e\nrule: !!python/object/new:os.system ['{run}']\n",
        "acq/f.yaml": "name: ${oc.env:HOME}\nrule:\n  _target_: harness.acquisitions.cost_rules.Ignore\n",
        "acq/g.yaml": "rule:\n  _target_: builtins.eval\n  _args_: ['1']\n",
        "acq/h.yaml": "rule:\n  _target_: subprocess.Popen\n  args: [touch, x]\n",
        "acq/i.yaml": "rule:\n  _target_: ${target}\ntarget: os.system\n",
        "acq/j.yaml": "rule: {_target_: harness.acquisitions.cost_rules.np.fromfile, file: /etc/passwd}\n",
        "acq/k.yaml": "[" * 5000,
        "acq/l.yaml": "a: &a [*a\n",
        "acq/laughs.yaml": "a0: &a0 [x]\n" + "".join(f"a{k + 1}: &a{k + 1} [{f'*a{k}, ' * 9}]\n" for k in range(40)),
        "acq/m.yaml": "\0\1\2",
        "study/n.yaml": f"# @package _global_\nhydra: {{callbacks: {{x: {{_target_: os.system, command: {run}}}}}}}\n",
        "study/o.yaml": "# @package hydra.callbacks\nx: 1\n",
        "study/p.yaml": "# @package _global_\nallow_targets: [os]\n",
        "study/q.yaml": "# @package _global_\nexecutor: {address: 'tcp://192.0.2.1:8786'}\n",
        "study/r.yaml": "defaults:\n  - override /hydra/launcher: joblib\n",
        "study/s.yaml": "defaults:\n  - acq@hydra.callbacks.x: y\n",
        "executor/t.yaml": "_target_: harness.execution.slurm\nparameters: {slurm_setup: ['touch x']}\n",
        "hydra/callbacks/u.yaml": "x: 1\n",
    }.items():

        def case(folder: Path, name: str = name, text: str = text) -> None:
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text)
            check_external_configs(["+acq=a", f"hydra.searchpath=[file://{folder}]"])

        yield f"config {name}", case


def texts() -> Iterator[Case]:
    """CSV, ARFF and LIBSVM files."""
    arff = "@relation r\n@attribute a numeric\n@attribute b {x,y}\n@data\n"
    for name, read, content in (
        ("csv: nothing", read_csv, b""),
        ("csv: not UTF-8", read_csv, b"a,b\n\xff\xfe,1\n"),
        ("csv: a field too many", read_csv, b"a,b\n1,2\n1,2,3,4\n"),
        ("csv: an open quote", read_csv, b'a,b\n"1,2\n'),
        ("arff: no data", read_arff, b"@relation r\n@attribute a numeric\n"),
        ("arff: no attributes", read_arff, b"@data\n1,2\n"),
        ("arff: a string attribute", read_arff, b"@attribute a string\n@data\nx\n"),
        ("arff: an unknown level", read_arff, arff.encode() + b"1,z\n"),
        ("arff: no number", read_arff, arff.encode() + b"one,x\n"),
        ("arff: a short row", read_arff, arff.encode() + b"1\n"),
        ("arff: not UTF-8", read_arff, arff.encode() + b"1,\xff\n"),
        ("arff: levels twice", read_arff, b"@attribute a {x,x}\n@data\nx\n"),
        ("libsvm: index 0", lambda p: read_libsvm(p, 5), b"1 0:1\n"),
        ("libsvm: index 10^12", lambda p: read_libsvm(p, 5), b"1 1000000000000:1\n"),
        ("libsvm: no value", lambda p: read_libsvm(p, 5), b"1 2:\n"),
        ("libsvm: a word for a value", lambda p: read_libsvm(p, 5), b"1 2:x\n"),
        ("libsvm: a word for a label", lambda p: read_libsvm(p, 5), b"x 2:1\n"),
        ("libsvm: not ASCII", lambda p: read_libsvm(p, 5), b"1 2:1\xff\n"),
    ):

        def case(folder: Path, read: Callable[[Path], Any] = read, content: bytes = content) -> None:
            (folder / "file").write_bytes(content)
            read(folder / "file")

        yield name, case


def _changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = make_tables(folder / "t", ["a/p"], 8) / "manifest.json"
    manifest = json.loads(path.read_text())
    result = change(manifest)
    path.write_text(json.dumps(manifest if result is None else result))
    load_table("a/p", folder / "t")


def _rows(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """A table of other rows, with a manifest that vouches for it."""
    tables = make_tables(folder / "t", ["a/p"], 8)
    path = tables / "a--p.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    vouch(tables, "a/p")
    load_table("a/p", tables)


def _column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        i = table.column_names.index(name)
        return table.set_column(i, table.schema.field(i), pa.array([value] * len(table), table.schema.field(i).type))

    return change


def tables() -> Iterator[Case]:
    """Tables and manifests."""
    entry = {"sha256": "0" * 64}
    for name, change in {
        "a list": lambda m: [1],
        "tables a list": lambda m: m.update(tables=["a/p"]),
        "an entry that is a text": lambda m: m.update(tables={"a/p": "x"}),
        "an entry without a hash": lambda m: m["tables"]["a/p"].pop("sha256"),
        "another hash": lambda m: m["tables"]["a/p"].update(entry),
        "another schema": lambda m: m.update(schema=99),
        "no rows said": lambda m: m.update(tables={}),
        "another task": lambda m: m["tables"]["a/p"].update(task="regression"),
        "fewer classes than it had": lambda m: m["tables"]["a/p"].update(n_classes=0),
        "a row more": lambda m: m["tables"]["a/p"].update(rows=m["tables"]["a/p"]["rows"] + 1),
        "other training rows": lambda m: m["tables"]["a/p"].update(n_train=61),
        "no width": lambda m: m["tables"]["a/p"].update(width_after=None),
        "another tree method": lambda m: m.update(tree_method="hist"),
        "no tree method": lambda m: m.pop("tree_method"),
        "another Sobol sequence": lambda m: m.update(sobol_seed=1),
    }.items():
        yield f"manifest: {name}", lambda folder, change=change: _changed(folder, change)
    for name, rows in {
        "no costs": lambda t: t.drop_columns(["scaled_s"]),
        "no hyperparameter": lambda t: t.drop_columns(["max_depth"]),
        "a cost of 0": _column("scaled_s", 0.0),
        "a cost below 0": _column("scaled_s", -1.0),
        "an infinite cost": _column("scaled_s", float("inf")),
        "a hyperparameter beyond its range": _column("learning_rate", 7.0),
        "text for numbers": lambda t: t.set_column(0, t.column_names[0], pa.array(["x"] * len(t))),
        "no rows": lambda t: t.slice(0, 0),
        "an error below 0": _column("val_error", -0.1),
        "no error in a row that is ok": _column("test_loss", float("nan")),
        "a rate above 1": _column("val_error", 1.5),
        "rows in another order": lambda t: t.take(list(range(len(t)))[::-1]),
        "a row twice": lambda t: pa.concat_tables([t.slice(0, 1), t]),
        "a status of its own": lambda t: t.set_column(
            t.column_names.index("status"), "status", pa.array(["fine"] * len(t)).dictionary_encode()
        ),
    }.items():
        yield f"table: {name}", lambda folder, rows=rows: _rows(folder, rows)
    yield "manifest: nested too deep", lambda folder: _raw(folder, b"[" * 200_000)
    yield "manifest: not text", lambda folder: _raw(folder, bytes(range(256)))


def _raw(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    read_manifest(folder)


def records() -> Iterator[Case]:
    """Records files."""
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {MARK}",)

    def parquet(metadata: dict[str, bytes], columns: dict[str, Any] | None = None) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns or {"x": [1]}).replace_schema_metadata(metadata), sink)
        return bytes(sink.getvalue().to_pybytes())

    kind = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Evil())}
    extension = pa.schema([pa.field("x", pa.int64(), metadata=kind)])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1]}, schema=extension), sink)
    deep = b'{"schema": 2, "spec": ' + b"[" * 100_000
    for name, content in {
        "nothing": b"",
        "a pickle": pickle.dumps(Evil()),
        "a pickled extension type": sink.getvalue().to_pybytes(),
        "no header": parquet({}),
        "a header that is a list": parquet({"block": b"[]"}),
        "a header without a spec": parquet({"block": b'{"schema": 2}'}),
        "a header nested too deep": parquet({"block": deep}),
        "an unsealed record of the sealed schema": parquet({"block": b'{"schema": 2, "spec": {}, "seeds": [0]}'}),
        "a schema of tomorrow": parquet({"block": b'{"schema": 99, "spec": {}, "seeds": [0]}'}),
        "a footer of 4 GB": b"PAR1" + b"\xff\xff\xff\xffPAR1",
    }.items():

        def case(folder: Path, content: bytes = content) -> None:
            (folder / "a" / "p" / "ei-0123456789abcdef").mkdir(parents=True)
            (folder / "a" / "p" / "ei-0123456789abcdef" / "seeds-0.parquet").write_bytes(content)
            read_traces(folder)

        yield f"record: {name}", case


def archives() -> Iterator[Case]:
    """Archives of downloads."""
    for name, members in {
        "names above the folder": {f"../../{MARK}": b"x"},
        "absolute names": {f"/tmp/{MARK}": b"x"},
        "30 MB of nothing": {"data": _BOMB},
        "nothing": {},
    }.items():

        def case(folder: Path, members: dict[str, bytes] = members) -> None:
            with zipfile.ZipFile(folder / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
            member(folder / "archive.zip", File("data.csv", "0" * 64))

        yield f"archive: {name}", case


def cases() -> list[Case]:
    """Return all cases."""
    return [*configs(), *texts(), *tables(), *records(), *archives()]


@contextmanager
def somewhere() -> Iterator[Path]:
    """Work in a new folder, so that what is written is seen; the input itself lies in its subfolder."""
    before, folder = Path.cwd(), Path(tempfile.mkdtemp())
    (folder / "input").mkdir()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


def attack(run: Callable[[Path], Any]) -> str | None:
    """Run one case; returns what went wrong, None if it was refused as it should be."""
    with somewhere() as folder, np.errstate(all="ignore"):
        try:
            run(folder / "input")
            return "was accepted"
        except BadInput as error:
            if not str(error).strip():
                return "was refused without a word"
        except BaseException as error:  # what users would see as a traceback
            return f"{type(error).__name__}: {error}"
        finally:
            written = [p.name for p in folder.iterdir() if p.name != "input"]
        return f"wrote {written}" if written or Path(f"/tmp/{MARK}").exists() else None


def main(settings: dict[str, int]) -> list[str]:
    """Try them all, print how many were refused and return the others."""
    failures = [f"{name}: {problem}" for name, run in cases() if (problem := attack(run))]
    print(f"hostile: {len(cases()) - len(failures)} of {len(cases())} inputs refused with one line")
    return failures

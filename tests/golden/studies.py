"""Small studies that together touch every component, and digests of all that they record.

A digest is over the columns of a record (the optimizer's own milliseconds left out), under the names of study, problem
and method: files may be laid out otherwise, specs and their hashes may change, numbers may not.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from command_lines import CommandLines

from tabular_cache.schema import SEAL, file_stem, parquet_bytes, seal_of
from tabular_cache.table import base_manifest, table_entry, table_rows

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parents[1] / "configs"
TABLES = HERE / "tables"  # of what the studies read and learn from; the shipped ones grow, these never change
_SMALL = ("dataset=[abalone,phoneme]", "pipeline=[pca_small]", "seeds=[0,1]", "iterations=12")
_SMALLER = ("dataset=[phoneme]", "pipeline=[clean]", "seeds=[0]", "iterations=10", "evaluator.n_configs=64")
_CUT = ("dataset=[letters]", "pipeline=[quadratic]", "seeds=[0]", "iterations=25")  # most trainings are cut short
_SPREAD = ("dataset=[wind]", "pipeline=[clean]", "seeds=[0]", "iterations=25")  # errors differ by orders of magnitude
_MOST = 3  # workers that a study is run with, if it is to be run with several
_HASH = re.compile(r"-[0-9a-f]{16}(?=/|\.|$)")

Digests = dict[str, dict[str, str]]


def names(group: str) -> list[str]:
    """Return the components of a group: the names of its files."""
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def studies() -> dict[str, tuple[str, ...]]:
    """Return the command lines of `python -m harness`, by the names of the studies."""
    found = {
        "paper": _SMALL,
        "whole": ("+acq=cei", "lam=0.3", "dataset=[wind]", "pipeline=[clean]", "seeds=[0]", "iterations=130"),
        "design": ("+acq=carbo", "+acq.rule.share=0.75", *_SMALLER),  # more of a run of 10 than the initial points
        "fronts": ("+acq=ei", "fronts=true", *_SMALLER),
        "utilities": ("study=utilities", *_SMALLER),
        "deadlines": ("study=deadlines", "tau=3", *_SMALLER),
        "time": ("study=demo", "tau=3", *_SMALL),
    }
    for name in names("utility"):
        found[f"utility {name}"] = ("+acq=ei", f"utility={name}", *_SMALLER)
    for name in names("surrogate"):
        found[f"surrogate {name}"] = ("+acq=cei", "lam=0.3", f"surrogate={name}", *_SMALLER)
    for name in names("design"):
        found[f"design {name}"] = ("+acq=ei", f"design={name}", *_SMALLER)
    for group in ("curves", "stopping"):
        for name in names(group):
            found[f"{group} {name}"] = ("+acq=ei", f"{group}={name}", *_SMALLER)
    for name in names("candidates"):
        found[f"candidates {name}"] = ("+acq=ei", f"candidates={name}", "evaluator=surface", *_SMALLER)
    for name in ("heated", "informed"):
        found[f"acq {name}"] = (f"+acq={name}", *_SMALLER)
    for name in names("cost_model"):
        found[f"cost model {name}"] = ("+acq=eipu", f"cost_model={name}", *_SMALLER)
    for name in ("exp_mean", "expected", "expected_inverse"):
        found[f"cost statistic {name}"] = ("+acq=eipu", f"cost_statistic={name}", "cost_model=gp", *_SMALLER)
    for name in ("imputed", "bound", "dropped"):
        for model in ("lv3", "gp", "gp_lv"):
            settings = (f"censored_costs={name}", f"cost_model={model}")
            found[f"censored costs {name} {model}"] = ("+acq=eipu", *settings, *_CUT)
    for name in ("raw", "log", "winsorized"):
        found[f"error scale {name}"] = ("+acq=ei", f"error_scale={name}", *_SPREAD)
    for name in names("setting"):
        found[f"setting {name}"] = ("+acq=cei", "lam=0.3", f"setting={name}", *_SMALLER)
    for name in names("evaluator"):
        if not name.startswith("live"):  # trainings measure time, which no two runs share
            found[f"evaluator {name}"] = ("+acq=cei", "lam=0.3", f"evaluator={name}", *_SMALLER)
    changed = ("cost_exponent=2", "error_noise=0.1", "cost_noise=0.2", "failure_rate=0.2", "of.n_configs=64")
    found["evaluator disturbed"] = (*found["evaluator disturbed"][:-1], *(f"evaluator.{each}" for each in changed))
    del found["surrogate gpyopt"]  # GPy calls LAPACK: its last digits are another library's
    return {name: (*settings, *_tables(name)) for name, settings in found.items()}


def _tables(study: str) -> tuple[str, ...]:
    """Return the settings that let a study read the golden tables, and learn from them."""
    learned = {
        "cost model hybrid": "cost_model.prior.tables",
        "surrogate gp_transfer": "surrogate.prior.tables",
        "design portfolio": "design.tables",
    }
    if study.startswith("cost model transfer"):
        learned[study] = "cost_model.tables"
    of = "of." if study == "evaluator disturbed" else ""
    names = [f"evaluator.{of}tables", *([learned[study]] if study in learned else [])]
    if study == "acq informed":
        names += ["surrogate.prior.tables", "cost_model.prior.tables", "design.tables"]
        names[1:] = [f"acq.parts.{name}" for name in names[1:]]
    return tuple(f"{name}={TABLES}" for name in names)


def freeze(source: Path, problems: Sequence[str], n_configs: int) -> None:
    """Write the golden tables: the first `n_configs` configurations of some problems' tables."""
    manifest = {**base_manifest(source), "tables": {}, "campaigns": []}
    manifest.pop("noise", None)
    TABLES.mkdir(exist_ok=True)
    for problem in problems:
        rows = table_rows(problem, source, table_entry(problem, source))
        rows = rows.filter(pc.less(rows["config"], n_configs))
        content = parquet_bytes(rows)
        (TABLES / f"{file_stem(problem)}.parquet").write_bytes(content)
        entry = {k: v for k, v in table_entry(problem, source).items() if k not in ("parts", "file_sha256", SEAL)}
        entry |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "rows": len(rows)}
        entry |= {"configs": len(pc.unique(rows["config"]))}
        manifest["tables"][problem] = entry
        entry[SEAL] = seal_of(manifest, problem)
    (TABLES / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def executors() -> dict[str, tuple[str, ...]]:
    """Return settings under which a study records the same, by the executors' names."""
    workers = {f"local {n}": ("executor=local", f"executor.n_jobs={n}") for n in range(1, _MOST + 1)}
    return {"serial": ("executor=serial",), **workers, "dask": ("executor=dask",)} | {
        "slurm": ("executor=slurm", "executor.cluster=local", "executor.max_jobs=2")
    }


def digests(
    chosen: Iterable[str], executor: Sequence[str] = ("executor=serial",)
) -> Iterator[tuple[str, dict[str, str]]]:
    """Run studies and yield their names with the digests of all that they have recorded; RuntimeError if one fails.

    What is learned and kept (emulators, transferred cost models) is learned anew.
    """
    known = studies()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        command_line = CommandLines(cache=Path(folder) / "cache")
        try:
            for name in chosen:
                results = Path(folder) / name.replace(" ", "-")
                done = command_line("harness", *known[name], *executor, f"results_dir={results}", cwd=Path(folder))
                if done.returncode != 0:
                    raise RuntimeError(f"the golden study {name} failed: {done.stderr.strip()}")
                yield name, of_folder(results)
        finally:
            command_line.close()


def of_folder(results: Path) -> dict[str, str]:
    """Return the digests of the records in a folder, by their paths without hashes; several of one path together."""
    files = [path for path in results.rglob("*.parquet") if not path.name.endswith(".timings.parquet")]
    found: dict[str, list[str]] = {}
    for path in files:
        found.setdefault(_HASH.sub("", path.relative_to(results).as_posix()), []).append(of_table(pq.read_table(path)))
    if not found:
        raise RuntimeError(f"there are no records in {results}")
    return {name: " ".join(sorted(several)) for name, several in sorted(found.items())}


def of_table(table: pa.Table) -> str:
    """Return the SHA-256 of the columns: names and values, NaN as one NaN and -0 as it is; 16 digits."""
    content = hashlib.sha256()
    for name in sorted(table.column_names):
        column = table[name].combine_chunks()
        content.update(f"{name} {column.type} {len(column)}".encode())
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
            content.update(column.to_numpy(zero_copy_only=False).tobytes())
        else:
            content.update("\n".join(map(str, column.to_pylist())).encode())
    return content.hexdigest()[:16]

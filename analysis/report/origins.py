"""Where the report's numbers come from: specs, settings of the runs, measured tables, versions."""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import markdown
from analysis import problems as problem_tables
from analysis.mixing import REPLAYED
from analysis.provenance import lines
from analysis.report.parts import Records, Section, plain
from analysis.report.sections import Settings
from analysis.scope import plural
from analysis.traces import Traces
from datasets.errors import BadInput
from harness.records import read_header, spec_hash, trace_files
from tabular_cache.table import TABLES, read_manifest

LIBRARIES = ("numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "xgboost-cpu", "numba", "matplotlib", "hydra-core")


def changed(records: Records, settings: Settings, traces: Traces) -> str:
    """Return which records were replayed from other tables than those in the folder now, in words; "" for none."""
    folder = problem_tables.folder_of(settings, traces)
    runs = records.frame[records.frame["evaluator"].isin(REPLAYED)]
    fronts = records.fronts
    if fronts is not None:
        fronts = fronts[fronts["evaluator"].isin(REPLAYED)]
    frames = {"the runs": runs, "the records of cost models": records.costs, "the fronts": fronts}
    try:
        return problem_tables.of_other_tables(frames, folder) if folder else ""
    except BadInput:
        return ""  # the tables are gone, which the section on them says


def provenance(
    results_dir: Path, made: Sequence[dict[str, Any]], settings: Settings, traces: Traces, changed: str = ""
) -> list[Section]:
    """Return where the numbers come from: specs `made`, settings, tables (what is not of them: `changed`), versions."""
    hashes = sorted({spec_hash(spec) for spec in made})
    whole = spec_hash({"specs": hashes})
    head = f"Spec hash of these records: `{whole}` (over the hashes of {plural(len(hashes), 'spec')})."
    told = [f"**{changed}**"] if changed else []
    shown = {key: counts for key, counts in settings.items() if key != "data"}
    return [
        Section("provenance", "Provenance", [head]),
        Section("settings", "Settings of the runs", ["\n".join(lines(shown))], level=3),
        Section("tables", "Measured tables", [*told, *_tables(settings, traces)], level=3),
        Section("versions", "Versions", [_versions(), *_made_with(results_dir)], level=3),
    ]


def _tables(settings: Settings, traces: Traces) -> list[str]:
    folder = problem_tables.folder_of(settings, traces)
    if folder is None:
        return ["These records are not replays of one folder of tables."]
    try:
        manifest = read_manifest(folder)
    except BadInput as error:
        return [f"The manifest cannot be read now: {plain(str(error))}."]
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    where = "the shipped tables" if folder == TABLES else f"`{folder}`"
    head = (
        f"{len(manifest['tables'])} tables in {where}, schema {manifest['schema']}, tree method "
        f"{manifest['tree_method']}, Sobol seed {manifest['sobol_seed']}; SHA-256 of manifest.json: `{digest}`."
    )
    rows = [
        {"date": c["date"], "processor": c["cpu"], "workers": c["workers"], "trainings": c["trainings"],
         "core seconds": c["core_s"], "versions": ", ".join(f"{k} {v}" for k, v in sorted(c["versions"].items()))}
        for c in manifest["campaigns"]
    ]  # fmt: skip
    return [head, "Measured in:", markdown.table(pd.DataFrame(rows))] if rows else [head]


def _versions() -> str:
    found = [("Python", platform.python_version()), ("this project", _version("cost-aware-bo"))]
    found += [(name, _version(name)) for name in LIBRARIES]
    return "This page was made with " + ", ".join(f"{name} {number}" for name, number in found) + "."


def _made_with(results_dir: Path) -> list[str]:
    """Return what the records were made with: one line per set of versions, with how many files."""
    found = Counter(
        json.dumps(read_header(path).get("versions", {}), sort_keys=True) for path in trace_files(results_dir)
    )
    return [
        f"{plural(count, 'file')} of records made with "
        + (", ".join(f"{name} {number}" for name, number in json.loads(made).items()) or "versions not written down")
        + "."
        for made, count in sorted(found.items())
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"

"""The data card: what each table and data set holds, in Markdown; and their files and columns as Croissant JSON-LD.

    OUT/CARD.md           totals, one line per data set, one line per problem
    OUT/croissant.json    the files with their checksums, the columns with what they mean

Source: MLCommons 2024, "Croissant Format Specification", version 1.0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float

import datasets
from datasets import catalogue
from datasets.files import write_atomically
from harness.errors import BadInput
from tabular_cache import noise
from tabular_cache.schema import NOISE_SCHEMA, SCHEMA, problem_name, sha256_of
from tabular_cache.table import NOISE_PARTS, PARTS, Table, base_file, has_base, load_table, read_manifest, sidecars

FLAT = 2 / 3  # share of random configurations with one and the same error from which a data set is flat
CARD, CROISSANT = "CARD.md", "croissant.json"
DENSITIES = (1024, 512)  # numbers of configurations by which tables are counted
_OF_A_FILE = {"dataset": r"^([a-z0-9_]+)--.+$", "pipeline": r"^[a-z0-9_]+--([\w.]+?)(?:--\d+)?\.parquet$"}
_MEANS = {
    "n_estimators": "boosting rounds",
    "learning_rate": "shrinkage of each round",
    "gamma": "least loss reduction of a split",
    "reg_alpha": "L1 regularisation of the leaves",
    "reg_lambda": "L2 regularisation of the leaves",
    "subsample": "share of the rows that a round sees",
    "max_depth": "deepest that a tree may be",
    "val_error": "misclassification rate or RMSE on the validation rows",
    "test_error": "misclassification rate or RMSE on the test rows",
    "val_loss": "log-loss or RMSE on the validation rows",
    "test_loss": "log-loss or RMSE on the test rows",
    "cpu_s": "CPU seconds of the training thread, as measured",
    "wall_s": "seconds of the clock, as measured",
    "scaled_s": "CPU seconds at the pace of the reference machine at rest: the cost that replay uses",
    "status": "ok, or timeout where the time limit ended the training first",
    "problem": "data set/pipeline",
    "busy": "mean number of busy processes per core during the training",
    "started": "Unix seconds when it was measured",
    "config": "index in the shared Sobol sequence",
}


@dataclass(frozen=True)
class Line:
    """What a problem's table holds: one line of the card.

    cut: `cut_short`. commonest: the share of the commonest
    validation error among configurations at their longest. noise: median coefficient of variation of `repeated`
    trainings' scaled seconds, NaN for none. Costs are scaled seconds of configurations at their own length, or where
    they were cut short. first, last: the days (UTC) between which the rows were measured.
    """

    dataset: str
    pipeline: str
    rows: int
    width: int
    configs: int
    cut: float
    commonest: float
    least_s: float
    median_s: float
    most_s: float
    best_error: float
    noise: float
    repeated: int
    first: str
    last: str


def cut_short(table: Table) -> float:
    """Return the share of the configurations whose own training a time limit cut short."""
    return float(np.mean(~table.measured[table["own"]]))


def line(table: Table, spread: pd.DataFrame) -> Line:
    """Return a table's line; spread: `noise.spread` of its folder."""
    dataset, _, pipeline = table.problem.partition("/")
    own, cost = table["own"], table["scaled_s"]
    error = table["val_error"][table.longest]
    again = spread.loc[spread["problem"] == table.problem, "cv_scaled"]
    return Line(
        dataset,
        pipeline,
        rows=len(table),
        width=int(table.meta["width_after"]),
        configs=int(table.meta["configs"]),
        cut=cut_short(table),
        commonest=commonest(error),
        least_s=float(cost[own].min()),
        median_s=float(np.median(cost[own])),
        most_s=float(cost[own].max()),
        best_error=float(np.nanmin(table["val_error"])),
        noise=float(again.median()),
        repeated=len(again),
        first=_day(table["started"].min()),
        last=_day(table["started"].max()),
    )


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(float(unix_s), UTC).date().isoformat()


def commonest(error: Float[np.ndarray, "..."]) -> float:
    """Return the share of the commonest error among those that are finite; NaN without any."""
    counts = np.unique(error[np.isfinite(error)], return_counts=True)[1]
    return float(counts.max() / counts.sum()) if len(counts) else float("nan")


def flat(shares: Mapping[Any, float]) -> list[str]:
    """Return the data sets on which most configurations have one and the same error: nothing tells them apart.

    shares: `commonest` of random configurations' errors by (dataset, pipeline); flat is where the median over pipelines
    is `FLAT` or more.
    """
    by_dataset = pd.Series(shares).groupby(level=0).median()
    return sorted(str(name) for name in by_dataset.index[by_dataset >= FLAT])


def seen_in_training(dataset: datasets.Dataset) -> tuple[float, float]:
    """Return the shares of the validation and of the test rows whose inputs stand, all of them, in a training row."""
    split = datasets.split(dataset)
    keys = pd.MultiIndex.from_frame(dataset.X.astype(object)).to_flat_index()
    known = set(keys[split.train])
    valid, test = (float(np.mean([key in known for key in keys[rows]])) for rows in (split.valid, split.test))
    return valid, test


# The card.


def write(problems: Sequence[tuple[str, str]], folder: Path, target: Path) -> list[Path]:
    """Write the card of the problems' tables in `folder` to `target`, and return its files.

    Raises BadInput for a table that is missing or damaged, and for a data set whose raw files are not at hand.
    """
    tables, spread = read_manifest(folder)["tables"], noise.spread(folder)
    names = [problem_name(*problem) for problem in problems]
    lines = [line(load_table(name, folder), spread) for name in names]
    entries = {name: tables[name] for name in names}
    held = [datasets.load(name) for name in sorted({each.dataset for each in lines}) if name in catalogue.entries()]
    text = "\n\n".join([
        "# The tables, one by one",
        f"Written by `python -m tabular_cache card`. {_totals(lines, entries)}",
        "## Data sets",
        *_of_datasets(held, flat({(each.dataset, each.pipeline): each.commonest for each in lines})),
        "## Problems",
        *_of_problems(lines),
        "## Noise of the costs",
        "The same training again, hours or days later: coefficients of variation, medians over trainings.",
        _markdown(noise.by_cost(folder).round(1).to_dict("records")),
    ])  # fmt: skip
    described = croissant(entries, folder, target, max(each.last for each in lines))
    files = {CARD: text + "\n", CROISSANT: json.dumps(described, indent=1, ensure_ascii=False) + "\n"}
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(target / name, content.encode())
    return [target / name for name in files]


def _totals(lines: Sequence[Line], entries: Mapping[str, Mapping[str, Any]]) -> str:
    configs = np.array([each.configs for each in lines])
    cut = np.array([each.cut for each in lines])
    dense, middling = (int((configs >= least).sum()) for least in DENSITIES)
    worst = max(lines, key=lambda each: each.cut)
    first, last = min(each.first for each in lines), max(each.last for each in lines)
    core_h = sum(entry["core_s"] for entry in entries.values()) / 3600
    cut_pct = 100 * (cut @ configs) / configs.sum()
    return (
        f"{len(lines)} tables, {configs.sum():,} configurations in {sum(each.rows for each in lines):,} rows, "
        f"{core_h:.1f} core-hours of training between {first} and {last}. {dense} tables have "
        f"{DENSITIES[0]:,} configurations or more, {middling - dense} more {DENSITIES[1]:,} or more, "
        f"{len(lines) - middling} fewer. A time limit cut {cut_pct:.2f} % of the configurations' own trainings short: "
        f"none in {int((cut == 0).sum())} tables, more than 5 % in {int((cut > 0.05).sum())}, most in "
        f"{worst.dataset}/{worst.pipeline} ({100 * worst.cut:.0f} %)."
    )


def _of_datasets(held: Sequence[datasets.Dataset], flat: Sequence[str]) -> list[str]:
    """Return the table of the data sets and what to know about it."""
    rows = []
    for dataset in held:
        entry = catalogue.entries()[dataset.name]
        valid, test = seen_in_training(dataset)
        origins = [str(source.origin) for source in entry.sources if source.origin]
        marks = [*([dataset.mark] if dataset.mark else []), *(["flat"] if dataset.name in flat else [])]
        rows.append({
            "data set": dataset.name,
            "what": entry.title,
            "task": dataset.task + (f", {len(dataset.classes)} classes" if dataset.task == "multiclass" else ""),
            "rows x inputs": f"{len(dataset.y)} x {dataset.X.shape[1]}",
            "seen in training, %": f"{100 * valid:.1f} / {100 * test:.1f}" if max(valid, test) > 0 else "",
            "marks": ", ".join(marks),
            "origin": ", ".join(dict.fromkeys(origins)) or "not to be downloaded",
            "licence": entry.licence,
        })  # fmt: skip
    notes = [f"- *{dataset.name}*: {dataset.note}." for dataset in held if dataset.note]
    return [
        _markdown(rows),
        "*Seen in training*: the share of the validation and of the test rows whose inputs, all of them, stand in a "
        "training row too: splits are of rows, not of distinct rows. *Flat*: most random configurations have one and "
        "the same error (two thirds or more in the median of the data set's problems), so that nothing is to be gained "
        "or lost; wherever data sets are averaged, the analyses give the mean without them beside the mean. The raw "
        "files are not part of this repository, and their licences are not that of the tables.",
        "\n".join(notes),
    ]


def _of_problems(lines: Sequence[Line]) -> list[str]:
    """Return the table of the problems and what to know about it."""
    rows = [
        {
            "problem": problem_name(each.dataset, each.pipeline),
            "columns": each.width,
            "configurations": each.configs,
            "rows": each.rows,
            "cut short, %": f"{100 * each.cut:.1f}" if each.cut else "",
            "cost, s": f"{each.least_s:.2g} / {each.median_s:.2g} / {each.most_s:.3g}",
            "best error": f"{each.best_error:.4g}",
            "noise, %": f"{100 * each.noise:.1f} ({each.repeated})" if each.repeated else "",
        }
        for each in lines
    ]
    return [
        _markdown(rows),
        "*Columns*: of the matrices behind the pipeline. *Cost*: least, median and most scaled seconds of the "
        "configurations' own trainings, those cut short as far as they got. *Best error*: on the validation rows. "
        "*Noise*: the median coefficient of variation of trainings measured again, and of how many.",
    ]


def _markdown(rows: Sequence[Mapping[Any, object]]) -> str:
    if not rows:
        return "None."
    head = list(rows[0])
    body = [[str(row[name]).replace("|", "\\|") for name in head] for row in rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *body))


# Croissant.

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{name: f"cr:{name}" for name in (
        "arrayShape", "citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject",
        "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path",
        "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField",
        "transform",
    )},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
}  # fmt: skip
PARQUET = "application/x-parquet"


def croissant(entries: Mapping[str, Mapping[str, Any]], folder: Path, target: Path, published: str) -> dict[str, Any]:
    """Return the description of the files in `folder`, by their paths from `target`, where it is to lie.

    entries: the manifest's, by problem. A problem's rows are those of its file and of its parts, of which a later one
    replaces what an earlier one or the file says of a configuration; published: the day of the last measurement.
    """
    names = sorted(entries)
    bases = [base_file(name, folder) for name in names if has_base(entries[name])]
    parts = [folder / PARTS / part["file"] for name in names for part in entries[name].get("parts", ())]
    repeats = [path for path in (folder / noise.FILE,) if path.exists()]
    repeats += [folder / PARTS / part["file"] for part in sidecars(folder).get(NOISE_PARTS, ())]
    groups = [
        (bases, "tables", "One file per problem.", "rows", "One trained model per row.", SCHEMA),
        (parts, "parts", "What was measured later; a later part's rows replace those of its configurations.",
         "later_rows", "One trained model per row, measured later.", SCHEMA),
        (repeats, "repeats", "Trainings measured again, hours or days apart.",
         "repeated", "One measurement of a training's cost per row.", NOISE_SCHEMA),
    ]  # fmt: skip
    files, sets, records = [], [], []
    for paths, source, of_files, name, of_rows, schema in groups:
        if paths:
            objects = [_file_object(path, target) for path in paths]
            files += objects
            sets.append(_file_set(source, [each["@id"] for each in objects], of_files))
            records.append(_record_set(name, source, schema, of_rows))
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "cost_aware_xgboost",
        "description": (
            "Errors and training costs of XGBoost over seven hyperparameters on 18 data sets behind 8 feature "
            "pipelines: the tables that the reference benchmark of cost-aware Bayesian optimization replays."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "citeAs": (
            "Guinet, Perrone and Archambeau 2020, Pareto-efficient Acquisition Functions for Cost-Aware Bayesian "
            "Optimization, and this benchmark (CITATION.cff)"
        ),
        "license": "https://spdx.org/licenses/MIT.html",
        "version": published.replace("-", "."),
        "datePublished": published,
        "keywords": ["Bayesian optimization", "cost-aware", "hyperparameter optimization", "XGBoost", "benchmark"],
        "distribution": [*files, *sets],
        "recordSet": records,
    }


def _from(path: Path, target: Path) -> str:
    try:
        return path.resolve().relative_to(target.resolve()).as_posix()
    except ValueError:
        raise BadInput(
            f"out_dir: {CROISSANT} names files by their path from where it lies, so it must lie above {path.parent}"
        ) from None


def _file_object(path: Path, target: Path) -> dict[str, Any]:
    name, content = _from(path, target), path.read_bytes()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": path.name,
        "contentUrl": name,
        "contentSize": f"{len(content)} B",
        "encodingFormat": PARQUET,
        "sha256": sha256_of(content),
    }


def _file_set(name: str, paths: Sequence[str], says: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "description": says,
        "encodingFormat": PARQUET,
        "includes": list(paths),
    }


def _record_set(name: str, source: str, schema: pa.Schema, says: str) -> dict[str, Any]:
    """Return a set of records: the columns of `schema`, and where they are of one problem a file, its two names."""

    def field(column: str, kind: str, means: str, origin: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "description": means,
            "dataType": kind,
            "source": {"fileSet": {"@id": source}, **origin},
        }

    fields = []
    if "problem" not in schema.names:
        for column, pattern in _OF_A_FILE.items():
            origin = {"extract": {"fileProperty": "filename"}, "transform": {"regex": pattern}}
            fields.append(field(column, "sc:Text", "of the problem", origin))
    for each in schema:
        means = (each.metadata or {}).get(b"doc", b"").decode() or _MEANS[each.name]
        fields.append(field(each.name, _type(each.type), means, {"extract": {"column": each.name}}))
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": says, "field": fields}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Integer" if pa.types.is_integer(kind) else "sc:Text"

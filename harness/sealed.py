"""Sealed records: parquet files that hold their own SHA-256 and the spec that they are named after; and their names.

The digest is taken with its own 64 characters replaced by a marker, so that it covers every other byte. Parquet's page
checksums would leave the footer, and so the spec, uncovered. `harness.records` keeps the study's blocks in such files;
the experiments beside it keep one record per case:

    <folder>/<label>-<spec hash>.parquet

What is there, whole, is not done again. A damaged record is named and kept aside, and its case done again, by the
command that makes it; whatever reads records refuses it. One whose spec is not that of its name, both refuse.
"""

import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from datasets.files import write_atomically
from harness.errors import BadInput

Spec = dict[str, Any]
Content = TypeVar("Content")
TIMINGS_SUFFIX, MODELS_SUFFIX = ".timings.parquet", ".models.parquet"
MADE_WITH_IT = (TIMINGS_SUFFIX, MODELS_SUFFIX)  # come again only with the file they lie beside

# Specs: their canonical text, and the hash that names them.

# A class that is not listed here is identified by the SHA-256 of its source: a change of it makes its blocks run again.
# One of ours is listed so that its source can change without that, by the name that it has when it is listed. From then
# on, whoever changes its choices raises ENGINE, LATE_STEPS, LOOK_AHEAD or COST_SD in harness/grid.py.
RECORDED_AS = {  # the project's classes that specs name, and by which name: theirs when records first named them
    "datasets.csv_file.load_csv": "datasets.own.load_csv",
    "datasets.load": "datasets.load",
    "harness.acquisitions.cost_rules.Contextual": "harness.acquisitions.contextual.Contextual",
    "harness.acquisitions.cost_rules.Cool": "harness.acquisitions.cool.Cool",
    "harness.acquisitions.cost_rules.Heated": "harness.acquisitions.cost_rules.Heated",
    "harness.acquisitions.cost_rules.Ignore": "harness.acquisitions.ignore.Ignore",
    "harness.acquisitions.cost_rules.Power": "harness.acquisitions.power.Power",
    "harness.acquisitions.designs.Carbo": "harness.acquisitions.designs.Carbo",
    "harness.acquisitions.designs.RandomSearch": "harness.acquisitions.designs.RandomSearch",
    "harness.acquisitions.designs.SobolSequence": "harness.acquisitions.designs.SobolSequence",
    "harness.acquisitions.ei.ExpectedImprovement": "harness.acquisitions.ei.ExpectedImprovement",
    "harness.acquisitions.ei.PandorasBoxGittinsIndex": "harness.acquisitions.pbgi.PandorasBoxGittinsIndex",
    "harness.acquisitions.entropy.EntropySearch": "harness.acquisitions.es.EntropySearch",
    "harness.acquisitions.entropy.Gibbon": "harness.acquisitions.gibbon.Gibbon",
    "harness.acquisitions.entropy.MaxValueEntropySearch": "harness.acquisitions.mes.MaxValueEntropySearch",
    "harness.acquisitions.entropy.PredictiveEntropySearch": "harness.acquisitions.pes.PredictiveEntropySearch",
    "harness.acquisitions.kg.KnowledgeGradient": "harness.acquisitions.kg.KnowledgeGradient",
    "harness.acquisitions.rollouts.BudgetedMultiStepEI": "harness.acquisitions.bmsei.BudgetedMultiStepEI",
    "harness.acquisitions.rollouts.MonteCarloMultiStep": "harness.acquisitions.mcms.MonteCarloMultiStep",
    "harness.acquisitions.stopping.Price": "harness.acquisitions.stopping.Price",
    "harness.configurator.instances.Auctions": "harness.solvers.auctions.Auctions",
    "harness.configurator.instances.Colouring": "harness.solvers.colouring.Colouring",
    "harness.configurator.instances.Knapsacks": "harness.configurator.instances.Knapsacks",
    "harness.configurator.instances.SetCover": "harness.solvers.set_cover.SetCover",
    "harness.configurator.solvers.Highs": "harness.solvers.highs.Highs",
    "harness.configurator.solvers.Kissat": "harness.solvers.kissat.Kissat",
    "harness.cost_models.Oracle": "harness.cost_models.oracle.Oracle",
    "harness.cost_models.gp.GaussianProcessCost": "harness.cost_models.gp.GaussianProcessCost",
    "harness.cost_models.gp.ResidualGaussianProcess": "harness.cost_models.gp.ResidualGaussianProcess",
    "harness.cost_models.gp.WarpedGaussianProcess": "harness.cost_models.warped.WarpedGaussianProcess",
    "harness.cost_models.linear.Hybrid": "harness.cost_models.hybrid.Hybrid",
    "harness.cost_models.linear.LowVariance": "harness.cost_models.lv.LowVariance",
    "harness.curves.LearningCurves": "harness.curves.LearningCurves",
    "harness.interop.bandits.Asha": "harness.interop.bandits.Asha",
    "harness.interop.bandits.Hyperband": "harness.interop.bandits.Hyperband",
    "harness.interop.botorch_rival.CostWeightedLogEI": "harness.interop.botorch_rival.CostWeightedLogEI",
    "harness.interop.flaml_rivals.Flaml": "harness.interop.flaml_rivals.Flaml",
    "harness.interop.optuna_rivals.OptunaRival": "harness.interop.optuna_rivals.OptunaRival",
    "harness.interop.smac_rival.Smac": "harness.interop.smac_rival.Smac",
    "harness.live.Live": "harness.live.Live",
    "harness.surrogates.forest.RandomForest": "harness.surrogates.forest.RandomForest",
    "harness.surrogates.gp.GaussianProcess": "harness.surrogates.gp.GaussianProcess",
    "harness.surrogates.gpyopt.GPyOptProcess": "harness.surrogates.gpyopt.GPyOptProcess",
    "harness.surrogates.prior.PriorGaussianProcess": "harness.surrogates.prior.PriorGaussianProcess",
    "harness.wrappers.Disturbed": "harness.wrappers.Disturbed",
    "pipelines.build": "pipelines.build",
    "tabular_cache.emulator.Surface": "tabular_cache.surface.Surface",
    "tabular_cache.live_truth.PacedLive": "tabular_cache.live.PacedLive",
    "tabular_cache.portfolio.Portfolio": "tabular_cache.portfolio.Portfolio",
    "tabular_cache.regressors.LinearRegressor": "tabular_cache.regressors.LinearRegressor",
    "tabular_cache.regressors.NetworkRegressor": "tabular_cache.regressors.NetworkRegressor",
    "tabular_cache.replay.Replay": "tabular_cache.replay.Replay",
    "tabular_cache.transfer.Transfer": "tabular_cache.transfer.Transfer",
    "tabular_cache.transfer.TransferPrior": "tabular_cache.transfer.TransferPrior",
}
_NAMED_NOW = {recorded: now for now, recorded in RECORDED_AS.items()}
_TARGET = re.compile(r'("_target_": ")([^"]+)"')


def spec_hash(spec: dict[str, Any]) -> str:
    """Return the hash that names a spec: SHA-256 of its canonical JSON, classes as first recorded, 16 hex digits."""
    text = _TARGET.sub(
        lambda found: f'{found[1]}{RECORDED_AS.get(found[2], found[2])}"', json.dumps(spec, sort_keys=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_spec(text: str | bytes) -> Any:
    """Return the JSON values of a spec, or what holds one; classes by the names that they have now."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(_TARGET.sub(lambda found: f'{found[1]}{_NAMED_NOW.get(found[2], found[2])}"', decoded))


# Sealed parquet files.

_KEY, _MARKER = "seal", b"unsealed" * 8


def read_parquet(source: bytes | Path) -> pa.Table:
    """Return the table in a parquet file, given as its bytes or its path; raises pyarrow's errors and OSError."""
    # `pq.read_table` imports pyarrow's data sets to do the same, which takes each process a third of a second.
    with pq.ParquetFile(pa.BufferReader(source) if isinstance(source, bytes) else source) as file:
        return file.read()


def sealed_parquet(table: pa.Table, **options: Any) -> bytes:
    """Return `table` as a sealed parquet file, options as pyarrow's writer has them; equal tables give equal bytes."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: _MARKER.decode()})
    content = sink.getvalue()
    if content.count(_MARKER) != 1:
        raise ValueError(f"a record may not hold the text {_MARKER.decode()}")
    return content.replace(_MARKER, hashlib.sha256(content).hexdigest().encode())


def check_seal(content: bytes, metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Raise ValueError unless the parquet file `content` has a seal and every byte is as it was sealed.

    metadata: that of its footer, where it has been read.
    """
    metadata = (pq.read_metadata(pa.BufferReader(content)).metadata if metadata is None else metadata) or {}
    seal = metadata.get(_KEY.encode(), b"")
    if len(seal) != len(_MARKER) or content.count(seal) != 1:
        raise ValueError("no seal")
    if hashlib.sha256(content.replace(seal, _MARKER)).hexdigest().encode() != seal:
        raise ValueError("its bytes are not those that were written")


class DamagedRecord(BadInput):
    """A records file whose bytes are not those that were written."""


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what reading a damaged record raises into DamagedRecord, which names the file.

    Milliseconds and models come again only together with the trace, so that both are to be moved.
    """
    try:
        yield
    except BadInput:
        raise
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError, pa.ArrowException) as error:
        why = str(error) if type(error) is ValueError else type(error).__name__
        trace = path.name.removesuffix(MADE_WITH_IT[0]).removesuffix(MADE_WITH_IT[1])
        both = "it" if trace == path.name else f"it and {trace}.parquet beside it"
        raise DamagedRecord(f"damaged record {path} ({why}): move {both} away and run again") from None


def moved_to_free_name(path: Path, why: str) -> Path:
    """Move a file to a free name beside it, its own and `why`, and return it."""
    names = (f"{path.name}.{why}", *(f"{path.name}.{why}.{k}" for k in range(2, 10_000)))
    aside = next(other for other in map(path.with_name, names) if not other.exists())
    path.rename(aside)
    return aside


def set_aside(path: Path, damage: DamagedRecord) -> str:
    """Move a damaged record to a free name beside it, `.damaged`, and return the line that says so."""
    aside = moved_to_free_name(path, "damaged")
    return f"{str(damage).rpartition(':')[0]}: moved to {aside.name}, its runs are done again"


def check_place(path: Path, name: str, own: str) -> None:
    """Raise BadInput unless `name`, the file's or its folder's, ends in `own`, the hash of the record's spec."""
    named = name.rpartition("-")[2]
    if named != own:
        raise BadInput(f"foreign record {path}: its spec is {own}, its name says {named}; move it away")


# One record per case.


def record_path(folder: Path, label: str, spec: Spec, suffix: str = "parquet") -> Path:
    """Return where the record of `spec` belongs."""
    return folder / f"{label}-{spec_hash(spec)}.{suffix}"


def write_record(path: Path, rows: Sequence[Mapping[str, Any]], columns: pa.Schema, spec: Spec) -> None:
    """Write the record of `spec`; equal rows, columns and specs give equal bytes."""
    values = {name: [row[name] for row in rows] for name in columns.names}
    write_atomically(path, sealed_record(pa.table(values, schema=columns), spec))


def sealed_record(table: pa.Table, spec: Spec) -> bytes:
    """Return the bytes of the record of `spec`."""
    return sealed_parquet(table.replace_schema_metadata({"spec": json.dumps(spec, sort_keys=True), "sealed": "1"}))


def read_record(path: Path) -> tuple[Spec, pa.Table]:
    """Return a record's spec and table.

    Raises DamagedRecord if a byte of it has changed since it was sealed, BadInput if its spec is not its name's.
    """
    with damage_named(path):
        content = path.read_bytes()
        table = read_parquet(content)
        check_seal(content)
        spec: Spec = parse_spec((table.schema.metadata or {})[b"spec"])
    check_place(path, path.stem, spec_hash(spec))
    return spec, table


def is_done(path: Path, read: Callable[[Path], Any] = read_record) -> bool:
    """Say whether a record is there, whole; a damaged one is moved aside, which standard error tells.

    read: what reads such a record, raising DamagedRecord for a damaged one. Raises what it raises for another's.
    """
    if not path.exists():
        return False
    try:
        read(path)
    except DamagedRecord as damage:
        print(set_aside(path, damage), file=sys.stderr)
        return False
    return True


def missing_seeds(spec: Spec, folder: Path, label: str) -> list[int]:
    """Return the seeds of `spec` that no record of `label` in `folder` under the same settings holds.

    Damaged records are moved aside, as by `is_done`.
    """
    done = set[int]()
    for path in sorted(folder.glob(f"{escape(label)}-*.parquet")):
        own = read_record(path)[0] if is_done(path) else {}
        if own and spec_hash({**own, "seeds": spec["seeds"]}) == spec_hash(spec):
            done.update(own["seeds"])
    return [seed for seed in spec["seeds"] if seed not in done]


def check_same(specs: Sequence[Spec], keys: Sequence[str], folder: Path) -> None:
    """Raise BadInput, naming them, if a setting among `keys` has two values in the specs that have it."""
    for key in keys:
        values = {json.dumps(spec[key], sort_keys=True) for spec in specs if key in spec}
        if len(values) > 1:
            raise BadInput(
                f"the records in {folder} do not compare, {key} is {' and '.join(sorted(values))}: "
                "move those of one setting away, or give each a results_dir of its own"
            )


def read_all(
    folder: Path,
    read: Callable[[Path], tuple[Spec, Content]],
    name: Callable[[Spec], str],
    command: str,
    shared_out: str = "",
) -> list[tuple[Spec, Content]]:
    """Return spec and content of every record in `folder`, those of `command`, in the order of the files.

    name: what a spec is about, such as a problem; shared_out: a setting, such as seeds, in which several records about
    the same may differ. Raises BadInput where there is none, DamagedRecord for one that is damaged, and BadInput for
    another's, or for two about the same under two settings.
    """
    found, seen = list[tuple[Spec, Content]](), dict[str, tuple[Path, Spec]]()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".parquet", ".json")):
        spec, content = read(path)
        with damage_named(path):
            about = name(spec)
        other, first = seen.setdefault(about, (path, spec))
        differ = [key for key in sorted({*spec, *first}) if spec.get(key) != first.get(key) and key != shared_out]
        if other != path and (differ or not shared_out):
            why = f" ({', '.join(differ)})" if differ else ""
            raise BadInput(f"{about} is recorded under two settings{why}: {other} and {path}; move one away")
        found.append((spec, content))
    if not found:
        raise BadInput(f"no records in {folder}: run `{command}` first")
    return found

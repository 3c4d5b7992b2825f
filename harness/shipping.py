"""Blocks on workers that may share no disk with the driver: what goes there, and what comes back.

A worker gets a block and sends back its records' files as bytes; the driver alone checks and stores them. A worker
uses the problem only if its content has the hash that the block names: from where the settings say, else from its
own cache, else it asks for the files, which then come with the block and stay in the cache.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hydra.utils import instantiate

from datasets.errors import BadInput
from datasets.files import cache_folder, write_atomically
from harness.cost_models.protocol import known_beforehand
from harness.records.checks import checked_header, seeds_done
from harness.records.layout import block_folder, is_front, spec_hash
from harness.records.writing import write_block
from harness.versions import versions

_ONE = threading.Lock()  # blocks at a time per process: costs and limits are a process's


@runtime_checkable
class Portable(Protocol):
    """An evaluator whose problems are files that can be sent to where they are not."""

    def cargo(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the files of one problem, by name."""
        ...

    def settings_at(self, folder: Path) -> dict[str, Any]:
        """Return the settings that make this evaluator read its problems from the files in `folder`."""
        ...


@dataclass(frozen=True)
class Parcel:
    """A block with the files of its problem, where a worker has asked for them."""

    block: Any
    cargo: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Absent:
    """A worker's answer that it has no problem of the hash that the block names."""

    where: str


@dataclass(frozen=True)
class Delivery:
    """What a worker sends back: the block's files by path below the results, its counts, its versions."""

    files: Mapping[str, bytes]
    counts: Mapping[str, Any]
    versions: Mapping[str, str]


def work(run_block: Callable[[Any], tuple[dict[str, bytes], dict[str, Any]]], parcel: Parcel) -> Delivery | Absent:
    """Run a block where this is called and return its records; `Absent` if the problem is not there."""
    with _ONE if threading.current_thread() is not threading.main_thread() else nullcontext():
        spec = parcel.block.spec
        settings = _found(spec, parcel.cargo)
        if settings is None:
            return Absent(str(cache_folder("tables")))
        _check_lessons(spec, settings)
        files, counts = run_block(replace(parcel.block, overrides=settings))
        return Delivery(files, counts, versions())


def _found(spec: Mapping[str, Any], cargo: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return the settings under which the evaluator opens the problem that the spec means; None if it is not here.

    Raises BadInput if the problem cannot be had, or is another one and no file that could be sent.
    """
    evaluator = instantiate(spec["components"]["evaluator"])
    where = (spec["dataset_config"], spec["pipeline_config"])
    reason = "no such table"
    try:
        found = evaluator.fingerprint(*where)
        if found == spec["data"]:
            return {}
        reason = f"its hash is {found[:12]}"
    except BadInput as error:
        reason = str(error)
    if not isinstance(evaluator, Portable):
        raise BadInput(f"this worker has not the data of the study ({spec['data'][:12]}): {reason}")
    folder = cache_folder("tables") / spec["data"]
    for name, content in cargo.items():
        write_atomically(folder / Path(name).name, content)
    settings = evaluator.settings_at(folder)
    try:
        found = instantiate({**spec["components"]["evaluator"], **settings}).fingerprint(*where)
    except BadInput:
        found = None
    if found == spec["data"]:
        return settings
    if cargo:
        raise BadInput(f"the table sent to this worker does not have the hash {spec['data'][:12]}")
    return None


def _check_lessons(spec: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise BadInput if the cost model would learn from other data here than the spec's, such as other tables."""
    wanted = spec.get("cost_model_data")
    if wanted is None:
        return
    evaluator = instantiate({**spec["components"]["evaluator"], **settings})
    problem = evaluator.open(spec["dataset_config"], spec["pipeline_config"], 0)
    found = known_beforehand(instantiate(spec["components"]["cost_model"]), problem)
    if found != wanted:
        has = "none" if found is None else found[:12]
        raise BadInput(
            f"cost_model={spec['cost_model']} would learn from other data on this worker: {has}, the study's is "
            f"{wanted[:12]}; install the same tables there"
        )


def with_cargo(parcel: Parcel) -> Parcel:
    """Return the block with its problem's files; raises BadInput if they are no longer what the study began with."""
    spec = parcel.block.spec
    evaluator = instantiate(spec["components"]["evaluator"])
    where = (spec["dataset_config"], spec["pipeline_config"])
    if evaluator.fingerprint(*where) != spec["data"]:
        raise BadInput(f"the table of {spec['dataset']}/{spec['pipeline']} has changed since the study began")
    return replace(parcel, cargo=evaluator.cargo(*where))


def receive(results: Path, parcel: Parcel, delivery: Delivery) -> None:
    """Check what a worker sent and store it in its order, traces last; a record that is there whole stays as it is.

    Raises BadInput for files that are damaged or not this block's, or from a worker of other versions; OSError
    when they cannot be written.
    """
    mine, theirs = versions(), delivery.versions
    other = [f"{name} {theirs.get(name)} there, {mine[name]} here" for name in mine if theirs.get(name) != mine[name]]
    if other:
        raise BadInput(f"the worker has other versions, so other bytes are to be expected: {'; '.join(other)}")
    spec, seeds = parcel.block.spec, sorted(parcel.block.seeds)
    folder, there = block_folder(Path(), spec), seeds_done(results, spec) >= set(seeds)
    for name, content in delivery.files.items():
        path, header = Path(name), checked_header(Path(name), content)
        if path.parent != folder or spec_hash(header["spec"]) != spec_hash(spec) or header["seeds"] != seeds:
            raise BadInput(f"the worker sent {name}, which is not of this block")
    new = {name: content for name, content in delivery.files.items() if not there or is_front(Path(name))}
    write_block(results, new)

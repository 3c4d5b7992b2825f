"""A study: a grid of problems x methods x seeds, cut into blocks, which run on any executor and leave records.

A rerun does what is missing and touches nothing that is finished. A block that fails, or whose workers keep dying,
is set aside with its reason; the others go on. Workers need not share a disk with the driver, which alone writes.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hydra.utils import get_object, instantiate

from datasets.errors import BadInput, located, place_of, traceback_of
from datasets.files import cache_folder, write_atomically
from harness.compile_cache import clock_s
from harness.cost_models import EXP_MEAN, IMPUTED, CostModel, asks_for_problem, known_beforehand
from harness.errors import folder, writable
from harness.execution import local
from harness.execution.supervisor import RETRIES, ExecutorGone, run_tasks, worker_count
from harness.loop import FrontRecorder
from harness.loop import run as run_loop
from harness.optimizer import RAW, Optimizer
from harness.problem import Bounded, Evaluator, Problem
from harness.progress import Progress
from harness.records import (
    FRONTS,
    TARGET,
    TIMINGS,
    TRACE,
    block_files,
    block_folder,
    checked_header,
    code_of,
    is_front,
    read_traces,
    seeds_done,
    spec_hash,
    versions,
    write_block,
)
from harness.results_dir import (
    FOLDER,
    Checkpointed,
    check_compiled_for,
    locked,
    remove_checkpoint,
    repair,
    saved_evaluations,
    write_failed,
    write_plan,
)

if TYPE_CHECKING:
    import pandas as pd

# What a study runs, block by block, and the spec of each.
#
# A spec holds all that determines a block's traces, the source of a user's own classes included; its hash names their
# place, so that what is there is not run again.

ENGINE = 3  # raise it when the same spec gives other choices than before
LOOK_AHEAD = 3  # raise it when utilities that look ahead choose otherwise, and those that do not as before
COST_SD = 2  # raise it when predictive sds of costs change: other statistics than the default depend on them
SETTINGS = ("iterations", "n_initial", "tau", "cost_statistic")  # of every run's optimizer
YOUNGER = ("memory_limit_mb",)  # settings from after the first records: in a spec only where they are set
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """One acquisition with its parameters: label such as ``cei(lam=0.1)``, and the cost rule's config.

    utility: name and config of the method's own utility, None for the run's. steady: whether a rule that the project
    does not ship says (`plans_ahead = False`) that its choices do not depend on the length or budget planned.
    """

    acq: str
    label: str
    rule: dict[str, Any]
    utility: tuple[str, dict[str, Any]] | None = None
    steady: bool = False

    def parameter(self, name: str) -> float | None:
        """Return lam or alpha of the cost rule, None if the rule has none that is a number."""
        value = self.rule.get(name)
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Study:
    """The whole study, as plain configuration. Names of components are those of their config files."""

    datasets: Mapping[str, Config]
    pipelines: Mapping[str, Config]
    methods: Sequence[Method]
    seeds: Sequence[int]
    iterations: int
    n_initial: int
    tau: float | None
    components: Mapping[str, Config]  # evaluator, utility, surrogate, cost_model
    names: Mapping[str, str]  # of the same
    cost_statistic: str = EXP_MEAN
    budgets: Mapping[str, float] | None = None  # seconds by problem; tau is then a multiple of them
    fronts: bool = False  # keep the EI-cost fronts of every step beside the traces
    censored_costs: str = IMPUTED
    error_scale: str = RAW

    def settings(self, problem: str | None = None) -> dict[str, Any]:
        """Return the settings of every run's optimizer; with `budgets`, those of runs on a `problem`.

        Raises BadInput for a problem without a budget.
        """
        settings = {name: getattr(self, name) for name in SETTINGS}
        if problem is not None and self.budgets is not None and self.tau is not None:
            if problem not in self.budgets:
                raise BadInput(f"budgets: no budget for {problem}, only for {', '.join(sorted(self.budgets)[:3])}, ...")
            settings["tau"] = self.tau * self.budgets[problem]
        return settings

    def parts(self, method: Method) -> dict[str, Config]:
        """Return the components of a method's runs: the study's, its own utility apart."""
        own = {} if method.utility is None else {"utility": method.utility[1]}
        return {**self.components, **own}

    def censoring(self) -> dict[str, str]:
        """Return what becomes of censored costs, where trainings have a time limit; nothing where none is stopped.

        A treatment other than the default is part of the cost model's name, so that an analysis never mixes the two.
        """
        if self.censored_costs == IMPUTED:  # an evaluator of the user's own may stop trainings by other settings
            limited = self.components["evaluator"].get("time_limit_s") is not None
            return {"censored_costs": IMPUTED} if limited else {}
        name = f"{self.names['cost_model']}:{self.censored_costs}"
        return {"censored_costs": self.censored_costs, "cost_model": name}

    def scaling(self) -> dict[str, str]:
        """Return the scale on which the surrogate sees errors, where that is not their own.

        It is part of the surrogate's name, so that an analysis never mixes two.
        """
        if self.error_scale == RAW:
            return {}
        return {"error_scale": self.error_scale, "surrogate": f"{self.names['surrogate']}:{self.error_scale}"}


@dataclass(frozen=True)
class Block:
    """One problem x one method x some seeds: what a worker gets.

    overrides: of the evaluator's settings on this worker, such as where it keeps its tables; no part of the spec.
    """

    spec: dict[str, Any]
    seeds: list[int]
    results: str
    fronts: bool = False
    overrides: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return what the study's plan says of the block."""
        words = {name: self.spec[name] for name in ("dataset", "pipeline", "method")}
        return {**words, "folder": block_folder(Path(), self.spec).name, "seeds": sorted(self.seeds)}


def make_spec(
    grid: Study, dataset: Config, pipeline: Config, method: Method, fingerprint: str, known: str | None = None
) -> dict[str, Any]:
    """Return all that determines the traces of one problem and method, as plain JSON values.

    fingerprint: of the problem's content; known: of what the cost model has learned elsewhere, None if nothing.
    """
    beforehand = {} if known is None else {"cost_model_data": known}
    return {
        "dataset": str(dataset["name"]),
        "pipeline": str(pipeline["name"]),
        "dataset_config": dict(dataset),
        "pipeline_config": dict(pipeline),
        "data": fingerprint,
        "acq": method.acq,
        "method": method.label,
        "rule": method.rule,
        "lam": method.parameter("lam"),
        "alpha": method.parameter("alpha"),
        **grid.settings(f"{dataset['name']}/{pipeline['name']}"),
        **grid.names,
        **({} if method.utility is None else {"utility": method.utility[0]}),
        **grid.censoring(),
        **grid.scaling(),
        **({"plans_ahead": False} if method.steady else {}),
        "components": {name: _settings(config) for name, config in grid.parts(method).items()},
        "engine": ENGINE,
        **(
            {"cost_sd": COST_SD}
            if grid.cost_statistic != EXP_MEAN or _says(grid.parts(method)["utility"], "weighs_cost_sd")
            else {}
        ),
        **({"look_ahead": LOOK_AHEAD} if _says(grid.parts(method)["utility"], "looks_ahead") else {}),
        **beforehand,
        **({"code": code} if (code := code_of(dataset, pipeline, method.rule, *grid.parts(method).values())) else {}),
    }


def _says(utility: Config, what: str) -> bool:
    """Say whether the class of a utility has this attribute, and it is true.

    `weighs_cost_sd`: it depends on how uncertain a cost is, whatever the statistic; `looks_ahead`.
    """
    return bool(getattr(get_object(str(utility["_target_"])), what, False))


def _settings(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None or name not in YOUNGER}


def all_specs(grid: Study, evaluator: Evaluator) -> Iterator[dict[str, Any]]:
    """Yield the spec of every problem and method; raises BadInput for a problem that cannot be opened."""
    cost_model: CostModel = instantiate(grid.components["cost_model"])
    for dataset in grid.datasets.values():
        for pipeline in grid.pipelines.values():
            fingerprint = evaluator.fingerprint(dataset, pipeline)
            if isinstance(evaluator, Bounded):
                evaluator.check_design(dataset, pipeline, min(grid.n_initial, grid.iterations))
            known = None
            if asks_for_problem(cost_model):
                known = known_beforehand(cost_model, evaluator.open(dataset, pipeline, 0))
            for method in grid.methods:
                yield make_spec(grid, dataset, pipeline, method, fingerprint, known)


def blocks(grid: Study, results: Path) -> tuple[list[Block], int]:
    """Return the blocks that are missing in `results` and the number of runs that are there already."""
    evaluator: Evaluator = instantiate(grid.components["evaluator"])
    missing, skipped = [], 0
    for spec in all_specs(grid, evaluator):
        done = seeds_done(results, spec)
        if grid.fronts:
            done &= seeds_done(results, spec, fronts=True)
        todo = [seed for seed in grid.seeds if seed not in done]
        skipped += len(grid.seeds) - len(todo)
        size = evaluator.seeds_per_block or len(todo) or 1
        parts = [todo[i : i + size] for i in range(0, len(todo), size)]
        missing += [Block(spec, part, str(results), grid.fronts) for part in parts]
    return missing, skipped


# Blocks on workers that may share no disk with the driver: what goes there, and what comes back.
#
# A worker gets a block and sends back its records' files as bytes; the driver alone checks and stores them. A worker
# uses the problem only if its content has the hash that the block names: from where the settings say, else from its
# own cache, else it asks for the files, which then come with the block and stay in the cache.

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


@dataclass
class Report:
    """What a study did."""

    runs: int = 0
    steps: int = 0
    proposals: int = 0
    engine_ms: float = 0.0
    seconds: float = 0.0  # of the workers, compiling and loading apart
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    wall_s: float = 0.0


class Stopped(Exception):
    """The study ended before all of its runs were there; `report` says what it did until then."""

    def __init__(self, reason: str, report: Report) -> None:
        super().__init__(reason)
        self.report = report


def run_block(block: Block) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Run a block's seeds and return the files of its record and its counts."""
    spec, start = block.spec, clock_s()
    evaluator: Evaluator = instantiate({**spec["components"]["evaluator"], **block.overrides})
    trace: dict[str, list[Any]] = {name: [] for name in TRACE.names}
    timings: dict[str, list[Any]] = {name: [] for name in TIMINGS.names}
    fronts: dict[str, list[Any]] = {name: [] for name in FRONTS.names}
    for seed in sorted(block.seeds):
        with located(), _opened(block, evaluator, seed) as problem:
            optimizer = _optimizer(spec, seed)
            watched = FrontRecorder(problem, optimizer, seed) if block.fronts else None
            one = run_loop(watched or problem, optimizer, seed, spec["iterations"], spec["n_initial"], spec["tau"])
        for total, part in ((trace, one.columns), (timings, one.timings), (fronts, watched.columns if watched else {})):
            for name, values in part.items():
                total[name] += values
    seconds = round(clock_s() - start, 3)
    files = block_files(spec, block.seeds, trace, timings, fronts if block.fronts else None, seconds)
    engine_ms = sum(timings["fit_ms"]) + sum(timings["propose_ms"])
    return files, {
        "steps": len(trace["step"]),
        "proposals": len(timings["step"]),
        "engine_ms": engine_ms,
        "seconds": seconds,
    }


@contextmanager
def _opened(block: Block, evaluator: Evaluator, seed: int) -> Iterator[Problem]:
    """Open the problem of one run; checkpointed where evaluations are worth it and the driver's disk is here."""
    problem = evaluator.open(block.spec["dataset_config"], block.spec["pipeline_config"], seed)
    if not (getattr(evaluator, "journaled", False) and (Path(block.results) / FOLDER).is_dir()):
        yield problem
        return
    with closing(Checkpointed(problem, Path(block.results), block.spec, seed)) as journaled:
        yield journaled


def _optimizer(spec: dict[str, Any], seed: int) -> Optimizer:
    settings = {name: spec[name] for name in (*SETTINGS, "censored_costs", "error_scale") if name in spec}
    return make_optimizer(spec["components"], spec["rule"], {**settings, "seed": seed})


def make_optimizer(components: Mapping[str, Config], rule: Config, settings: Mapping[str, Any]) -> Optimizer:
    """Return a new optimizer of these components; raises BadInput for what is wrong in any of them."""
    surrogate, cost_model, utility = (instantiate(components[name]) for name in ("surrogate", "cost_model", "utility"))
    return Optimizer(surrogate, cost_model, utility, instantiate(rule), **settings)


def run_study(todo: list[Block], skipped: int, executor: Executor, label: str) -> Report:
    """Run the blocks and report; a block that fails for good is named in the report.

    Raises Stopped when records cannot be written, or the executor has ended.
    """
    report, start = Report(skipped=skipped), time.monotonic()
    parcels = [Parcel(block) for block in todo]
    tasks = run_tasks(executor, partial(work, run_block), parcels, retries=RETRIES, adapt=_shipped)
    done = 0
    with Progress(len(todo), "blocks", label) as progress:
        try:
            for parcel, outcome in tasks:
                _settle(report, parcel, outcome)
                done += 1
                progress.advance(_left_s(report, done, len(todo), worker_count(executor)))
        except ExecutorGone as error:
            raise Stopped(str(error), report) from None
        finally:
            report.wall_s = time.monotonic() - start
    return report


def _left_s(report: Report, done: int, of: int, workers: int) -> float | None:
    """Return the seconds left, if the other blocks take what those done took of their workers; None without any."""
    succeeded = done - len(report.failed)
    return report.seconds / succeeded * (of - done) / max(1, workers) if succeeded else None


def _shipped(parcel: Parcel, outcome: Any) -> Parcel | None:
    """Return the block together with its problem's files if a worker asks for them."""
    if not isinstance(outcome, Absent) or parcel.cargo:
        return None
    try:
        return with_cargo(parcel)
    except BadInput:
        return None


def _settle(report: Report, parcel: Parcel, outcome: Any) -> None:
    """Store what a worker sent, or note why there is nothing."""
    block, reason = parcel.block, ""
    results = Path(block.results)
    if isinstance(outcome, Delivery):
        try:
            receive(results, parcel, outcome)
            remove_checkpoint(results, block.spec, block.seeds)
        except BadInput as error:
            reason = str(error)
        except OSError as error:
            raise Stopped(f"cannot write records to {results}: {error.strerror}", report) from None
    elif isinstance(outcome, Absent):
        reason = f"a worker has not the table of the study ({outcome.where}), and it could not be sent"
    else:
        reason = f"{type(outcome).__name__}: {' '.join(str(outcome).split())}{place_of(outcome)}"
    if reason:
        report.failed.append(f"{block.spec['dataset']}/{block.spec['pipeline']} {block.spec['method']}: {reason}")
        write_failed(results, block.row(), reason, traceback_of(outcome))
        return
    report.runs += len(block.seeds)
    for name in ("steps", "proposals", "engine_ms", "seconds"):
        setattr(report, name, getattr(report, name) + outcome.counts[name])


# A whole study: what is missing in a folder is run there, by one process at a time.


def run_missing(study: Study, results: Path, start: Callable[[], AbstractContextManager[Executor]]) -> Report:
    """Run what is missing of a study in `results`, which no other process may write to meanwhile, and report.

    start: makes the executor, and ends it. What has to be said on the way goes to standard error. Raises BadInput,
    and Stopped as `run_study` does.
    """
    label = study.methods[0].label if len(study.methods) == 1 else f"{len(study.methods)} methods"
    with locked(results):
        lines, targets = repair(results)
        for line in lines:
            print(line, file=sys.stderr)
        todo, skipped = blocks(study, results)
        if todo and (line := check_compiled_for(results, targets, versions()[TARGET])):
            print(line, file=sys.stderr)
        try:
            with start() as executor:
                try:
                    write_plan(results, [block.row() for block in todo], worker_count(executor))
                except OSError as error:
                    raise BadInput(f"results_dir: cannot write to {results}: {error.strerror}") from None
                return run_study(todo, skipped, executor, label)
        except KeyboardInterrupt:
            if evaluations := saved_evaluations(results):
                print(f"{evaluations} trainings of unfinished runs are kept: the same command goes on from them",
                      file=sys.stderr)  # fmt: skip
            raise


def run(study: Study, results_dir: str | Path = "results", executor: Executor | None = None) -> "pd.DataFrame":
    """Run what is missing of a study (`harness.compose`) in `results_dir`, and return the evaluations of all its runs.

    executor: who runs the blocks, left open at the end, such as `harness.execution.serial()`; None for a worker
    process per core. Returns the rows of `harness.records.read_traces` that are this study's. Raises BadInput, and
    Stopped where runs are missing at the end: what is finished is kept, and the same call does the rest.
    """
    if not (executor is None or isinstance(executor, Executor)):
        raise BadInput(f"executor must be one such as harness.execution.serial() returns, got {executor!r}")
    results = writable("results_dir", folder("results_dir", str(results_dir)))
    report = run_missing(study, results, lambda: local() if executor is None else nullcontext(executor))
    if report.failed:
        raise Stopped(f"{len(report.failed)} blocks set aside, the first: {report.failed[0]}", report)
    own = {spec_hash(spec) for spec in all_specs(study, instantiate(study.components["evaluator"]))}
    traces = read_traces(results, own)
    return traces[traces["seed"].isin(list(study.seeds))].reset_index(drop=True)

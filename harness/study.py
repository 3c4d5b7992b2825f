"""A study in blocks: each a problem, a method and some seeds, run on any executor, which leaves records.

A rerun does what is missing and touches nothing that is finished. A block that fails, or whose workers keep dying,
is set aside with its reason; the others go on. Workers need not share a disk with the driver, which alone writes.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.errors import located, place_of, traceback_of
from harness.compile_cache import clock_s
from harness.config import users_mistakes
from harness.errors import BadInput, folder, writable
from harness.execution import RETRIES, ExecutorGone, local, run_tasks, worker_count
from harness.fronts import FrontRecorder
from harness.grid import LEARNING, SETTINGS, Study, all_specs, knowledge, make_evaluator, make_optimizer
from harness.loop import Begun, recorded
from harness.loop import run as run_loop
from harness.optimizer import Optimizer
from harness.problem import LATE, Evaluator, Problem
from harness.progress import Progress
from harness.records import (
    COMPONENTS,
    FRONTS,
    FRONTS_SUFFIX,
    MODELS,
    TIMINGS,
    TRACE,
    block_files,
    block_folder,
    checked_header,
    ranges,
    read_traces,
    seeds_done,
    versions,
    write_block,
)
from harness.results_dir import (
    FOLDER,
    Checkpointed,
    check_made_with,
    locked,
    method_names,
    remove_checkpoint,
    repair,
    saved_evaluations,
    write_failed,
    write_plan,
)
from harness.sealed import spec_hash

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Block:
    """One problem x one method x some seeds: the task of a worker."""

    spec: dict[str, Any]
    seeds: list[int]
    results: str
    fronts: bool = False
    price_per_hour: float | None = None

    def row(self) -> dict[str, Any]:
        """Return the block's row in the study's plan."""
        words = {name: self.spec[name] for name in ("dataset", "pipeline", "method", *COMPONENTS) if name in self.spec}
        words |= {"fronts": True} if self.fronts else {}
        return {**words, "folder": block_folder(Path(), self.spec).name, "seeds": sorted(self.seeds)}


def blocks(study: Study, results: Path, specs: Sequence[dict[str, Any]] | None = None) -> tuple[list[Block], int]:
    """Return the blocks that are missing in `results` and the number of runs that are there already.

    specs: the study's, if they are known.
    """
    size = make_evaluator(study.components["evaluator"]).seeds_per_block
    missing, skipped = [], 0
    for spec in all_specs(study) if specs is None else specs:
        done = seeds_done(results, spec)
        if study.fronts:
            done &= seeds_done(results, spec, fronts=True)
        todo = [seed for seed in study.seeds if seed not in done]
        skipped += len(study.seeds) - len(todo)
        parts = _parts(todo, size)
        missing += [Block(spec, part, str(results), study.fronts, study.price_per_hour) for part in parts]
    return missing, skipped


_LONGEST_NAME = 150  # of a block's seeds in the name of its files: file systems allow 255 characters for all of it


def _parts(seeds: Sequence[int], size: int | None) -> list[list[int]]:
    """Return sorted seeds in blocks of at most `size`, and of no more than the name of a file has room for."""
    parts: list[list[int]] = []
    for seed in seeds:
        full = not parts or len(parts[-1]) == size or len(ranges([*parts[-1], seed])) > _LONGEST_NAME
        parts += [[]] if full else []
        parts[-1].append(seed)
    return parts


# Blocks on workers: a worker sends its records' files back as bytes, which the driver alone checks and stores.

_ONE = threading.Lock()  # blocks at a time per process: costs and limits are a process's


@dataclass(frozen=True)
class BlockResult:
    """The work of a worker: the block's files by path below the results, its counts, the versions that made them."""

    files: Mapping[str, bytes]
    counts: Mapping[str, Any]
    versions: Mapping[str, str]


def run_block(block: Block) -> BlockResult:
    """Run a block's seeds where this is called; raises BadInput where the data are others than the study's."""
    with _ONE if threading.current_thread() is not threading.main_thread() else nullcontext():
        spec, start = block.spec, clock_s()
        evaluator = make_evaluator(spec["components"]["evaluator"])
        _check_data(spec, evaluator)
        trace: dict[str, list[Any]] = {name: [] for name in TRACE.names}
        timings: dict[str, list[Any]] = {name: [] for name in TIMINGS.names}
        models: dict[str, list[Any]] = {name: [] for name in MODELS.names}
        fronts: dict[str, list[Any]] = {name: [] for name in FRONTS.names}
        begun, rounded = ({}, set()) if evaluator.checkpointed else _begun(block)
        exhausted = all_design = 0
        for seed in sorted(block.seeds):
            with located(), _opened(block, evaluator, seed) as problem:
                optimizer = _optimizer(spec, seed)
                watched = FrontRecorder(problem, optimizer, seed) if block.fronts else None
                plan = spec["iterations"], spec["n_initial"], spec["tau"]
                one = run_loop(watched or problem, optimizer, seed, *plan, begun.get(seed))
            fronts_of_run = watched.columns if watched else {}
            exhausted += one.exhausted
            all_design += one.all_design
            parts = ((trace, one.columns), (timings, one.timings), (models, one.models), (fronts, fronts_of_run))
            for total, part in parts:
                for name, values in part.items():
                    total[name] += values
        counts = {
            "steps": len(trace["step"]),
            "proposals": len(timings["step"]),
            "engine_ms": sum(ms for ms in (*timings["fit_ms"], *timings["propose_ms"]) if ms == ms),
            "seconds": round(clock_s() - start, 3),
            "exhausted": exhausted,
            "all_design": all_design,
        }
        noted = fronts if block.fronts else None
        files = block_files(
            spec, block.seeds, trace, timings, noted, counts["seconds"],
            models=models, rounded=not rounded.isdisjoint(block.seeds),
        )  # fmt: skip
        return BlockResult(files, counts, versions())


def _begun(block: Block) -> tuple[dict[int, Begun], set[int]]:
    """Return, by seed, what runs of `LATE` evaluations without a budget have recorded, where these can go on from it.

    They have the bytes of runs in one piece, so that it does not matter whether the driver's disk is here; but for
    those of the seeds returned beside them, which go on from packed records. A front is of models that were fitted at
    every step.
    """
    spec = block.spec
    fits = spec["iterations"] > LATE >= spec["n_initial"] and "code" not in spec and not block.fronts
    if not (fits and _optimizer(spec, 0).forgets(LATE)):
        return {}, set()
    shorter = {name: value for name, value in spec.items() if name != "late_steps"}
    return recorded(Path(block.results), shorter | {"iterations": LATE, "tau": None})


def _check_data(spec: Mapping[str, Any], evaluator: Evaluator) -> None:
    """Raise BadInput if the problem here, or what the cost model has learned elsewhere, is not what the spec names."""
    where = (spec["dataset_config"], spec["pipeline_config"])
    found = evaluator.fingerprint(*where)
    if found != spec["data"]:
        raise BadInput(
            f"this worker has other data of {spec['dataset']}/{spec['pipeline']} than the study: {found[:12]}, the "
            f"study's is {spec['data'][:12]}; install the same tables there"
        )
    wanted = {name: spec[key] for name in LEARNING if (key := f"{name}_data") in spec}
    here = knowledge({name: spec["components"][name] for name in wanted}, lambda: evaluator.open(*where, 0))
    for name, digest in wanted.items():
        if (known := str(here.get(f"{name}_data"))) != digest:
            which = spec.get("own", {}).get(name, spec.get(name))
            raise BadInput(
                f"{name}={which} would learn from other data on this worker: {known[:12]}, the "
                f"study's is {digest[:12]}; install the same tables there"
            )


@contextmanager
def _opened(block: Block, evaluator: Evaluator, seed: int) -> Iterator[Problem]:
    """Open the problem of one run; checkpointed where evaluations are worth it and the driver's disk is here."""
    problem = evaluator.open(block.spec["dataset_config"], block.spec["pipeline_config"], seed)
    if not (evaluator.checkpointed and (Path(block.results) / FOLDER).is_dir()):
        yield problem
        return
    with closing(Checkpointed(problem, Path(block.results), block.spec, seed, block.price_per_hour)) as checkpointed:
        yield checkpointed


def _optimizer(spec: dict[str, Any], seed: int) -> Optimizer:
    settings = {name: spec[name] for name in (*SETTINGS, "censored_costs", "error_scale") if name in spec}
    return make_optimizer(spec["components"], spec["rule"], {**settings, "seed": seed})


def receive(block: Block, result: BlockResult) -> None:
    """Check a worker's result and store it in its order, traces last; a record that is there whole stays as it is.

    Raises BadInput for files that are damaged or not this block's, or from a worker of other versions; OSError
    when they cannot be written.
    """
    mine, theirs = versions(), result.versions
    other = [f"{name} {theirs.get(name)} there, {mine[name]} here" for name in mine if theirs.get(name) != mine[name]]
    if other:
        raise BadInput(f"the worker has other versions, so other bytes are to be expected: {'; '.join(other)}")
    results, spec, seeds = Path(block.results), block.spec, sorted(block.seeds)
    there = seeds_done(results, spec) >= set(seeds)
    for name, content in result.files.items():
        path, header = Path(name), checked_header(Path(name), content)
        if path.parent != block_folder(Path(), spec) or header["seeds"] != seeds:
            raise BadInput(f"the worker sent {name}, which is not of this block")
    new = {n: content for n, content in result.files.items() if not there or n.endswith(FRONTS_SUFFIX)}
    write_block(results, new)


@dataclass
class Report:
    """The work of a study. seconds: of the workers, compiling and loading apart.

    exhausted: runs that ended since their problem had nothing left to offer. all_design: those whose initial design
    spent their budget tau, so that nothing was chosen.
    """

    runs: int = 0
    steps: int = 0
    proposals: int = 0
    engine_ms: float = 0.0
    seconds: float = 0.0
    skipped: int = 0
    exhausted: int = 0
    all_design: int = 0
    failed: list[str] = field(default_factory=list)
    wall_s: float = 0.0


class Stopped(Exception):
    """The study ended before all of its runs were there; `report` says what it did until then."""

    def __init__(self, reason: str, report: Report) -> None:
        super().__init__(reason)
        self.report = report


def run_study(todo: list[Block], skipped: int, executor: Executor, label: str) -> Report:
    """Run the blocks and report; a block that fails for good is named in the report.

    Raises Stopped when records cannot be written, or the executor has ended.
    """
    report, start, done = Report(skipped=skipped), time.monotonic(), 0
    name_of = method_names([block.spec for block in todo])
    with Progress(len(todo), "blocks", label) as progress:
        try:
            for block, outcome in run_tasks(executor, run_block, todo, retries=RETRIES):
                _settle(report, block, outcome, name_of(block.spec))
                done += 1
                succeeded, workers = done - len(report.failed), max(1, worker_count(executor))
                left = report.seconds / succeeded * (len(todo) - done) / workers if succeeded else None
                progress.advance(left)  # as if the other blocks took what those done took
        except ExecutorGone as error:
            raise Stopped(str(error), report) from None
        finally:
            report.wall_s = time.monotonic() - start
    return report


def _settle(report: Report, block: Block, outcome: Any, method: str) -> None:
    """Store a worker's result, or note why there is none; method: its name in that note."""
    results, reason = Path(block.results), ""
    if isinstance(outcome, BlockResult):
        try:
            receive(block, outcome)
            remove_checkpoint(results, block.spec, block.seeds)
        except BadInput as error:
            reason = str(error)
        except OSError as error:
            raise Stopped(f"cannot write records to {results}: {error.strerror}", report) from None
    elif isinstance(outcome, BadInput):  # says itself what is wrong, and whose it is
        reason = " ".join(str(outcome).split())
    else:
        reason = f"{type(outcome).__name__}: {' '.join(str(outcome).split())}{place_of(outcome)}"
    if reason:
        report.failed.append(f"{block.spec['dataset']}/{block.spec['pipeline']} {method}: {reason}")
        write_failed(results, block.row(), reason, traceback_of(outcome))
        return
    report.runs += len(block.seeds)
    for name, amount in outcome.counts.items():
        setattr(report, name, getattr(report, name) + amount)


# A whole study: what is missing in a folder is run there, by one process at a time.


def run_missing(study: Study, results: Path, start: Callable[[], AbstractContextManager[Executor]]) -> Report:
    """Run what is missing of a study in `results`, which no other process may write to meanwhile, and report.

    start: makes the executor, and ends it. Remarks on the way go to standard error. Raises BadInput, and Stopped as
    `run_study` does.
    """
    label = study.methods[0].label if len(study.methods) == 1 else f"{len(study.methods)} methods"
    with ExitStack() as stack:
        started = cache(lambda: stack.enter_context(start()))
        problems = list(product(study.datasets.values(), study.pipelines.values()))
        try:
            make_evaluator(study.components["evaluator"]).prepare(problems, started)
        except ExecutorGone as error:
            raise Stopped(str(error), Report()) from None
        specs = list(all_specs(study))  # wrong input is found before anything is written
        executor = started()
        stack.enter_context(locked(results))
        lines, made = repair(results)
        todo, skipped = blocks(study, results, specs)
        for line in lines:
            print(line, file=sys.stderr)
        for line in check_made_with(results, made, versions()) if todo else ():
            print(line, file=sys.stderr)
        try:
            write_plan(results, [block.row() for block in todo], worker_count(executor))
        except OSError as error:
            raise BadInput(f"results_dir: cannot write to {results}: {error.strerror}") from None
        try:
            return run_study(todo, skipped, executor, label)
        except KeyboardInterrupt:
            if count := saved_evaluations(results):
                print(f"{count} trainings of unfinished runs are kept: the same command goes on from them",
                      file=sys.stderr)  # fmt: skip
            raise


def run(study: Study, results_dir: str | Path = "results", executor: Executor | None = None) -> "pd.DataFrame":
    """Run what is missing of a study (`harness.compose`) in `results_dir`, and return the evaluations of all its runs.

    executor: who runs the blocks, left open at the end, such as `harness.execution.serial()`; None for a worker
    process per core. Returns the rows of `harness.records.read_traces` that are this study's. Raises BadInput, and
    Stopped where runs are missing at the end: what is finished is kept, and the same call does the rest.
    """
    if not isinstance(study, Study):
        raise BadInput(f"study must be one that harness.compose(...) returns, got {study!r}")
    if not (executor is None or isinstance(executor, Executor)):
        raise BadInput(f"executor must be one such as harness.execution.serial() returns, got {executor!r}")
    results = writable("results_dir", folder("results_dir", results_dir))
    with users_mistakes():
        report = run_missing(study, results, lambda: local() if executor is None else nullcontext(executor))
        if report.failed:
            raise Stopped(f"{len(report.failed)} blocks set aside, the first: {report.failed[0]}", report)
        traces = read_traces(results, {spec_hash(spec) for spec in all_specs(study)})
    return traces[traces["seed"].isin(list(study.seeds))].reset_index(drop=True)

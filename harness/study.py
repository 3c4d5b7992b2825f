"""Running a study's blocks on any executor and keeping their records; what is to be run, `harness.grid` says.

A rerun does what is missing and touches nothing that is finished. A block that fails, or whose workers keep dying,
is set aside with its reason; the others go on.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from harness.compile_cache import clock_s
from harness.errors import BadInput
from harness.fronts import Watched
from harness.grid import SETTINGS, Block, Config, Grid, all_specs, blocks, make_spec
from harness.journal import Journaled, forget
from harness.ledger import FOLDER, write_failed
from harness.optimizer import Optimizer
from harness.problem import Evaluator, Problem
from harness.progress import Progress
from harness.records import FRONTS, TIMINGS, TRACE, block_files
from harness.run import run
from harness.shipping import Absent, Delivery, Parcel, receive, with_cargo, work
from harness.supervise import ExecutorGone, slots, supervised
from harness.whereabouts import located, place_of, traceback_of

__all__ = [
    "Block",
    "Grid",
    "Report",
    "Stopped",
    "all_specs",
    "blocks",
    "make_optimizer",
    "make_spec",
    "run_block",
    "run_study",
]


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
    """The study cannot go on; `report` says what it did until then."""

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
            watched = Watched(problem, optimizer, seed) if block.fronts else None
            one = run(watched or problem, optimizer, seed, spec["iterations"], spec["n_initial"], spec["tau"])
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
    """Open the problem of one run; where evaluations are worth it, and the driver's disk is at hand, with a journal."""
    problem = evaluator.open(block.spec["dataset_config"], block.spec["pipeline_config"], seed)
    if not (getattr(evaluator, "journaled", False) and (Path(block.results) / FOLDER).is_dir()):
        yield problem
        return
    with closing(Journaled(problem, Path(block.results), block.spec, seed)) as journaled:
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
    tasks = supervised(executor, partial(work, run_block), map(Parcel, todo), _shipped)
    done = 0
    with Progress(len(todo), "blocks", label) as progress:
        try:
            for parcel, outcome in tasks:
                _settle(report, parcel, outcome)
                done += 1
                progress.advance(_left_s(report, done, len(todo), slots(executor)))
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
            forget(results, block.spec, block.seeds)
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

"""A study: a grid of problems x methods x seeds, cut into blocks, run by any executor, written as records.

A rerun does what is missing and touches nothing that is finished. A block that fails, or whose workers keep dying,
is set aside with its reason; the others go on.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hydra.utils import instantiate

from harness.cost_models.censored import IMPUTED
from harness.cost_models.protocol import CostModel, ProblemAware, known_beforehand
from harness.cost_models.statistics import DEFAULT
from harness.errors import BadInput
from harness.fronts import Watched
from harness.ledger import write_failed
from harness.methods import Method
from harness.optimizer import Optimizer
from harness.problem import Problem
from harness.progress import Progress
from harness.records import FRONTS, TIMINGS, TRACE, block_folder, seeds_done, write_block
from harness.run import run
from harness.shipping import Absent, Delivery, Parcel, receive, with_cargo, work
from harness.supervise import ExecutorGone, supervised

ENGINE = 2  # raise it when the same spec gives other choices than before
SETTINGS = ("iterations", "n_initial", "tau", "cost_statistic")  # of every run's optimizer
YOUNGER = ("memory_limit_mb",)  # settings from after the first records: in a spec only where they are set
Config = Mapping[str, Any]


@runtime_checkable
class Evaluator(Protocol):
    """What `evaluator=...` names: opens problems, and tells by a fingerprint what they are made of."""

    seeds_per_block: int | None

    def fingerprint(self, dataset: Config, pipeline: Config) -> str:
        """Return a hash of the problem's content; raises BadInput when it cannot be opened."""
        ...

    def open(self, dataset: Config, pipeline: Config, seed: int) -> Problem:
        """Return the problem, fresh for one run."""
        ...


@dataclass(frozen=True)
class Grid:
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
    cost_statistic: str = DEFAULT
    budgets: Mapping[str, float] | None = None  # seconds by problem; tau is then a multiple of them
    fronts: bool = False  # keep the EI-cost fronts of every step beside the traces
    censored_costs: str = IMPUTED

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
        if self.components["evaluator"].get("time_limit_s") is None:
            return {}
        own = (
            {}
            if self.censored_costs == IMPUTED
            else {"cost_model": f"{self.names['cost_model']}:{self.censored_costs}"}
        )
        return {"censored_costs": self.censored_costs, **own}


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


@dataclass
class Report:
    """What a study did."""

    runs: int = 0
    steps: int = 0
    proposals: int = 0
    engine_ms: float = 0.0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    wall_s: float = 0.0


class Stopped(Exception):
    """The study cannot go on; `report` says what it did until then."""

    def __init__(self, reason: str, report: Report) -> None:
        super().__init__(reason)
        self.report = report


def make_spec(
    grid: Grid, dataset: Config, pipeline: Config, method: Method, fingerprint: str, known: str | None = None
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
        "components": {name: _settings(config) for name, config in grid.parts(method).items()},
        "engine": ENGINE,
        **beforehand,
    }


def _settings(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None or name not in YOUNGER}


def all_specs(grid: Grid, evaluator: Evaluator) -> Iterator[dict[str, Any]]:
    """Yield the spec of every problem and method; raises BadInput for a problem that cannot be opened."""
    cost_model: CostModel = instantiate(grid.components["cost_model"])
    for dataset in grid.datasets.values():
        for pipeline in grid.pipelines.values():
            fingerprint = evaluator.fingerprint(dataset, pipeline)
            known = None
            if isinstance(cost_model, ProblemAware):
                known = known_beforehand(cost_model, evaluator.open(dataset, pipeline, 0))
            for method in grid.methods:
                yield make_spec(grid, dataset, pipeline, method, fingerprint, known)


def blocks(grid: Grid, results: Path) -> tuple[list[Block], int]:
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


def run_block(block: Block) -> dict[str, Any]:
    """Run a block's seeds, write its record, and return its counts."""
    spec, start = block.spec, time.perf_counter()
    evaluator: Evaluator = instantiate({**spec["components"]["evaluator"], **block.overrides})
    trace: dict[str, list[Any]] = {name: [] for name in TRACE.names}
    timings: dict[str, list[Any]] = {name: [] for name in TIMINGS.names}
    fronts: dict[str, list[Any]] = {name: [] for name in FRONTS.names}
    for seed in sorted(block.seeds):
        problem = evaluator.open(spec["dataset_config"], spec["pipeline_config"], seed)
        optimizer = _optimizer(spec, seed)
        watched = Watched(problem, optimizer, seed) if block.fronts else None
        one = run(watched or problem, optimizer, seed, spec["iterations"], spec["n_initial"], spec["tau"])
        for total, part in ((trace, one.columns), (timings, one.timings), (fronts, watched.columns if watched else {})):
            for name, values in part.items():
                total[name] += values
    seconds = round(time.perf_counter() - start, 3)
    write_block(
        Path(block.results), spec, block.seeds, trace, timings, fronts if block.fronts else None, seconds=seconds
    )
    engine_ms = sum(timings["fit_ms"]) + sum(timings["propose_ms"])
    return {"steps": len(trace["step"]), "proposals": len(timings["step"]), "engine_ms": engine_ms}


def _optimizer(spec: dict[str, Any], seed: int) -> Optimizer:
    settings = {name: spec[name] for name in (*SETTINGS, "censored_costs") if name in spec}
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
    with Progress(len(todo), "blocks", label) as progress:
        try:
            for parcel, outcome in tasks:
                _settle(report, parcel, outcome)
                progress.advance()
        except ExecutorGone as error:
            raise Stopped(str(error), report) from None
        finally:
            report.wall_s = time.monotonic() - start
    return report


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
        except BadInput as error:
            reason = str(error)
        except OSError as error:
            raise Stopped(f"cannot write records to {results}: {error.strerror}", report) from None
    elif isinstance(outcome, Absent):
        reason = f"a worker has not the table of the study ({outcome.where}), and it could not be sent"
    else:
        reason = f"{type(outcome).__name__}: {' '.join(str(outcome).split())}"
    if reason:
        report.failed.append(f"{block.spec['dataset']}/{block.spec['pipeline']} {block.spec['method']}: {reason}")
        write_failed(results, block.row(), reason)
        return
    report.runs += len(block.seeds)
    for name in ("steps", "proposals", "engine_ms"):
        setattr(report, name, getattr(report, name) + outcome.counts[name])

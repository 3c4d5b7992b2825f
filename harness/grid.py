"""What a study runs: a grid of problems x methods x seeds, cut into blocks, and the spec of each.

A spec holds all that determines a block's traces, the source of a user's own classes included; its hash names their
place, so that what is there is not run again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.utils import get_object, instantiate

from harness.cost_models.censored import IMPUTED
from harness.cost_models.protocol import CostModel, ProblemAware, known_beforehand
from harness.cost_models.statistics import DEFAULT
from harness.error_scales import RAW
from harness.errors import BadInput
from harness.methods import Method
from harness.problem import Bounded, Evaluator
from harness.records import block_folder, seeds_done
from harness.targets import code_of

ENGINE = 3  # raise it when the same spec gives other choices than before
LOOK_AHEAD = 3  # raise it when utilities that look ahead choose otherwise, and those that do not as before
COST_SD = 2  # raise it when predictive sds of costs change: other statistics than the default depend on them
SETTINGS = ("iterations", "n_initial", "tau", "cost_statistic")  # of every run's optimizer
YOUNGER = ("memory_limit_mb",)  # settings from after the first records: in a spec only where they are set
Config = Mapping[str, Any]


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
        **grid.scaling(),
        **({"plans_ahead": False} if method.steady else {}),
        "components": {name: _settings(config) for name, config in grid.parts(method).items()},
        "engine": ENGINE,
        **(
            {"cost_sd": COST_SD}
            if grid.cost_statistic != DEFAULT or _says(grid.parts(method)["utility"], "weighs_cost_sd")
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


def all_specs(grid: Grid, evaluator: Evaluator) -> Iterator[dict[str, Any]]:
    """Yield the spec of every problem and method; raises BadInput for a problem that cannot be opened."""
    cost_model: CostModel = instantiate(grid.components["cost_model"])
    for dataset in grid.datasets.values():
        for pipeline in grid.pipelines.values():
            fingerprint = evaluator.fingerprint(dataset, pipeline)
            if isinstance(evaluator, Bounded):
                evaluator.check_design(dataset, pipeline, min(grid.n_initial, grid.iterations))
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

"""The grid of a study: problems x methods x seeds as plain configuration, the spec of each block, and its components.

A spec holds all that determines a block's traces, the source of a user's own classes included; its hash names their
place, so that what is there is not run again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

from hydra.utils import get_object, instantiate

from harness.acquisitions.designs import Design
from harness.component import asks_for_problem, complete
from harness.config import OPTIONAL
from harness.cost_models import EXP_MEAN, IMPUTED, CostModel
from harness.curves import LearningCurves
from harness.error_scale import RAW
from harness.errors import BadInput, whole
from harness.interop.rivals import OutsideOptimizer, is_rival, releases
from harness.more_candidates import MoreCandidates
from harness.optimizer import Optimizer
from harness.problem import LATE, Evaluator, Problem
from harness.records import code_of
from harness.sealed import spec_hash
from harness.surrogates import Surrogate

ENGINE = 3  # raise it when the same spec gives other choices than before
LATE_STEPS = 3  # raise it when choices beyond `harness.problem.LATE` evaluations change, and earlier ones do not
LOOK_AHEAD = 3  # raise it when utilities that look ahead choose otherwise, and those that do not as before
COST_SD = 2  # raise it when predictive sds of costs change: other statistics than the default depend on them
SETTINGS = ("iterations", "n_initial", "tau", "cost_statistic")  # of every run's optimizer
YOUNGER = ("memory_limit_mb",)  # settings from after the first records: in a spec only where they are set
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """One acquisition with its parameters: label such as ``cei(lam=0.1)``, and the cost rule's config.

    utility: name and config of the method's own utility, None for the run's. steady: whether a user's rule says
    (`plans_ahead = False`) that its choices do not depend on the length or budget planned. own: name and config of
    each other component that belongs to the method, by group, for which its name stands in records and analyses.
    """

    acq: str
    label: str
    rule: dict[str, Any]
    utility: tuple[str, dict[str, Any]] | None = None
    steady: bool = False
    own: Mapping[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

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
    components: Mapping[str, Config]  # evaluator, utility, surrogate, cost_model, and of OPTIONAL those chosen
    names: Mapping[str, str]  # of the same
    cost_statistic: str = EXP_MEAN
    budgets: Mapping[str, float] | None = None  # seconds by problem; tau is then a multiple of them
    fronts: bool = False  # keep the EI-cost fronts of every step beside the traces
    price_per_hour: float | None = None  # of training: progress lines of live runs also show the price
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
        """Return the components of a method's runs: the study's, its own apart."""
        own = {} if method.utility is None else {"utility": method.utility[1]}
        return {**self.components, **own, **{group: config for group, (_, config) in method.own.items()}}

    def censoring(self) -> dict[str, str]:
        """Return what becomes of censored costs, where trainings have a time limit; nothing where none is stopped.

        A treatment other than the default is part of the cost model's name, so that an analysis never mixes the two.
        """
        if self.censored_costs == IMPUTED:  # an evaluator of the user's own may stop trainings by other settings
            limited = self.components["evaluator"].get("time_limit_s") is not None
            return {"censored_costs": IMPUTED} if limited else {}
        name = f"{self.names['cost_model']}:{self.censored_costs}"
        return {"censored_costs": self.censored_costs, "cost_model": name}

    def starting(self) -> dict[str, str]:
        """Return the surrogate's name with the design and the curves that a study has chosen, where it has."""
        more = [self.names[name] for name in OPTIONAL if name in self.names]
        return {"surrogate": "+".join([self.names["surrogate"], *more])} if more else {}

    def scaling(self) -> dict[str, str]:
        """Return the scale on which the surrogate sees errors, where that is not their own.

        It is part of the surrogate's name, so that an analysis never mixes two.
        """
        if self.error_scale == RAW:
            return {}
        name = self.starting().get("surrogate", self.names["surrogate"])
        return {"error_scale": self.error_scale, "surrogate": f"{name}:{self.error_scale}"}


def make_spec(
    study: Study,
    dataset: Config,
    pipeline: Config,
    method: Method,
    fingerprint: str,
    known: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return all that determines the traces of one problem and method, as plain JSON values.

    fingerprint: of the problem's content; known: `knowledge`, what components have learned elsewhere.
    """
    parts = study.parts(method)
    utility = get_object(str(parts["utility"]["_target_"]))
    spec = {
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
        **study.settings(f"{dataset['name']}/{pipeline['name']}"),
        **study.names,
        **study.starting(),
        **({} if method.utility is None else {"utility": method.utility[0]}),
        **study.censoring(),
        **study.scaling(),
        **({"own": {group: name for group, (name, _) in method.own.items()}} if method.own else {}),
        "components": {name: _settings(config) for name, config in parts.items()},
        "engine": ENGINE,
    }
    if method.steady:
        spec["plans_ahead"] = False
    if study.cost_statistic != EXP_MEAN or getattr(utility, "weighs_cost_sd", False):
        spec["cost_sd"] = COST_SD
    if study.iterations > LATE:
        spec["late_steps"] = LATE_STEPS
    if getattr(utility, "looks_ahead", False):
        spec["look_ahead"] = LOOK_AHEAD
    spec |= known or {}
    if found := releases(method.rule):
        spec["releases"] = found
    if code := code_of(dataset, pipeline, method.rule, *parts.values()):
        spec["code"] = code
    return spec


def _settings(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None or name not in YOUNGER}


def all_specs(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the spec of every problem and method, equal ones once (a default, and the same by name).

    Raises BadInput for a problem that cannot be opened.
    """
    evaluator, seen = make_evaluator(study.components["evaluator"]), set[str]()
    for dataset in study.datasets.values():
        for pipeline in study.pipelines.values():
            fingerprint = evaluator.fingerprint(dataset, pipeline)
            evaluator.check_design(dataset, pipeline, min(study.n_initial, study.iterations))
            opened = partial(evaluator.open, dataset, pipeline, 0)
            known: dict[str, dict[str, str]] = {}  # of methods with the same components
            for method in study.methods:
                parts = study.parts(method)
                same = json.dumps({name: dict(parts[name]) for name in LEARNING if name in parts}, sort_keys=True)
                if same not in known:
                    known[same] = knowledge(parts, opened)
                spec = make_spec(study, dataset, pipeline, method, fingerprint, known[same])
                if (own := spec_hash(spec)) not in seen:
                    seen.add(own)
                    yield spec


LEARNING = {  # components that may know of other problems, or not be able to serve one
    "cost_model": CostModel,
    "surrogate": Surrogate,
    "design": Design,
    "curves": LearningCurves,
    "candidates": MoreCandidates,
}


def knowledge(components: Mapping[str, Config], problem: Callable[[], Problem]) -> dict[str, str]:
    """Return fingerprints of what components know before a problem, as `cost_model_data` and so on.

    problem: opens it, where one asks for it. Raises BadInput for a problem that a component cannot serve.
    """
    found: dict[str, str] = {}
    for name, base in LEARNING.items():
        if name in components:
            part: Any = complete(instantiate(components[name]), base)
            known = part.fingerprint(problem()) if asks_for_problem(type(part)) else None
            found |= {} if known is None else {f"{name}_data": str(known)}
    return found


def make_evaluator(config: Config) -> Evaluator:
    """Return the evaluator of this configuration; raises BadInput for a class that lacks one of its methods."""
    evaluator = complete(instantiate(config), Evaluator)
    if evaluator.seeds_per_block is not None:
        whole("seeds_per_block", evaluator.seeds_per_block, 1)
    return evaluator


def make_optimizer(components: Mapping[str, Config], rule: Config, settings: Mapping[str, Any]) -> Optimizer:
    """Return a new optimizer of these components; raises BadInput for what is wrong in any of them."""
    surrogate, cost_model, utility = (_made(components[name]) for name in ("surrogate", "cost_model", "utility"))
    made, more = _made(rule), {name: _made(components[name]) for name in OPTIONAL if name in components}
    if not is_rival(made):
        return Optimizer(surrogate, cost_model, utility, made, **more, **settings)
    if more:
        raise BadInput(f"{next(iter(more))} is set, but {type(made).__name__} chooses by itself: leave it out")
    return OutsideOptimizer(made, **settings)


_PLAIN = str | int | float | None


def _made(config: Config) -> Any:
    """Return what Hydra's `instantiate` does, at a tenth of its price where settings are plain values."""
    settings = {name: value for name, value in config.items() if name != "_target_"}
    values = [one for value in settings.values() for one in (value if isinstance(value, list) else [value])]
    if all(isinstance(value, _PLAIN) for value in values) and not any(name.startswith("_") for name in settings):
        return get_object(str(config["_target_"]))(**settings)
    return instantiate(config)

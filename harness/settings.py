"""From the composed configuration to the study that it describes; what is wrong in it is told before anything runs."""

import math
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf

from harness.budgets import read_budgets
from harness.checks import number
from harness.choices import check_needs, search_places
from harness.cli import chosen, whole_number
from harness.cost_models import censored
from harness.cost_models.statistics import check
from harness.error_scales import check as check_scale
from harness.errors import BadInput
from harness.grid import Grid
from harness.methods import PARAMETERS, Method, study_methods, to_method
from harness.records import LARGEST_SEED
from harness.strangers import no_secrets
from harness.study import make_optimizer
from harness.targets import check_targets, given_on_command_line

COMPONENTS = ("evaluator", "utility", "surrogate", "cost_model")


def read_grid(cfg: DictConfig) -> Grid:
    """Return the study that the configuration describes; raises BadInput for what is wrong in it."""
    check_targets(OmegaConf.to_container(cfg, resolve=False), _allowed())
    choices = HydraConfig.get().runtime.choices
    check_needs(cfg.setting_needs, choices)
    components = {name: _plain(cfg[name], name) for name in COMPONENTS}
    no_secrets(components)
    if cfg.tau is not None:
        number("tau", cfg.tau, "a number of seconds > 0 or null", math.ulp(0.0))
    if cfg.budgets is not None and cfg.tau is None:
        raise BadInput("budgets is given, so tau must say how many times the budget, for example tau=20")
    if not isinstance(cfg.fronts, bool):
        raise BadInput(f"fronts must be true or false, got {cfg.fronts!r}")
    grid = Grid(
        datasets=chosen(cfg, "dataset"),
        pipelines=chosen(cfg, "pipeline"),
        methods=_methods(cfg),
        seeds=_seeds(cfg.seeds),
        iterations=whole_number("iterations", cfg.iterations, 1),
        n_initial=whole_number("n_initial", cfg.n_initial, 1),
        tau=None if cfg.tau is None else float(cfg.tau),
        components=components,
        names={name: str(choices[name]) for name in COMPONENTS},
        cost_statistic=check(cfg.cost_statistic),
        budgets=None if cfg.budgets is None else read_budgets(Path(str(cfg.budgets))),
        fronts=cfg.fronts,
        censored_costs=censored.check(cfg.censored_costs),
        error_scale=check_scale(cfg.error_scale),
    )
    _check_tables(grid)
    for method in grid.methods:
        make_optimizer(grid.parts(method), method.rule, grid.settings())  # what is wrong is told before anything runs
    return grid


def _check_tables(grid: Grid) -> None:
    """Raise BadInput for a data set of the user's own with an evaluator on tables, which there are only of the study's.

    Both by what their configs name: to open either would take time, or fail for another reason first.
    """
    own = [name for name, config in grid.datasets.items() if str(config["_target_"]).startswith("datasets.own.")]
    if own and "tables" in grid.components["evaluator"]:
        raise BadInput(f"{own[0]} is a file of your own and has no table to replay: evaluator=live")


def _allowed() -> list[str]:
    return given_on_command_line(HydraConfig.get().overrides.task)


def _plain(node: Any, name: str) -> dict[str, Any]:
    plain = OmegaConf.to_container(node, resolve=True) if isinstance(node, DictConfig) else None
    if not isinstance(plain, dict) or "_target_" not in plain:
        raise BadInput(f"{name} must name one of configs/{name}, got {node!r}")
    return {str(key): value for key, value in plain.items()}


def _methods(cfg: DictConfig) -> list[Method]:
    given = [name for name in PARAMETERS if cfg[name] is not None]
    if "acq" in cfg:
        method = to_method(cfg, allowed=_allowed())
        idle = [
            name for name in given if name not in cfg.acq.rule or not OmegaConf.is_interpolation(cfg.acq.rule, name)
        ]
        if idle and HydraConfig.get().mode == RunMode.RUN:  # several acquisitions may share a command line
            raise BadInput(f"{idle[0]} is set, but +acq={method.acq} has no such parameter: leave it out")
        return [method]
    if given:
        raise BadInput(f"{given[0]} is set but no acquisition: add +acq=..., or leave it out to run the study's list")
    if not isinstance(cfg.study.methods, ListConfig):
        raise BadInput(f"study.methods must be a list such as [{{acq: ei}}], got {cfg.study.methods!r}")
    search = [o for o in HydraConfig.get().overrides.hydra if list(search_places([o]))]
    return study_methods(cfg.study.methods, search, _allowed())


def _seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, ListConfig) or not len(seeds):
        raise BadInput(f"seeds must be a list of whole numbers >= 0, for example seeds=[0,1], got {seeds!r}")
    checked = [whole_number("each of seeds", seed, 0, LARGEST_SEED) for seed in seeds]
    if len(set(checked)) < len(checked):
        raise BadInput(f"seeds must differ from each other, got {checked}")
    return sorted(checked)

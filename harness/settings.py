"""From the composed configuration to the `Study` that it describes; every mistake is told before anything runs."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from harness.config import (
    CONFIGS,
    check_needs,
    check_targets,
    chosen,
    composed,
    given_on_command_line,
    no_secrets,
    search_places,
    users_mistakes,
)
from harness.cost_models import check_statistic, check_treatment
from harness.errors import BadInput, flag, number, whole_number
from harness.optimizer import check_scale
from harness.records import LARGEST_SEED
from harness.study import Method, Study, make_optimizer

COLUMNS = ("dataset", "pipeline", "budget_s")


def read_budgets(path: Path) -> dict[str, float]:
    """Return seconds by problem, ``dataset/pipeline``; raises BadInput naming the file and line for what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            missing = [c for c in COLUMNS if c not in (lines.fieldnames or ())]
            if missing:
                raise BadInput(
                    f"budgets: {path} lacks the column(s) {', '.join(missing)}; needed: {', '.join(COLUMNS)}"
                )
            rows = [(lines.line_num, row) for row in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"budgets: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, float] = {}
    for line, row in rows:
        if not (row["dataset"] and row["pipeline"]):
            raise BadInput(f"budgets: {path} line {line} names no problem: dataset and pipeline are needed")
        problem = f"{row['dataset']}/{row['pipeline']}"
        if problem in found:
            raise BadInput(f"budgets: {path} line {line} names {problem} a second time")
        found[problem] = _seconds(row["budget_s"], f"budgets: {path} line {line}")
    if not found:
        raise BadInput(f"budgets: {path} names no problem")
    return found


def _seconds(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise BadInput(f"{where}: budget_s must be a number of seconds > 0, got {text!r}")
    return value


PARAMETERS = ("lam", "alpha")


SHIPPED = ("cei", "ei", "eialpha", "eicool", "eipu")  # named by lam and alpha alone; others by all their parameters


def to_method(cfg: DictConfig, utility: str | None = None, allowed: Sequence[str] = ()) -> Method:
    """Return the method that `cfg.acq` and the top-level lam and alpha describe; raises BadInput.

    utility: the name of `cfg.utility` if that belongs to the method. allowed: packages whose classes it may name
    besides the project's, see `harness.config`.
    """
    node = cfg.acq
    if not isinstance(node, DictConfig) or "rule" not in node:
        raise BadInput(f"acq must name one acquisition, for example +acq=cei, got {node!r}")
    if not isinstance(node.get("name"), str) or not node.name:
        raise BadInput("the file of the acquisition needs a line `name: ...`, by which its records are known")
    _check_shipped(str(node.name), node.rule)
    used = [p for p in PARAMETERS if p in node.rule and OmegaConf.is_interpolation(node.rule, p)]
    rule = OmegaConf.to_container(node.rule, resolve=True)
    assert isinstance(rule, dict)
    check_targets(rule, allowed)
    plain: dict[str, Any] = {str(key): value for key, value in rule.items()}
    made = instantiate(plain)  # a wrong parameter is told before anything runs
    name, shown = str(node.name), ",".join(f"{p}={_shown(float(plain[p]))}" for p in used)
    if name not in SHIPPED:
        shown = ",".join(f"{key}={_shown(v)}" for key, v in plain.items() if key != "_target_" and v is not None)
    own: Any = None if utility is None else (utility, OmegaConf.to_container(cfg.utility, resolve=True))
    check_targets(own and own[1], allowed)
    steady = name not in SHIPPED and not flag(f"{name}: plans_ahead", getattr(made, "plans_ahead", True))
    return Method(name, f"{name}({shown})" if shown else name, plain, own, steady)


def _check_shipped(name: str, rule: DictConfig) -> None:
    """Raise BadInput where an acquisition of the project has another rule than its file: its name would be a lie."""
    if name not in SHIPPED:
        return
    plain = OmegaConf.to_container(rule, resolve=False)
    shipped = OmegaConf.load(CONFIGS / "acq" / f"{name}.yaml")
    if plain != OmegaConf.to_container(shipped.rule, resolve=False):
        own = " ".join(f"{p}=" for p in PARAMETERS if p in shipped.rule and OmegaConf.is_interpolation(shipped.rule, p))
        how = f"is set by {own} alone" if own else "has nothing to set"
        raise BadInput(f"acq.rule: {name} {how}; another rule needs a file, and so a name, of its own")


def _shown(value: Any) -> str:
    """Return a parameter as a label has it: short, but never the same for two values."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)


def study_methods(entries: Sequence[Any], overrides: Sequence[str], allowed: Sequence[str] = ()) -> list[Method]:
    """Return the methods of a study's list: entries such as ``{acq: cei, lam: [0.1, 0.3], utility: [ei, kg]}``.

    `overrides` are passed on to Hydra (a search path, for acquisitions of the user's own); `allowed`: see `to_method`.
    """
    methods = []
    for entry in entries:
        plain: Any = OmegaConf.to_container(entry) if isinstance(entry, DictConfig) else entry
        if not isinstance(plain, dict) or "acq" not in plain or set(plain) - {"acq", "utility", *PARAMETERS}:
            raise BadInput(f"a study's method needs acq and may have lam, alpha, utility; got {plain!r}")
        grids = [value if isinstance(value, list) else [value] for key, value in plain.items() if key != "acq"]
        keys = [key for key in plain if key != "acq"]
        for values in product(*grids):
            given = dict(zip(keys, values, strict=True))
            settings = [f"{'+' * (key == 'utility')}{key}={value}" for key, value in given.items()]
            with users_mistakes(arguments=overrides):
                cfg = hydra.compose("method", overrides=[f"+acq={plain['acq']}", *settings, *overrides])
            methods.append(to_method(cfg, given.get("utility"), allowed))
    if not methods:
        raise BadInput("study.methods is empty: a study needs one method or more, for example [{acq: ei}]")
    labels = [(method.label, method.utility and method.utility[0]) for method in methods]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise BadInput(f"study.methods names {twice[0][0]} twice")
    return methods


COMPONENT_GROUPS = ("evaluator", "utility", "surrogate", "cost_model")


OF_THE_RUN = ("results_dir", "executor", "finish")  # settings of the command line that are no part of a study


def compose(*overrides: str) -> Study:
    """Return the study that `python -m harness` would run with the same settings, such as ``"+acq=cei", "lam=0.1"``.

    Raises BadInput with the line that the command would print, and for a setting of `OF_THE_RUN`: where records go and
    who works is for `harness.run` to say.
    """
    for override in overrides:
        if not isinstance(override, str):
            raise BadInput(f'settings are strings, such as compose("+acq=cei", "lam=0.1"), got {override!r}')
        if override.startswith("-"):
            raise BadInput(f"{override} is for the command line alone: settings are given as setting=value")
        name = override.lstrip("+~").partition("=")[0].partition(".")[0]
        if name in OF_THE_RUN:
            raise BadInput(f"{name} is no part of a study: harness.run(study, results_dir=..., executor=...)")
    with composed("config", overrides) as (cfg, choices):
        return read_study(cfg, choices, overrides)


def read_study(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[str], several: bool = False) -> Study:
    """Return the study that the configuration describes; raises BadInput for what is wrong in it.

    choices: the name chosen of each group. overrides: all that were given, those of Hydra's own settings included.
    several: whether this is one of several studies of a command line (`-m`), whose settings they share. Hydra has to
    be set up to compose further configurations.
    """
    allowed = given_on_command_line(overrides)
    check_targets(OmegaConf.to_container(cfg, resolve=False), allowed)
    check_needs(cfg.setting_needs, choices)
    components = {name: _plain(cfg[name], name) for name in COMPONENT_GROUPS}
    no_secrets(components)
    if cfg.tau is not None:
        number("tau", cfg.tau, "a number of seconds > 0 or null", math.ulp(0.0))
    if cfg.budgets is not None and cfg.tau is None:
        raise BadInput("budgets is given, so tau must say how many times the budget, for example tau=20")
    if not isinstance(cfg.fronts, bool):
        raise BadInput(f"fronts must be true or false, got {cfg.fronts!r}")
    grid = Study(
        datasets=chosen(cfg, "dataset"),
        pipelines=chosen(cfg, "pipeline"),
        methods=_methods(cfg, allowed, overrides, several),
        seeds=_seeds(cfg.seeds),
        iterations=whole_number("iterations", cfg.iterations, 1),
        n_initial=whole_number("n_initial", cfg.n_initial, 1),
        tau=None if cfg.tau is None else float(cfg.tau),
        components=components,
        names={name: str(choices[name]) for name in COMPONENT_GROUPS},
        cost_statistic=check_statistic(cfg.cost_statistic),
        budgets=None if cfg.budgets is None else read_budgets(Path(str(cfg.budgets))),
        fronts=cfg.fronts,
        censored_costs=check_treatment(cfg.censored_costs),
        error_scale=check_scale(cfg.error_scale),
    )
    _check_tables(grid)
    for method in grid.methods:
        make_optimizer(grid.parts(method), method.rule, grid.settings())  # what is wrong is told before anything runs
    return grid


def _check_tables(grid: Study) -> None:
    """Raise BadInput for a data set of the user's own with an evaluator on tables, which there are only of the study's.

    Both by what their configs name: to open either would take time, or fail for another reason first.
    """
    own = [name for name, config in grid.datasets.items() if str(config["_target_"]).startswith("datasets.csv_file.")]
    if own and "tables" in grid.components["evaluator"]:
        raise BadInput(f"{own[0]} is a file of your own and has no table to replay: evaluator=live")


def _plain(node: Any, name: str) -> dict[str, Any]:
    plain = OmegaConf.to_container(node, resolve=True) if isinstance(node, DictConfig) else None
    if not isinstance(plain, dict) or "_target_" not in plain:
        raise BadInput(f"{name} must name one of configs/{name}, got {node!r}")
    return {str(key): value for key, value in plain.items()}


def _methods(cfg: DictConfig, allowed: Sequence[str], overrides: Sequence[str], several: bool) -> list[Method]:
    given = [name for name in PARAMETERS if cfg[name] is not None]
    if "acq" in cfg:
        method = to_method(cfg, allowed=allowed)
        idle = [
            name for name in given if name not in cfg.acq.rule or not OmegaConf.is_interpolation(cfg.acq.rule, name)
        ]
        if idle and not several:
            raise BadInput(f"{idle[0]} is set, but +acq={method.acq} has no such parameter: leave it out")
        return [method]
    if given:
        raise BadInput(f"{given[0]} is set but no acquisition: add +acq=..., or leave it out to run the study's list")
    if not isinstance(cfg.study.methods, ListConfig):
        raise BadInput(f"study.methods must be a list such as [{{acq: ei}}], got {cfg.study.methods!r}")
    search = [o for o in overrides if list(search_places([o]))]
    return study_methods(cfg.study.methods, search, allowed)


def _seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, ListConfig) or not len(seeds):
        raise BadInput(f"seeds must be a list of whole numbers >= 0, for example seeds=[0,1], got {seeds!r}")
    checked = [whole_number("each of seeds", seed, 0, LARGEST_SEED) for seed in seeds]
    if len(set(checked)) < len(checked):
        raise BadInput(f"seeds must differ from each other, got {checked}")
    return sorted(checked)

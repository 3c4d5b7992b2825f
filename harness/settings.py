"""From a composed configuration to the `Study` that it describes; every mistake is found before anything runs."""

import csv
import inspect
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import hydra
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harness.acquisitions import cost_rules
from harness.config import (
    CONFIGS,
    OPTIONAL,
    check_overrides,
    check_targets,
    chosen,
    composed,
    given_on_command_line,
    located,
    options,
    search_places,
    targets_in,
    users_mistakes,
)
from harness.cost_models import check_statistic, check_treatment
from harness.error_scale import check_scale
from harness.errors import BadInput, flag
from harness.grid import Method, Study, make_optimizer
from harness.interop.rivals import is_rival, releases
from harness.records import LARGEST_SEED

# The declaration of the settings: types and ranges. Components declare theirs in their constructors, as `Optimizer`
# does those that it takes; all are made once before anything runs.


def _no_bare_seed(given: Any) -> Any:
    """Return what is given for seeds; raises BadInput for a number, which may be meant as a seed or as how many."""
    if type(given) is int:
        raise BadInput(f"seeds must be a list, 'seeds=[{given}]' for that seed, 'seeds=[0,1,2]' for three; got {given}")
    return given


class Settings(BaseModel):
    """The plain settings of configs/config.yaml that a study takes; `description` is what an error line says."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    seeds: Annotated[
        list[Annotated[int, Field(ge=0, le=LARGEST_SEED)]],
        BeforeValidator(_no_bare_seed),
        Field(min_length=1, description=f"a list of whole numbers from 0 to {LARGEST_SEED}, for example 'seeds=[0,1]'"),
    ]
    iterations: Annotated[int, Field(ge=1, description="a whole number >= 1")]
    n_initial: Annotated[int, Field(ge=1, description="a whole number >= 1")]
    tau: Annotated[float | None, Field(gt=0, description="a number of seconds > 0 or null")]
    budgets: Annotated[str | None, Field(description="a CSV file or null")]
    fronts: Annotated[bool, Field(description="true or false")]
    price_per_hour: Annotated[float | None, Field(gt=0, description="a number > 0, of money, or null")]
    cost_statistic: Annotated[Any, AfterValidator(check_statistic)]
    censored_costs: Annotated[Any, AfterValidator(check_treatment)]
    error_scale: Annotated[Any, AfterValidator(check_scale)]


def read_settings(cfg: DictConfig) -> Settings:
    """Return the settings of a configuration; raises BadInput naming the first that is not as declared."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    try:
        found = Settings.model_validate(plain)
    except ValidationError as error:
        wrong = error.errors()[0]
        if isinstance(cause := wrong.get("ctx", {}).get("error"), BadInput):
            raise cause from None
        name = str(wrong["loc"][0])
        allowed = Settings.model_fields[name].description
        raise BadInput(f"{name} must be {allowed}, got {wrong['input']!r}") from None
    if len(set(found.seeds)) < len(found.seeds):
        raise BadInput(f"seeds must differ from each other, got {found.seeds}")
    return found


COLUMNS = ("dataset", "pipeline", "budget_s")


def read_budgets(path: Path) -> dict[str, float]:
    """Return seconds by problem, ``dataset/pipeline``; raises BadInput naming the file and line for what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            missing = [c for c in COLUMNS if c not in (lines.fieldnames or ())]
            rows = [(lines.line_num, row) for row in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"budgets: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if missing or not rows:
        raise BadInput(f"budgets: {path} lacks {', '.join(missing) or 'rows'}; its columns: {', '.join(COLUMNS)}")
    found: dict[str, float] = {}
    for line, row in rows:
        where, problem = f"budgets: {path} line {line}", f"{row['dataset']}/{row['pipeline']}"
        if not (row["dataset"] and row["pipeline"]) or problem in found:
            raise BadInput(f"{where} names {f'{problem} a second time' if problem in found else 'no problem'}")
        try:
            found[problem] = float(row["budget_s"] or "")
        except ValueError:
            found[problem] = math.nan
        if not (math.isfinite(found[problem]) and found[problem] > 0):
            raise BadInput(f"{where}: budget_s must be a number of seconds > 0, got {row['budget_s']!r}")
    return found


# Methods.

PARAMETERS = ("lam", "alpha")
PARTS, PARTS_GROUPS = "parts", ("surrogate", "cost_model", *OPTIONAL)  # components that an acquisition may bring along
OPTIMIZER = "optimizer"  # the group of those from elsewhere
OURS = ("surrogate", "cost_model", "utility", "error_scale", "cost_statistic", "censored_costs")  # it sees none of them


@cache
def shipped() -> frozenset[str]:
    """Return the project's acquisitions with a rule of `harness.acquisitions.cost_rules`.

    They are named by lam and alpha alone, others by all their parameters.
    """
    rules = {name: OmegaConf.load(CONFIGS / "acq" / f"{name}.yaml").rule for name in options("acq")}
    return frozenset(name for name, rule in rules.items() if rule._target_.startswith(cost_rules.__name__))


def to_method(
    cfg: DictConfig,
    utility: str | None = None,
    allowed: Sequence[str] = (),
    choices: Mapping[str, str | None] | None = None,
    changed: Sequence[str] = (),
) -> Method:
    """Return the method that `cfg.acq` and the top-level lam and alpha describe; raises BadInput.

    utility: the name of `cfg.utility` if that belongs to the method. allowed: packages whose classes it may name
    besides the project's, see `harness.config`. choices: Hydra's, with the names of the method's own components;
    changed: the groups of those that are not as in the acquisition's file, which show in the method's name.
    """
    node = cfg.acq
    if not isinstance(node, DictConfig):
        raise BadInput(f"acq must name one acquisition, for example +acq=cei, got {node!r}")
    if not isinstance(node.get("rule"), DictConfig):
        has = ", ".join(map(str, node)) or "nothing"
        raise BadInput(f"the file of the acquisition needs `rule:`, with a line `_target_: my.pkg.Class`; it has {has}")
    if not isinstance(node.get("name"), str) or not node.name:
        raise BadInput("the file of the acquisition needs a line `name: ...`, by which its records are known")
    name, plain = str(node.name), _checked(node.rule, allowed)
    made = instantiate(plain)  # a wrong parameter is found before anything runs
    used = {key: value for key, value in plain.items() if key != "_target_" and value is not None}
    if name in shipped():
        _check_shipped(name, node.rule)
        used = {p: float(plain[p]) for p in PARAMETERS if p in plain and OmegaConf.is_interpolation(node.rule, p)}
    own_utility = None if utility is None else (utility, _checked(cfg.utility, allowed))
    components = _own_components(node.get(PARTS) or {}, choices or {}, allowed)
    used |= {group: components[group][0] if group in components else "none" for group in changed}
    label, may_plan = _label(name, used), name not in shipped() or bool(changed)
    return Method(label if changed else name, label, plain, own_utility, may_plan and _steady(name, made), components)


def _own_components(
    nodes: Mapping[str, Any], choices: Mapping[str, str | None], allowed: Sequence[str]
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return name and configuration of each component that an acquisition brings along, by group."""
    return {
        group: (str(choices[f"{group}@acq.{PARTS}.{group}"]), _component(nodes[group], f"acq.{PARTS}.{group}", allowed))
        for group in PARTS_GROUPS
        if nodes.get(group) is not None
    }


def _label(name: str, used: Mapping[str, Any]) -> str:
    """Return a method's label: its name, and in brackets the parameters that tell it from others of that name."""
    shown = ",".join(f"{key}={_shown(value)}" for key, value in used.items())
    return f"{name}({shown})" if shown else name


def _steady(name: str, rule: Any) -> bool:
    """Return whether a user's rule says that its choices do not depend on the length or budget planned."""
    return not flag(f"{name}: plans_ahead", getattr(rule, "plans_ahead", True))


def rival_method(cfg: DictConfig, allowed: Sequence[str] = ()) -> Method:
    """Return the method that `cfg.optimizer`, an optimizer from elsewhere, is; raises BadInput.

    It is an acquisition's rule that chooses by itself. Settings that its file has as they are do not show in its label.
    """
    node: Any = OmegaConf.to_container(cfg.optimizer, resolve=True)
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "_target_" not in node:
        raise BadInput(f"optimizer must name one of configs/{OPTIMIZER}, with lines name: and _target_:, got {node!r}")
    name = str(node.pop("name"))
    file = CONFIGS / OPTIMIZER / f"{name}.yaml"
    if name in options("acq"):
        raise BadInput(f"optimizer: {name} is the name of an acquisition of the project: give it another")
    plain = _checked(OmegaConf.create(node), allowed)
    releases(plain)
    made = instantiate(plain)
    in_file: Any = OmegaConf.load(file) if file.is_file() else {}
    if not is_rival(made):
        raise BadInput(f"optimizer: {plain['_target_']} needs methods `ask` and `tell`, or `observe_and_suggest`")
    changed = {key: value for key, value in plain.items() if key != "_target_" and value != in_file.get(key)}
    return Method(name, _label(name, changed), plain, None, _steady(name, made))


def _checked(node: DictConfig, allowed: Sequence[str]) -> dict[str, Any]:
    """Return a component's configuration as plain values.

    Raises BadInput for a target that is not allowed, or cannot be loaded, and for settings that it does not have.
    """
    plain: Any = OmegaConf.to_container(node, resolve=True)
    check_targets(plain, allowed)
    for target, given in targets_in(plain):
        try:
            parameters = inspect.signature(located(target)).parameters
        except Exception as error:  # whatever a user's module raises
            raise BadInput(f"_target_ {target} cannot be loaded: {' '.join(str(error).split())}") from None
        unknown = [str(key) for key in given if key not in parameters and not str(key).startswith("_")]
        if unknown and not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            name = target.rpartition(".")[2]
            raise BadInput(f"{name} has no setting {unknown[0]!r}; allowed: {', '.join(parameters) or 'nothing'}")
    return {str(key): value for key, value in plain.items()}


def _check_shipped(name: str, rule: DictConfig) -> None:
    """Raise BadInput where an acquisition of the project has another rule than its file: its name would be a lie."""
    in_file = OmegaConf.load(CONFIGS / "acq" / f"{name}.yaml").rule
    if OmegaConf.to_container(rule, resolve=False) != OmegaConf.to_container(in_file, resolve=False):
        settable = " ".join(f"{p}=" for p in _taken(in_file))
        how = f"is set by {settable} alone" if settable else "has nothing to set"
        raise BadInput(f"acq.rule: {name} {how}; another rule needs a file, and so a name, of its own")


def _shown(value: Any) -> str:
    """Return a parameter as a label has it: short, but never the same for two values."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)


def study_methods(entries: Sequence[Any], overrides: Sequence[str], allowed: Sequence[str] = ()) -> list[Method]:
    """Return the methods of a study's list: entries such as ``{acq: cei, lam: [0.1, 0.3], utility: [ei, kg]}``.

    An entry's `parts` are components by group that belong to it, null for none of what the acquisition's file brings:
    ``{acq: ei, parts: {curves: prefixes}}``; they show in its name.

    `overrides` are passed on to Hydra (a search path, for acquisitions of the user's own); `allowed`: see `to_method`.
    """
    methods = []
    for entry in entries:
        plain: Any = OmegaConf.to_container(entry) if isinstance(entry, DictConfig) else entry
        if isinstance(plain, dict) and set(plain) == {OPTIMIZER}:
            for name in plain[OPTIMIZER] if isinstance(plain[OPTIMIZER], list) else [plain[OPTIMIZER]]:
                given = [f"+{OPTIMIZER}={name}", *overrides]
                check_overrides(given)
                with users_mistakes():
                    methods.append(rival_method(hydra.compose("method", overrides=given), allowed))
            continue
        if not isinstance(plain, dict) or "acq" not in plain or set(plain) - {"acq", "utility", PARTS, *PARAMETERS}:
            raise BadInput(f"a study's method needs acq and may have lam, alpha, utility, parts; got {plain!r}")
        keys, taken = ["acq", *(key for key in plain if key not in ("acq", PARTS))], set[str]()
        for values in product(*(plain[k] if isinstance(plain[k], list) else [plain[k]] for k in keys)):
            own = dict(zip(keys, values, strict=True))
            parts = _parts_of(own["acq"], plain.get(PARTS) or {})
            settings = [*(f"{'+' * (k in ('acq', 'utility'))}{k}={v}" for k, v in own.items()), *parts]
            check_overrides([*(s for s in settings if s.startswith("+")), *overrides])
            with users_mistakes():
                cfg = hydra.compose("method", overrides=[*settings, *overrides], return_hydra_config=True)
            choices = cfg.hydra.runtime.choices
            method = to_method(cfg, own.get("utility"), allowed, choices, list(plain.get(PARTS) or {}))
            taken |= {*_taken(cfg.acq.rule)}
            methods.append(method)
        _refuse_idle([p for p in PARAMETERS if plain.get(p) is not None], taken, plain["acq"])
    if not methods:
        raise BadInput("study.methods is empty: a study needs one method or more, for example [{acq: ei}]")
    labels = [(method.label, method.utility and method.utility[0]) for method in methods]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise BadInput(f"study.methods names {twice[0][0]} twice")
    return methods


def _taken(rule: Any) -> list[str]:
    """Return which of the `PARAMETERS` the configuration of an acquisition's rule takes."""
    return [parameter for parameter in PARAMETERS if parameter in rule and OmegaConf.is_interpolation(rule, parameter)]


def _refuse_idle(given: Sequence[str], taken: Collection[str], acq: Any) -> None:
    """Raise BadInput for one of the `PARAMETERS` given that the acquisition, or each of those in the list, lacks."""
    idle = [parameter for parameter in given if parameter not in taken]
    if idle:
        who = f"none of acq=[{', '.join(acq)}] has such a" if isinstance(acq, list) else f"+acq={acq} has no such"
        raise BadInput(f"{idle[0]} is set, but {who} parameter: leave it out")


def check_sweep(overrides: Sequence[str]) -> None:
    """Raise BadInput for one of the `PARAMETERS` that none of the project's acquisitions of several runs (`-m`) has.

    Where one is of the user's own, its file is not looked into.
    """
    values = {name.lstrip("+"): value for name, _, value in (override.partition("=") for override in overrides)}
    names = values.get("acq", "").split(",")
    if set(names) <= {path.stem for path in (CONFIGS / "acq").glob("*.yaml")}:
        taken = {p for name in names for p in _taken(OmegaConf.load(CONFIGS / "acq" / f"{name}.yaml").rule)}
        given = [parameter for parameter in PARAMETERS if values.get(parameter, "null") != "null"]
        _refuse_idle(given, taken, names if names[1:] else names[0])


def _parts_of(acq: str, wanted: Any) -> list[str]:
    """Return Hydra's overrides that give an acquisition the components `wanted`; raises BadInput for another group."""
    if not isinstance(wanted, dict) or set(wanted) - set(PARTS_GROUPS):
        raise BadInput(f"parts of a study's method are of {', '.join(PARTS_GROUPS)}; got {wanted!r}")
    file = CONFIGS / "acq" / f"{acq}.yaml"
    known: Any = OmegaConf.to_container(OmegaConf.load(file)) if file.is_file() else {}
    there = {key for entry in known.get("defaults", []) for key in entry}
    found = []
    for group, name in wanted.items():
        at = f"{group}@acq.{PARTS}.{group}"
        has = f"/{group}@{PARTS}.{group}" in there
        if name is not None:
            found.append(f"{'' if has else '+'}{at}={name}")
        elif has:
            found.append(f"~{at}")
        else:
            raise BadInput(f"a study's method {acq} brings no {group} that could be left out")
    return found


def _methods(
    cfg: DictConfig, choices: Mapping[str, str | None], allowed: Sequence[str], overrides: Sequence[str], several: bool
) -> list[Method]:
    given = [name for name in PARAMETERS if cfg[name] is not None]
    search = [o for o in overrides if list(search_places([o]))]
    if OPTIMIZER in cfg:
        idle = ["+acq"] if "acq" in cfg else given
        if idle:
            raise BadInput(f"{idle[0]} is set, but optimizer={cfg.optimizer.name} chooses by itself: leave one out")
        _refuse_unseen(cfg, cfg.optimizer.name, overrides, search)
        return [rival_method(cfg, allowed)]
    if "acq" in cfg:
        method = to_method(cfg, allowed=allowed, choices=choices)
        for group in method.own:
            if any(o.lstrip("+~").partition("=")[0] == group for o in overrides):
                raise BadInput(
                    f"{group} is set, but +acq={method.acq} brings its own: leave one out, or set "
                    f"{group}@acq.{PARTS}.{group}=NAME"
                )
        if not several:
            _refuse_idle(given, _taken(cfg.acq.rule), method.acq)
        return [method]
    if given:
        raise BadInput(f"{given[0]} is set but no acquisition: add +acq=..., or leave it out to run the study's list")
    if not isinstance(cfg.study.methods, ListConfig):
        raise BadInput(f"study.methods must be a list such as [{{acq: ei}}], got {cfg.study.methods!r}")
    rivals = [entry[OPTIMIZER] for entry in cfg.study.methods if isinstance(entry, DictConfig) and OPTIMIZER in entry]
    if rivals:
        _refuse_unseen(cfg, rivals[0], overrides, search)
    return study_methods(cfg.study.methods, search, allowed)


def _refuse_unseen(cfg: DictConfig, name: Any, overrides: Sequence[str], search: Sequence[str]) -> None:
    """Raise BadInput where one of `OURS` is set, or not as by default: records would say that the optimizer had it."""
    named = {re.split("[=.@]", override.lstrip("+~"), maxsplit=1)[0] for override in overrides}
    default, ours = _plain(hydra.compose("config", overrides=list(search))), _plain(cfg)
    for group in OURS:
        if group in named or ours.get(group) != default[group]:
            file = next((f" by {given}" for given in overrides if re.match(r"(setting|fit|study)[=.@]", given)), "")
            by = "" if group in named else file
            raise BadInput(f"{group} is set{by}, but optimizer={name} chooses by itself: leave one out")


def _plain(cfg: DictConfig) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(cfg, resolve=False)
    return found


# The study.

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


def read_study(
    cfg: DictConfig, choices: Mapping[str, str | None], overrides: Sequence[str], several: bool = False
) -> Study:
    """Return the study that the configuration describes; raises BadInput for what is wrong in it.

    choices: the name chosen of each group, None for none. overrides: all that were given, of Hydra's own as well.
    several: whether this is one of several studies of a command line (`-m`), whose settings they share. Hydra has to
    be set up to compose further configurations.
    """
    allowed = given_on_command_line(overrides)
    check_targets(OmegaConf.to_container(cfg, resolve=False), allowed)
    for group, names in cfg.setting_needs.items():  # a file of configs/setting changes a setting of some components
        if choices[group] not in names:
            wanted = " or ".join(f"{group}={name}" for name in names)
            raise BadInput(f"setting={choices['setting']} needs {wanted}, got {group}={choices[group]}")
    settings = read_settings(cfg)
    if settings.budgets is not None and settings.tau is None:
        raise BadInput("budgets is given, so tau must say how many times the budget, for example tau=20")
    groups = [*COMPONENT_GROUPS, *(group for group in OPTIONAL if choices.get(group) is not None)]
    study = Study(
        datasets=chosen(cfg, "dataset"),
        pipelines=chosen(cfg, "pipeline"),
        methods=_methods(cfg, choices, allowed, overrides, several),
        components={name: _component(cfg[name], name, allowed) for name in groups},
        names={name: str(choices[name]) for name in groups},
        **{
            **settings.model_dump(),
            "seeds": sorted(settings.seeds),
            "budgets": None if settings.budgets is None else read_budgets(Path(settings.budgets)),
        },
    )
    own = [name for name, config in study.datasets.items() if str(config["_target_"]).startswith("datasets.csv_file.")]
    evaluators = [node for _, node in targets_in(study.components["evaluator"])]  # one may wrap another
    if own and any("tables" in node for node in evaluators):  # to open it would fail for another reason first
        raise BadInput(f"{own[0]} is a file of your own and has no table to replay: evaluator=live")
    for method in study.methods:
        make_optimizer(study.parts(method), method.rule, study.settings())
        if study.fronts and "curves" in study.parts(method):
            raise BadInput(
                "fronts=true follows points from step to step, and learning curves, which "
                f"{method.label} has, take those off the offer that a training has shown: leave one out"
            )
    if study.iterations <= study.n_initial:
        raise BadInput(
            f"iterations={study.iterations} is spent on the initial design alone, and {study.methods[0].label} would "
            f"choose nothing: iterations > n_initial ({study.n_initial})"
        )
    return study


def _component(node: Any, name: str, allowed: Sequence[str]) -> dict[str, Any]:
    if not isinstance(node, DictConfig) or "_target_" not in node:
        raise BadInput(f"{name} must name one of configs/{name}, got {node!r}")
    return _checked(node, allowed)

"""Budgets by problem, from a CSV file: the unit in which `tau` is given in the time-allocation study."""

import csv
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from numbers import Real
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from datasets.errors import BadInput
from harness.cli import chosen, whole_number
from harness.cost_models import censored, check_statistic
from harness.errors import flag, number
from harness.optimizer import check_scale
from harness.records import LARGEST_SEED, RECORDED_AS
from harness.study import Study, make_optimizer

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


# What a command line chooses from the folders of `configs`: which files there are, and what goes with what.
#
# A file of the group `setting` changes one setting of a component, so it says which component it needs
# (`setting_needs`): with another it would change nothing, or set what that does not have.

CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def search_places(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the places of `hydra.searchpath=[...]` on a command line."""
    for argument in arguments:
        if argument.lstrip("+~").startswith("hydra.searchpath"):
            places = (place.strip("\"' ") for place in re.split(r"[\[\],]", argument.partition("=")[2]))
            yield from (place for place in places if place)


def options(group: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the names to choose from in a group, those in the folders of the command line's search path included."""
    places = [CONFIGS, *(Path(place.removeprefix("file://")) for place in search_places(arguments))]
    return sorted({path.stem for place in places for path in (place / group).glob("*.yaml")})


def check_choices(arguments: Sequence[str]) -> None:
    """Raise BadInput for a group that is given what is no name: Hydra fails on executor=null, +acq=1, dataset=[1]."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    groups = {path.name for path in CONFIGS.iterdir() if path.is_dir()}
    chosen = [a for a in arguments if a.lstrip("+").partition("=")[0] in groups]
    for override in OverridesParser.create().parse_overrides(chosen):
        group = override.key_or_group
        values = override.sweep_iterator() if override.is_sweep_override() else [override.value()]
        for value in values:
            names = value if isinstance(value, list) else [value]
            if not all(isinstance(name, str) and name for name in names):
                got = "null" if value is None else value
                raise BadInput(f"{group} must be one of {', '.join(options(group, arguments))}, got {got}")


def check_needs(needs: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """Raise BadInput if the setting chosen needs another component than is chosen.

    needs: of the setting, names allowed by group; chosen: the name chosen by group.
    """
    for group, allowed in needs.items():
        names: Iterable[str] = [str(name) for name in allowed]
        if str(chosen[group]) not in names:
            wanted = " or ".join(f"{group}={name}" for name in names)
            raise BadInput(f"setting={chosen['setting']} needs {wanted}, got {group}={chosen[group]}")


# What Hydra and OmegaConf make of a user's mistakes, as one line: what was wrong, what is allowed.


def explain(error: BaseException, config: str = "config", arguments: Sequence[str] = ()) -> str:
    """Return one line for an error of Hydra or OmegaConf in composing `config`: what was wrong, what is allowed."""
    text = f"{error} {error.__cause__ or ''}".strip()
    missing = re.search(r"Could not (?:find|load) '(?P<what>[^']+)'", text)
    if missing:
        group, _, name = missing["what"].rpartition("/")
        return f"unknown {group or 'config'} {name!r}; allowed: {', '.join(options(group, arguments)) or 'nothing'}"
    target = re.search(r"Error locating target '([^']+)'", text)
    if target:
        why = error.__cause__ or ""
        reason = re.search(r"(?:ModuleNotFound|Import|Attribute|Syntax|Name)Error\((.*)\)", f"{why}")
        return f"_target_ {target[1]} cannot be loaded: {reason[1].strip(chr(34)) if reason else why}"
    foreign = re.search(r"(?s)Error in call to target '([^']+)'.* unexpected keyword argument '([^']+)'", text)
    if foreign:
        return f"{foreign[1].rpartition('.')[2]} has no setting {foreign[2]!r}; allowed: {_parameters(foreign[1])}"
    several = re.search(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'", text)
    if several:
        name = several[1].partition("=")[0]
        return f"{several[1]} is several runs, which need -m before all; a list is written {name}=[...]"
    key = re.search(r"full_key: (\S+)", text) or re.search(r"Could not override '([^']+)'", text)
    if key:
        return _unknown_setting(key[1], config, arguments)
    bare = re.search(r"Error parsing override '([^'=]*)'", text)
    if bare:
        return f"{bare[1]!r} is no setting: write name=value, such as iterations=50; --help shows them"
    return " ".join(text.split("See https")[0].split())


def _parameters(target: str) -> str:
    """Return the names of what may be given to a class or function, which is there: it has been called."""
    module, _, name = target.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    return ", ".join(parameters) or "nothing"


def _unknown_setting(key: str, config: str, arguments: Sequence[str]) -> str:
    if key == "acq":
        return f"write +acq=NAME, with a plus; allowed: {', '.join(options('acq', arguments))}"
    if "." in key:
        return f"unknown setting {key!r}; `--cfg job` shows those of {key.rpartition('.')[0]}"
    return f"unknown setting {key!r}; allowed: {'+acq, ' if config == 'config' else ''}{', '.join(_settings(config))}"


def _settings(config: str) -> list[str]:
    text = (CONFIGS / f"{config}.yaml").read_text()
    plain = re.findall(r"^([a-z_]+):", text, re.MULTILINE)
    groups = re.findall(r"^  - ([a-z_]+):", text, re.MULTILINE)
    problems = ["dataset", "pipeline"] if "- problems" in text else []
    return sorted({*plain, *groups, *problems} - {"defaults", "hydra", "acq", "setting_needs"})


def check_added(arguments: Sequence[str], config: str = "config") -> None:
    """Raise BadInput for +NAME=value where `config` knows no NAME: Hydra adds it, and nothing would ever read it."""
    known = {*_settings(config), *(["acq"] if config == "config" else [])}
    for argument in arguments:
        name = re.match(r"\++([^=.@/:]*)", argument)
        if name and name[1] not in known and name[1] != "hydra" and "@" not in argument.partition("=")[0]:
            raise BadInput(_unknown_setting(name[1], config, arguments))


def bad_input(error: BaseException, config: str = "config", arguments: Sequence[str] = ()) -> BadInput | None:
    """Return the BadInput that `error` is or was caused by: Hydra wraps what a constructor raises."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, BadInput):
        cause = cause.__cause__
    if cause is None and _is_hydras(error):
        return BadInput(explain(error, config, arguments))
    return cause


def _is_hydras(error: BaseException) -> bool:
    """Say whether Hydra or OmegaConf made the error, or stumbled over a value."""
    ours = ("hydra", "omegaconf")
    if type(error).__module__.split(".")[0] in ours:
        return True
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, ValueError | TypeError) and bool(frames) and frames[-1].split(".")[0] in ours


@contextmanager
def users_mistakes(config: str = "config", arguments: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Hydra makes of the user's mistakes in `config` into BadInput; every other error passes as it is.

    arguments: the command line, whose search path may add to what is allowed.
    """
    try:
        yield
    except Exception as error:
        raise (bad_input(error, config, arguments) or error) from None


# Which `_target_` a configuration may name: whatever a config file names there is code that will run.
#
# Allowed are what the shipped configs name, the classes of this project's components, and what lies in the packages
# of `allow_targets=[my.pkg]`, which only the command line can give: a file cannot vouch for itself.

COMPONENTS = (  # where classes may be named that no shipped config names; their constructors touch nothing
    "harness.acquisitions.", "harness.surrogates.", "harness.cost_models.", "harness.live.", "tabular_cache.replay.",
    "tabular_cache.surface.", "tabular_cache.transfer.", "pipelines.",
)  # fmt: skip
_LIBRARIES = ("sklearn.", "xgboost.")
SETTING = "allow_targets"
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_targets(config: Any, allowed: Sequence[str]) -> None:
    """Raise BadInput naming the first target anywhere in `config` (containers, resolved or not) that is not allowed."""
    for target, node in _targets(config):
        if target == "pipelines.build" and not _is_recipe(node.get("name"), allowed):
            raise BadInput(
                f"pipeline {node.get('name')}: its module would run as code; if you trust it, add "
                f"{SETTING}=[{str(node.get('name')).split('.')[0]}]"
            )
        if not (isinstance(target, str) and _is_allowed(target, allowed)):
            package = str(target).split(".")[0]
            own = any(name.startswith(f"{package}.") for name in _shipped())
            trust = "" if own else f"; if you trust it, add {SETTING}=[{package}]"
            raise BadInput(f"_target_ {target} is none of this project's components: it would run as code{trust}")


def given_on_command_line(overrides: Sequence[str]) -> list[str]:
    """Return the packages of `allow_targets=[...]` among a command line's overrides; raises BadInput for others."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    given: list[str] = []
    wanted = [o for o in overrides if o.lstrip("+~").partition("=")[0] == SETTING]
    with users_mistakes():
        values = [o.value() for o in OverridesParser.create().parse_overrides(wanted)]
    for value in values:
        if not isinstance(value, list) or not all(isinstance(v, str) and _NAME.fullmatch(v) for v in value):
            raise BadInput(f"{SETTING} must be a list of packages, for example {SETTING}=[my.pkg], got {value!r}")
        given = value
    return given


def code_of(*configs: Any) -> dict[str, str]:
    """Return the SHA-256 of the source of each target in `configs` that did not come with the project.

    Wherever it lies: a rule added among the project's own is one's own as well. What such a module imports is not
    covered.
    """
    named = {target for config in configs for target, _ in _targets(config) if isinstance(target, str)}
    own = {target for target in named if not target.startswith(_LIBRARIES) and not _came_along(target)}
    return {target: sha for target in sorted(own) if (sha := _source(target)) is not None}


def _came_along(target: str) -> bool:
    """Say whether a class is known by the engine's number, where all else is by its source."""
    return target in RECORDED_AS


def _source(target: str) -> str | None:
    parts = target.split(".")
    for n in range(len(parts) - 1, 0, -1):  # the longest part of it that is a module
        try:
            found = importlib.util.find_spec(".".join(parts[:n]))
        except (ImportError, ValueError):
            continue
        if found is not None and found.origin is not None and Path(found.origin).is_file():
            return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()
    return None


def _targets(node: Any) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Yield every target anywhere in a configuration, and the mapping that names it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "_target_":
                yield value, node
            else:
                yield from _targets(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _targets(value)


def _is_allowed(target: str, allowed: Sequence[str]) -> bool:
    if not _NAME.fullmatch(target):
        return False
    return target in _shipped() or trusted(target, allowed) or (target.startswith(COMPONENTS) and _is_class(target))


def trusted(name: str, allowed: Sequence[str]) -> bool:
    """Say whether `name` lies in one of the packages that the command line vouches for."""
    return any(name == package or name.startswith(f"{package}.") for package in allowed)


@cache
def _shipped() -> frozenset[str]:
    """Return the targets that the project's own config files name."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    trees = [yaml.load(path.read_bytes(), loader) for path in sorted(CONFIGS.rglob("*.yaml"))]
    return frozenset(target for tree in trees for target, _ in _targets(tree) if isinstance(target, str))


def _is_recipe(name: Any, allowed: Sequence[str]) -> bool:
    """Say whether a pipeline's name is one of the project's, of a package vouched for, or no module's at all."""
    text = str(name)
    return "." not in text or "${" in text or trusted(text, allowed)


def _is_class(target: str) -> bool:
    """Say whether `target` is a class, in the module that defines it: not something that a module imports."""
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


# Methods: what a study compares. A method is an acquisition (utility x cost rule) with its parameters.
#
# The utility is the run's own setting; a study's list may name others, to compare them.

PARAMETERS = ("lam", "alpha")
SHIPPED = ("cei", "ei", "eialpha", "eicool", "eipu")  # named by lam and alpha alone; others by all their parameters


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
                cfg = compose("method", overrides=[f"+acq={plain['acq']}", *settings, *overrides])
            methods.append(to_method(cfg, given.get("utility"), allowed))
    if not methods:
        raise BadInput("study.methods is empty: a study needs one method or more, for example [{acq: ei}]")
    labels = [(method.label, method.utility and method.utility[0]) for method in methods]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise BadInput(f"study.methods names {twice[0][0]} twice")
    return methods


# Config files from outside this project (`hydra.searchpath=[...]`): what they may not do, told before Hydra runs.
#
# They may name acquisitions, surrogates, studies and so on, with allowed targets (`harness.config`). They may not set
# Hydra itself, which would run their callbacks, nor the executor, whose address and job scripts are code in effect,
# nor read the environment, which would end up in the records.

_FLAGS = ("--co", "-cp", "-cn", "-cd", "--e")  # --config-path, -name, -dir, --experimental-rerun (loads a pickle)
_KNOWN = ("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
          "--shell-completion", "-h", "-c", "-p", "-r", "-m", "-i", "-sc")  # fmt: skip
_NOT_FROM_OUTSIDE = ("hydra", "executor", SETTING)
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_SECRET = re.compile(r"passw|secret|token|api_?key|credential|private_?key", re.IGNORECASE)
_USER_IN_URL = re.compile(r"://[^/\s:@]+:[^/\s@]+@")


def check_external_configs(arguments: Sequence[str]) -> None:
    """Vet every config file that a command line's search path would add; raises BadInput for the first bad one."""
    for argument in arguments:
        flag = argument.split("=")[0]
        if argument.startswith(_FLAGS):
            raise BadInput(f"{flag} is not allowed; config files of your own: hydra.searchpath=[...]")
        if argument.startswith("-") and not any(flag == k or (len(flag) > 2 and k.startswith(flag)) for k in _KNOWN):
            raise BadInput(f"unknown flag {flag}; settings are given as setting=value, --help shows them")
    allowed = given_on_command_line([a for a in arguments if not a.startswith("-")])
    for place in search_places(arguments):
        _check_place(place, allowed)


def _check_place(place: str, allowed: Sequence[str]) -> None:
    kind, found, rest = place.partition("://")
    if found and kind == "pkg":
        if not trusted(rest, allowed):
            raise BadInput(f"hydra.searchpath: {place} is code; if you trust it, add allow_targets=[{rest}]")
        return
    folder = Path(rest if found else place)
    if (found and kind != "file") or not folder.is_dir():
        raise BadInput(f"hydra.searchpath: {place} is no folder; for example hydra.searchpath=[file:///path/to/conf]")
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml")):
        _check_file(path, path.relative_to(folder).parts, allowed)


def _check_file(path: Path, parts: tuple[str, ...], allowed: Sequence[str]) -> None:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml bounds the nesting
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise BadInput(f"{path} uses aliases (*name), which can stand for any amount of data: write it out")
        tree = yaml.load(text, Loader=loader)
    except BadInput:
        raise
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
    check_targets(tree, allowed)
    keys = tree if isinstance(tree, Mapping) else {}
    if parts[0] == "executor" and trusted(str(keys.get("_target_")), allowed):
        return
    _check_names(path, parts, keys)
    redirected = [p for p in _PACKAGE.findall(text) if p not in ("_global_", "_group_")]
    named = [own for own in _NOT_FROM_OUTSIDE if own in keys or own == parts[0] or _mentions(keys.get("defaults"), own)]
    if redirected or named:
        what = ", ".join([*named, *redirected])
        raise BadInput(f"{path} sets {what}: a config file from outside may not; give it on the command line")
    if "oc.env" in text:
        raise BadInput(f"{path} reads the environment (oc.env), which would be written into the records")


def _check_names(path: Path, parts: tuple[str, ...], keys: Mapping[Any, Any]) -> None:
    """Refuse a file in the place of a shipped one, which Hydra would take instead, or with an acquisition's name."""
    if CONFIGS.joinpath(*parts).is_file():
        raise BadInput(f"{path} has the name of a file of the project, which would be taken instead: rename it")
    if parts[0] == "acq":
        if "rule" in keys and not isinstance(keys.get("name"), str):
            raise BadInput(f"{path} needs a line `name: ...`, by which its records are known")
        if keys.get("name") in options("acq"):
            raise BadInput(f"{path}: name: {keys['name']} is an acquisition of the project: give it another")


def _mentions(defaults: Any, name: str) -> bool:
    return any(name in str(entry) for entry in defaults) if isinstance(defaults, list) else defaults is not None


def no_secrets(components: Mapping[str, Any], where: str = "") -> None:
    """Raise BadInput for a setting that looks like a secret, since settings are written into records."""
    for key, value in components.items():
        name = f"{where}{key}"
        if (_SECRET.search(str(key)) and value is not None) or (isinstance(value, str) and _USER_IN_URL.search(value)):
            raise BadInput(f"{name} looks like a secret, and settings are written into records: use the environment")
        if isinstance(value, Mapping):
            no_secrets(value, f"{name}.")


# From the composed configuration to the study that it describes; what is wrong in it is told before anything runs.

COMPONENT_GROUPS = ("evaluator", "utility", "surrogate", "cost_model")


def read_study(cfg: DictConfig) -> Study:
    """Return the study that the configuration describes; raises BadInput for what is wrong in it."""
    check_targets(OmegaConf.to_container(cfg, resolve=False), _allowed())
    choices = HydraConfig.get().runtime.choices
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
        methods=_methods(cfg),
        seeds=_seeds(cfg.seeds),
        iterations=whole_number("iterations", cfg.iterations, 1),
        n_initial=whole_number("n_initial", cfg.n_initial, 1),
        tau=None if cfg.tau is None else float(cfg.tau),
        components=components,
        names={name: str(choices[name]) for name in COMPONENT_GROUPS},
        cost_statistic=check_statistic(cfg.cost_statistic),
        budgets=None if cfg.budgets is None else read_budgets(Path(str(cfg.budgets))),
        fronts=cfg.fronts,
        censored_costs=censored.check_treatment(cfg.censored_costs),
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

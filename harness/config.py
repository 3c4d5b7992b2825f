"""Configurations: composing one, what may be chosen on a command line, and what a configuration may hold.

Checked here are names of options, `_target_`s, config files from outside and secrets; every mistake gives one line.
The study that a composed configuration describes is made by `harness.settings`.
"""

import importlib
import importlib.util
import inspect
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import BadInput, quoted

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


# Errors of Hydra and OmegaConf as one line: what was wrong, what is allowed.


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


# Which `_target_` a configuration may name: whatever it names is code that will run.
#
# Allowed are what the shipped configs name, the classes of this project's components, and what lies in the packages
# of `allow_targets=[my.pkg]`, which only the command line can give: a file cannot vouch for itself.

COMPONENTS = (  # where classes may be named that no shipped config names; their constructors touch nothing
    "harness.acquisitions.", "harness.surrogates.", "harness.cost_models.", "harness.live.", "tabular_cache.replay.",
    "tabular_cache.emulator.", "tabular_cache.transfer.", "pipelines.",
)  # fmt: skip
SETTING = "allow_targets"
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_targets(config: Any, allowed: Sequence[str]) -> None:
    """Raise BadInput naming the first target anywhere in `config` (containers, resolved or not) that is not allowed."""
    for target, node in targets_in(config):
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
    return frozenset(target for tree in trees for target, _ in targets_in(tree) if isinstance(target, str))


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


# Config files from outside this project (`hydra.searchpath=[...]`): what they may not do, told before Hydra runs.
#
# They may name acquisitions, surrogates, studies and so on, with allowed targets. They may not set Hydra itself, which
# would run their callbacks, nor the executor, whose address and job scripts are code in effect, nor read the
# environment, which would end up in the records.

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


# Composing a configuration, and what was chosen in it.


@contextmanager
def composed(config: str, overrides: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, str]]]:
    """Yield the configuration `config` with Hydra overrides applied, and the name that is chosen of each group.

    Within, further configurations can be composed. Raises BadInput with one line for the user's mistakes.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import open_dict

    overrides = quoted(overrides)
    check_external_configs(overrides)
    known = SETTING in _settings(config)  # where it is no setting of the configuration, it is for us alone
    plain = [o for o in overrides if known or o.partition("=")[0] != SETTING]
    with users_mistakes(config, overrides), initialize_config_dir(str(CONFIGS), version_base="1.3"):
        check_choices(plain)
        check_added(plain, config)
        cfg = compose(config, overrides=plain, return_hydra_config=True)
        with open_dict(cfg):
            own = cfg.pop("hydra")
        yield cfg, own.runtime.choices


def compose_config(config: str, overrides: Sequence[str]) -> Any:
    """Return the configuration `config` with Hydra overrides applied; raises BadInput with one line.

    Targets of other projects are refused unless `allow_targets=[...]` is among the overrides.
    """
    from omegaconf import OmegaConf

    with composed(config, overrides) as (cfg, _):
        check_targets(OmegaConf.to_container(cfg, resolve=False), given_on_command_line(overrides))
        return cfg


def overrides_of(arguments: Sequence[str]) -> list[str]:
    """Return the settings on a command line, without Hydra's own flags."""
    return [argument for argument in arguments if not argument.startswith("-")]


def chosen(cfg: Any, group: str) -> dict[str, Any]:
    """Return the selected configs of a multi-select group, by file; raises BadInput for none, or one without a name.

    A file that is not keyed by its name (dataset/csv.yaml) fills the whole group: one entry, called after its file.
    """
    selected = cfg.get(group)
    if not isinstance(selected, Iterable) or not selected:
        raise BadInput(f"{group} is empty: name at least one, for example {group}=[{options(group)[0]}]")
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(selected, resolve=True)
    assert isinstance(plain, dict)
    if "_target_" in plain:
        return _lone(plain, group)
    entries = {str(key): entry for key, entry in plain.items()}
    for key, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise BadInput(f"{group} {key} needs a line `name: ...`, by which records and tables know it")
    return entries


def named(cfg: Any, group: str) -> list[str]:
    """Return the names of the selected configs, by which records and tables know them; raises BadInput as `chosen`."""
    return [str(entry["name"]) for entry in chosen(cfg, group).values()]


def _lone(entry: dict[Any, Any], group: str) -> dict[str, Any]:
    others = [str(name) for name, value in entry.items() if isinstance(value, dict)]
    if others:
        raise BadInput(f"{group}: {others[0]} cannot be chosen together with a file of your own: run one at a time")
    name = entry.get("name") or Path(str(entry.get("path"))).name
    return {str(name): {**entry, "name": str(name)}}


def targets_in(node: Any) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Yield every target anywhere in a configuration, and the mapping that names it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "_target_":
                yield value, node
            else:
                yield from targets_in(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from targets_in(value)

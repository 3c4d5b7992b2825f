"""From a command line to a composed configuration: the options, the checks of overrides and of config files.

Every command composes its configuration here, with one line for a mistake. `harness.settings` makes a study of one.
"""

import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import BadInput, unknown

# The choices: which files the folders of `configs`, and those of the command line's search path, have.

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
_PROBLEMS = ("dataset", "pipeline")
_LISTED = (*_PROBLEMS, "scenario")  # groups of which several files can be chosen
OPTIONAL = ("design", "curves", "stopping", "candidates")  # components that a run may do without


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


def flags_and_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return Hydra's own flags with their values (--cfg job), and the settings, of a command line."""
    flags, overrides = list[str](), list[str]()
    for before, argument in zip(["", *arguments], arguments, strict=False):
        (flags if argument.startswith("-") or before in _WITH_VALUE else overrides).append(argument)
    return flags, overrides


def overrides_of(arguments: Sequence[str]) -> list[str]:
    """Return the settings on a command line, without Hydra's own flags and their values."""
    return flags_and_overrides(arguments)[1]


def targets_in(node: Any) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Yield every `_target_` anywhere in a configuration, and the mapping that names it."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "_target_":
                yield value, node
            else:
                yield from targets_in(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from targets_in(value)


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml bounds the nesting


# Overrides: checked before Hydra reads them.

SETTING = "allow_targets"
_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--info", "-i")  # flags of Hydra's
_NAMES = r"(?:results_dir|out_dir|budgets|truth|executor\.folder|(?:\w+\.)*tables|dataset\.(?:path|target|name))"


def as_written(arguments: Sequence[str]) -> list[str]:
    """Return a command line with names of folders, files and columns in quotes: results_dir=2026_11 is no number.

    What is quoted already, a list, null, ${...} and what has a comma stay as they are. A mapping may have keys that the
    setting's file does not list, as `optimizer.arguments={seed:1}`: for Hydra, these are added with a plus.
    """
    quoted = [re.sub(rf"^(\+*{_NAMES})=(?!null$)([^'\"\[{{$][^',$]*)$", r"\1='\2'", each) for each in arguments]
    return [re.sub(r"^(\w+(?:\.\w+)+=\{)", r"+\1", each) for each in quoted]


@cache
def _tree(config: str) -> dict[str, Any]:
    """Return what stands in the file of the configuration `config`."""
    import yaml

    tree: dict[str, Any] = yaml.load((CONFIGS / f"{config}.yaml").read_text(encoding="utf-8"), _loader())
    return tree


@cache
def settings_of(config: str) -> list[str]:
    """Return the names of the settings of the configuration `config`, those that choose a file of a group included."""
    tree = _tree(config)
    groups = {str(group) for entry in tree["defaults"] if isinstance(entry, dict) for group in entry}
    problems = set(_PROBLEMS) if "problems" in tree["defaults"] else set()
    names = {*tree, *groups, *problems} - {"defaults", "hydra", "setting_needs"}
    return sorted(name for name in names if " " not in name)


def check_overrides(arguments: Sequence[str], config: str = "config", several: bool = False) -> None:
    """Raise BadInput for an override that `config` does not have, or that names no file of its group.

    several: whether this is a command line of several runs (`-m`), where commas part values.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, chosen = OverridesParser.create(), set[str]()
    for argument in arguments:
        if "=" not in argument and not argument.startswith("~"):
            raise BadInput(f"{argument!r} is no setting: write name=value, such as iterations=50; --help shows them")
        try:
            override = parser.parse_override(argument)
        except HydraException as error:
            raise BadInput(_unread(argument)) from error
        name = override.key_or_group
        if override.is_delete():
            raise BadInput(f"{argument}: nothing can be taken away; what may be absent is set to null")
        if re.split(r"[./]", name)[0] != "hydra" and override.package is None:
            _check_known(name, argument, config, arguments)
        if override.is_sweep_override() and not several:
            raise BadInput(_several(name, argument, config))
        if (CONFIGS / name).is_dir():
            if name in chosen:
                raise BadInput(f"{name} is chosen twice; several runs need -m before all: +{name}=A,B")
            chosen |= {name} if override.is_add() else set()
            values = override.sweep_iterator() if override.is_sweep_override() else [override.value()]
            _check_names(name, values, arguments)


def _several(name: str, argument: str, config: str) -> str:
    """Return what to do about a comma in a command line that is not one of several runs."""
    value = _tree(config).get(name)
    if isinstance(value, list) or name in _LISTED or "." in name:
        given = argument.partition("=")[2]
        as_list = f"a list is written '{name}=[{'0,1,...' if given.startswith('range(') else given}]'"
        return f"{argument}: {as_list}; several runs need -m before all"
    comma = None if isinstance(value, int) else re.fullmatch(r"[^=]+=(\d+),(\d+)", argument)
    point = f" (a decimal point? {name}={comma[1]}.{comma[2]})" if comma else ""
    return f"{argument} is several runs, which need -m before all{point}"


def _unread(argument: str) -> str:
    """Return what is wrong with an override that Hydra cannot read."""
    for opening, closing in ("[]", "{}", "()"):
        if argument.count(opening) != argument.count(closing):
            return (
                f"{argument}: a bracket {opening} without its {closing}, or the reverse; a list is written 'NAME=[a,b]'"
            )
    if any(argument.count(quote) % 2 for quote in "'\""):
        return f"{argument}: a quote without its end; a value in quotes is written NAME='...'"
    return f"{argument} cannot be read; a value with spaces or special characters is written NAME='...'"


def _check_known(name: str, argument: str, config: str, arguments: Sequence[str]) -> None:
    known, root = settings_of(config), name.partition(".")[0]
    if config == "config" and root == "acq":
        if name == "acq" and argument.startswith("acq"):
            raise BadInput(f"write +acq=NAME, with a plus; allowed: {', '.join(options('acq', arguments))}")
    elif root not in known:
        raise unknown("setting", root, [*(["+acq"] if config == "config" else []), *known])


def _check_names(group: str, values: Iterable[Any], arguments: Sequence[str]) -> None:
    allowed = options(group, arguments)
    for value in values:
        if isinstance(value, list) and group not in _LISTED:
            several = f"{'+' * (group == 'acq')}{group}={','.join(map(str, value))}"
            raise BadInput(f"{group} is one of {', '.join(allowed)}; several runs need -m before all: {several}")
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or not name:
                raise BadInput(f"{group} must be one of {', '.join(allowed)}, got {'null' if name is None else name}")
            if name not in allowed:
                raise unknown(group, name, allowed)


def bad_input(error: BaseException, arguments: Sequence[str] = ()) -> BadInput | None:
    """Return the BadInput that `error` is, was caused by, or, for an error of Hydra or OmegaConf, amounts to.

    arguments: of the command line, if known, which say what was chosen of each group.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, BadInput):
        cause = cause.__cause__
    if cause is None and type(error).__module__.split(".")[0] in ("hydra", "omegaconf"):
        if nested := re.search(r"Could not override '((\w+)\.[\w.]+)'", str(error)):
            if nested[2] == "hydra":
                return BadInput(f"unknown setting {nested[1]!r}; those of Hydra itself: --hydra-help")
            if known := _settings_in(nested[2], arguments):
                if any(nested[1].startswith(f"{name}.") for name in known):
                    return BadInput(f"{nested[1]} is not in its file: a key is added with a plus, +{nested[1]}=...")
                return unknown("setting", nested[1], known)
            return BadInput(
                f"unknown setting {nested[1]!r}: its file does not list it; where its class takes it all the same, set "
                f"it with a plus, +{nested[1]}=..."
            )
        if merged := re.match(r"Error merging override \+?(([\w.]+)=.*)", str(error)):
            default = _tree("config").get(merged[2])
            like = "" if default is None else f", such as {merged[2]}={str(default).replace(' ', '')}"
            return BadInput(f"{merged[1]} is no value that {merged[2]} may have{like}")
        if again := re.search(r"(?:An item is already at '|Multiple values for )([\w.]*\w)", str(error)):
            return BadInput(f"{again[1]} has a value already: write it without the plus")
        return BadInput(" ".join(re.split(r"See https|full_key:", str(error))[0].split()))
    return cause


def _settings_in(group: str, arguments: Sequence[str]) -> list[str]:
    """Return the settings GROUP.NAME of the file of a group that is chosen, else of any of its files."""
    by_default = [entry for entry in _tree("config")["defaults"] if isinstance(entry, dict)]
    defaults = {name: choice for entry in by_default for name, choice in entry.items()}
    given = {name.lstrip("+"): value for name, _, value in (a.partition("=") for a in arguments)}
    file = given.get(group, defaults.get(group))
    files = [f"{group}/{name}" for name in options(group) if file in (None, name)]
    settings: set[str] = set()
    for tree in map(_tree, files):
        inside = tree[group] if isinstance(tree.get(group), dict) else tree  # a file that fills the whole group
        fixed = ("_target_", "defaults", "rule", *(["name"] if inside is tree else []))
        settings |= {f"{group}.{key}" for key in inside if key not in fixed}
    return sorted(settings)


@contextmanager
def users_mistakes(arguments: Sequence[str] = ()) -> Iterator[None]:
    """Turn Hydra's errors about the user's mistakes into BadInput; every other error passes as it is."""
    try:
        yield
    except Exception as error:
        mistake = bad_input(error, arguments)
        if mistake is None:
            raise
        raise mistake from None


# Targets: whatever a configuration names as `_target_` is code that will run.
#
# A target lies in a package of this project, scikit-learn or XGBoost, or in one of `allow_targets=[my.pkg]`, which
# only the command line can give: a file cannot vouch for itself.

PACKAGES = ("datasets", "pipelines", "harness", "tabular_cache", "analysis", "sklearn", "xgboost")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_targets(config: Any, allowed: Sequence[str]) -> None:
    """Raise BadInput naming the first target anywhere in `config` (containers, resolved or not) that is not allowed."""

    def trust(package: str) -> str:
        return f"if you trust it, add '{SETTING}=[{','.join([*allowed, package])}]'"

    for target, node in targets_in(config):
        pipeline = str(node.get("name"))
        if target == "pipelines.build" and re.search(r"[.$]", pipeline) and not trusted(pipeline, allowed):
            if "$" not in pipeline:  # an interpolation may become any name
                from pipelines import module_name  # the distribution is this package alone, and imports this module

                module_name(pipeline)  # raises BadInput for what is no name at all
            raise BadInput(f"pipeline {pipeline}: its module would run as code; {trust(pipeline.split('.')[0])}")
        if not (isinstance(target, str) and _NAME.fullmatch(target) and _is_allowed(target, allowed)):
            package = str(target).split(".")[0]
            how = "" if package in PACKAGES else f"; {trust(package)}"
            raise BadInput(f"_target_ {target} is none of this project's components: it would run as code{how}")


def _is_allowed(target: str, allowed: Sequence[str]) -> bool:
    """Say whether `target` is a class of the allowed packages, or a function that the project's own files name."""
    if trusted(target, allowed) or target in _shipped():
        return True
    if target.split(".")[0] not in PACKAGES:
        return False
    try:
        found = located(target)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and found.__module__.split(".")[0] in PACKAGES


def located(target: str) -> Any:
    """Return the class or function that a target names; raises what importing its module raises, or AttributeError."""
    return pkgutil.resolve_name(":".join(target.rsplit(".", 1)))


@cache
def _shipped() -> frozenset[str]:
    texts = [path.read_text(encoding="utf-8") for path in CONFIGS.rglob("*.yaml")]
    return frozenset(target for text in texts for target in re.findall(r"_target_: ([\w.]+)", text))


def trusted(name: str, allowed: Sequence[str]) -> bool:
    """Say whether `name` lies in one of the packages that the command line vouches for."""
    return any(name == package or name.startswith(f"{package}.") for package in allowed)


def given_on_command_line(overrides: Sequence[str]) -> list[str]:
    """Return the packages of `allow_targets=[...]` among a command line's overrides; raises BadInput for others."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    given: list[str] = []
    wanted = [o for o in overrides if o.lstrip("+~").partition("=")[0] == SETTING]
    with users_mistakes():
        values = [o.value() for o in OverridesParser.create().parse_overrides(wanted)]
    for value in values:
        if not isinstance(value, list) or not all(isinstance(v, str) and _NAME.fullmatch(v) for v in value):
            raise BadInput(f"{SETTING} must be a list of packages, for example '{SETTING}=[my.pkg]', got {value!r}")
        given = value
    return given


# Config files from outside this project (`hydra.searchpath=[...]`), checked before Hydra runs.
#
# They may name acquisitions, surrogates, studies and so on, with allowed targets. They may not set Hydra itself, which
# would run their callbacks, nor the executor, whose address and job scripts amount to code, nor read the
# environment, which would end up in the records.

_FLAGS = ("--co", "-cp", "-cn", "-cd", "--e")  # --config-path, -name, -dir, --experimental-rerun (loads a pickle)
_KNOWN = ("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
          "--shell-completion", "-h", "-c", "-p", "-r", "-m", "-i", "-sc")  # fmt: skip
_NOT_FROM_OUTSIDE = ("hydra", "executor", SETTING)


def check_external_configs(arguments: Sequence[str]) -> None:
    """Check the flags of a command line and every config file that its search path would add.

    Raises BadInput for the first bad one.
    """
    for argument in arguments:
        flag = argument.split("=")[0]
        if argument.startswith(_FLAGS):
            raise BadInput(f"{flag} is not allowed; config files of your own: 'hydra.searchpath=[...]'")
        if argument.startswith("-") and not any(flag == k or (len(flag) > 2 and k.startswith(flag)) for k in _KNOWN):
            raise BadInput(f"unknown flag {flag}; settings are given as setting=value, --help shows them")
    allowed = given_on_command_line(overrides_of(arguments))
    for place in search_places(arguments):
        kind, found, rest = place.partition("://")
        if found and kind == "pkg":
            if not trusted(rest, allowed):
                raise BadInput(f"hydra.searchpath: {place} is code; if you trust it, add '{SETTING}=[{rest}]'")
            continue
        folder = Path(rest if found else place)
        if (found and kind != "file") or not folder.is_dir():
            raise BadInput(f"hydra.searchpath: {place} is no folder; for example 'hydra.searchpath=[file:///my/conf]'")
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml")):
            _check_file(path, path.relative_to(folder), allowed)


def _check_file(path: Path, inside: Path, allowed: Sequence[str]) -> None:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        aliases = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _loader()))
        tree = None if aliases else yaml.load(text, _loader())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if aliases:
        raise BadInput(f"{path} uses aliases (*name), which can stand for any amount of data: write it out")
    try:
        check_targets(tree, allowed)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    keys, group = tree if isinstance(tree, Mapping) else {}, inside.parts[0]
    if group == "executor" and trusted(str(keys.get("_target_")), allowed):
        return
    if (CONFIGS / inside).is_file():
        raise BadInput(f"{path} has the name of a file of the project, which would be taken instead: rename it")
    if group == "acq" and "rule" in keys and not isinstance(keys.get("name"), str):
        raise BadInput(f"{path} needs a line `name: ...`, by which its records are known")
    if group == "acq" and keys.get("name") in options("acq"):
        raise BadInput(f"{path}: name: {keys['name']} is an acquisition of the project: give it another")
    set_here = [group, *keys, *re.findall(r"^\s*#\s*@package\s+(\S+)", text, re.MULTILINE)]
    set_here += re.findall(r"\w+", str(keys.get("defaults", "")))
    wrong = [str(name) for name in set_here if str(name).split(".")[0] in _NOT_FROM_OUTSIDE]
    if wrong:
        raise BadInput(f"{path} sets {wrong[0]}: config files from outside may not set it; give it on the command line")
    if "oc.env" in text:
        raise BadInput(f"{path} reads the environment (oc.env), which would be written into the records")


# Composing a configuration, and what was chosen in it.


@contextmanager
def composed(config: str, overrides: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, str | None]]]:
    """Yield the configuration `config` with Hydra overrides applied, and the name that is chosen of each group.

    Within, further configurations can be composed. Raises BadInput with one line for the user's mistakes.
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import open_dict

    overrides = as_written(overrides)
    check_external_configs(overrides)
    known = SETTING in settings_of(config)  # where it is no setting of the configuration, it is for us alone
    plain = [o for o in overrides if known or o.partition("=")[0] != SETTING]
    check_overrides(plain, config)
    with users_mistakes(overrides), initialize_config_dir(str(CONFIGS), version_base="1.3"):
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


def chosen(cfg: Any, group: str) -> dict[str, Any]:
    """Return the selected configs of a multi-select group, by file; raises BadInput for none, or one without a name.

    A file that is not keyed by its name (dataset/csv.yaml) fills the whole group: one entry, called after its file.
    """
    from omegaconf import OmegaConf

    selected = cfg.get(group)
    if not isinstance(selected, Iterable) or not selected:
        raise BadInput(f"{group} is empty: name at least one, for example {group}=[{options(group)[0]}]")
    entries: Any = OmegaConf.to_container(selected, resolve=True)
    if "_target_" in entries:
        others = [str(name) for name, value in entries.items() if isinstance(value, dict)]
        if others:
            raise BadInput(f"{group}: {others[0]} cannot be chosen together with a file of your own: run one at a time")
        name = str(entries.get("name") or Path(str(entries.get("path"))).name)
        return {name: {**entries, "name": name}}
    for key, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise BadInput(f"{group} {key} needs a line `name: ...`, by which records and tables know it")
    return {str(key): entry for key, entry in entries.items()}


def named(cfg: Any, group: str) -> list[str]:
    """Return the names of the selected configs, by which records and tables know them; raises BadInput as `chosen`."""
    return [str(entry["name"]) for entry in chosen(cfg, group).values()]

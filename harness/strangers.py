"""Config files from outside this project (`hydra.searchpath=[...]`): what they may not do, told before Hydra runs.

They may name acquisitions, surrogates, studies and so on, with allowed targets (`harness.targets`). They may not set
Hydra itself, which would run their callbacks, nor the executor, whose address and job scripts are code in effect,
nor read the environment, which would end up in the records.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets.errors import BadInput
from harness.choices import CONFIGS, options, search_places
from harness.targets import SETTING, check_targets, given_on_command_line, trusted

_FLAGS = ("--co", "-cp", "-cn", "-cd", "--e")  # --config-path, -name, -dir, --experimental-rerun (loads a pickle)
_KNOWN = ("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
          "--shell-completion", "-h", "-c", "-p", "-r", "-m", "-i", "-sc")  # fmt: skip
_OWN = ("hydra", "executor", SETTING)
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_SECRET = re.compile(r"passw|secret|token|api_?key|credential|private_?key", re.IGNORECASE)
_USER_IN_URL = re.compile(r"://[^/\s:@]+:[^/\s@]+@")


def check_strangers(arguments: Sequence[str]) -> None:
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
    named = [own for own in _OWN if own in keys or own == parts[0] or _mentions(keys.get("defaults"), own)]
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

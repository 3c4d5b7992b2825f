"""Which `_target_` a configuration may name: whatever a config file names there is code that will run.

Allowed are what the shipped configs name, the classes of this project's components, and what lies in the packages
of `allow_targets=[my.pkg]`, which only the command line can give: a file cannot vouch for itself.
"""

import hashlib
import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from datasets.errors import BadInput
from harness.records.layout import RECORDED_AS

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

    from harness.mistakes import users_mistakes

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

    from harness.choices import CONFIGS

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

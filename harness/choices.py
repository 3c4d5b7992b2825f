"""What a command line chooses from the folders of `configs`: which files there are, and what goes with what.

A file of the group `setting` changes one setting of a component, so it says which component it needs
(`setting_needs`): with another it would change nothing, or set what that does not have.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets.errors import BadInput

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

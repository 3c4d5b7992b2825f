"""`python -m harness.reference`: the reference of all settings, made from the configuration, docs/SETTINGS.md."""

import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.config import CONFIGS, located, options

PAGE = CONFIGS.parent / "docs" / "SETTINGS.md"
LISTED = ("dataset", "pipeline")  # groups of which the names alone say enough here
GLOBAL = "# @package _global_"  # of a file that sets others' settings
OWN_FILE = "`dataset=csv` has these settings, too (`datasets/YOUR_FILE.md`):\n"
COMMANDS = {  # further configurations, by file: the commands that read them
    "tables": "python -m tabular_cache",
    "costs": "python -m tabular_cache costs",
    "censored": "python -m tabular_cache censored",
    "capped": "python -m harness.capped",
    "configurator": "python -m harness.configurator",
}
_HEAD = """# Settings

Made by `python -m harness.reference` from the files of `configs`; `configs/README.md` says the same in prose.
`NAME=VALUE` sets one, `GROUP=FILE` chooses a component, `GROUP.NAME=VALUE` sets what its file lists, in quotes where a
shell would read brackets.
"""
_LINE = re.compile(r"(\w+):(?: ((?!#).*?))?(?:\s+# (.*))?")


def page() -> str:
    """Return the page: the settings of every command, then the components of every group with theirs."""
    parts = [_HEAD, "## `python -m harness`\n", *_table(CONFIGS / "config.yaml", "")]
    for name, commands in COMMANDS.items():
        parts += [f"\n## `{commands}`\n", *_table(CONFIGS / f"{name}.yaml", "")]
    for folder in sorted(path for path in CONFIGS.iterdir() if path.is_dir() and options(path.name)):
        group = folder.name
        parts.append(f"\n## `{'+' * (group == 'acq')}{group}=`\n")
        if group in LISTED:
            parts.append(", ".join(f"`{name}`" for name in options(group)))
            if group == "dataset":
                parts += ["", OWN_FILE, *_as_table(_of_own_file())]
            continue
        for name in options(group):
            path = folder / f"{name}.yaml"
            parts.append(f"\n**`{'+' * (group == 'acq')}{group}={name}`** {_about(path)}\n")
            if not path.read_text(encoding="utf-8").startswith(GLOBAL):
                parts += _table(path, f"{group}.")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _settings(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and comment of the settings of a file, one that goes over several lines without these."""
    for line in path.read_text(encoding="utf-8").partition("\nhydra:")[0].splitlines():
        found = _LINE.fullmatch(line)
        if found and found[1] not in ("_target_", "name", "defaults", "rule", "methods", "setting_needs", path.stem):
            yield found[1], f"`{found[2]}`" if found[2] else "see the file", found[3] or ""


def _of_own_file() -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of the settings of a user's own file, as its reader's docstring has it."""
    own: Any = OmegaConf.to_container(OmegaConf.load(CONFIGS / "dataset" / "csv.yaml"))
    settings = own["dataset"]
    said = " ".join((inspect.getdoc(located(settings.pop("_target_"))) or "").split("\n\n")[1].split())
    meanings = dict(re.findall(rf"\b({'|'.join(settings)}): (.*?)(?=\.? (?:{'|'.join(settings)}): |\.?$)", said))
    for name, default in settings.items():
        shown = "null" if default is None else default if isinstance(default, str) else json.dumps(default)
        yield f"dataset.{name}", f"`{shown}`", meanings[name]


def _table(path: Path, prefix: str) -> list[str]:
    return _as_table((f"{prefix}{name}", default, comment) for name, default, comment in _settings(path))


def _as_table(settings: Iterable[tuple[str, str, str]]) -> list[str]:
    rows = [f"| `{name}=` | {default} | {comment} |" for name, default, comment in settings]
    return ["| setting | default | |", "|---|---|---|", *rows] if rows else []


def _about(path: Path) -> str:
    """Return the first line of what the file's component says of itself, and the comment at the top of the file."""
    text = path.read_text(encoding="utf-8")
    target = re.search(r"_target_: ([\w.]+)", text)
    itself = ((inspect.getdoc(located(target[1])) if target else None) or "").partition("\n")[0]
    lines = [line for line in text.splitlines() if line != GLOBAL]
    comment = [line[2:] for line in itertools.takewhile(lambda line: line.startswith("# "), lines)]
    return " ".join([itself, *comment]).strip()


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

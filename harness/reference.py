"""`python -m harness.reference`: the reference of all settings, made from the configuration, docs/SETTINGS.md."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.config import CONFIGS, located, options

PAGE = CONFIGS.parent / "docs" / "SETTINGS.md"
LISTED = ("dataset", "pipeline", "study", "setting")  # groups of which the names alone say enough here
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
            continue
        for name in options(group):
            path = folder / f"{name}.yaml"
            parts += [f"\n**`{'+' * (group == 'acq')}{group}={name}`** {_about(path)}\n", *_table(path, f"{group}.")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _settings(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and comment of the settings of a file, one that goes over several lines without these."""
    for line in path.read_text(encoding="utf-8").partition("\nhydra:")[0].splitlines():
        found = _LINE.fullmatch(line)
        if found and found[1] not in ("_target_", "name", "defaults", "rule", "methods", "setting_needs", path.stem):
            yield found[1], found[2] or "several", found[3] or ""


def _table(path: Path, prefix: str) -> list[str]:
    rows = [f"| `{prefix}{name}=` | `{default}` | {comment} |" for name, default, comment in _settings(path)]
    return ["| setting | default | |", "|---|---|---|", *rows] if rows else []


def _about(path: Path) -> str:
    """Return the first line of what the file's component says of itself."""
    target = re.search(r"_target_: ([\w.]+)", path.read_text(encoding="utf-8"))
    text = inspect.getdoc(located(target[1])) if target else None
    return (text or "").partition("\n")[0]


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

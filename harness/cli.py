"""What the command lines share: composing a Hydra configuration, and one line for the user's mistakes."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import BadInput

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
BAD_INPUT, SOME_FAILED = 2, 3  # exit codes


def compose_config(config: str, overrides: Sequence[str]) -> Any:
    """Return the configuration `config` with Hydra overrides applied; raises BadInput with one line."""
    from hydra import compose, initialize_config_dir

    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return compose(config, overrides=list(overrides))
    except Exception as error:
        raise BadInput(explain(error)) from error


def explain(error: BaseException) -> str:
    """Return one line for an error of Hydra or OmegaConf: what was wrong, what is allowed."""
    text = str(error).strip()
    missing = re.match(r"(?:In .*?: )?Could not find '(?P<what>[^']+)'", text)
    if missing:
        group, _, name = missing["what"].rpartition("/")
        options = [line.strip() for line in text.partition("Available options in")[2].splitlines()[1:]]
        allowed = ", ".join(o for o in options if o and not o.startswith(("Config search", "-", "provider")))
        return f"unknown {group or 'config'} {name!r}; allowed: {allowed or 'nothing: no such group'}"
    unknown = re.search(r"Key '(?P<key>[^']+)' is not in struct", f"{text} {error.__cause__}")
    if unknown:
        return f"unknown setting {unknown['key']!r}; see `--cfg job` for all settings"
    group = re.match(r"Could not override '(?P<key>[^']+)'", text)
    if group:
        return f"unknown setting {group['key']!r}; see `--cfg job` for all settings"
    return " ".join(text.split("See https")[0].split())


def run_cli(main: Callable[[], int | None]) -> NoReturn:
    """Run a command line's `main` and exit: BadInput prints one line and exits with code 2."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us, not to Hydra's own printer
    try:
        code = main()
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("stopped; what is finished is kept", file=sys.stderr)
        sys.exit(130)
    sys.exit(code or 0)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return `value` if it is a whole number of at least `least`; raises BadInput naming the setting."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} must be a whole number >= {least}, got {value!r}")
    return value


def chosen(cfg: Any, group: str) -> dict[str, Any]:
    """Return the selected configs of a multi-select group, by name; raises BadInput when there is none."""
    selected = cfg.get(group)
    if not isinstance(selected, Iterable) or not selected:
        raise BadInput(f"{group} is empty: name at least one, for example {group}=[{_example(group)}]")
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(selected, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): entry for name, entry in plain.items()}


def _example(group: str) -> str:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))[0]

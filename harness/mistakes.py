"""What Hydra and OmegaConf make of a user's mistakes, as one line: what was wrong, what is allowed."""

import importlib
import inspect
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from datasets.errors import BadInput
from harness.choices import CONFIGS, options


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

"""What the command lines share: composing a Hydra configuration, and one line for the user's mistakes."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from datasets.errors import BadInput, reader_may_leave
from harness.config import CONFIGS, bad_input, check_added, check_choices, options, users_mistakes
from harness.errors import quoted

BAD_INPUT, SOME_FAILED = 2, 3  # exit codes


def compose_config(config: str, overrides: Sequence[str]) -> Any:
    """Return the configuration `config` with Hydra overrides applied; raises BadInput with one line.

    Targets of other projects are refused unless `allow_targets=[...]` is among the overrides (`harness.config`).
    """
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.config import SETTING, check_external_configs, check_targets, given_on_command_line

    overrides = quoted(overrides)
    check_external_configs(overrides)
    plain = [o for o in overrides if o.partition("=")[0] != SETTING]
    with users_mistakes(config, overrides), initialize_config_dir(str(CONFIGS), version_base="1.3"):
        check_choices(plain)
        check_added(plain, config)
        cfg = compose(config, overrides=plain)
    check_targets(OmegaConf.to_container(cfg, resolve=False), given_on_command_line(overrides))
    return cfg


def overrides_of(arguments: Sequence[str]) -> list[str]:
    """Return the settings on a command line, without Hydra's own flags."""
    return [argument for argument in arguments if not argument.startswith("-")]


def wants_help(arguments: Sequence[str]) -> bool:
    """Say whether a command line asks for help."""
    return any(argument in ("-h", "--help", "help") for argument in arguments)


def refuse(error: BadInput) -> NoReturn:
    """Print the one line and exit with code 2."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(BAD_INPUT)


def run_cli(main: Callable[[], int | None]) -> NoReturn:
    """Run a command line's `main` and exit: BadInput prints one line and exits with code 2.

    Where whoever reads standard output has had enough (`| head`), it ends without a word, with code 1.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us, not to Hydra's own printer
    try:
        with reader_may_leave():
            code = main()
    except Exception as error:
        mistake = bad_input(error)
        if mistake is None:
            raise
        refuse(mistake)
    except KeyboardInterrupt as error:
        print("stopped; what is finished is kept", file=sys.stderr)
        sys.exit(130 if type(error) is KeyboardInterrupt else 143)
    sys.exit(code or 0)


def tell_records(failed: Sequence[str], asked: int, folder: Path) -> int:
    """Print what of `asked` records is in `folder`, and on standard error what failed; returns the exit code."""
    for failure in failed:
        print(f"failed: {failure}", file=sys.stderr)
    print(f"{asked - len(failed)} of {asked} records in {folder}/")
    return SOME_FAILED if failed else 0


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number from `least` to `most`; raises BadInput naming the setting."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        allowed = f">= {least}" if most is None else f"from {least} to {most}"
        raise BadInput(f"{name} must be a whole number {allowed}, got {value!r}")
    return value


def listed(name: str, value: Any) -> list[Any]:
    """Return the entries of a setting that is a list; raises BadInput naming the setting."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise BadInput(f"{name} must be a list, [a,b], got {value!r}")
    return list(value)


def positive(name: str, value: Any, allowed: str = "a number") -> float:
    """Return `value` if it is a number above 0; raises BadInput naming the setting."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise BadInput(f"{name} must be {allowed} > 0, got {value!r}")
    return float(value)


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


# Ctrl-C and SIGTERM end a command soon, whatever it is doing; records are atomic, so any moment will do.

GRACE_S = 1.5
_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Terminated(KeyboardInterrupt):
    """SIGTERM, treated as Ctrl-C."""


@contextmanager
def stops_soon() -> Iterator[None]:
    """Within this context, Ctrl-C and SIGTERM raise KeyboardInterrupt; GRACE_S later the process ends regardless.

    A compiled training keeps Python from raising anything until it returns, so a thread of our own does the counting.
    Where a library has made an error of its own of the interruption, as OmegaConf does when interrupted while it cleans
    up, the interruption is raised in its place. Does nothing outside the main thread, where signals cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, python = socket.socketpair()
    python.setblocking(False)
    threading.Thread(target=_count, args=(ours,), daemon=True).start()
    before = signal.set_wakeup_fd(python.fileno(), warn_on_full_buffer=False)
    received: list[type[KeyboardInterrupt]] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise received[0]

    old = {number: signal.signal(number, interrupt) for number in _CODES}
    try:
        yield
    except Exception:
        if received:
            raise received[0] from None
        raise
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        python.close()


def _count(ours: socket.socket) -> None:
    """Wait for a signal's byte; the thread of an ended context reads nothing and ends."""
    while byte := ours.recv(1):
        if byte[0] in _CODES:
            time.sleep(GRACE_S)
            print("stopped; what is finished is kept", file=sys.stderr, flush=True)
            os._exit(_CODES[signal.Signals(byte[0])])
    ours.close()

"""What a study keeps beside its records, in `results/.study`: lock, plan, blocks set aside and why, checkpoints.

Only the process that holds the lock writes records. The plan says what is missing, for `python -m harness.status`;
nothing is computed from it or the list of blocks set aside, so losing them loses nothing. A checkpoint has the
evaluations of an unfinished live run.
"""

import contextlib
import fcntl
import json
import math
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

from datasets.files import write_atomically
from harness.errors import BadInput
from harness.problem import Curve, Evaluation, Problem, Stop, WrappedProblem
from harness.progress import duration, plural
from harness.records import COMPONENTS, TARGET, checked_header, front_files, libraries, trace_files
from harness.sealed import DamagedRecord, moved_to_free_name, set_aside, spec_hash

FOLDER, PLAN, FAILED, LOCK = ".study", "plan.json", "failed.json", "lock"
_TRIES, _BETWEEN_S = 20, 0.005  # of the lock, which whoever asks whether it is taken holds for an instant
BLOCK = "*/*/*"  # dataset, pipeline, method: only there, whatever folder `results` may be


@contextmanager
def locked(results: Path) -> Iterator[None]:
    """Hold `results` for this process; raises BadInput naming the holder when another study writes there.

    The system lets go of the lock when the process ends, however it ends.
    """
    path = results / FOLDER / LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise BadInput(f"results_dir: cannot write to {results}: {error.strerror}") from None
    with file:
        try:
            _lock(file)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(200).strip()
            raise BadInput(f"another study is writing to {results} ({holder}): wait for it, or stop it") from None
        except OSError as error:  # a file system without locks
            line = f"{results} cannot be locked ({error.strerror}): see that no other study writes to it"
            print(line, file=sys.stderr)
        with contextlib.suppress(OSError):  # a full disk: the name is for people only
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield


def _lock(file: TextIO) -> None:
    """Take the lock; BlockingIOError where another study has it, and not one who asks (`is_locked`), for an instant."""
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not left:
                raise
        time.sleep(_BETWEEN_S)


def is_locked(results: Path) -> bool:
    """Say whether a study is writing to `results` now."""
    try:
        with (results / FOLDER / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def repair(results: Path) -> tuple[list[str], list[Mapping[str, str]]]:
    """Remove what killed writers left, and move damaged records aside as `.damaged`, so that they are run again.

    Returns a line for each record moved, and what the others were made with, equal ones once. Raises BadInput for a
    record that does not belong where it lies, or of another version: these are somebody's results.
    """
    for stale in (*results.glob(f"{BLOCK}/.seeds-*.tmp"), *results.glob(f"{FOLDER}/.*.json.*.tmp")):
        stale.unlink(missing_ok=True)
    lines, made = list[str](), dict[str, Mapping[str, str]]()
    for path in [p for folder in sorted(results.glob(BLOCK)) for p in (*front_files(folder), *trace_files(folder))]:
        try:
            header = checked_header(path, path.read_bytes())
        except DamagedRecord as damage:
            lines.append(set_aside(path, damage))
        else:
            own = header.get("versions", {})
            made.setdefault(json.dumps(own, sort_keys=True), own)
    return lines, list(made.values())


def check_made_with(results: Path, made: Iterable[Mapping[str, str]], ours: Mapping[str, str]) -> list[str]:
    """Return a line about the versions of libraries, if any, that records in `results` have and `ours` are not.

    Raises BadInput if they are of another compiler target: last digits would be of two kinds.
    """
    others = sorted({own[TARGET] for own in made if TARGET in own} - {ours[TARGET]})
    if others:
        raise BadInput(
            f"results_dir: {results} holds records of code compiled for {' and '.join(others)}, here it is compiled "
            f"for {ours[TARGET]}, and last digits differ: go on where they were made (same processor, same "
            "NUMBA_CPU_NAME and NUMBA_CPU_FEATURES), or give a results_dir of its own"
        )
    differ = sorted({(k, v, ours[k]) for own in made for k, v in own.items() if k in ours and v != ours[k]})
    words = ", ".join(f"{name} {theirs} (here {own})" for name, theirs, own in differ)
    return [f"note: {results} holds records made with {words}: last digits may differ"] if differ else []


def write_plan(results: Path, rows: Iterable[dict[str, Any]], workers: int) -> None:
    """Add the blocks of a study that are missing (dataset, pipeline, method, folder, seeds) to the plan.

    The plan is of all studies that were started in this folder; without it, it is of those that are started from then
    on. Blocks set aside before that are to be run now are no longer listed as failed.
    """
    known = {key(row): row for row in read_plan(results)["blocks"]} | {key(row): row for row in rows}
    failed = [row for row in read_failed(results) if key(row) not in {key(row) for row in rows}]
    plan = {"planned": time.time(), "workers": workers, "blocks": list(known.values())}
    write_atomically(results / FOLDER / PLAN, json.dumps(plan).encode())
    write_atomically(results / FOLDER / FAILED, json.dumps(failed).encode())


def write_failed(results: Path, row: dict[str, Any], reason: str, traceback: str = "") -> None:
    """Note that a block was set aside, why, and the traceback if any; on a full disk only standard error tells it."""
    rows = [old for old in read_failed(results) if key(old) != key(row)]
    more = {"traceback": traceback} if traceback else {}
    try:
        content = json.dumps([*rows, {**row, "reason": reason, **more}]).encode()
        write_atomically(results / FOLDER / FAILED, content)
    except OSError as error:
        print(f"cannot note a failed block in {results / FOLDER}: {error.strerror}", file=sys.stderr)


def read_plan(results: Path) -> dict[str, Any]:
    """Return the plan: workers, and the blocks that were missing when a study was started, of all studies."""
    plan = _read(results / FOLDER / PLAN)
    good = _rows(plan.get("blocks")) if isinstance(plan, dict) else []
    workers = plan["workers"] if good and isinstance(plan.get("workers"), int) else 1
    return {"workers": max(1, workers), "blocks": good}


def read_failed(results: Path) -> list[dict[str, Any]]:
    """Return the blocks that were set aside, each with its reason."""
    return [row for row in _rows(_read(results / FOLDER / FAILED)) if "reason" in row]


def method_names(rows: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], str]:
    """Return what names the method of a spec, or of a row of blocks: with the components in which `rows` differ.

    Rows of plans from before components were noted there do not tell.
    """
    differ = [name for name in COMPONENTS if len({str(row[name]) for row in rows if name in row}) > 1]

    def name_of(row: Mapping[str, Any]) -> str:
        return " ".join([str(row["method"]), *(f"{name}={row[name]}" for name in differ if name in row)])

    return name_of


def key(row: dict[str, Any]) -> tuple[str, str, bool]:
    """Return the key of a block among those of one folder of results."""
    return str(row["folder"]), ",".join(str(seed) for seed in row["seeds"]), bool(row.get("fronts"))


def _rows(found: Any) -> list[dict[str, Any]]:
    """Return the entries of a list that are rows of blocks: the file may be anybody's."""

    def is_row(row: Any) -> bool:
        words = ("dataset", "pipeline", "method", "folder")
        if not (isinstance(row, dict) and all(isinstance(row.get(word), str) for word in words)):
            return False
        seeds = row.get("seeds")
        return isinstance(seeds, list) and all(type(seed) is int for seed in seeds)

    return [row for row in found if is_row(row)] if isinstance(found, list) else []


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


# Checkpoints: the evaluations of unfinished live runs, kept as they are made, so that none is trained again.
#
# results/.study/live-<spec hash>-seed-<k>.jsonl: a line that says what the rest was made with, then one per evaluation,
# as CRC-32 and JSON.
# The driver removes it when the run's record is stored. A worker that shares no disk with the driver keeps none.

_EVERY_S = 1.0  # between two lines of progress


def path_of(results: Path, spec: Mapping[str, Any], seed: int) -> Path:
    """Return where the evaluations of a run are kept."""
    return results / FOLDER / f"live-{spec_hash(dict(spec))}-seed-{seed}.jsonl"


def remove_checkpoint(results: Path, spec: Mapping[str, Any], seeds: Iterable[int]) -> None:
    """Remove the checkpoints of runs whose record is stored."""
    for seed in seeds:
        path_of(results, spec, seed).unlink(missing_ok=True)


def saved_evaluations(results: Path) -> int:
    """Return how many evaluations of unfinished runs there are."""
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in (results / FOLDER).glob("live-*.jsonl"))


def _header() -> bytes:
    """Return the line that begins a checkpoint."""
    return json.dumps({"versions": libraries()}, sort_keys=True).encode() + b"\n"


def _line(content: bytes) -> bytes:
    """Return the line of a checkpoint with this content."""
    return b"%08x %s\n" % (zlib.crc32(content), content)


def _content(line: bytes) -> bytes:
    """Return the content of a line of a checkpoint."""
    return line[9:-1]


def _is_sound(line: bytes) -> bool:
    """Say whether a line of a checkpoint is whole and as it was written."""
    return line == _line(_content(line))


class Checkpointed(WrappedProblem):
    """A problem, for one run, that writes down each evaluation, and answers from what is written already.

    An answer is taken only for the candidate that was evaluated then: where the run now chooses another, all that
    was written from there on is given up. Progress goes to standard error, a line a second at most: what is left of
    training, if the evaluations to come cost as much as those made, and by `price_per_hour` in money.
    """

    def __init__(
        self, problem: Problem, results: Path, spec: Mapping[str, Any], seed: int, price_per_hour: float | None = None
    ) -> None:
        super().__init__(problem)
        self._tau, self._price = spec.get("tau"), price_per_hour
        self._label = f"{spec['dataset']}/{spec['pipeline']} {spec['method']} seed {seed}"
        self._of, self._said_at = int(spec["iterations"]), 0.0
        self._done, self._spent_s, self._best = 0, 0.0, float("nan")
        path = path_of(results, spec, seed)
        self._keep_apart(path)
        self._file = path.open("a+b")
        self._lines = self._read()

    def _keep_apart(self, path: Path) -> None:
        """Move a checkpoint of other versions of the libraries aside: they might train, or choose, another model."""
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        if lines[1:] and lines[0] != _header():
            aside, made = moved_to_free_name(path, "other-versions"), plural(len(lines) - 1, "evaluation")
            self._say(f"{made} made with other versions of the libraries: kept in {aside}, made again")

    def _read(self) -> list[bytes]:
        """Return the lines after the header; those from damage on are given up."""
        self._file.seek(0)
        header, *lines = self._file.readlines() or [b""]
        if header != _header():  # of a new file, or of one that was never begun
            self._file.truncate(0)
            self._write(_header())
            return []
        sound = list(takewhile(_is_sound, lines))
        self._file.truncate(sum(map(len, [header, *sound])))
        if lost := [line for line in lines[len(sound) :] if line.endswith(b"\n")]:  # not what a kill cut off
            self._say(f"its checkpoint is damaged: {plural(len(lost), 'evaluation')} of {len(lines)} made again")
        return sound

    def _say(self, text: str) -> None:
        over = "\r\x1b[2K" if sys.stderr.isatty() else ""  # a bar, which is drawn again below
        print(f"{over}{self._label}: {text}", file=sys.stderr, flush=True)

    def evaluate(self, candidate: int) -> Evaluation:
        """Return what is written of this evaluation; make it, and write it down, if nothing is."""
        return self._kept(candidate, self._problem.evaluate)

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Return what is written of this evaluation and its curve; make it, and write it down, if nothing is."""
        return self._kept(candidate, lambda chosen: self._problem.evaluate_with_curve(chosen, stop), stop is not None)

    def _kept(self, candidate: int, evaluate: Callable[[int], Evaluation], recalled: bool = False) -> Evaluation:
        n = self._done
        known = json.loads(_content(self._lines[n])) if n < len(self._lines) else None
        if known is not None and known.pop("candidate") == candidate:
            curve = known.pop("curve", None)
            columns = None if curve is None else Curve(**{name: tuple(values) for name, values in curve.items()})
            outcome = Evaluation(**known, curve=columns)
            if recalled:
                self._problem.recall(candidate, outcome)
        else:
            if known is not None:
                del self._lines[n:]
                self._file.seek(0)
                self._file.truncate(len(self._file.readline()) + sum(map(len, self._lines)))
            outcome = evaluate(candidate)
            self._lines.append(_line(json.dumps({"candidate": candidate, **asdict(outcome)}).encode()))
            self._write(self._lines[-1])
        self._count(outcome, fresh=known is None)
        return outcome

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _count(self, outcome: Evaluation, fresh: bool) -> None:
        self._done, self._spent_s = self._done + 1, self._spent_s + outcome.cost_s
        if outcome.error < self._best or math.isnan(self._best):  # a failed evaluation has no error
            self._best = outcome.error
        last, now = self._done == self._of, time.monotonic()
        if fresh and (last or now - self._said_at >= _EVERY_S):
            self._said_at = now
            left_s = self._spent_s / self._done * (self._of - self._done)
            if self._tau is not None:
                left_s = min(left_s, max(0.0, self._tau - self._spent_s))
            times = f"{self._priced(self._spent_s)} of training, about {self._priced(left_s)} left"
            self._say(f"evaluation {self._done}/{self._of}, best error {self._best:.5g}, {times}")

    def _priced(self, seconds: float) -> str:
        money = "" if self._price is None else f" ({self._price * seconds / 3600:,.2f} in money)"
        return duration(seconds) + money

    def close(self) -> None:
        """Close the file."""
        self._file.close()

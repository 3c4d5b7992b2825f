"""`python -m harness.status [results_dir=results] [--json]`: which runs of a study are done, missing or set aside.

A run is done if its record lies in the folder, checked byte by byte; of the others that a study started there has
planned, those whose block failed are set aside and the rest are missing. A run counts once, however many files hold it.
Times are worker time, from the timings beside the records.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.cli import run_cli, wants_help
from harness.errors import BadInput
from harness.progress import duration
from harness.records import TIMINGS_SUFFIX, OtherSchema, checked_header, front_files, trace_files
from harness.results_dir import FOLDER, is_locked, key, method_names, read_failed, read_plan

USAGE = "python -m harness.status [results_dir=results] [--json]"
AXES = ("method", "dataset")
Run = tuple[str, str, str, int]  # data set, pipeline, folder of the method, seed


@dataclass
class Count:
    """Runs (problem, method, seed) of one method or data set, and the seconds that those done took."""

    done: int = 0
    missing: int = 0
    failed: int = 0
    seconds: float = 0.0
    timed: int = 0  # of those done, the runs whose seconds are known


@dataclass
class Status:
    """The state of one folder of results. seconds_left: of the workers together; None where nothing was timed."""

    results_dir: str
    running: bool
    workers: int
    total: Count = field(default_factory=Count)
    by: dict[str, dict[str, Count]] = field(default_factory=lambda: {axis: {} for axis in AXES})
    seconds_left: float | None = None
    failed: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def add(self, words: Mapping[str, Any], **amounts: float) -> None:
        """Count some runs of the method and data set that `words` names."""
        counts = [self.total, *(self.by[axis].setdefault(str(words[axis]), Count()) for axis in AXES)]
        for count in counts:
            for name, amount in amounts.items():
                setattr(count, name, getattr(count, name) + amount)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        by = {f"by_{axis}": {name: vars(c) for name, c in sorted(self.by[axis].items())} for axis in AXES}
        left = None if self.seconds_left is None else self.seconds_left / self.workers
        plain = {k: v for k, v in vars(self).items() if k not in ("by", "total")}
        return {**plain, "wall_seconds_left": left, "total": vars(self.total), **by}


def read_status(results: Path) -> Status:
    """Return the state of `results`; raises BadInput where no study was ever begun."""
    if not results.is_dir() or not ((results / FOLDER).is_dir() or trace_files(results)):
        raise BadInput(f"no study in {results}: run `python -m harness` first, or give results_dir=...")
    plan = read_plan(results)
    status = Status(str(results), is_locked(results), plan["workers"])
    headers = _read_headers(status, trace_files(results))
    name_of = method_names([*(header["spec"] for header in headers.values()), *plan["blocks"]])
    wanted = {run for row in plan["blocks"] if row.get("fronts") for run in _runs_of(row, row["folder"], row["seeds"])}
    fronts = _read_headers(status, front_files(results)) if wanted else {}
    lacking = wanted - {run for path, header in fronts.items() for run in _runs_of_file(path, header)}
    recorded, counted = _count_done(status, headers, name_of, lacking), set[Run]()  # a run counts once
    done, failed = recorded - lacking, {key(row): row for row in read_failed(results)}
    for row in sorted(plan["blocks"], key=lambda row: key(row) not in failed):
        runs = _runs_of(row, row["folder"], row["seeds"]) - (done if row.get("fronts") else recorded) - counted
        counted |= runs
        words = {**row, "method": name_of(row)}
        if runs and key(row) in failed:
            status.add(words, failed=len(runs))
            status.failed.append({**failed[key(row)], "method": words["method"]})
        elif runs:
            status.add(words, missing=len(runs))
    status.seconds_left = _seconds_left(status)
    return status


def _runs_of(words: Mapping[str, Any], folder: str, seeds: Iterable[int]) -> set[Run]:
    return {(words["dataset"], words["pipeline"], folder, seed) for seed in seeds}


def _runs_of_file(path: Path, header: Mapping[str, Any]) -> set[Run]:
    return _runs_of(header["spec"], path.parent.name, header["seeds"])


def _read_headers(status: Status, paths: Iterable[Path]) -> dict[Path, dict[str, Any]]:
    """Return the headers of files of records; those that are damaged are noted."""
    headers = {}
    for path in paths:
        try:
            headers[path] = checked_header(path, path.read_bytes())
        except OtherSchema:
            raise
        except (BadInput, OSError) as error:
            status.damaged.append(str(error))
    return headers


def _count_done(
    status: Status,
    headers: Mapping[Path, dict[str, Any]],
    name_of: Callable[[Mapping[str, Any]], str],
    lacking: Set[Run],
) -> set[Run]:
    """Return the runs that have a record, and count them, but for those `lacking` their fronts."""
    done: set[Run] = set()
    for path, header in headers.items():
        spec, runs, seconds = header["spec"], _runs_of_file(path, header), _seconds(path)
        known = {} if seconds is None else {"seconds": seconds, "timed": len(runs)}
        status.add({**spec, "method": name_of(spec)}, done=len(runs - lacking - done), **known)
        done |= runs
    return done


def _seconds(path: Path) -> float | None:
    """Return the seconds that a block took; None for records from before they were kept, or damaged timings."""
    try:
        metadata = pq.read_schema(path.with_suffix(TIMINGS_SUFFIX)).metadata or {}
        value = json.loads(metadata[b"block"])["seconds"]
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException):
        return None
    return float(value) if isinstance(value, int | float) and value >= 0 else None


def _seconds_left(status: Status) -> float | None:
    """Return the missing runs times the seconds of a run, by method where they are known, else over all."""
    if not status.total.timed:
        return None if status.total.missing else 0.0
    mean = status.total.seconds / status.total.timed
    return sum(c.missing * (c.seconds / c.timed if c.timed else mean) for c in status.by["method"].values())


def lines(status: Status) -> Iterable[str]:
    """Yield the status as people read it."""
    state = "a study is running" if status.running else "no study is running"
    total, left = status.total, status.seconds_left
    yield (
        f"{status.results_dir}: {state}; {total.done} runs done, {total.missing} missing, {total.failed} set aside, "
        f"{len(status.damaged)} damaged files"
    )
    spent = f"{duration(total.seconds)} of worker time spent"
    rest = "" if left is None else f", {duration(left)} left: {duration(left / status.workers)}"
    yield spent + (f"{rest} with {status.workers} workers" if rest else "")
    for axis in AXES:
        counts = sorted(status.by[axis].items())
        width = max([len(axis), *(len(name) for name, _ in counts)])
        yield f"\n{axis:{width}}  {'done':>7} {'missing':>7} {'aside':>7}  time"
        for name, c in counts:
            yield f"{name:{width}}  {c.done:7} {c.missing:7} {c.failed:7}  {duration(c.seconds)}"
    for row in status.failed:
        yield f"\nset aside: {row['dataset']}/{row['pipeline']} {row['method']} seeds {row['seeds']}: {row['reason']}"
    yield from status.damaged


def main() -> int:
    """Print the status; returns the exit code."""
    arguments = sys.argv[1:]
    if wants_help(arguments):
        print(USAGE)
        return 0
    folders = [argument.removeprefix("results_dir=") for argument in arguments if argument.startswith("results_dir=")]
    unknown = [a for a in arguments if a != "--json" and (not a.startswith("results_dir=") or a.endswith("="))]
    if unknown:
        raise BadInput(f"unknown argument {unknown[0]!r} ({USAGE})")
    status = read_status(Path((folders or ["results"])[-1]))
    print(json.dumps(status.as_json(), indent=1) if "--json" in arguments else "\n".join(lines(status)))
    return 0


if __name__ == "__main__":
    run_cli(main)

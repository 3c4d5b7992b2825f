"""The evaluations of unfinished live runs, kept as they are made: an interrupted run trains none of them again.

results/.study/live-<spec hash>-seed-<k>.jsonl: a line that says what the rest was made with, then one per evaluation.
The driver removes it when the run's record is stored. A worker that shares no disk with the driver keeps none.
"""

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.ledger import FOLDER
from harness.problem import Candidates, Evaluation, Problem
from harness.progress import duration
from harness.records.layout import spec_hash
from harness.versions import libraries

_EVERY_S = 1.0  # between two lines of progress


def path_of(results: Path, spec: Mapping[str, Any], seed: int) -> Path:
    """Return where the evaluations of a run are kept."""
    return results / FOLDER / f"live-{spec_hash(dict(spec))}-seed-{seed}.jsonl"


def forget(results: Path, spec: Mapping[str, Any], seeds: Iterable[int]) -> None:
    """Remove the journals of runs whose record is stored."""
    for seed in seeds:
        path_of(results, spec, seed).unlink(missing_ok=True)


def kept(results: Path) -> int:
    """Return how many evaluations of unfinished runs there are."""
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in (results / FOLDER).glob("live-*.jsonl"))


class Journaled:
    """A problem, for one run, that writes down each evaluation, and answers from what is written already.

    An answer is taken only for the candidate that was evaluated then: where the run now chooses another, all that
    was written from there on is given up. Each evaluation made is told on standard error, one a second at most.
    """

    def __init__(self, problem: Problem, results: Path, spec: Mapping[str, Any], seed: int) -> None:
        self.name, self.space = problem.name, problem.space
        for known in ("about", "true_cost_s"):  # what cost models may ask of a problem
            if hasattr(problem, known):
                setattr(self, known, getattr(problem, known))
        self._problem = problem
        self._label = f"{spec['dataset']}/{spec['pipeline']} {spec['method']} seed {seed}"
        self._of, self._told = int(spec["iterations"]), 0.0
        self._done, self._spent_s, self._best = 0, 0.0, float("nan")
        self._file = path_of(results, spec, seed).open("a+b")
        self._lines = self._read(json.dumps({"versions": libraries()}, sort_keys=True).encode() + b"\n")

    def _read(self, header: bytes) -> list[bytes]:
        """Return the whole lines after the header; one of other versions, and a line cut short, are given up."""
        self._file.seek(0)
        lines = self._file.readlines()
        if not lines or lines[0] != header:
            self._file.truncate(0)
            self._write(header)
            return []
        whole = [line for line in lines[1:] if line.endswith(b"\n")]
        self._file.truncate(sum(map(len, [header, *whole])))
        return whole

    def initial(self, n: int) -> Candidates:
        """Return the problem's own initial design."""
        return self._problem.initial(n)

    def candidates(self, step: int) -> Candidates:
        """Return the problem's own candidates."""
        return self._problem.candidates(step)

    def evaluate(self, candidate: int) -> Evaluation:
        """Return what is written of this evaluation; make it, and write it down, if nothing is."""
        n = self._done
        known = json.loads(self._lines[n]) if n < len(self._lines) else None
        if known is not None and known.pop("candidate") == candidate:
            outcome = Evaluation(**known)
        else:
            if known is not None:
                del self._lines[n:]
                self._file.seek(0)
                self._file.truncate(len(self._file.readline()) + sum(map(len, self._lines)))
            outcome = self._problem.evaluate(candidate)
            self._lines.append(json.dumps({"candidate": candidate, **asdict(outcome)}).encode() + b"\n")
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
        if fresh and (last or now - self._told >= _EVERY_S):
            self._told = now
            best = f"best error {self._best:.5g}, {duration(self._spent_s)} of training"
            print(f"{self._label}: evaluation {self._done}/{self._of}, {best}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

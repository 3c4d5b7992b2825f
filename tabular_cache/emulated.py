"""How well the emulators of tables predict configurations they have not seen: `python -m tabular_cache emulator`."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.cli import SOME_FAILED
from harness.execution import run_tasks
from harness.execution.supervisor import worker_count
from harness.progress import Progress
from tabular_cache.emulator import accuracy
from tabular_cache.table import load_table

COLUMNS = {
    "error_all": "error, all",
    "error_best": "error, best tenth",
    "cost_all": "cost, all",
    "cost_best": "cost, best tenth",
}


@dataclass(frozen=True)
class Question:
    """An emulator to judge: of one problem's table, learned from its first `n_configs` configurations (None: all)."""

    problem: str
    folder: Path
    n_configs: int | None


def answer(question: Question) -> dict[str, float]:
    """Return the accuracy of one emulator, see `emulator.accuracy`."""
    return accuracy(load_table(question.problem, question.folder), n_configs=question.n_configs)


def judge(
    executor: Executor, problems: Sequence[tuple[str, str]], folder: Path, n_configs: int | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row of median relative errors (percent) per problem, and what could not be judged and why."""
    questions = [Question(f"{d}/{p}", folder, n_configs) for d, p in problems]
    found, failed = {}, []
    with Progress(len(questions), "emulators", "fit", worker_count(executor)) as progress:
        for question, line in run_tasks(executor, answer, questions):
            if isinstance(line, BaseException):
                failed.append(f"{question.problem}: {line}")
            else:
                found[question.problem] = line
            progress.advance()
    rows = [{"problem": q.problem, **found[q.problem]} for q in questions if q.problem in found]
    frame = pd.DataFrame(rows, columns=["problem", *COLUMNS])
    frame[list(COLUMNS)] *= 100
    return frame, failed


def print_judged(frame: pd.DataFrame, failed: list[str]) -> int:
    """Print the table and its medians; returns the exit code."""
    if len(frame):
        print("median relative error on configurations left out whole (a tenth of them), percent")
        print(frame.rename(columns=COLUMNS).to_string(index=False, float_format="{:.2f}".format))
        medians = frame[list(COLUMNS)].median()
        print("median over problems: " + ", ".join(f"{title} {medians[name]:.2f}" for name, title in COLUMNS.items()))
    for line in failed:
        print(f"not judged: {line}")
    return SOME_FAILED if failed else 0

"""Milliseconds per step of Bayesian optimization, ours and others', on the same data."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import rivals
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sequence import CANDIDATES, FEATURES, PROBLEM, Sequence, optimizer, sequence

from harness.acquisitions import StepContext, choose
from harness.acquisitions.cost_rules import Contextual, effective_alpha
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.problem import LATE, Evaluation
from harness.screening import MANY, Offer, shortlist
from harness.surrogates.gp import GaussianProcess

SIZES = (20, 50, 100, 200, 300)
WINDOW = ROUNDS = 10  # the steps up to each size: one round each for others, all in every round for ours


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def table(console: Console) -> None:
    """Print ms per step at each n, for every library, and how many times ours each one takes."""
    data = sequence(SIZES[-1])
    ours(data, SIZES[0])  # compiles and warms up
    names = {"GPyOpt (5 starts)": rivals.gpyopt(5), "GPyOpt (1 start)": rivals.gpyopt(1)}
    names["scikit-learn (1 start)"] = rivals.scikit_learn()
    others = {**names, "Optuna GPSampler": rivals.optuna()}
    spent: dict[str, dict[int, list[float]]] = {name: {n: [] for n in SIZES} for name in ("ours", *others)}
    for n in track(SIZES, "steps", console=console, transient=True):
        for back in range(ROUNDS):  # in turns, so that all meet the machine's slower and faster minutes
            spent["ours"][n].append(ours(data, n))
            for name, step in others.items():
                if step is not None:  # how long a search for hyperparameters takes differs from step to step
                    spent[name][n].append(rival(step, data, n - back))
    times = {name: {n: float(np.median(ms)) for n, ms in row.items() if ms} for name, row in spent.items()}
    out = Table("ms per step", *(f"n = {n}" for n in SIZES), *(f"x ours, {n}" for n in SIZES))
    for name, row in times.items():
        if row:
            out.add_row(name, *(f"{row[n]:.1f}" for n in SIZES), *(f"{row[n] / times['ours'][n]:.0f}" for n in SIZES))
    console.print(out)
    console.print(
        f"A step: refit (maximum marginal likelihood), then the choice among {CANDIDATES} rows of {'/'.join(PROBLEM)}. "
        f"Medians over the {WINDOW} steps up to n of a run, in {ROUNDS} rounds in turns: in each, one of these steps "
        "of the others' and all of ours. Optuna makes its own candidates."
    )
    late = float(np.mean(steps_of(data, SIZES[-1])[LATE:])) / times["ours"][LATE]
    console.print(
        f"A step of ours from {LATE} to {SIZES[-1]}, the refits among them included, takes {late:.1f} times the median "
        f"of those up to {LATE}."
    )
    missing = [name for name, step in others.items() if step is None]
    if missing:
        console.print(f"Not installed, so not timed: {', '.join(missing)}")


def ours(data: Sequence, n: int) -> float:
    """Return the median ms of our steps just before and at n evaluations, in a run that is that far."""
    return float(np.median(steps_of(data, n)[max(5, n - WINDOW + 1) :]))


def steps_of(data: Sequence, n: int) -> list[float]:
    """Return the ms of each of our steps up to n evaluations; all are taken, so that refits are as warm as in a run."""
    method, spent = optimizer(SIZES[-1] + 1), [0.0] * 5
    for i in range(n):
        method.tell(data.X[i], Evaluation(data.y[i], data.cost_s[i], 0.0, 0.0))
        if i + 1 >= 5:
            spent[i + 1 :] = [milliseconds(lambda i=i: method.ask(data.candidates[i + 1]))]  # type: ignore[misc]
    return spent


def rival(step: rivals.Step, data: Sequence, n: int) -> float:
    """Return the ms of another library's step at n evaluations."""
    return milliseconds(lambda: step(data.X[:n], data.y[:n], data.candidates[n]))


def parts(console: Console) -> None:
    """Print where a step of ours goes."""
    data = sequence(SIZES[-1])
    out = Table("ms of a step of ours", *(f"n = {n}" for n in SIZES))
    columns = [_parts(data, n) for n in SIZES]
    for name in columns[0]:
        out.add_row(name, *(f"{column[name]:.2f}" for column in columns))
    console.print(out)
    console.print(f"Medians over the {WINDOW} steps up to n; candidates are given by their coordinates.")


def _parts(data: Sequence, n: int) -> dict[str, float]:
    """Return the median ms of each part of the WINDOW steps up to n: as in a run, each has a new observation."""
    spent: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent[part].append(1e3 * (time.perf_counter() - start))

    models = GaussianProcess(), GaussianProcess(), LowVariance(FEATURES)
    for k in range(5, n + 1):  # all of them, so that refits are as warm as in a run
        _step(timed, models, data, k)
    return {part: float(np.median(ms[-WINDOW:])) for part, ms in spent.items()}


def _step(
    timed: Callable[[str], AbstractContextManager[None]],
    models: tuple[GaussianProcess, GaussianProcess, LowVariance],
    data: Sequence,
    n: int,
) -> None:
    """Take the step at n evaluations in its parts.

    models: a GP that is asked about all candidates, lest the step's own know them before its shortlist is timed; the
    step's own; its cost model.
    """
    asked, process, model = models
    X, y, C = data.X[:n], data.y[:n], data.candidates[n]
    utility, rule = ExpectedImprovement(), Contextual(0.1)
    with timed("fit: surrogate"):
        posterior = process.fit(X, y)
    with timed("fit: cost model"):
        model.fit(X, data.cost_s[:n])
    with timed("cost of all candidates"):
        log_cost, log_cost_sd = model.predict(C)

    def context_of(where: object, mean: np.ndarray, sd: np.ndarray) -> StepContext:
        return StepContext(
            mean=mean, sd=sd, incumbent=float(y.min()), log_cost=log_cost[where], log_cost_sd=log_cost_sd[where],
            step=n, iterations=400, n_initial=5, spent=1.0, initial_cost=1.0, tau=None,
        )  # fmt: skip

    everything = asked.fit(X, y)
    with timed("score: bounds of all candidates"):
        everything.bounds(C)
    with timed("score: shortlist, bounds included"):
        kept = shortlist(utility, posterior, Offer(C), log_cost, context_of, n >= MANY)
    with timed("score: the shortlist exactly"):
        context = context_of(kept, *posterior.mean_sd(C[kept]))
    with timed("score: log EI"):
        value = utility.log_value(context)
    with timed("choose: rule, tie rule, effective alpha"):
        chosen = choose(rule.score(value, context.log_cost, context), value, context.log_cost)
        effective_alpha(chosen, value, context.log_cost)
    with timed("(all candidates exactly, which the shortlist saves)"):
        everything.mean_sd(C)

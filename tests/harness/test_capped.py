"""Bayesian optimization of a runtime with adaptive capping: what is stopped, what is learned, what is kept."""

import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import prepared

from datasets.errors import BadInput
from harness import capped
from harness.capped import CappedOptimizer, judge, main, minimise
from harness.live import LiveProblem
from harness.problem import FAILED, TIMEOUT, Candidates, ContinuousProblem, Evaluation, Problem, WrappedProblem, stopped
from harness.sealed import read_record, spec_hash
from harness.space import Parameter, SearchSpace

SPACE = SearchSpace((Parameter("x", 0.1, 10.0, log=True), Parameter("k", 1, 5, integer=True)))
SOLVE = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass\nsys.exit(float(sys.argv[2]) > 0.8)"


def runtime(x: float, k: float) -> float:
    return float(10.0 ** (np.log10(x / 2.0) ** 2 + 0.5 * abs(k - 3) - 1.0))


class Known(ContinuousProblem):
    """Runtimes by a formula, stopped as asked; counts its evaluations."""

    space = SPACE

    def __init__(self, seed: int = 0) -> None:
        super().__init__("known", seed, 256)
        self.made = 0

    def measure(self, x: np.ndarray) -> Evaluation:
        self.made += 1
        seconds = runtime(*x)
        return Evaluation(0.1, seconds, 0.1, seconds)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        return stopped(self.evaluate(candidate), cap_s)


def run(problem: Any, slack: float | None, seed: int = 0, **changes: Any) -> list[dict[str, Any]]:
    settings: dict[str, Any] = {"kappa_max_s": 50.0, "n_initial": 5}
    optimizer = CappedOptimizer(problem.space, slack=slack, name=problem.name, trees=30, seed=seed, **settings)
    return minimise(problem, optimizer, **{"budget_s": math.inf, "iterations": 25, **settings, **changes})


@pytest.mark.parametrize("slack", [1.0, 1.5, None])
def test_every_evaluation_is_capped_at_slack_times_the_best_and_the_optimum_is_found(slack: float | None) -> None:
    best, spent = math.inf, 0.0
    rows = run(WrappedProblem(Known()), slack, iterations=40)
    for row in rows:
        assert row["cap_s"] == (50.0 if slack is None or best == math.inf else min(slack * best, 50.0))
        true = runtime(row["x"], row["k"])
        seconds = min(true, row["cap_s"])
        spent += seconds
        assert row["seconds"] == pytest.approx(seconds) and row["spent_s"] == pytest.approx(spent)
        late = "unsolved" if row["cap_s"] == 50.0 else "stopped"
        assert row["status"] == ("solved" if true <= row["cap_s"] else late)
        best = min(best, true)
    others = [run(Known(seed), slack, seed, iterations=40) for seed in (1, 2)]
    lowest = [best, *(min(row["seconds"] for row in rows if row["status"] == "solved") for rows in others)]
    assert np.median(lowest) < 0.1018  # 0.1 at x = 2, k = 3; random search comes to 0.1018
    value = [row["log_ei"] for row in rows]
    assert np.isnan(value[:5]).all() and np.isfinite(value[5:]).all()


def test_a_run_ends_when_its_budget_is_spent() -> None:
    rows = run(Known(), 1.3, budget_s=3.0)
    assert rows[-1]["spent_s"] >= 3.0 > rows[-2]["spent_s"]
    whole = run(Known(), 1.0)
    assert whole[-1]["spent_s"] < 0.9 * sum(runtime(row["x"], row["k"]) for row in whole)


def test_asking_and_telling_without_a_problem() -> None:
    optimizer = CappedOptimizer(SPACE, slack=2.0, kappa_max_s=8.0, n_initial=3, n_candidates=64, trees=10)
    assert optimizer.ask().cap_s == 8.0 and optimizer.incumbent is None
    first = optimizer.ask()
    optimizer.tell(first.unit, 9.0, stopped=True)  # took kappa_max: no bound but what it counts for
    assert optimizer.incumbent == 0 and optimizer.cap_s == 8.0
    optimizer.tell(optimizer.ask().unit, 1.5)
    optimizer.tell(optimizer.ask().unit, 3.0, stopped=True)
    assert optimizer.incumbent == 1 and optimizer.cap_s == 3.0
    asked = optimizer.ask()
    assert set(asked.settings) == {"x", "k"} and asked.settings["k"] in range(1, 6) and np.isfinite(asked.log_ei)
    assert optimizer.ask().settings == asked.settings  # asking changes nothing
    for seconds in (0.0, -1.0, math.nan):
        with pytest.raises(BadInput, match="seconds must be a number > 0"):
            optimizer.tell(first.unit, seconds)
    with pytest.raises(ValueError, match="unit cube in 2 dimensions"):
        optimizer.tell(np.array([0.5, 1.5]), 1.0)
    only = CappedOptimizer(SPACE, n_initial=1, n_candidates=16, trees=5)  # nothing but bounds is known
    only.tell(only.ask().unit, 2.0, stopped=True)
    assert only.incumbent is None and only.cap_s == math.inf and np.isfinite(only.ask().log_ei)


def test_no_point_is_evaluated_twice_while_others_are_left() -> None:
    few = SearchSpace((Parameter("k", 1, 4, integer=True), Parameter("n", 1, 3, integer=True)))
    optimizer = CappedOptimizer(few, n_initial=2, n_candidates=64, trees=5)
    for _ in range(13):
        asked = optimizer.ask()
        optimizer.tell(asked.unit, 1.0 + asked.settings["k"])
    points = [tuple(x) for x in optimizer._X]
    assert len({*points[:-1]}) == 12 and points[-1] in points[:-1]


def test_equals_are_drawn_and_not_taken_in_their_order() -> None:
    """Rows of a table are neighbours, lengths of one configuration; while nothing is solved, all look alike."""
    rows = SPACE.snap(SPACE.sobol(400, 0))
    optimizer = CappedOptimizer(SPACE, kappa_max_s=1.0, n_initial=1, trees=5)
    chosen = []
    for _ in range(9):
        asked = optimizer.ask(Candidates(np.arange(400), rows))
        chosen.append(asked.index)
        optimizer.tell(asked.unit, 1.0)
    assert len({*chosen}) == 9 and max(chosen) > 100


def test_a_bound_just_below_kappa_max_is_taken() -> None:
    """Its logarithm may be rounded to above that of kappa_max."""
    optimizer = CappedOptimizer(SPACE, kappa_max_s=0.03, n_initial=2, n_candidates=64, trees=10)
    optimizer.tell(optimizer.ask().unit, 0.02)
    optimizer.tell(optimizer.ask().unit, math.nextafter(0.03, 0.0), stopped=True)
    assert np.isfinite(optimizer.ask().log_ei)


def test_what_an_evaluation_counts_for() -> None:
    nan = math.nan
    assert judge(Evaluation(0.2, 2.0, 0.2, 2.0), 3.0, 9.0, None) == (2.0, "solved")
    assert judge(Evaluation(0.2, 2.0, 0.2, 2.0), 3.0, 9.0, 0.1) == (9.0, "unsolved")  # the target is not reached
    assert judge(Evaluation(nan, 3.1, nan, 3.1, TIMEOUT), 3.0, 9.0, 0.1) == (3.1, "stopped")
    assert judge(Evaluation(nan, 9.0, nan, 9.0, TIMEOUT), 9.0, 9.0, None) == (9.0, "unsolved")
    assert judge(Evaluation(nan, 1.0, nan, 1.0, FAILED), 3.0, 9.0, None) == (9.0, "unsolved")
    assert judge(Evaluation(0.2, 9.5, 0.2, 9.5), 9.0, 9.0, None) == (9.0, "unsolved")


class OnTable(WrappedProblem):
    """Known on the candidates offered alone, as rows of a table are."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.anywhere = False


@pytest.mark.parametrize("wrapped", [lambda problem: problem, WrappedProblem])
def test_an_interrupted_run_goes_on_to_the_same_record(wrapped: Callable[[Problem], Problem], tmp_path: Path) -> None:
    spec = {"problem": "known", "seed": 0}
    paths = [tmp_path / f"{name}-{spec_hash(spec)}.parquet" for name in ("whole", "part")]
    whole = run(Known(), 1.3, path=paths[0], spec=spec)
    run(wrapped(Known()), 1.3, path=paths[1], spec=spec, iterations=9)
    again = Known()
    rows = run(wrapped(again), 1.3, path=paths[1], spec=spec)
    assert again.made == 16 and paths[0].read_bytes() == paths[1].read_bytes()
    np.testing.assert_equal(rows, whole)


def test_a_longer_record_is_not_written_over_by_a_run_that_begins_anew(tmp_path: Path) -> None:
    """Evaluations that are looked up are not gone on with; a rerun that is cut short leaves what was finished."""
    spec = {"problem": "known", "seed": 0}
    path = tmp_path / f"whole-{spec_hash(spec)}.parquet"
    run(OnTable(Known()), 1.3, path=path, spec=spec)
    before = path.read_bytes()
    run(OnTable(Known()), 1.3, path=path, spec=spec, iterations=9)
    assert path.read_bytes() == before and read_record(path)[1].num_rows == 25


@pytest.mark.slow
def test_a_program_of_ones_own_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "solve.py").write_text(SOLVE)
    own = [
        f'command="{shlex.quote(sys.executable)} -SE {tmp_path}/solve.py {{x}} {{fail}}"', "slack=1.1", "kappa_max_s=2",
        "parameters={x:{low:0.03,high:1,log:true},fail:{low:0,high:1}}", "iterations=12", "n_initial=6",
        f"results_dir={tmp_path}/out",
    ]  # fmt: skip
    assert main(own) == 0
    (path,) = (tmp_path / "out" / "capped").rglob("*.parquet")
    _, table = read_record(path)
    rows = table.to_pylist()
    assert len(rows) == 12 and {"solved", "stopped"} <= {row["status"] for row in rows}
    for row in rows:
        assert row["status"] != "solved" or (row["fail"] <= 0.8 and row["seconds"] >= 0.95 * row["x"])
        assert row["status"] != "stopped" or row["seconds"] == pytest.approx(row["cap_s"])
    assert "12 evaluations" in capsys.readouterr().out
    before = path.stat().st_mtime_ns
    assert main(own) == 0 and path.stat().st_mtime_ns == before
    for change, message in (
        ('command="./solve {y}"', r"command must use each of \{x\}, \{fail\}"),
        ('command="./solve {x} {fail} {"', "command cannot be read"),
        ('command="./solve {x:d} {fail}"', "command cannot be filled in"),
        ("parameters=null", "command needs parameters"),
        ("parameters={x:{lo:0.1,high:1}}", "parameters: x has no 'lo'; allowed: low, high, log, integer"),
        ("parameters={x:{low:0.1}}", "parameters: x needs high; allowed: low, high, log, integer"),
        ("parameters={x:3}", "parameters: x must have low, high, log, integer in braces, such as .*, got 3"),
        ("parameters={x:{low:3,high:1}}", "is no range"), ("slack=0.5", "slack must be a number >= 1"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            main([*[o for o in own if o.partition("=")[0] != change.partition("=")[0]], change])


def test_live_trainings_are_stopped_at_their_caps() -> None:
    live = LiveProblem(prepared(n=1500, d=10), 0, 64, "exact", None)
    rows = run(live, 1.2, iterations=7, kappa_max_s=20.0, target_error=1e9)
    assert {"solved", "stopped"} <= {row["status"] for row in rows}
    for row in rows:
        assert row["seconds"] <= row["cap_s"] or row["status"] == "stopped"
        assert (row["error"] == row["error"]) == (row["status"] == "solved")
    least = run(LiveProblem(prepared(n=300), 0, 64, "exact", None), None, iterations=2, target_error=0.0)
    assert [row["seconds"] for row in least] == [50.0, 50.0] and least[0]["status"] == capped.UNSOLVED

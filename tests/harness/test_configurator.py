"""The configurator on a made-up solver whose runtimes are known: races, caps, budgets, and what it finds."""

import numpy as np
import pytest

from datasets.errors import BadInput
from harness.configurator.experiment import (
    Intensifier,
    Observation,
    Pair,
    RunHistory,
    RuntimeModel,
    Settings,
    challengers,
    configure,
    draw_pairs,
)
from harness.configurator.solvers import CRASHED, CUT, SOLVED, Option, OptionSpace, SolverRun
from harness.streams import stream

SPACE = OptionSpace(
    [
        Option("method", "slow", ("slow", "fast", "crash")),
        Option("effort", 0.9, low=0.0, high=1.0),
        Option("depth", 100, low=1, high=1000, log=True, integer=True),
    ]
)
FEATURES = np.linspace(0, 1, 8)[:, None]


def seconds(row: np.ndarray, instance: int) -> float:
    """0.05 to 1.3 s: `fast` halves it, effort is best at 0.2, and depth plays no part."""
    return float((0.5 if row[0] == 1 else 1.0) * (0.1 + (row[1] - 0.2) ** 2) * (1 + FEATURES[instance, 0]))


class Target:
    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Pair, float]] = []

    def __call__(self, row: np.ndarray, pair: Pair, cap_s: float) -> SolverRun:
        self.asked.append((row.tobytes(), pair, cap_s))
        if row[0] == 2:
            return SolverRun(0.01, CRASHED, "made up")
        time_s = seconds(row, pair[0])
        return SolverRun(time_s, SOLVED) if time_s <= cap_s else SolverRun(cap_s, CUT)


def row(method: str, effort: float) -> np.ndarray:
    return SPACE.row({"method": method, "effort": effort, "depth": 100})


def racer(slack: float | None, kappa: float = 5.0) -> tuple[Intensifier, Target, RunHistory]:
    target, history = Target(), RunHistory(kappa)
    return Intensifier(target, history, draw_pairs(8, 24, 0), slack, stream(0, "race")), target, history


def test_options_go_to_rows_and_back() -> None:
    rng = stream(0, "test options")
    rows = SPACE.sample(rng, 200)
    for r in rows:
        np.testing.assert_allclose(SPACE.row(SPACE.settings(r)), r, atol=1e-12)
    assert {SPACE.settings(r)["method"] for r in rows} == {"slow", "fast", "crash"}
    assert all(isinstance(SPACE.settings(r)["depth"], int) for r in rows)
    around = SPACE.neighbours(SPACE.default, rng)
    assert ((around != SPACE.default).sum(axis=1) == 1).all()
    assert len({tuple(r) for r in around if r[0] != SPACE.default[0]}) == 2
    with pytest.raises(BadInput, match="options must have different names"):
        OptionSpace([])
    with pytest.raises(ValueError, match="is no default in a range"):
        Option("a", 2.0, low=0.0, high=1.0)


def test_pairs_take_every_instance_before_any_comes_again() -> None:
    pairs = draw_pairs(8, 24, 0)
    assert [sorted(i for i, _ in pairs[k : k + 8]) for k in (0, 8, 16)] == [list(range(8))] * 3
    assert len(set(pairs)) == 24
    assert pairs == draw_pairs(8, 24, 0) != draw_pairs(8, 24, 1)


def test_a_better_challenger_meets_all_of_the_incumbents_pairs_before_it_takes_over() -> None:
    race, target, history = racer(1.0)
    race.start(row("slow", 0.2))
    for effort in (0.8, 0.9, 0.85):  # worse: each gives the incumbent one more run
        assert not race.challenge(row("slow", effort), 100.0)
    assert len(history.pairs(race.incumbent)) == 4
    rivals = set(history.pairs(0))
    assert race.challenge(row("fast", 0.2), 100.0)
    assert set(history.pairs(race.incumbent)) == rivals | {target.asked[-6][1]}
    assert race.spent_s == pytest.approx(sum(e.run.cpu_s for e in history.entries))


@pytest.mark.parametrize("slack", [1.0, 1.3, None])
def test_a_worse_challenger_is_stopped_at_slack_times_the_incumbent(slack: float | None) -> None:
    race, target, history = racer(slack)
    race.start(row("fast", 0.2))
    assert not race.challenge(row("slow", 0.9), 100.0)
    _, pair, cap = target.asked[-1]
    entry = history.entries[-1]
    if slack is None:
        assert (cap, entry.run.status, history.censored(entry)) == (5.0, SOLVED, False)
    else:
        assert cap == pytest.approx(slack * history.total(0, [pair]))
        assert (entry.run.status, history.censored(entry)) == (CUT, True)
    assert race.incumbent == 0


def test_the_cap_is_what_the_total_leaves() -> None:
    race, target, history = racer(1.3)
    race.start(row("slow", 0.2))
    race.challenge(row("slow", 0.9), 100.0)
    race.challenge(row("slow", 0.9999), 100.0)
    first = len(target.asked)
    race.challenge(row("slow", 0.25), 100.0)  # 2.5 % worse on every pair: it is let run, and rejected on the total
    asked = target.asked[first + 1 :]
    done: list[Pair] = []
    challenger = history.number(row("slow", 0.25))
    for k, (_, pair, cap) in enumerate(asked):
        compared = [p for _, p, _ in asked[: 1 if k == 0 else 3]]
        expected = 1.3 * history.total(0, compared) - history.total(challenger, done)
        assert cap == pytest.approx(min(expected, 5.0))
        done.append(pair)
    assert race.incumbent == 0 and not any(history.censored(e) for e in history.entries[-len(asked) :])


def test_a_run_that_reaches_kappa_max_or_crashes_counts_for_kappa_max_and_is_no_bound() -> None:
    history = RunHistory(2.0)
    k = history.number(SPACE.default)
    runs = [SolverRun(0.5, SOLVED), SolverRun(2.0, CUT), SolverRun(0.01, CRASHED), SolverRun(0.7, CUT)]
    for i, (run, cap) in enumerate(zip(runs, (2.0, 2.0, 2.0, 0.7), strict=True)):
        history.add(Observation(k, (i, 0), cap, run))
    _, instance, y, censored = history.data()
    np.testing.assert_allclose(10**y, [0.5, 2.0, 2.0, 0.7])
    assert censored.tolist() == [False, False, False, True] and instance.tolist() == [0, 1, 2, 3]


def test_a_challenger_that_crashes_does_not_take_over_from_one_that_takes_kappa_max() -> None:
    race, _, history = racer(None, kappa=0.05)  # nothing finishes in time
    race.start(row("slow", 0.9))
    assert not race.challenge(row("crash", 0.5), 100.0)
    assert history.total(1, history.pairs(1)) == history.total(0, history.pairs(1))
    assert race.challenge(row("slow", 0.8), 100.0)  # another that takes as long may


def test_the_model_averages_over_instances_and_challengers_are_new_and_alternate() -> None:
    race, _, history = racer(None)
    race.start(SPACE.default)
    for r in SPACE.sample(stream(1, "rows"), 25):
        race.challenge(r, 100.0)
    model = RuntimeModel(SPACE, FEATURES, 0, "sampled")
    model.fit(history)
    mean, sd = model.mean_sd(np.array([row("slow", 0.9), row("fast", 0.2), row("crash", 0.5)]))
    assert mean.argsort().tolist() == [1, 0, 2] and (sd > 0).all()
    found = challengers(model, history, SPACE, race.incumbent, stream(2, "c"))
    assert not any(history.seen(r) for r in found)
    promising, random = (model.mean_sd(np.array(found[k:40:2]))[0].mean() for k in (0, 1))
    assert promising < random - 0.1


def test_no_challenger_is_offered_twice() -> None:
    """Of 48 configurations in all, random ones repeat each other and the promising ones."""
    space = OptionSpace([Option("method", "slow", ("slow", "fast")), Option("effort", 3, low=1, high=24, integer=True)])
    history = RunHistory(5.0)
    race = Intensifier(lambda row, pair, cap_s: SolverRun(0.1 + row[1] / 50, SOLVED), history, draw_pairs(8, 24, 0),
                       None, stream(0, "race"))  # fmt: skip
    race.start(space.default)
    model = RuntimeModel(space, FEATURES, 0, "sampled")
    model.fit(history)
    found = challengers(model, history, space, race.incumbent, stream(2, "c"))
    assert 20 < len(found) == len({r.tobytes() for r in found})


@pytest.mark.parametrize(("slack", "budget_s"), [(1.0, 8.0), (None, 20.0)])
def test_it_finds_good_options_within_its_budget(slack: float | None, budget_s: float) -> None:
    target = Target()
    result = configure(SPACE, FEATURES, target, Settings(budget_s, 5.0, slack, seed=0))
    assert SPACE.settings(result.incumbent)["method"] == "fast"
    assert seconds(result.incumbent, 0) < 0.08 < seconds(SPACE.default, 0)
    spent = sum(e.run.cpu_s for e in result.history.entries)
    assert result.target_s == pytest.approx(spent)
    assert budget_s <= result.target_s + result.model_s < budget_s + 5.0 + 3.0  # the last run, and the last model
    assert result.models > 3 and result.model_s > 0
    censored = [result.history.censored(e) for e in result.history.entries]
    assert any(censored) == (slack is not None)

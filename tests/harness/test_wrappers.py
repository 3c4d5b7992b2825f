"""Disturbed problems: scaled costs, noise and failures, alone and together, around measured rows and formulas."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from datasets.errors import BadInput
from harness.execution import serial
from harness.grid import make_evaluator
from harness.problem import FAILED, OK, Candidates, ContinuousProblem, Evaluation, Problem, stopped
from harness.wrappers import CostsScaled, Failing, Noisy

TABLES = Path(__file__).parents[1] / "golden" / "tables"
WHERE = ("dataset=[phoneme]", "pipeline=[clean]", "seeds=[0,1]", "iterations=20")
DISTURBED = ("evaluator=disturbed", f"evaluator.of.tables={TABLES}")


class Formula(ContinuousProblem):
    """Costs of every order of magnitude, an error for each candidate, and caps that hold exactly."""

    costs_known = True

    def __init__(self) -> None:
        super().__init__("formula", 0, 4000)

    def measure(self, x: Any) -> Evaluation:
        return Evaluation(0.2, float(self.true_cost_s(self.space.to_unit(x[None]))[0]), 0.3, 1.0)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        return stopped(self.evaluate(candidate), cap_s)

    def true_cost_s(self, C: Any) -> Any:
        return 10 ** (4 * C[:, 0] - 2)


def offered(problem: Problem) -> Candidates:
    return problem.candidates(0)


@given(
    factor=st.floats(0.01, 100),
    exponent=st.just(0.0) | st.floats(1e-3, 3),
    cap_s=st.floats(1e-3, 1e3),
    i=st.integers(0, 3999),
)
def test_scaled_costs_are_a_power_of_costs_and_caps_are_of_the_scaled_ones(
    factor: float, exponent: float, cap_s: float, i: int
) -> None:
    problem = CostsScaled(Formula(), factor, exponent)
    points = offered(problem)
    true, scaled = Formula().true_cost_s(points.unit), problem.true_cost_s(points.unit)
    np.testing.assert_allclose(np.log(scaled), math.log(factor) + exponent * np.log(true), atol=1e-9)
    whole = problem.evaluate(int(points.ids[i]))
    assert whole.cost_s == pytest.approx(scaled[i]) and (whole.error, whole.test_error) == (0.2, 0.3)
    assert whole.wall_s == pytest.approx(scaled[i] / true[i])
    if abs(scaled[i] / cap_s - 1) > 1e-6:
        _same(problem.evaluate_capped(int(points.ids[i]), cap_s), stopped(whole, cap_s))


def _same(one: Evaluation, other: Evaluation) -> None:
    assert one.status == other.status and one.cost_s == pytest.approx(other.cost_s)
    np.testing.assert_allclose([one.error, one.test_error], [other.error, other.test_error])  # NaN equals NaN


def test_noise_is_log_normal_and_another_for_each_candidate_and_seed_only() -> None:
    problem, again, other = (Noisy(Formula(), seed, error_noise=0.1, cost_noise=0.5) for seed in (0, 0, 1))
    points = offered(problem)
    true = Formula().true_cost_s(points.unit)
    for each in (again, other):
        offered(each)
    found = [problem.evaluate(int(i)) for i in points.ids]
    z = np.log([[e.error / 0.2, e.cost_s / c] for e, c in zip(found, true, strict=True)]) / [0.1, 0.5]
    assert np.all(np.abs(z.mean(0)) < 4 / math.sqrt(len(z))) and np.all(
        np.abs(z.std(0) - 1) < 4 / math.sqrt(2 * len(z))
    )
    assert abs(np.corrcoef(z.T)[0, 1]) < 4 / math.sqrt(len(z))
    assert {e.test_error for e in found} == {0.3} and not problem.costs_known
    assert Noisy(Formula(), 0, error_noise=0.1).costs_known
    for i in (3, 1):  # whatever was asked before
        assert again.evaluate(int(points.ids[i])) == found[i] != other.evaluate(int(points.ids[i]))
        _same(problem.evaluate_capped(int(points.ids[i]), 1.0), stopped(found[i], 1.0))


def test_a_candidate_fails_always_or_never_at_its_whole_cost() -> None:
    problem = Failing(Formula(), 0, 0.25)
    points = offered(problem)
    found = [problem.evaluate(int(i)) for i in points.ids]
    failed = np.array([e.status == FAILED for e in found])
    assert abs(failed.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / len(failed))
    np.testing.assert_allclose([e.cost_s for e in found], Formula().true_cost_s(points.unit))
    for i in (int(np.flatnonzero(failed)[0]), int(np.flatnonzero(~failed)[0])):
        assert math.isnan(found[i].error) == math.isnan(found[i].test_error) == failed[i]
        _same(problem.evaluate_capped(int(points.ids[i]), found[i].cost_s), found[i])
        assert problem.evaluate_capped(int(points.ids[i]), found[i].cost_s / 2).censored  # stopped before it failed


def _traces(folder: Path, *settings: str) -> Any:
    with serial() as executor:
        return harness.run(harness.compose("+acq=cei", "lam=0.3", *WHERE, *settings), folder, executor)


def test_a_study_on_disturbed_rows(tmp_path: Path) -> None:
    plain = _traces(tmp_path / "plain", f"evaluator.tables={TABLES}")
    same = _traces(tmp_path / "same", *DISTURBED)
    columns = ["seed", "step", "candidate", "error", "cost_s"]
    assert same[columns].equals(plain[columns]) and set(same["evaluator"]) == {"disturbed"}
    settings = ("evaluator.cost_exponent=2", "evaluator.error_noise=0.1", "evaluator.failure_rate=0.3")
    changed = _traces(tmp_path / "changed", *DISTURBED, *settings)
    design = changed["step"] < 5
    assert changed["candidate"][design].equals(plain["candidate"][design])  # of the problem below
    np.testing.assert_allclose(changed["cost_s"][design], plain["cost_s"][design] ** 2)
    assert 0 < (changed["status"] == FAILED).mean() < 0.7
    good = design & (changed["status"] == OK)
    assert (changed["error"][good] != plain["error"][good]).all()
    assert changed["test_error"][good].equals(plain["test_error"][good])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["evaluator.cost_factor=0"], "evaluator.cost_factor must be a number from 1e-100 to 1e100, got 0"),
        (["evaluator.cost_noise=-1"], "evaluator.cost_noise must be a number from 0 to 10, got -1"),
        (["evaluator.failure_rate=2"], "evaluator.failure_rate must be a share from 0 to 1, got 2"),
        (["evaluator.error_noise=0.1", "curves=prefixes"], "show no learning curve: leave curves= out"),
        (["evaluator.cost_noise=0.1", "cost_model=oracle"], "cost_model=oracle needs costs known beforehand"),
        (["evaluator@evaluator.of=lve"], "unknown evaluator 'lve' .did you mean live"),
    ],
)
def test_what_cannot_be_disturbed_so_is_one_line(settings: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        _traces(tmp_path, *DISTURBED, *settings)


def test_live_trainings_are_disturbed_as_well_and_kept_as_they_are_made() -> None:
    around = harness.compose("+acq=cei", "lam=0.3", "evaluator=disturbed", "evaluator@evaluator.of=live")
    evaluator = make_evaluator(around.components["evaluator"])
    assert evaluator.checkpointed and evaluator.seeds_per_block == 1

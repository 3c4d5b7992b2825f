"""Wrappers that change one thing about any problem (replayed, live, a user's own), and compose: costs, noise, failures.

`evaluator=disturbed` puts them around another evaluator's problems: how much must costs differ before a cost-aware
method pays, how much noise or how many failures does it stand? What a wrapper draws depends on seed, problem and
candidate only, so that all methods meet the same noise and the same failures on a table's rows.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from harness.component import complete
from harness.errors import number
from harness.problem import FAILED, OK, Evaluation, Evaluator, Problem, Problems, WrappedProblem, stopped
from harness.streams import stream

_FAR = 700.0  # exp of it is finite, of its negative positive
_MOST = 10.0  # powers beyond it leave what numbers can hold


class _Changed(WrappedProblem):
    """A problem whose evaluations are changed afterwards; it shows no learning curves, which are the other's."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.rounds, self.stoppable = None, False


def _priced(outcome: Evaluation, cost_s: float, cap_s: float = math.inf) -> Evaluation:
    """Return the evaluation at another cost, its wall-clock time in proportion; a rounding error crosses no cap."""
    cost_s = max(cost_s, cap_s) if outcome.censored and cap_s < math.inf else min(cost_s, cap_s)
    return replace(outcome, cost_s=cost_s, wall_s=outcome.wall_s * (cost_s / outcome.cost_s))


class CostsScaled(_Changed):
    """Costs of c seconds become factor c^exponent: 0 makes all equal, 2 doubles how far they lie apart in log c."""

    def __init__(self, problem: Problem, factor: float = 1.0, exponent: float = 1.0) -> None:
        super().__init__(problem)
        self._factor, self._exponent = factor, exponent

    def _scaled(self, cost_s: float) -> float:
        return float(self._factor * cost_s**self._exponent)  # not by NumPy, whose powers depend on the processor

    def evaluate(self, candidate: int) -> Evaluation:
        """Return the problem's answer at its new cost."""
        outcome = super().evaluate(candidate)
        return _priced(outcome, self._scaled(outcome.cost_s))

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Return the problem's answer under the cap that becomes `cap_s`; where none does, the whole one's."""
        log_cap = math.log(cap_s / self._factor) / self._exponent if self._exponent else math.inf
        if abs(log_cap) > _FAR:
            return stopped(self.evaluate(candidate), cap_s)
        outcome = super().evaluate_capped(candidate, math.exp(log_cap))
        return _priced(outcome, self._scaled(outcome.cost_s), cap_s)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the new costs in seconds."""
        return np.array([self._scaled(cost_s) for cost_s in super().true_cost_s(C).tolist()])


class Noisy(_Changed):
    """Errors and costs are multiplied by exp(sd z), z standard normal, another for each candidate, error and cost.

    Test errors stay as they are, so that they tell how good a choice under noise was. error_noise, cost_noise: sds.
    """

    def __init__(self, problem: Problem, seed: int, error_noise: float = 0.0, cost_noise: float = 0.0) -> None:
        super().__init__(problem)
        self._seed, self._sds = seed, (error_noise, cost_noise)
        self.costs_known = self.costs_known and not cost_noise

    def _factors(self, candidate: int) -> tuple[float, float]:
        z = stream(self._seed, "noise", self.name, str(candidate)).standard_normal(2)
        return math.exp(self._sds[0] * z[0]), math.exp(self._sds[1] * z[1])

    def evaluate(self, candidate: int) -> Evaluation:
        """Return the problem's answer with noise."""
        outcome, (error, cost) = super().evaluate(candidate), self._factors(candidate)
        return _priced(replace(outcome, error=outcome.error * error), outcome.cost_s * cost)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Return the problem's answer with noise, under the cap that the noise makes `cap_s`."""
        error, cost = self._factors(candidate)
        outcome = super().evaluate_capped(candidate, cap_s / cost)
        return _priced(replace(outcome, error=outcome.error * error), outcome.cost_s * cost, cap_s)


class Failing(_Changed):
    """Each candidate fails with probability `rate`, whenever it is evaluated, and costs what it would have cost."""

    def __init__(self, problem: Problem, seed: int, rate: float) -> None:
        super().__init__(problem)
        self._seed, self._rate = seed, rate

    def _failed(self, candidate: int, outcome: Evaluation) -> Evaluation:
        if outcome.status != OK or stream(self._seed, "failures", self.name, str(candidate)).random() >= self._rate:
            return outcome
        return replace(outcome, error=math.nan, test_error=math.nan, status=FAILED)

    def evaluate(self, candidate: int) -> Evaluation:
        """Return the problem's answer, or a failure."""
        return self._failed(candidate, super().evaluate(candidate))

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Return the problem's answer under a cap, or a failure before it."""
        return self._failed(candidate, super().evaluate_capped(candidate, cap_s))


@dataclass(frozen=True)
class Disturbed(Evaluator):
    """The evaluator `disturbed`: the problems of another, `of`, with other costs, noise or failures.

    cost_factor, cost_exponent: of `CostsScaled`; error_noise, cost_noise: sds of `Noisy`; failure_rate: of `Failing`.
    """

    of: Evaluator
    cost_factor: float = 1.0
    cost_exponent: float = 1.0
    error_noise: float = 0.0
    cost_noise: float = 0.0
    failure_rate: float = 0.0

    def __post_init__(self) -> None:
        complete(self.of, Evaluator)
        number("evaluator.cost_factor", self.cost_factor, "a number from 1e-100 to 1e100", 1e-100, 1e100)
        for name in ("cost_exponent", "error_noise", "cost_noise"):
            number(f"evaluator.{name}", getattr(self, name), f"a number from 0 to {_MOST:g}", 0.0, _MOST)
        number("evaluator.failure_rate", self.failure_rate, "a share from 0 to 1", 0.0, 1.0)
        for name in ("seeds_per_block", "checkpointed"):
            object.__setattr__(self, name, getattr(self.of, name))

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the other evaluator's: what is changed of its problems stands in the spec."""
        return self.of.fingerprint(dataset, pipeline)

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> Problem:
        """Return the problem of one run, in the wrappers that change something."""
        problem = self.of.open(dataset, pipeline, seed)
        if (self.cost_factor, self.cost_exponent) != (1, 1):
            problem = CostsScaled(problem, self.cost_factor, self.cost_exponent)
        if self.error_noise or self.cost_noise:
            problem = Noisy(problem, seed, self.error_noise, self.cost_noise)
        return Failing(problem, seed, self.failure_rate) if self.failure_rate else problem

    def check_design(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], n: int) -> None:
        """Ask the other evaluator."""
        self.of.check_design(dataset, pipeline, n)

    def prepare(self, problems: Problems, executor: Callable[[], Executor]) -> None:
        """Let the other evaluator prepare its problems."""
        self.of.prepare(problems, executor)

"""Learning curves: what an evaluation of r rounds shows of its prefixes at no cost, and what a run makes of that.

`LearningCurves` (`curves=...`) chooses the prefixes that the surrogate and the cost model learn from, and says which
trainings go on where they ended and when one is stopped; `CurvedProblem` is a problem whose evaluations count with the
best of their prefixes. Sources: Swersky, Snoek and Adams 2014, "Freeze-thaw Bayesian optimization" (stop and continue);
Domhan, Springenberg and Hutter 2015 (stopping by extrapolation).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from harness.acquisitions.ei import log_ei
from harness.arrays import CandidatePoints, PerCandidate, Points, point_keys
from harness.component import ProblemAware
from harness.errors import BadInput, flag, listed, number
from harness.normal import exp, log
from harness.problem import Curve, Evaluation, Problem, Stop, WrappedProblem
from harness.space import SearchSpace
from harness.surrogates import Posterior

Point = Float[np.ndarray, " d"]
_LEAST_LEFT = 0.02  # share of its cost that going on with a training is taken to cost at least


class Rounds:
    """The dimension of a search space along which trainings are prefixes of each other."""

    def __init__(self, space: SearchSpace, name: str) -> None:
        self._axis = space.names.index(name)
        self._alone = SearchSpace((space.parameters[self._axis],))

    def at(self, x: Point, rounds: Sequence[int]) -> Points:
        """Return the prefixes of `x` of so many rounds, as points of the unit cube."""
        points = np.tile(np.asarray(x, dtype=np.float64), (len(rounds), 1))
        points[:, self._axis] = self._alone.to_unit(np.array(rounds, dtype=np.float64)[:, None])[:, 0]
        return points

    def best(self, x: Point, curve: Curve) -> Point:
        """Return the prefix of `x` at which its curve is lowest."""
        return np.asarray(self.at(x, [curve.rounds[curve.best]])[0])

    def of(self, x: Point) -> int:
        """Return the number of rounds of `x`."""
        return int(self._alone.from_unit(np.asarray(x)[None, [self._axis]])[0, 0])

    def configuration(self, C: CandidatePoints) -> Float[np.ndarray, "m d-1"]:
        """Return the other coordinates: all prefixes of a training have the same."""
        return np.ascontiguousarray(np.delete(C, self._axis, axis=1))


class LearningCurves(ProblemAware):
    """Which prefixes of an evaluation are observations, beside it and its best one, and whether trainings go on.

    divisors: of r rounds the surrogate and the cost model learn from the shown prefixes nearest to r / divisor, by
    ratio. continues: a training of more rounds of a configuration goes on where the last one ended, and candidates are
    priced so: with c the cost model's prediction and r' the rounds paid for, at max(c(r) - c(r'), 0.02 c(r)).
    stop_below, null for never: a training is stopped where its expected improvement at its full length, by the
    posterior given its curve so far and with the best of that as the incumbent, has fallen below this share of what it
    was when it was chosen; needs continues and a surrogate with joint predictions.
    """

    def __init__(
        self, divisors: Sequence[float] = (2, 6, 20), continues: bool = False, stop_below: float | None = None
    ) -> None:
        found = listed("curves.divisors", divisors)
        self._divisors = [
            number("curves.divisors", value, "a list of numbers > 1", math.nextafter(1, 2)) for value in found
        ]
        self.continues = flag("curves.continues", continues)
        self.stop_below = None
        if stop_below is not None:
            self.stop_below = number(
                "curves.stop_below", stop_below, "a share in (0, 1), or null", math.ulp(0.0), math.nextafter(1.0, 0.0)
            )
            if not self.continues:
                raise BadInput("curves.stop_below needs curves.continues=true: what is stopped may pay later")

    def start(self, problem: Problem) -> None:
        """Raise BadInput for a problem whose evaluations show no curve, or cannot go on where that is wanted."""
        if problem.rounds is None:
            raise BadInput(f"curves: evaluations of {problem.name} show no learning curve: leave curves= out")
        if self.continues and not problem.stoppable:
            raise BadInput(
                f"curves: trainings of {problem.name} cannot be stopped and continued: evaluator=replay, or "
                "evaluator=live without limits and with tree_method=exact, or curves=prefixes"
            )

    def shown_prefixes(self, curve: Curve) -> list[int]:
        """Return the indices of the prefixes that are observations, ascending; the last is not among them."""
        last = len(curve.rounds) - 1

        def ratio(i: int, target: float) -> float:
            return max(curve.rounds[i] / target, target / curve.rounds[i])

        targets = [max(1.0, curve.rounds[last] / divisor) for divisor in self._divisors]
        nearest = {min(range(last + 1), key=lambda i, t=target: ratio(i, t)) for target in targets}  # type: ignore[misc]
        return sorted((nearest | {curve.best}) - {last})


class CurvedProblem(WrappedProblem):
    """A problem whose evaluations have the errors of their best prefix, and show their curve.

    stop: as for `Problem.evaluate_with_curve`, None for trainings that neither stop nor go on.
    """

    def __init__(self, problem: Problem, stop: Stop | None) -> None:
        super().__init__(problem)
        self._stop = stop

    def evaluate(self, candidate: int) -> Evaluation:
        """Evaluate the candidate; where it succeeds, with the error and the test error of its best prefix."""
        found = self._problem.evaluate_with_curve(candidate, self._stop)
        if found.curve is None:
            return found
        best = found.curve.best
        return replace(found, error=found.curve.error[best], test_error=found.curve.test_error[best])


# Going on with a training: what that costs, and what it may gain.


class Paid:
    """The longest training of each configuration so far."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._longest: dict[bytes, Point] = {}

    def add(self, x: Point) -> None:
        """Note a training of as many rounds as `x` has."""
        key = self._rounds.configuration(x[None]).tobytes()
        self._longest[key] = max(self._longest.get(key, x), x, key=self._rounds.of)

    def left(
        self, C: CandidatePoints, log_cost: PerCandidate, predict: Callable[[Points], PerCandidate]
    ) -> PerCandidate:
        """Return the log of what is left to pay of each candidate: log max(c - c', 0.02 c), c' of what is paid.

        log_cost: log c; predict: log cost of points, by the same model, so that its errors in level cancel.
        """
        if not self._longest:
            return log_cost
        paid = np.array(list(self._longest.values()))
        keys = point_keys(self._rounds.configuration(paid))
        order = np.argsort(keys, kind="stable")
        wanted = point_keys(self._rounds.configuration(C))
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        goes_on = np.flatnonzero(keys[at] == wanted)
        out = log_cost.copy()
        if len(goes_on):
            share = 1.0 - exp(np.minimum(predict(paid)[at[goes_on]] - log_cost[goes_on], 0.0))
            out[goes_on] += log(np.maximum(share, _LEAST_LEFT))
        return out


def log_improvement(posterior: Posterior, incumbent: float, x: Point, seen: Points, y: Sequence[float]) -> float:
    """Return log EI at `x` below `incumbent`, given observations `y` at `seen` besides the posterior's.

    Raises ValueError for a posterior without joint predictions.
    """
    joint = posterior.joint(np.concatenate([x[None], seen]))
    for i, value in enumerate(y, 1):
        joint = joint.condition(i, value)
    gap = np.array([incumbent - joint.mean[0]])
    sd = np.sqrt(np.maximum(joint.covariance[:1, 0], 0.0))
    return float(log_ei(gap, sd)[0])

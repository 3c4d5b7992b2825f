"""What Optuna's trials have reported of their trainings, by `trial.report(value, k)` after k rounds, as curves."""

import copy
import math

from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from harness.errors import BadInput
from harness.problem import LARGEST, Curve

STOPPED = "cost_aware_bo:stopped"
"""The system attribute of a trial that `CostAwarePruner` has ended: {the parameter that counts rounds: how many}."""

_RATIO = 4 / 3  # of the rounds of which a curve is kept, and looked at


def interval(rounds: int) -> int:
    """Return which of the intervals, each a third longer than the last, so many rounds are in."""
    return int(math.log(rounds) / math.log(_RATIO))


def usable(value: float) -> bool:
    """Return whether a value is one that models learn from."""
    return abs(value) <= LARGEST


def least_rounds(distribution: BaseDistribution, rounds: str) -> int:
    """Return where the range of the parameter `rounds` begins; raises BadInput for one that counts no rounds."""
    if not isinstance(distribution, IntDistribution):
        raise BadInput(f"rounds={rounds!r} must be an integer parameter, it is a {type(distribution).__name__}")
    return distribution.low


def check_reports(trial: FrozenTrial, rounds: str) -> None:
    """Raise BadInput for a parameter that counts no rounds, and for reports of rounds that the training has not."""
    least_rounds(trial.distributions[rounds], rounds)
    most = trial.params[rounds]
    beyond = [k for k in trial.intermediate_values if not 1 <= k <= most]
    if beyond:
        raise BadInput(f"trial {trial.number} has {most} rounds ({rounds}): report(value, k) takes k = 1 to {most}, "
                       f"got {beyond[0]}")  # fmt: skip


def was_stopped(trial: FrozenTrial) -> bool:
    """Return whether the training ended when `CostAwarePruner` said so, and not later."""
    at = trial.system_attrs.get(STOPPED)
    return at is not None and bool(trial.intermediate_values) and max(trial.intermediate_values) in at.values()


def curve_of(trial: FrozenTrial, rounds: str, sign: float, cost: float, least: int) -> Curve | None:
    """Return the curve of a training, thinned, its errors being `sign` times the values; None without a usable one.

    least: rounds, below which nothing is of use. cost: of the whole training, of which each round has the same share.
    A trial that ran to its end, but has not reported that, has its value there. Where the last value is no number, so
    is that of all its rounds. Raises BadInput as `check_reports` does.
    """
    if rounds not in trial.distributions or not trial.intermediate_values:
        return None
    check_reports(trial, rounds)
    reports, last, most = trial.intermediate_values, max(trial.intermediate_values), trial.params[rounds]
    seen = {k: sign * value for k, value in sorted(reports.items()) if k >= least and usable(value)}
    if trial.state == TrialState.COMPLETE and last < most and not was_stopped(trial):
        last = most
        reports = {most: float(trial.values[0])}
        seen |= {most: sign * reports[most]} if usable(reports[most]) else {}
    if not seen:
        return None
    kept = {*{interval(k): k for k in reversed(seen)}.values(), max(seen), min(seen, key=lambda k: (seen[k], k))}
    if last not in seen and last >= least:  # what longer ones would have come to as well
        kept, seen = {*kept, most}, {**seen, most: math.nan}
    at = tuple(sorted(kept))
    return Curve(at, tuple(seen[k] for k in at), (math.nan,) * len(at), tuple(cost * k / last for k in at))


def as_trained(trial: FrozenTrial, sign: float) -> FrozenTrial:
    """Return the trial; one that was stopped with the rounds and the value that were its best, for its returned one.

    sign: of values that makes them errors.
    """
    if not was_stopped(trial):
        return trial
    rounds, found = next(iter(trial.system_attrs[STOPPED])), copy.copy(trial)
    good = {k: value for k, value in trial.intermediate_values.items() if usable(value)}
    if good:
        best = min(good, key=lambda k: (sign * good[k], k))
        found.params, found.values = {**trial.params, rounds: best}, [good[best]]
    return found

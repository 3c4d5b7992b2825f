"""A real sequence of evaluations, as an optimizer met them, and what was on offer at each step."""

from dataclasses import dataclass

import numpy as np

from harness.acquisitions.cost_rules import Contextual
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.optimizer import Optimizer
from harness.problem import Evaluation
from harness.surrogates.gp import GaussianProcess
from tabular_cache.replay import Replay, ReplayProblem

PROBLEM = ("abalone", "clean")
CANDIDATES = 5000
FEATURES = ("n_estimators", "max_depth", "subsample")


@dataclass(frozen=True)
class Sequence:
    """n points with errors and costs, and the candidates of every step."""

    X: np.ndarray
    y: np.ndarray
    cost_s: np.ndarray
    candidates: list[np.ndarray]


def problem(seed: int = 0, name: tuple[str, str] = PROBLEM) -> ReplayProblem:
    """Return a replayed problem dense enough to offer CANDIDATES rows at every step."""
    return Replay(max_candidates=CANDIDATES).open({"name": name[0]}, {"name": name[1]}, seed)


def optimizer(iterations: int = 100) -> Optimizer:
    """Return the default optimizer with contextual EI."""
    return Optimizer(
        GaussianProcess(), LowVariance(FEATURES), ExpectedImprovement(), Contextual(0.1), iterations=iterations
    )


def sequence(n: int, seed: int = 0) -> Sequence:
    """Return the first n evaluations of a run on a measured table."""
    source, method = problem(seed), optimizer(n)
    X: list[np.ndarray] = []
    outcomes: list[Evaluation] = []
    candidates: list[np.ndarray] = []
    design = source.initial(5)
    offers = [(design, i) for i in range(5)]
    for step in range(n):
        offered, i = offers[step] if step < 5 else (source.candidates(step), -1)
        if i < 0:
            i = method.ask(offered.unit).index
        outcome = source.evaluate(int(offered.ids[i]))
        method.tell(offered.unit[i], outcome)
        X.append(offered.unit[i])
        outcomes.append(outcome)
        candidates.append(offered.unit)
    y, cost = np.array([e.error for e in outcomes]), np.array([e.cost_s for e in outcomes])
    return Sequence(np.array(X), y, cost, [*candidates, source.candidates(n).unit])

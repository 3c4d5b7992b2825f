"""The optimizer: tell it evaluations, ask it which candidate to evaluate next. No I/O, no global randomness.

The surrogate sees errors on the scale that `error_scales` makes of them, and so do utilities. Failed evaluations: it
sees the worst error observed so far in their place, so that the search moves away from them; the cost model learns
their cost like any other. A time-out's cost is only a lower bound of the true one, and the cost model learns it as such
(`cost_models.censored`).
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from harness.acquisitions.alpha import effective_alpha
from harness.acquisitions.belief import Belief, History
from harness.acquisitions.choose import choose
from harness.acquisitions.protocol import CostRule, DemandingUtility, PowerRule, Setup, Utility
from harness.compile_cache import clock_s
from harness.cost_models import censored, statistics
from harness.cost_models.protocol import CostModel, ProblemAware
from harness.error_scales import RAW, rescale
from harness.error_scales import check as check_scale
from harness.errors import BadInput
from harness.problem import Evaluation, Problem
from harness.screening import FEWEST, MANY, screened, shortlist
from harness.shapes import check_candidates, check_point, one_each
from harness.surrogates.protocol import BoundedPosterior, DrawingSurrogate, RecallingPosterior, Surrogate

_LARGEST = 700.0  # exp of it is finite, of its negative positive


@dataclass(frozen=True)
class Proposal:
    """The chosen candidate: index, log utility, predicted cost (exp of mean log cost), effective alpha.

    log_ei: of errors on the scale that the surrogate sees.
    predicted_cost_s: finite and positive however far a cost model extrapolates.
    fit_ms, propose_ms: milliseconds spent on fitting both models and on scoring and choosing.
    """

    index: int
    log_ei: float
    predicted_cost_s: float
    effective_alpha: float
    fit_ms: float
    propose_ms: float


class Optimizer:
    """One run of Bayesian optimization: surrogate, cost model, utility and cost rule serve this run only.

    iterations: evaluations of the whole run, `n_initial` of the initial design included. tau: the budget in
    seconds, or None. cost_statistic: what the rule takes for the cost, one of `cost_models.statistics`. seed: of the
    random draws of utility and surrogate, if they make any. censored_costs: what becomes of costs that are only lower
    bounds, one of `cost_models.censored`. error_scale: what the surrogate sees of errors, one of `error_scales`.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        cost_model: CostModel,
        utility: Utility,
        rule: CostRule,
        *,
        iterations: int,
        n_initial: int = 5,
        tau: float | None = None,
        cost_statistic: str = statistics.DEFAULT,
        seed: int = 0,
        censored_costs: str = censored.IMPUTED,
        error_scale: str = RAW,
    ) -> None:
        for name, count in (("iterations", iterations), ("n_initial", n_initial)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise BadInput(f"{name} must be a whole number >= 1, got {count}")
        if tau is not None and not (np.isfinite(tau) and tau > 0):
            raise BadInput(f"tau must be a number of seconds > 0, or null, got {tau}")
        self._surrogate, self._cost_model, self._utility, self._rule = surrogate, cost_model, utility, rule
        self._statistic, self._treatment = statistics.check(cost_statistic), censored.check(censored_costs)
        self._scale = check_scale(error_scale)
        if cost_statistic == "expected_inverse" and not isinstance(rule, PowerRule):
            raise BadInput(
                "cost_statistic=expected_inverse needs a rule that divides by a power of the cost, such as eipu"
            )
        if isinstance(utility, DemandingUtility):
            utility.check(Setup(surrogate, cost_model, rule, tau))
        self._seed = seed
        self._serve("")
        self._screened = screened(utility, rule)
        self._iterations, self._n_initial, self._tau = iterations, n_initial, tau
        self._n, self._points, self._outcomes = 0, np.empty((0, 0)), np.empty((0, 3))  # error, cost, censored
        self._asked: tuple[History, Float[np.ndarray, " n"]] | None = None

    def start(self, problem: Problem) -> None:
        """Show the problem to a cost model that asks for it; raises BadInput if that cannot serve it."""
        self._serve(problem.name)
        if isinstance(self._cost_model, ProblemAware):
            self._cost_model.start(problem)

    def _serve(self, problem: str) -> None:
        self._problem = problem
        if isinstance(self._surrogate, DrawingSurrogate):
            self._surrogate.draw_for(self._seed, problem)

    def tell(self, x: Float[np.ndarray, " d"], evaluation: Evaluation) -> None:
        """Record the evaluation of unit-cube point `x`; raises ValueError for what is no point of the cube."""
        x = np.array(x, dtype=np.float64)
        check_point(x, self._points.shape[1] if self._n else None)
        n = self._n
        if n == len(self._points):
            self._points = np.concatenate([self._points.reshape(n, len(x)), np.empty((n + 16, len(x)))])
            self._outcomes = np.concatenate([self._outcomes, np.empty((n + 16, 3))])
        self._points[n] = x
        self._outcomes[n] = evaluation.error, evaluation.cost_s, evaluation.censored
        self._n += 1

    def ask(self, candidates: Float[np.ndarray, "m d"]) -> Proposal:
        """Choose among `candidates`, points of the unit cube.

        Raises ValueError before the first `tell`, without candidates and for what are no such points; BadInput for a
        utility or rule that does not give a number to each, and for errors that the scale does not have.
        """
        if not self._n:
            raise ValueError("tell the initial design before asking")
        check_candidates(candidates, self._points.shape[1])
        began = clock_s()
        X, (error, cost_s, stopped) = self._points[: self._n].copy(), self._outcomes[: self._n].T.copy()
        y = fill_failures(rescale(self._scale, error))
        posterior = self._surrogate.fit(X, y)
        censored.learn(self._cost_model, X, cost_s, stopped > 0, self._treatment)
        fitted = clock_s()
        self._asked = History(X, y, posterior), cost_s
        index, belief, mean_log_cost = self._belief(candidates, *self._asked)
        log_value = one_each(self._utility, "log_value", self._utility.log_value(belief), len(index))
        score = one_each(self._rule, "score", self._rule.score(log_value, belief.log_cost, belief), len(index))
        i = choose(score, log_value, belief.log_cost)
        alpha = effective_alpha(i, log_value, belief.log_cost)
        done = clock_s()
        return Proposal(
            index=int(index[i]),
            log_ei=float(log_value[i]),
            predicted_cost_s=math.exp(min(max(mean_log_cost[i], -_LARGEST), _LARGEST)),
            effective_alpha=alpha,
            fit_ms=1e3 * (fitted - began),
            propose_ms=1e3 * (done - fitted),
        )

    def outlook(self, points: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return log utility and log cost of any points, by the models as the last `ask` fitted them.

        It changes nothing. Raises ValueError before the first `ask`.
        """
        if self._asked is None:
            raise ValueError("ask before looking at what the models say")
        _, belief, _ = self._belief(points, *self._asked, screen=False)
        return copy.copy(self._utility).log_value(belief), belief.log_cost  # one that keeps a state keeps it

    def _belief(
        self, C: Float[np.ndarray, "m d"], history: History, cost_s: Float[np.ndarray, " n"], screen: bool = True
    ) -> tuple[Int[np.ndarray, " k"], Belief, Float[np.ndarray, " k"]]:
        """Return the candidates that the choice can fall on, the belief on them, and their mean log cost."""
        posterior = history.posterior
        mean_log_cost, log_cost_sd = self._cost_model.predict(C)
        _check_costs(self._cost_model, mean_log_cost, log_cost_sd, len(C))
        state: dict[str, Any] = {
            "incumbent": float(history.y.min()),
            "step": len(history.y),
            "iterations": self._iterations,
            "n_initial": self._n_initial,
            "spent": float(cost_s.sum()),
            "initial_cost": float(cost_s[: self._n_initial].sum()),
            "tau": self._tau,
            "history": history,
            "seed": self._seed,
            "problem": self._problem,
        }

        log_cost = self._log_cost(mean_log_cost, log_cost_sd, state)

        def believe(where: Any, mean: np.ndarray, sd: np.ndarray, points: np.ndarray | None = None) -> Belief:
            costs = {"log_cost": log_cost[where], "log_cost_sd": log_cost_sd[where]}
            costs["mean_log_cost"] = mean_log_cost[where]
            return Belief(mean=mean, sd=sd, points=C[where] if points is None else points, **costs, **state)

        kept = np.arange(len(C))
        if screen and self._screened is not None and len(C) >= FEWEST and isinstance(posterior, BoundedPosterior):
            kept = shortlist(self._screened, posterior, C, log_cost, believe, rough=len(history.y) >= MANY)
        offered = C[kept]
        belief = believe(kept, *posterior.mean_sd(offered), offered)
        if screen and isinstance(posterior, RecallingPosterior):
            posterior.remember(offered)
        return kept, belief, mean_log_cost[kept]

    def _log_cost(
        self, mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], state: dict[str, Any]
    ) -> Float[np.ndarray, " m"]:
        exponent, none = None, np.empty(0)
        if self._statistic == "expected_inverse" and isinstance(self._rule, PowerRule):
            exponent = self._rule.exponent(Belief(mean=none, sd=none, log_cost=none, log_cost_sd=none, **state))
        return statistics.log_statistic(self._statistic, mean, sd, exponent)


def _check_costs(model: CostModel, mean: np.ndarray, sd: np.ndarray, m: int) -> None:
    """Raise ValueError, naming the cost model, unless it gave a number of each for every candidate."""
    if not np.shape(mean) == np.shape(sd) == (m,):
        got = f"{np.shape(mean)} and {np.shape(sd)}"
        raise ValueError(f"{type(model).__name__} must predict mean and sd of {m} log costs each, got shapes {got}")
    for name, values in (("mean", mean), ("sd", sd)):
        if np.isnan(values).any():
            raise ValueError(f"{type(model).__name__}: the {name} of the log cost is NaN at candidate "
                             f"{int(np.isnan(values).argmax())}")  # fmt: skip


def fill_failures(error: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Put the worst error observed in place of NaN; all 0 while nothing has succeeded."""
    failed = np.isnan(error)
    if not failed.any():
        return error
    return np.where(failed, 0.0 if failed.all() else np.max(error, where=~failed, initial=-np.inf), error)

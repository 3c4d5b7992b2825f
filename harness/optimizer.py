"""The optimizer: tell it evaluations, ask it which candidate to evaluate next. No I/O, no global randomness.

The surrogate sees errors on the scale `error_scale`, and so do utilities. Failed evaluations: it sees the worst error
observed so far in their place, so that the search moves away from them; the cost model learns their cost like any
other. A time-out's cost is only a lower bound of the true one, and the cost model learns it as such
(`cost_models.fit_with_bounds`).
"""

import copy
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from harness import cost_models
from harness.acquisitions import CostRule, FittedData, Setup, StepContext, Utility, choose
from harness.acquisitions.cost_rules import effective_alpha
from harness.acquisitions.designs import Design, DesignedProblem
from harness.acquisitions.stopping import Price
from harness.arrays import CandidatePoints, Indices, MeanSd, PerCandidate, Points, Vector
from harness.compile_cache import clock_s
from harness.component import complete
from harness.cost_models import CostModel
from harness.curves import CurvedProblem, LearningCurves, Paid, Rounds, log_improvement
from harness.error_scale import RAW, check_scale, rescale
from harness.errors import BadInput, number, unknown, whole
from harness.more_candidates import ExtendedProblem, MoreCandidates
from harness.problem import Curve, Evaluation, Problem
from harness.screening import FEWEST, MANY, Offer, shortlist
from harness.space import SearchSpace
from harness.surrogates import Hyperparameters, Posterior, Surrogate

_LARGEST = 700.0  # exp of it is finite, of its negative positive


@dataclass(frozen=True)
class Proposal:
    """The chosen candidate: index, log utility, predicted cost (exp of mean log cost), effective alpha.

    log_ei: of errors on the scale that the surrogate sees.
    predicted_cost_s: finite and positive however far a cost model extrapolates.
    effective_alpha, effective_alpha_high: both ends of the alphas that would have chosen it.
    hyperparameters: of the surrogate as fitted, None for one that has none of a Gaussian process.
    The models' numbers are NaN, and there are no hyperparameters, where the rule uses no models.
    fit_ms, propose_ms: milliseconds spent on fitting both models and on scoring and choosing.
    stop: whether the run is to end instead (`stopping`).
    """

    index: int
    log_ei: float
    predicted_cost_s: float
    effective_alpha: float
    effective_alpha_high: float
    hyperparameters: Hyperparameters | None
    fit_ms: float
    propose_ms: float
    stop: bool = False


class Optimizer:
    """One run of Bayesian optimization: surrogate, cost model, utility and cost rule serve this run only.

    iterations: evaluations of the whole run, `n_initial` of the initial design included. tau: the budget in
    seconds, or None. cost_statistic: what the rule takes for the cost, one of `cost_models.STATISTICS`. seed: of the
    random draws of utility and surrogate, if they make any. censored_costs: what becomes of costs that are only lower
    bounds, one of `cost_models.TREATMENTS`. error_scale: what the surrogate sees of errors, one of `SCALES`. design:
    of the points that a run begins with, None for the problem's own. curves: what is made of learning curves; stopping:
    when a run ends early; candidates: what is on offer besides the problem's own; None for nothing of the kind.
    """

    _stopping_ms = 0.0

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
        cost_statistic: str = cost_models.EXP_MEAN,
        seed: int = 0,
        censored_costs: str = cost_models.IMPUTED,
        error_scale: str = RAW,
        design: Design | None = None,
        curves: LearningCurves | None = None,
        stopping: Price | None = None,
        candidates: MoreCandidates | None = None,
    ) -> None:
        self._design = None if design is None else complete(design, Design)
        self._curves = None if curves is None else complete(curves, LearningCurves)
        self._stopping = None if stopping is None else complete(stopping, Price)
        self._more = None if candidates is None else complete(candidates, MoreCandidates)
        self._iterations, self._n_initial = whole("iterations", iterations, 1), whole("n_initial", n_initial, 1)
        self._tau = None if tau is None else number("tau", tau, "a number of seconds > 0, or null", math.ulp(0.0))
        self._surrogate, self._cost_model = complete(surrogate, Surrogate), complete(cost_model, CostModel)
        self._utility, self._rule = complete(utility, Utility), complete(rule, CostRule)
        self._statistic = cost_models.check_statistic(cost_statistic)
        self._treatment, self._scale = cost_models.check_treatment(censored_costs), check_scale(error_scale)
        if cost_statistic == cost_models.EXPECTED_INVERSE and type(self._rule).exponent is CostRule.exponent:
            raise BadInput("cost_statistic=expected_inverse needs a rule that divides by a power of the cost, as eipu")
        self._utility.check(Setup(self._surrogate, self._cost_model, self._rule, tau))
        self._seed = whole("seed", seed, 0)
        stops = self._curves is not None and self._curves.stop_below is not None
        if stops and not (self._surrogate.joint and error_scale == RAW):
            raise BadInput("curves.stop_below needs a surrogate with joint predictions, such as gp, and raw errors")
        for name, part in {"stopping": stopping, "candidates": candidates}.items():
            if part is not None and not self._rule.uses_models:
                raise BadInput(f"{name} needs models, and {type(self._rule).__name__} uses none: leave {name}= out")
        self._serve("")
        self._n, self._points, self._outcomes = 0, np.empty((0, 0)), np.empty((0, 3))  # error, cost, censored
        self._observed = set[bytes]()  # those of the same points whose errors are known
        self._charged = array("d")  # seconds, of each evaluation: observations are of their prefixes as well
        self._rounds: Rounds | None = None
        self._paid: Paid | None = None
        self._chosen: tuple[Vector, float, float] | None = None  # a point, its log EI, the incumbent then
        self._table: Points | None = None  # whose rows were on offer
        self._asked: tuple[FittedData, Float[np.ndarray, " e"]] | None = None
        self._seen: tuple[Indices, Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None = None  # `seen_front`

    def start(self, problem: Problem) -> Problem:
        """Show the problem to the components, and return it as it is to be run, beginning with its own design, if any.

        Raises BadInput if a component cannot serve it.
        """
        self._serve(problem.name)
        self._surrogate.start(problem)
        self._cost_model.start(problem)
        if self._curves is not None:
            self._curves.start(problem)
            assert problem.rounds is not None
            self.watch_curves(problem.space, problem.rounds)
            problem = CurvedProblem(problem, self.hopeless if self._curves.continues else None)
        problem = problem if self._design is None else DesignedProblem(problem, self._design)
        return problem if self._more is None else ExtendedProblem(problem, self._more, self._seed)

    def watch_curves(self, space: SearchSpace, rounds: str, resumable: bool = True) -> None:
        """Have `tell` take learning curves along the parameter `rounds`; `start` does it for a problem.

        resumable: whether a training can go on where it ended: then one of more rounds costs what is added, and shows
        again what is known. Raises BadInput for what is no integer parameter of the space.
        """
        if rounds not in space.names:
            raise unknown("parameter", rounds, space.names)
        if not space.parameters[space.names.index(rounds)].integer:
            raise BadInput(f"rounds are counted, so {rounds} must be an integer parameter")
        self._rounds = Rounds(space, rounds)
        self._paid = Paid(self._rounds) if resumable else None

    def _serve(self, problem: str) -> None:
        self._problem = problem
        self._surrogate.draw_for(self._seed, problem)

    def tell(self, x: Float[np.ndarray, " d"], evaluation: Evaluation) -> None:
        """Record the evaluation of unit-cube point `x`, and with it some of its curve, if it has one.

        Raises BadInput for what is no point of the cube, or no `Evaluation`, and ValueError for a curve where no
        problem was started or none asked for.
        """
        if not isinstance(evaluation, Evaluation):
            raise BadInput(
                f"tell needs an Evaluation(error, cost_s=..., test_error=..., wall_s=...), got {evaluation!r}"
            )
        try:
            x = np.array(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"the point must be an array of numbers, got {x!r}") from None
        d = self._points.shape[1] if self._n else None
        if x.ndim != 1 or (self._n and len(x) != d):
            raise BadInput(f"the point must have the shape ({d or 'd'},), got {x.shape}")
        if not all(0.0 <= value <= 1.0 for value in x.tolist()):
            raise BadInput(f"the point must lie in the unit cube (SearchSpace.to_unit maps native values), got {x}")
        if evaluation.curve is None:
            self._observe(x, evaluation.error, evaluation.cost_s, evaluation.censored)
        else:
            _check_shown(evaluation.curve)
            self._take_in(x, evaluation.curve)
        self._charged.append(evaluation.cost_s)

    def charge(self, cost_s: float) -> None:
        """Count an evaluation that is no point of this space: it takes a step, and its seconds of the budget."""
        self._charged.append(cost_s)

    def _take_in(self, x: Vector, curve: Curve) -> None:
        """Observe the end of a training and the prefixes that `curves` names, each once."""
        if self._curves is None or self._rounds is None:
            raise ValueError(
                "this evaluation has a learning curve: set `curves`, and call `start` or `watch_curves` first"
            )
        points = self._rounds.at(x, curve.rounds)
        for i in (len(points) - 1, *self._curves.shown_prefixes(curve)):
            if self._is_new(points[i]):
                self._observe(points[i], curve.error[i], curve.cost_s[i], False)
        if self._paid is not None:
            self._paid.add(points[-1])

    def _is_new(self, x: Vector) -> bool:
        """Return whether an error at `x` is news: a training that goes on shows again what is known."""
        return self._paid is None or x.tobytes() not in self._observed

    def _observe(self, x: Vector, error: float, cost_s: float, censored: bool) -> None:
        n = self._n
        if n == len(self._points):
            self._points = np.concatenate([self._points.reshape(n, len(x)), np.empty((n + 16, len(x)))])
            self._outcomes = np.concatenate([self._outcomes, np.empty((n + 16, 3))])
        self._points[n] = x
        if not (censored or math.isnan(error)):
            self._observed.add(x.tobytes())
        self._outcomes[n] = error, cost_s, censored
        self._n += 1

    def ask(self, candidates: Points, rows: Indices | None = None) -> Proposal:
        """Choose among `candidates`, points of the unit cube, or some `rows` of these.

        With rows it must be the same array at every step, of which nothing changes: what was found out of a row at one
        step need not be looked up at the next. `Proposal.index` is then a position among the rows.
        Raises BadInput before the first `tell`, without candidates and for what are no such points; for a cost model,
        utility or rule that does not give a number to each, and for errors that the scale does not have.
        """
        if not self._n:
            raise BadInput("tell the initial design before asking")
        if rows is None or candidates is not self._table:
            _check_candidates(candidates, self._points.shape[1])
        if rows is not None:
            _check_rows(rows, len(candidates))
            self._table = candidates
        began, offer, self._stopping_ms = clock_s(), Offer(candidates, rows), 0.0
        if not self._rule.uses_models:
            return self._ask_without_models(offer.points, began)
        X, (error, cost_s, stopped) = self._points[: self._n].copy(), self._outcomes[: self._n].T.copy()
        y = fill_failures(rescale(self._scale, error))
        posterior = complete(self._surrogate.fit(X, y), Posterior)
        cost_models.fit_with_bounds(self._cost_model, X, cost_s, stopped > 0, self._treatment)
        fitted = clock_s()
        self._asked = FittedData(X, y, posterior), np.array(self._charged)
        screen = self._stopping is None or self._stopping.asks_front_of(self._utility)
        index, context, mean_log_cost = self._context(offer, *self._asked, screen=screen)
        log_value = _one_each(self._utility, "log_value", self._utility.log_value(context), len(index))
        self._seen = index, log_value, context.log_cost
        said = self._rule.score(log_value.copy(), context.log_cost.copy(), context)  # a rule may write into them
        score = _one_each(self._rule, "score", said, len(index))
        i = choose(score, log_value, context.log_cost, rule=self._rule, utility=self._utility)
        if self._curves is not None and self._curves.stop_below is not None:
            x = offer.at(index[[i]])[0]  # as asked later, of the function alone: a surrogate's sd may hold noise
            improvement = log_improvement(posterior, context.incumbent, x, np.empty((0, len(x))), [])
            self._chosen = x, improvement, context.incumbent
        low, high = effective_alpha(i, log_value, context.log_cost)
        done = clock_s()
        return Proposal(
            index=int(index[i]),
            log_ei=float(log_value[i]),
            predicted_cost_s=math.exp(min(max(mean_log_cost[i], -_LARGEST), _LARGEST)),
            effective_alpha=low,
            effective_alpha_high=high,
            hyperparameters=posterior.hyperparameters,
            fit_ms=1e3 * (fitted - began),
            propose_ms=1e3 * (done - fitted),
            stop=self._stopping is not None and self._stopping.stops(context),
        )

    def _ask_without_models(self, candidates: CandidatePoints, began: float) -> Proposal:
        """Choose by a rule that asks no model; ties go to the lower index."""
        nothing, none = np.full(len(candidates), np.nan), np.zeros(len(candidates))
        y = fill_failures(rescale(self._scale, self._outcomes[: self._n, 0]))
        context = self._state(y, np.array(self._charged), None).seen(
            mean=nothing, sd=nothing, log_cost=nothing, mean_log_cost=nothing,
            log_cost_sd=lambda: nothing, points=lambda: candidates,
        )  # fmt: skip
        score = _one_each(self._rule, "score", self._rule.score(nothing, nothing, context), len(candidates))
        i, nan = choose(score, none, none, rule=self._rule), math.nan
        return Proposal(i, nan, nan, nan, nan, None, fit_ms=0.0, propose_ms=1e3 * (clock_s() - began))

    def hopeless(self, curve: Curve) -> bool:
        """Return whether going on with the training chosen last has become worth too little (`LearningCurves`).

        curve: what the training has shown so far; its seconds do not matter, nor rounds without an error (NaN). Raises
        BadInput unless curves are watched.
        """
        if self._curves is None or self._curves.stop_below is None or self._chosen is None or self._asked is None:
            return False
        if self._rounds is None:
            raise BadInput("hopeless needs to know what curves run along: call `start` or `watch_curves` first")
        _check_shown(curve)
        (x, then, incumbent), posterior, began = self._chosen, self._asked[0].posterior, clock_s()
        seen = self._rounds.at(x, curve.rounds)
        known = [i for i, error in enumerate(curve.error) if not math.isnan(error)]
        best, new = min([incumbent, *(curve.error[i] for i in known)]), [i for i in known if self._is_new(seen[i])]
        now = log_improvement(posterior, best, x, seen[new], [curve.error[i] for i in new])
        self._stopping_ms += 1e3 * (clock_s() - began)
        return now < then + math.log(self._curves.stop_below)

    def stopping_ms(self) -> float:
        """Return how long the questions took whether to go on with the training chosen last, which come after `ask`."""
        return self._stopping_ms

    @property
    def uses_models(self) -> bool:
        """Whether the rule has the models fitted, so that there is an `outlook`."""
        return self._rule.uses_models

    def forgets(self, n: int) -> bool:
        """Return whether every choice after n evaluations follows from these, whatever was asked before.

        Neither length nor budget planned may matter, so that those of the run that made them do not.
        """
        models = (self._surrogate, self._cost_model, self._utility) if self._rule.uses_models else ()
        if self._curves is not None or self._stopping is not None:
            return False  # schedules of fits count observations, of which there are more; stopping has to be asked
        plans = self._rule.plans_ahead or getattr(self._utility, "plans_ahead", False)
        return not plans and all(part.forgets(n) for part in (self._rule, *models))

    def outlook(self, points: CandidatePoints) -> MeanSd:
        """Return log utility and log cost of any points, by the models as the last `ask` fitted them.

        It changes nothing. Raises ValueError before the first `ask`.
        """
        _, log_value, log_cost = self._outlook(Offer(points), screen=False)
        return log_value, log_cost

    def seen_front(self) -> tuple[Indices, Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Return what `near_front` does of the candidates of the last `ask`, as seen there, at no cost."""
        if self._seen is None:
            raise ValueError("ask before looking at what the models say")
        return self._seen

    def near_front(
        self, points: Points, rows: Int[np.ndarray, " m"] | None = None
    ) -> tuple[Indices, Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Return, in order, points among which all are that no other dominates, and what `outlook` says of them.

        rows: those to look at, as `ask` takes them.
        """
        if rows is not None:
            _check_rows(rows, len(points))
        return self._outlook(Offer(points, rows), screen=True)

    def _outlook(self, offer: Offer, screen: bool) -> tuple[Indices, Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        if self._asked is None:
            raise ValueError("ask before looking at what the models say")
        where, context, _ = self._context(offer, *self._asked, screen=screen)
        return where, copy.copy(self._utility).log_value(context), context.log_cost  # one that keeps a state keeps it

    def _context(
        self, offer: Offer, history: FittedData, cost_s: Float[np.ndarray, " e"], screen: bool = True
    ) -> tuple[Indices, StepContext, Float[np.ndarray, " k"]]:
        """Return the candidates that the choice can fall on, their context, and their mean log cost."""
        posterior = history.posterior
        mean_log_cost, log_cost_sd = self._predicted_costs(offer)
        if self._curves is not None and self._curves.continues and self._paid is not None:
            mean_log_cost = self._paid.left(
                offer.points, mean_log_cost, lambda points: self._cost_model.predict(points)[0]
            )
        state = self._state(history.y, cost_s, history)
        exponent = self._rule.exponent(state) if self._statistic == cost_models.EXPECTED_INVERSE else None
        log_cost = mean_log_cost
        if self._statistic != cost_models.EXP_MEAN:
            log_cost = cost_models.log_statistic(self._statistic, mean_log_cost, log_cost_sd(), exponent)

        def context_of(where: Any, mean: np.ndarray, sd: np.ndarray, points: np.ndarray | None = None) -> StepContext:
            def there() -> CandidatePoints:
                return points if points is not None else offer.points[where]

            cost = log_cost[where]
            return state.seen(
                mean=mean, sd=sd, log_cost=cost,
                mean_log_cost=cost if mean_log_cost is log_cost else mean_log_cost[where],
                log_cost_sd=lambda: log_cost_sd()[where], points=there,
            )  # fmt: skip

        bounded = self._utility.bounded and self._rule.stays_on_front(state) and posterior.bounded
        if screen and bounded and len(offer) >= FEWEST:
            kept = shortlist(self._utility, posterior, offer, log_cost, context_of, rough=len(history.y) >= MANY)
        else:
            kept = np.arange(len(offer))
        points = offer.at(kept)
        mean, sd = _two(posterior, "mean_sd", offer.mean_sd_at(posterior, kept, points), len(kept))
        return kept, context_of(kept, mean, sd, points), mean_log_cost[kept]

    def _predicted_costs(self, offer: Offer) -> tuple[PerCandidate, Callable[[], PerCandidate]]:
        """Return the mean of log cost, and what returns its sd: found when asked for, where that saves time."""
        model, m = self._cost_model, len(offer)

        @cache
        def both() -> MeanSd:
            mean, sd = _two(model, "predict", model.predict(offer.points), m)
            _check_costs(model, mean, sd, m)
            return mean, sd

        own = _own_means(type(model))
        if self._statistic != cost_models.EXP_MEAN or not own:
            return both()[0], lambda: both()[1]
        if offer.rows is not None and "predict_mean_at" in own:
            mean = model.predict_mean_at(offer.C, offer.rows)
        else:
            mean = model.predict_mean(offer.points)
        _check_costs(model, mean, None, m)
        return mean, lambda: both()[1]

    def _state(self, y: Vector, cost_s: Float[np.ndarray, " e"], history: FittedData | None) -> StepContext:
        """Return the state of the run, without candidates; cost_s: of its evaluations."""
        none = np.empty(0)
        return StepContext(
            mean=none, sd=none, incumbent=float(y.min()), log_cost=none, log_cost_sd=none,
            step=len(cost_s), iterations=self._iterations, n_initial=self._n_initial, spent=float(cost_s.sum()),
            initial_cost=float(cost_s[: self._n_initial].sum()), tau=self._tau, history=history,
            seed=self._seed, problem=self._problem, cost_s=cost_s,
        )  # fmt: skip


def fill_failures(error: Vector) -> Vector:
    """Put the worst error observed in place of NaN; all 0 while nothing has succeeded."""
    failed = np.isnan(error)
    if not failed.any():
        return error
    return np.where(failed, 0.0 if failed.all() else np.max(error, where=~failed, initial=-np.inf), error)


# Checks of what a user's own parts return: without them, NumPy would broadcast three scores over five thousand
# candidates and go on.


def _one_each(source: object, method: str, values: Any, m: int) -> Any:
    """Return `values` if they are one number for each of `m` candidates; raises BadInput naming whose they are."""
    if isinstance(values, np.ndarray) and values.shape == (m,) and values.dtype.kind in "fiub":
        return values
    what = f"shape {values.shape} of {values.dtype}" if isinstance(values, np.ndarray) else repr(values)[:60]
    raise BadInput(f"{type(source).__name__}.{method} returned {what}, needed ({m},): one {method} per candidate")


def _two(source: object, method: str, values: Any, m: int) -> tuple[Any, Any]:
    """Return the mean and sd that `values` are; raises BadInput naming whose they are where they are not two."""
    try:
        mean, sd = values
    except (TypeError, ValueError):
        what = f"an array of shape {values.shape}" if isinstance(values, np.ndarray) else repr(values)[:60]
        name = f"{type(source).__name__}.{method}"
        raise BadInput(f"{name} returned {what}, needed two arrays of shape ({m},): mean and sd") from None
    return mean, sd


def _check_shown(curve: Any) -> None:
    if not isinstance(curve, Curve):
        raise BadInput(
            f"a learning curve must be a Curve(rounds, error, test_error, cost_s), got a {type(curve).__name__}"
        )
    if not curve.rounds:
        raise BadInput("a learning curve must show one round at least")


def _check_candidates(C: Any, d: int) -> None:
    if not isinstance(C, np.ndarray) or C.dtype.kind not in "fiub":
        got = f"one of {C.dtype}" if isinstance(C, np.ndarray) else f"a {type(C).__name__}"
        raise BadInput(f"candidates must be an array of numbers, np.array(...) of shape (m, {d}), got {got}")
    if len(C) == 0:
        raise BadInput("there is no candidate to choose")
    if C.ndim != 2 or C.shape[1] != d:
        raise BadInput(f"candidates must have the shape (m, {d}), got {C.shape}")
    if not (C.min() >= 0 and C.max() <= 1):
        i, j = np.argwhere(~((C >= 0) & (C <= 1)))[0]
        raise BadInput(
            "candidates must lie in the unit cube (SearchSpace.to_unit maps native values there), "
            f"got {C[i, j]:g} in column {j} of candidate {i}"
        )


def _check_rows(rows: Any, m: int) -> None:
    if not (isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu"):
        raise BadInput(f"rows must be a one-dimensional array of whole numbers, got {rows!r}")
    if len(rows) == 0:
        raise BadInput("there is no candidate to choose")
    low, high = rows.min(), rows.max()
    if low < 0 or high >= m:
        raise BadInput(f"rows must be some of the {m} candidates', 0 to {m - 1}, got {low} to {high}")


@cache
def _own_means(kind: type[CostModel]) -> frozenset[str]:
    """Return which of `predict_mean` and `predict_mean_at` a class has of its own, as young as its `predict`."""
    ways = {"predict_mean", "predict_mean_at"}
    youngest = next(base for base in kind.__mro__ if {"predict", *ways} & vars(base).keys())
    return frozenset() if youngest is CostModel else frozenset(ways & vars(youngest).keys())


def _check_costs(model: CostModel, mean: np.ndarray, sd: np.ndarray | None, m: int) -> None:
    said = {"mean": mean} if sd is None else {"mean": mean, "sd": sd}
    if any(np.shape(values) != (m,) for values in said.values()):
        names, got = " and ".join(said), " and ".join(f"{np.shape(values)}" for values in said.values())
        raise BadInput(f"{type(model).__name__} must predict {names} of {m} log costs each, got shapes {got}")
    for name, values in said.items():
        if math.isnan(np.min(values)):  # which is NaN if any is
            raise BadInput(f"{type(model).__name__}: the {name} of the log cost is NaN at candidate "
                           f"{int(np.isnan(values).argmax())}")  # fmt: skip

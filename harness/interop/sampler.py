"""`CostAwareSampler`: this project's optimizer as a sampler of Optuna, for any search space and several workers.

    study = optuna.create_study(sampler=CostAwareSampler(acq="cei", lam=0.1))

`CostAwarePruner` says of a trial that reports its error round by round when going on is no longer worth it.

Every suggestion is made from the trials in the storage and from streams named by the trial's number, so that workers
need share nothing but the storage, and a study that was killed goes on from all of its trials. Within a process, models
are fitted from where their last fits ended: after a restart suggestions can be others than without one.
"""

import copy
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from harness import cost_models
from harness.acquisitions import CostRule, Utility
from harness.arrays import unseen
from harness.component import complete
from harness.cost_models import CostModel
from harness.curves import LearningCurves
from harness.error_scale import RAW
from harness.errors import BadInput, listed, positive, unknown, whole
from harness.interop import components
from harness.interop.earlier import Earlier, EarlierStudies
from harness.interop.encoding import Distributions, Encoding, covering, within
from harness.interop.reports import STOPPED, check_reports, curve_of, interval, least_rounds, usable, was_stopped
from harness.more_candidates import Local
from harness.optimizer import Optimizer
from harness.problem import FAILED, OK, TIMEOUT, Curve, Evaluation
from harness.space import Parameter, SearchSpace, sobol
from harness.streams import seed_sequence, stream
from harness.surrogates import Surrogate
from harness.surrogates.prior import PriorGaussianProcess

_PURPOSE = "optuna"  # of every stream
_LOCAL = 0.25  # share of candidates that lie around the best trials
_LEAST_COST = 1e-12  # a lower bound that says nothing: of a trial that runs, where costs are not durations
_KEPT = 32  # spaces whose models are kept: the branches of a study
_UNPLANNED = 10**6  # trials, of rules that do not plan
_ONE = threading.Lock()  # suggestion at a time per process: models are refitted in place

_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class CostAwareSampler(BaseSampler):
    """Chooses by expected improvement and predicted cost; every setting of a study's optimizer, by name.

    acq, lam, alpha: the cost rule, a name of configs/acq with its parameter, or a `CostRule`. utility, cost_model,
    surrogate: names of the folders of configs, or objects. The cost models of configs that name features name
    XGBoost's; `cost_features` names parameters of the study instead. None: the file's own where the study has all of
    them, else every parameter. cost_statistic, error_scale: as in configs/config.yaml; errors are what is minimised.

    cost: the user attribute of a trial that holds its cost, in any unit. If no trial has it, costs are durations in
    seconds. None: always durations. n_startup_trials: finished trials with a value before models are asked, drawn at
    random. n_trials, tau: planned length and budget (in the unit of costs) of the study, which a rule or utility that
    plans ahead needs (one of them). n_candidates: points scored per suggestion. seed: None draws one. earlier: studies
    of the same parameters on other data, as they are now, from which a prior mean of the error is learned; the
    surrogate is then a Gaussian process about it, and trusts it as far as this study's trials follow it
    (`EarlierStudies`).

    rounds: the integer parameter that says how many rounds a training has, None for none. A trial of r rounds that
    reports values after k = 1 .. r of them, `trial.report(value, k)`, has shown those of all shorter trainings (if
    these go the same way): what it reported near r/2, r/6 and r/20, at its best and at its end are observations, each
    round being taken to cost the same, and the trial counts with its best. curves: a name of configs/curves, or a
    `LearningCurves`: which of these, and when `CostAwarePruner` ends a trial. None: `stopped`.

    Failed trials, and values beyond 1e150 in size, count as the worst value so far, at their cost; a failed one without
    a cost is left out. Pruned ones whose reports are no curve count with their last intermediate value, and their cost
    is a lower bound of what the whole training would cost. Running ones count as the median value so far (a constant
    liar), so that workers spread out. Raises BadInput, a ValueError, for several objectives, for constraints, for a
    cost that is missing or not positive, and for rounds that are no integer parameter. Warns of cost features and
    rounds that no trial has so far, and of a finished trial's reports beyond its rounds, which are left out.
    Source of the liar: Ginsbourger, Le Riche and Carraro 2010, "Kriging is well-suited to parallelize optimization".
    """

    def __init__(
        self,
        acq: str | CostRule = "cei",
        lam: float | None = None,
        alpha: float | None = None,
        *,
        utility: str | Utility = "ei",
        cost_model: str | CostModel = "lv3",
        surrogate: str | Surrogate = "gp",
        cost_features: Sequence[str] | None = None,
        cost_statistic: str = cost_models.EXP_MEAN,
        error_scale: str = RAW,
        cost: str | None = "cost",
        n_startup_trials: int = 5,
        n_trials: int | None = None,
        tau: float | None = None,
        n_candidates: int = 2048,
        earlier: Sequence[Study] = (),
        rounds: str | None = None,
        curves: str | LearningCurves | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(acq, str):
            acq = components.make_rule(acq, lam, alpha)
        elif not (lam is None and alpha is None):
            raise BadInput("lam and alpha belong to an acq that is given by name: leave them out")
        self._rule: Any = acq
        self._utility = (
            components.made(components.read("utility", utility), {}) if isinstance(utility, str) else utility
        )
        self._surrogate, self._cost_model = surrogate, cost_model
        self._cost_features = None if cost_features is None else _different_names("cost_features", cost_features)
        if not (cost is None or (isinstance(cost, str) and cost)):
            raise BadInput(f"cost must name the user attribute that holds a trial's cost, or be None, got {cost!r}")
        self._cost = cost
        self._n_startup = whole("n_startup_trials", n_startup_trials, 1)
        self._n_trials = None if n_trials is None else whole("n_trials", n_trials, 1)
        self._tau = None if tau is None else positive("tau", tau)
        self._n_candidates = whole("n_candidates", n_candidates, 8)
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else whole("seed", seed, 0)
        self._earlier = [Earlier.of(study) for study in listed("earlier", earlier)]
        if not (rounds is None or (isinstance(rounds, str) and rounds)):
            raise BadInput(
                f"rounds must name the parameter that counts a training's rounds, or be None, got {rounds!r}"
            )
        if curves is not None and rounds is None:
            raise BadInput(
                "curves= says what is made of learning curves: say by rounds= which parameter they run along"
            )
        self._rounds, curves = rounds, "stopped" if curves is None else curves
        self._curves = components.made(components.read("curves", curves), {}) if isinstance(curves, str) else curves
        self._settings = {"cost_statistic": cost_statistic, "error_scale": error_scale}
        plans = [part for part in (self._rule, self._utility) if getattr(part, "plans_ahead", False)]
        if plans and n_trials is None and tau is None:
            raise BadInput(f"{type(plans[0]).__name__} plans ahead: say n_trials= or tau=")
        self._parts: dict[Any, tuple[Surrogate, CostModel, Utility, CostRule]] = {}
        self._running: dict[Any, _Running] = {}
        self._curve_of: dict[Any, Curve | None] = {}
        one = SearchSpace((Parameter("0", 0.0, 1.0),))
        self._optimizer(
            self._made(one, ["0"]), 1, rounds is not None
        )  # wrong settings are found before the first trial

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: models are fitted again there."""
        return {**self.__dict__, "_parts": {}, "_running": {}, "_curve_of": {}}

    # What Optuna asks.

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters, of more than one value, that every complete trial has with the same distribution."""
        self._check(study)
        space = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point, around the values that an enqueued trial fixes; nothing while trials are too few."""
        self._check(study)
        fixed = within(trial.system_attrs.get("fixed_params", {}), search_space)
        return self._suggest(study, trial, search_space, fixed) if search_space else {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of a parameter that only some trials have, or with another range.

        It is chosen as all others are, from the trials that have it within its range, and given the values that this
        trial has already; at random while these trials are too few. What else they all have, but this trial not yet, is
        chosen with it, and again when it is asked for: so parameters of one branch go together.
        """
        self._check(study)
        own = {param_name: param_distribution}
        if not param_distribution.single():
            alike = [t for t in _trials(study, _FINISHED) if len(within(t.params, own)) == 1]
            known = _shared({n: d for n, d in trial.distributions.items() if n != param_name}, alike)
            others = alike[-1].distributions if alike else {}
            coming = _shared({n: d for n, d in others.items() if n not in {param_name, *trial.distributions}}, alike)
            fixed = {name: trial.params[name] for name in known}
            fixed |= within(trial.system_attrs.get("fixed_params", {}), coming)
            if found := self._suggest(study, trial, {**known, **own, **coming}, fixed):
                return found[param_name]
        encoding = Encoding(own)
        u = stream(self._seed, _PURPOSE, "random", str(trial.number), param_name).random((1, 1))
        return encoding.external(encoding.draw(u)[0])[param_name]

    def _check(self, study: Study) -> None:
        if len(study.directions) > 1:
            raise BadInput(f"CostAwareSampler minimises or maximises one value, the study has {len(study.directions)}")

    # A suggestion.

    def _suggest(
        self, study: Study, trial: FrozenTrial, space: Distributions, fixed: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the best point of `space` with these values fixed; nothing while finished trials are too few."""
        finished = _trials(study, _FINISHED)
        here = {one.number for one in covering(finished, space)}
        if sum(one.state != TrialState.FAIL for one in finished if one.number in here) < self._n_startup:
            return {}
        going_on = _trials(study, (TrialState.RUNNING,))
        running = [t for t in covering(going_on, space) if t.number != trial.number]
        for one in finished:
            if one.constraints:
                raise BadInput(f"CostAwareSampler takes no constraints, trial {one.number} has some")
        rounds = str(self._rounds)
        least = least_rounds(space[rounds], rounds) if rounds in space else None  # None: nothing to learn along
        ended = self._evaluations(study, finished, least)
        observed = [(one, evaluation) for one, evaluation in ended if one.number in here]
        errors = [evaluation.error for _, evaluation in observed if math.isfinite(evaluation.error)]
        if len(errors) < self._n_startup:
            return {}
        median, by_attribute = float(np.median(errors)), self._by_attribute(finished)
        most = max(evaluation.cost_s for _, evaluation in ended)
        now = [(one, Evaluation(median, _elapsed(one, most, by_attribute), math.nan, math.nan, TIMEOUT))
               for one in running]  # fmt: skip
        observed += now
        encoding = Encoding(space)
        values = encoding.internal([one.params for one, _ in observed])
        errors = [evaluation.error for _, evaluation in observed]
        offered = self._candidates(encoding, values, np.array(errors), trial.number, fixed)
        with _ONE:
            optimizer = self._optimizer(
                self._parts_of(study, encoding), len(ended) + len(running) + 1, least is not None
            )
            if least is not None:
                optimizer.watch_curves(encoding.space, encoding.columns_of[rounds][0], resumable=False)
            points = dict(zip((one.number for one, _ in observed), encoding.unit(values), strict=True))
            for one, evaluation in ended + now:
                if one.number in points:
                    optimizer.tell(points[one.number], evaluation)
                else:  # of another branch, but of the same budget
                    optimizer.charge(evaluation.cost_s)
            index = optimizer.ask(encoding.unit(offered)).index
            chosen = {**encoding.external(offered[index]), **fixed}
            if least is not None:
                self._keep((_key(study), trial.number), _Running(chosen, optimizer, least), going_on)
        return chosen

    def _keep(self, trial: tuple[Any, int], own: "_Running", going_on: Sequence[FrozenTrial]) -> None:
        """Remember what chose a trial, by study and number, and forget that of the study's trials that have ended."""
        study, numbers = trial[0], {one.number for one in going_on}
        others = [k for k in self._running if k[0] != study][-_KEPT:]
        kept = [*others, *(k for k in self._running if k[0] == study and k[1] in numbers)]
        self._running = {**{k: self._running[k] for k in kept}, trial: own}

    def _candidates(
        self,
        encoding: Encoding,
        values: Float[np.ndarray, "n p"],
        errors: Float[np.ndarray, " n"],
        number: int,
        fixed: Mapping[str, Any],
    ) -> Float[np.ndarray, "m p"]:
        """Return a fresh Sobol set and points around the best trials, without those evaluated where others are left."""
        p, local = len(encoding), int(_LOCAL * self._n_candidates)
        spread = sobol(p, self._n_candidates - local, seed_sequence(self._seed, _PURPOSE, "candidates", str(number)))
        rng = stream(self._seed, _PURPOSE, "local", str(number))
        seen = encoding.uniform(values)
        offered = encoding.draw(np.vstack([spread, Local(local).points(seen, errors, rng)]))
        for j, (name, distribution) in enumerate(encoding.distributions.items()):
            if name in fixed:
                offered[:, j] = distribution.to_internal_repr(fixed[name])
        offered = np.unique(offered, axis=0)
        new = unseen(encoding.uniform(offered), seen)  # 3 * 0.3 is 0.9 there
        return offered[new] if new.any() else offered

    # Trials as evaluations.

    def _evaluations(
        self, study: Study, trials: Sequence[FrozenTrial], least: int | None
    ) -> list[tuple[FrozenTrial, Evaluation]]:
        """Return finished trials with what they mean to the models; raises BadInput for a cost that is none.

        least: the fewest rounds of the space, None for one without rounds, to which curves mean nothing.
        """
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        by_attribute, found = self._by_attribute(trials), []
        for trial in trials:
            cost = self._cost_of(trial, by_attribute)
            if cost is None:
                continue
            value, status, curve = math.nan, FAILED, None
            if least is not None and trial.state != TrialState.FAIL:
                curve = self._curve(_key(study), trial, sign, cost, least)
            if curve is not None:
                value, status = curve.error[curve.best], OK
            elif trial.state == TrialState.COMPLETE:
                value, status = sign * float(trial.values[0]), TIMEOUT if was_stopped(trial) else OK
            elif trial.state == TrialState.PRUNED:
                status = TIMEOUT
                if trial.intermediate_values:
                    value = sign * float(trial.intermediate_values[max(trial.intermediate_values)])
            if not usable(value):  # a penalty, infinite or nearly: as bad as the other trials go
                value, status = math.nan, FAILED if status == OK else status
            found.append((trial, Evaluation(value, cost, math.nan, math.nan, status, curve)))
        return found

    def _curve(self, key: tuple[Any, ...], trial: FrozenTrial, sign: float, cost: float, least: int) -> Curve | None:
        """Return the curve of a finished trial, made once; warns of one whose reports are none, and leaves it out."""
        key = *key, trial.number, least
        if key not in self._curve_of:
            try:
                self._curve_of[key] = curve_of(trial, str(self._rounds), sign, cost, least)
            except BadInput as error:
                warnings.warn(f"no learning curve: {error}", stacklevel=2)
                self._curve_of[key] = None
        return self._curve_of[key]

    def hopeless(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether a trial that runs is to end, by its reports so far: what `CostAwarePruner` asks.

        So it is once a report is no number. Else it is looked at after rounds each a third more than the last, and not
        at all where nothing was predicted of it, as of the first trials, or where others are its values than were
        chosen. Raises BadInput for rounds that are no integer parameter, and for reports of rounds beyond these.
        """
        rounds, reports = str(self._rounds), trial.intermediate_values
        if rounds not in trial.distributions or not reports:
            return False
        check_reports(trial, rounds)
        last, own = max(reports), self._running.get((_key(study), trial.number))
        ends = not usable(reports[last])
        if not ends and own is not None and last >= own.least and interval(last) > own.looked:
            own.looked = interval(last)
            sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
            curve = curve_of(trial, rounds, sign, 1.0, own.least)
            if curve is not None and {**trial.params, **own.chosen} == trial.params:
                with _ONE:
                    ends = own.optimizer.hopeless(curve)
        if ends:
            study._storage.set_trial_system_attr(trial._trial_id, STOPPED, {rounds: last})
        return ends

    def _by_attribute(self, trials: Sequence[FrozenTrial]) -> bool:
        return self._cost is not None and any(self._cost in trial.user_attrs for trial in trials)

    def _cost_of(self, trial: FrozenTrial, by_attribute: bool) -> float | None:
        """Return the cost of a finished trial, None for a failed one that has none."""
        if by_attribute:
            cost, name = trial.user_attrs.get(str(self._cost)), f"user_attrs[{self._cost!r}]"
        else:
            cost, name = None if trial.duration is None else trial.duration.total_seconds(), "its duration in seconds"
        if cost is None and trial.state == TrialState.FAIL:
            return None
        value = float(cost) if isinstance(cost, Real) and not isinstance(cost, bool) else math.nan
        if not 0.0 < value < math.inf:
            remedy = "" if by_attribute else f"; give costs by trial.set_user_attr({self._cost or 'cost'!r}, ...)"
            raise BadInput(f"the cost of trial {trial.number} must be a number > 0, {name} is {cost!r}{remedy}")
        return value

    # The optimizer's parts: kept, since fits go on from the last one and a utility may have a state.

    def _parts_of(self, study: Study, encoding: Encoding) -> tuple[Surrogate, CostModel, Utility, CostRule]:
        key = *_key(study), tuple((n, repr(d)) for n, d in encoding.distributions.items())
        if key not in self._parts:
            while len(self._parts) >= _KEPT:  # ranges that change from trial to trial would leave one after the other
                del self._parts[next(iter(self._parts))]
            self._warn_of_features(study)
            surrogate, cost_model, utility, rule = self._made(encoding.space, self._features(encoding))
            prior = EarlierStudies(encoding, self._earlier)
            if prior.models:
                surrogate = PriorGaussianProcess(prior, complete(surrogate, Surrogate))
            self._parts[key] = surrogate, cost_model, utility, rule
        return self._parts[key]

    def _warn_of_features(self, study: Study) -> None:
        """Warn of named parameters that no trial has so far: mostly misspelt, but a trial to come may be the first.

        Along rounds of which there is but one number nothing is learned, either.
        """
        found = {name: d.single() for trial in _trials(study, _FINISHED) for name, d in trial.distributions.items()}
        for name in self._cost_features or ():
            if name not in found:
                warnings.warn(str(unknown("parameter in cost_features", name, sorted(found))), stacklevel=2)
        if self._rounds is not None and found.get(self._rounds, True):
            several = sorted(name for name, single in found.items() if not single)
            warnings.warn(str(unknown("parameter of several values in rounds", self._rounds, several)), stacklevel=2)

    def _made(self, space: SearchSpace, features: Sequence[str]) -> tuple[Surrogate, CostModel, Utility, CostRule]:
        surrogate, cost_model = self._surrogate, self._cost_model
        if isinstance(surrogate, str):
            surrogate = components.make_surrogate(surrogate)
        if isinstance(cost_model, str):
            cost_model = components.make_cost_model(cost_model, space, features)
        parts: tuple[Any, Any, Utility, CostRule] = surrogate, cost_model, self._utility, self._rule
        return copy.deepcopy(parts)

    def _features(self, encoding: Encoding) -> list[str]:
        """Return the columns of the parameters that a linear cost model sees, those of this space alone."""
        given = self._cost_features
        if given is None:
            named = components.read("cost_model", self._cost_model) if isinstance(self._cost_model, str) else {}
            own = tuple(named.get("features") or ())
            given = own if set(own) <= encoding.columns_of.keys() else ()
        chosen = [name for name in encoding.columns_of if name in given] or list(encoding.columns_of)
        return [column for name in chosen for column in encoding.columns_of[name]]

    def _optimizer(self, parts: tuple[Any, Any, Any, Any], least: int, curved: bool) -> Optimizer:
        planned = max(_UNPLANNED if self._n_trials is None else self._n_trials, least)
        settings: dict[str, Any] = {
            **self._settings,
            "iterations": planned,
            "n_initial": self._n_startup,
            "tau": self._tau,
            "curves": self._curves if curved else None,
        }
        return Optimizer(*parts, seed=self._seed, **settings)


class CostAwarePruner(BasePruner):
    """Ends a trial once going on is no longer worth it, by the models of the `CostAwareSampler` that chose it.

    A trial of r rounds is to end when its expected improvement at all of them, given what it has reported so far, has
    fallen below a share of what it was when it was chosen (`LearningCurves.stop_below`). The sampler needs `rounds`.
    The objective then returns the best value that it has reported, or raises `optuna.TrialPruned`.
    """

    def __init__(self, sampler: CostAwareSampler) -> None:
        if not (isinstance(sampler, CostAwareSampler) and sampler._rounds is not None):
            raise BadInput("CostAwarePruner needs the study's CostAwareSampler, with rounds= naming a parameter")
        self._sampler = sampler

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the trial is to end; warns where another sampler than this one's has chosen it."""
        if study.sampler is not self._sampler:
            warnings.warn("CostAwarePruner ends no trial that another sampler than its own has chosen: "
                          "CostAwarePruner(study.sampler)", stacklevel=2)  # fmt: skip
        return self._sampler.hopeless(study, trial)


@dataclass
class _Running:
    """A trial that runs: its parameters, what chose them, whose posterior stays as it is, and its range's least rounds.

    looked: the last interval of rounds in which it was looked at.
    """

    chosen: dict[str, Any]
    optimizer: Optimizer
    least: int
    looked: int = -1


def _key(study: Study) -> tuple[Any, ...]:
    return study._storage, study.study_name


def _elapsed(running: FrozenTrial, most: float, by_attribute: bool) -> float:
    """Return a lower bound of a running trial's cost: the seconds up to now, where costs are durations.

    At most the longest so far: a worker that was killed leaves its trial running forever.
    """
    if by_attribute or running.datetime_start is None:
        return _LEAST_COST
    now = type(running.datetime_start).now()
    return max(_LEAST_COST, min(most, (now - running.datetime_start).total_seconds()))


def _different_names(name: str, value: Any) -> tuple[str, ...]:
    """Return the entries of a setting that lists parameters; raises BadInput for none, twice the same, or others."""
    names = tuple(listed(name, value))
    if not names or not all(isinstance(one, str) for one in names) or len(set(names)) < len(names):
        raise BadInput(f"{name} must be different names of the study's parameters, such as ['a', 'b'], got {value!r}")
    return names


def _trials(study: Study, states: tuple[TrialState, ...]) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=states)


def _shared(space: Distributions, trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters of `space`, of more than one value, that all these trials have within its range."""
    wanted = {name: distribution for name, distribution in space.items() if not distribution.single()}
    return {n: d for n, d in wanted.items() if all(len(within(t.params, {n: d})) == 1 for t in trials)}

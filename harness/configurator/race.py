"""The configurator (`configure`): model, selection and intensification in turn, until the budget is spent.

`RunHistory` is what it has seen, `Intensifier` races challengers against the incumbent and stops them early, and
`RuntimeModel` predicts runtimes, from which `challengers` are chosen. Source: Hutter, Hoos and Leyton-Brown 2013,
"Bayesian optimization with censored response data", Algorithm 3.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from harness.acquisitions.ei import log_ei
from harness.configurator.solvers import CRASHED, CUT, SOLVED, OptionSpace, SolverRun
from harness.problem import threshold
from harness.streams import stream
from harness.surrogates.forest import SAMPLED, CensoredForest, ForestPosterior, RandomForest

# What has been seen: which configuration took how long on which instance with which seed.

Pair = tuple[int, int]
"""Number of an instance, and a seed of the solver."""


@dataclass(frozen=True)
class Observation:
    """One run of a configuration on a pair; cap_s: the limit that it had."""

    configuration: int
    pair: Pair
    cap_s: float
    run: SolverRun


@dataclass
class RunHistory:
    """All runs so far; kappa_max_s: the most a run may take, which is what one counts for that took it or crashed."""

    kappa_max_s: float
    rows: list[Float[np.ndarray, " d"]] = field(default_factory=list)
    entries: list[Observation] = field(default_factory=list)
    _ids: dict[bytes, int] = field(default_factory=dict)
    _times: dict[int, dict[Pair, float]] = field(default_factory=dict)

    def number(self, row: Float[np.ndarray, " d"]) -> int:
        """Return the number of a configuration, a new one if it has not been seen."""
        key = np.ascontiguousarray(row).tobytes()
        if key not in self._ids:
            self._ids[key] = len(self.rows)
            self._times[len(self.rows)] = {}
            self.rows.append(row)
        return self._ids[key]

    def seen(self, row: Float[np.ndarray, " d"]) -> bool:
        """Say whether the configuration has been run."""
        return np.ascontiguousarray(row).tobytes() in self._ids

    def add(self, entry: Observation) -> None:
        """Record one run."""
        self.entries.append(entry)
        self._times[entry.configuration][entry.pair] = self._counted(entry)

    def _counted(self, entry: Observation) -> float:
        return entry.run.cpu_s if entry.run.status in (SOLVED, CUT) else self.kappa_max_s

    def pairs(self, configuration: int) -> list[Pair]:
        """Return the pairs that a configuration has been run on, in that order."""
        return list(self._times[configuration])

    def total(self, configuration: int, pairs: Sequence[Pair]) -> float:
        """Return the seconds that a configuration took on these pairs; KeyError for one that it was not run on."""
        return sum(self._times[configuration][pair] for pair in pairs)

    def censored(self, entry: Observation) -> bool:
        """Say whether only a lower bound is known: a run stopped before kappa_max."""
        return entry.run.status == CUT and entry.cap_s < self.kappa_max_s

    def data(
        self,
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Return, per run, configuration, instance, log10 of its seconds, and whether that is a lower bound."""
        configuration = np.array([entry.configuration for entry in self.entries], np.int64)
        instance = np.array([entry.pair[0] for entry in self.entries], np.int64)
        seconds = np.array([self._counted(entry) for entry in self.entries], np.float64)
        bound = np.array([self.censored(entry) for entry in self.entries], np.bool_)
        return configuration, instance, np.log10(seconds), bound


# Intensification: does a challenger beat the incumbent, over instances and seeds, and may it be stopped early?
#
# Source: Hutter, Hoos and Leyton-Brown 2011, procedure Intensify (blocked comparison on ever more of the incumbent's
# runs, doubling); 2013, Algorithm 3 (a challenger's run is stopped once its total exceeds the
# incumbent's on the same pairs by the slack factor, and is then a censored observation).

Target = Callable[[Float[np.ndarray, " d"], Pair, float], SolverRun]
"""Runs a configuration on a pair with a cap in CPU seconds."""

_LEAST_CAP_S = 1e-3  # what is left below it is not worth starting a process for


class Intensifier:
    """Races challengers against the incumbent; `spent_s` counts the CPU seconds of all runs.

    pairs: the sequence of instances and seeds that incumbents meet, one more at every challenge.
    """

    def __init__(
        self, target: Target, history: RunHistory, pairs: list[Pair], slack: float | None, rng: np.random.Generator
    ) -> None:
        self._target, self._history, self._pairs, self._slack, self._rng = target, history, pairs, slack, rng
        self.spent_s = 0.0
        self.incumbent = -1

    def start(self, row: Float[np.ndarray, " d"]) -> None:
        """Make `row` the first incumbent, with one run."""
        self.incumbent = self._history.number(row)
        self._strengthen()

    def challenge(self, row: Float[np.ndarray, " d"], left_s: float) -> bool:
        """Race one challenger; return whether it is the new incumbent. Stops, undecided, once left_s is spent."""
        limit = self.spent_s + left_s
        self._strengthen()
        history, challenger = self._history, self._history.number(row)
        rivals = history.pairs(self.incumbent)
        waiting = [rivals[i] for i in self._rng.permutation(len(rivals))]
        done: list[Pair] = []
        size, crashed = 1, False
        while True:
            compared, waiting = done + waiting[:size], waiting[size:]
            for pair in compared[len(done) :]:
                if self.spent_s >= limit:
                    return False
                bound = history.total(self.incumbent, compared)
                so_far = history.total(challenger, done)
                left = history.kappa_max_s if self._slack is None else self._slack * bound - so_far
                if left < _LEAST_CAP_S:
                    return False
                entry = self._run(challenger, pair, threshold(1.0, left, history.kappa_max_s))
                done.append(pair)
                crashed |= entry.run.status == CRASHED
                if entry.run.status == CUT and history.censored(entry):
                    return False
            ahead = history.total(self.incumbent, compared) - history.total(challenger, compared)
            if ahead < 0.0 or (crashed and ahead == 0.0):  # a crash is no better than a run that takes kappa_max
                return False
            if not waiting:
                self.incumbent = challenger
                return True
            size *= 2

    def _strengthen(self) -> None:
        """Run the incumbent on the next pair that it has not met."""
        met = set(self._history.pairs(self.incumbent))
        following = next((pair for pair in self._pairs if pair not in met), None)
        if following is not None:
            self._run(self.incumbent, following, self._history.kappa_max_s)

    def _run(self, configuration: int, pair: Pair, cap_s: float) -> Observation:
        run = self._target(self._history.rows[configuration], pair, cap_s)
        self.spent_s += run.cpu_s
        entry = Observation(configuration, pair, cap_s, run)
        self._history.add(entry)
        return entry


# The runtime model and the choice of promising configurations.
#
# Source: Hutter, Hoos and Leyton-Brown 2011, "Sequential model-based optimization for general algorithm configuration"
# (features of instances, averaging each tree's predictions over them, local search on EI, every second
# challenger random); 2013, Algorithm 1 (censored runs).

TREES, MIN_SPLIT, SHARE = 10, 10, 5.0 / 6.0  # SMAC's forest
_RANDOM, _STARTS, _STEPS = 1000, 5, 20  # random candidates; local searches from the best runs, steps of each
_OFFERED = 500  # promising challengers, many more than are ever raced


class RuntimeModel:
    """log10 of a configuration's seconds, averaged over the training instances; mean and sd over trees.

    features: one row per training instance; standardised here, constant ones left out.
    """

    def __init__(
        self, space: OptionSpace, features: Float[np.ndarray, "i k"], seed: int, treatment: str, refits: int = 5
    ) -> None:
        spread = features.std(axis=0)
        used = spread > 1e-12
        self._features = (features[:, used] - features[:, used].mean(axis=0)) / spread[used]
        self._space = space
        categories = [*space.categories, *[0] * int(used.sum())]
        forest = RandomForest(TREES, min_split=MIN_SPLIT, features=SHARE, categories=categories, seed=seed)
        self._model = CensoredForest(forest, treatment, iterations=refits)
        self._posterior: ForestPosterior

    def fit(self, history: RunHistory) -> None:
        """Fit to all runs so far."""
        configuration, instance, y, censored = history.data()
        X = np.hstack([np.array(history.rows)[configuration], self._features[instance]])
        self._posterior = self._model.fit(X, y, censored, math.log10(history.kappa_max_s)).posterior

    def mean_sd(self, rows: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd over trees of the average over instances, after a fit."""
        m, i = len(rows), len(self._features)
        X = np.hstack([np.repeat(rows, i, axis=0), np.tile(self._features, (m, 1))])
        return self._posterior.over_trees(self._posterior.each(X).reshape(TREES, m, i).mean(axis=2))


def challengers(
    model: RuntimeModel, history: RunHistory, space: OptionSpace, incumbent: int, rng: np.random.Generator
) -> list[Float[np.ndarray, " d"]]:
    """Return configurations not run yet: the best by EI, in turn with random ones.

    EI of log10 seconds, below the model's mean for the incumbent. Candidates: random configurations, and what local
    searches over one-option neighbourhoods find from the configurations of highest EI that were run.
    """
    target = float(model.mean_sd(history.rows[incumbent][None])[0][0])

    def value(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        mean, sd = model.mean_sd(rows)
        return log_ei(target - mean, sd)

    known = np.array(history.rows)
    found = [space.sample(rng, _RANDOM)]
    for start in np.argsort(-value(known), kind="stable")[:_STARTS]:
        here, best = known[start], -math.inf
        for _ in range(_STEPS):
            around = space.neighbours(here, rng)
            if not len(around):
                break
            values = value(around)
            found.append(around)
            if values.max() <= best:
                break
            here, best = around[values.argmax()], float(values.max())
    rows = np.unique(np.concatenate(found), axis=0)
    ordered = rows[np.argsort(-value(rows), kind="stable")]
    promising = [row for row in ordered[: _OFFERED + len(known)] if not history.seen(row)]
    mixed = [row for pair in zip(promising, space.sample(rng, len(promising)), strict=True) for row in pair]
    return [row for row in mixed if not history.seen(row)]


def warm_up() -> None:
    """Fit and ask a small forest, so that no run's budget pays for compiling it."""
    X = np.tile(np.arange(8.0)[:, None], 2)
    X[:, 1] %= 2
    RandomForest(trees=2, categories=[0, 2]).fit(X, X[:, 0]).mean_sd(X)


# The configurator.

_LEAST = 2  # challengers per model, however long the model took


@dataclass(frozen=True)
class Settings:
    """One configuration run. budget_s: CPU seconds of target runs and of the configurator itself, together."""

    budget_s: float
    kappa_max_s: float
    slack: float | None
    seed: int
    treatment: str = SAMPLED
    most_pairs: int = 2000


@dataclass
class Result:
    """What a configuration run found: the incumbent, all runs, and where the time went (CPU seconds)."""

    incumbent: Float[np.ndarray, " d"]
    history: RunHistory
    target_s: float
    model_s: float
    models: int
    trajectory: list[tuple[float, int]] = field(default_factory=list)  # seconds spent, number of the incumbent


def configure(space: OptionSpace, features: Float[np.ndarray, "i k"], target: Target, settings: Settings) -> Result:
    """Search for the configuration of least mean runtime on the instances that `features` has rows for.

    A model is fitted, challengers are chosen, and these are raced for at least as long as that took and at least two
    of them (Algorithm 3's split of the time). Time is CPU time: the solver's, of its own process, and this one's.
    """
    history = RunHistory(settings.kappa_max_s)
    pairs = draw_pairs(len(features), settings.most_pairs, settings.seed)
    rng = stream(settings.seed, "configurator", "challengers")
    race = Intensifier(target, history, pairs, settings.slack, stream(settings.seed, "configurator", "race"))
    model = RuntimeModel(space, features, settings.seed, settings.treatment)
    race.start(space.default)
    first = history.entries[0]
    if first.run.status == CRASHED:
        raise RuntimeError(f"the solver crashes with its defaults, on instance {first.pair[0]}: {first.run.note}")
    trajectory, own_s, models = [(race.spent_s, race.incumbent)], 0.0, 0
    while race.spent_s + own_s < settings.budget_s:
        began = time.process_time()
        model.fit(history)
        waiting = challengers(model, history, space, race.incumbent, rng)
        took = time.process_time() - began
        own_s, models, before = own_s + took, models + 1, race.spent_s
        for count, row in enumerate(waiting):
            left = settings.budget_s - own_s - race.spent_s
            if left <= 0 or (count >= _LEAST and race.spent_s - before >= took):
                break
            began = time.process_time()
            if race.challenge(row, left):
                trajectory.append((race.spent_s + own_s, race.incumbent))
            own_s += time.process_time() - began
        if not waiting:
            break
    return Result(history.rows[race.incumbent], history, race.spent_s, own_s, models, trajectory)


def draw_pairs(instances: int, most: int, seed: int) -> list[Pair]:
    """Return the sequence of (instance, solver seed): every instance once, in random order, then again."""
    rng, found = stream(seed, "configurator", "pairs"), list[Pair]()
    while len(found) < most:
        found += [(int(i), int(rng.integers(1 << 20))) for i in rng.permutation(instances)]
    return found[:most]

"""The configurator (`configure`), and its experiment: scenarios x slack factors x runs, each a record.

The configurator races challengers against an incumbent, with capped runs, and chooses them by a model of the runtime.
The experiment times what it found on unseen instances.

    results/configurator/<scenario>/slack-<factor>-run-<k>-<spec hash>.json     one configuration run, tested
    results/configurator/<scenario>/default-<spec hash>.json                    the solver's own defaults, tested

A rerun does what is missing. Instances are generated from their numbers: 0.. to configure on, from TEST on to test.
Measured seconds differ from run to run; all else depends on the spec and on the solver's release, which the record
names (`release`, an attribute that a solver may have) and which must be one in all that is compared.
"""

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from jaxtyping import Bool, Float, Int

from datasets.files import write_atomically
from harness import execution
from harness.acquisitions.ei import log_ei
from harness.configurator.solvers import CRASHED, CUT, SOLVED, InstanceSet, OptionSpace, Solver, SolverRun
from harness.problem import threshold
from harness.sealed import Spec, check_place, damage_named, is_done, record_path, spec_hash
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
    return list({row.tobytes(): row for row in mixed if not history.seen(row)}.values())


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


# The experiment: scenarios x slack factors x runs.

TEST = 10_000  # number of the first test instance
VERSION = 2  # raise it when the same settings mean something else than before
DEFAULT = "default"


@dataclass(frozen=True)
class SolverTrial:
    """One record to make. slack: a factor, None for no capping, or DEFAULT: time the solver's defaults only."""

    scenario: str
    config: Mapping[str, Any]
    slack: float | str | None
    run: int
    settings: Mapping[str, Any]
    results: str

    def spec(self) -> dict[str, Any]:
        """Return all that determines what is done, as plain JSON values."""
        own = {} if self.slack == DEFAULT else {"slack": self.slack, "run": self.run}
        used = {k: v for k, v in self.settings.items() if self.slack != DEFAULT or k in ("kappa_max_s", "test")}
        return {"scenario": self.scenario, "config": dict(self.config), **own, **used, "version": VERSION}

    def path(self) -> Path:
        """Return where the record belongs."""
        slack = "none" if self.slack is None else f"{self.slack:g}" if not isinstance(self.slack, str) else ""
        stem = DEFAULT if self.slack == DEFAULT else f"slack-{slack}-run-{self.run}"
        return record_path(Path(self.results) / "configurator" / self.scenario, stem, self.spec(), "json")


def trials(
    scenarios: Mapping[str, Any], slacks: Sequence[float | None], runs: int, settings: Mapping[str, Any], results: str
) -> list[SolverTrial]:
    """Return every trial of the experiment: run by run, so that one stopped early has as much of each factor."""
    found = [SolverTrial(name, config, DEFAULT, 0, settings, results) for name, config in scenarios.items()]
    return found + [
        SolverTrial(name, config, slack, run, settings, results)
        for run in range(runs)
        for name, config in scenarios.items()
        for slack in slacks
    ]


def run_all(executor: Executor, todo: Sequence[SolverTrial]) -> list[str]:
    """Run the trials that have no record yet; returns a line for each that failed."""
    missing = [trial for trial in todo if not is_done(trial.path(), read)]
    return execution.run_all(executor, run_trial, missing, lambda t: t.path().stem, "runs", "configurator")


def run_trial(trial: SolverTrial) -> None:
    """Configure, time what was found on the test instances, and write the record."""
    warm_up()
    solver, instances = instantiate(trial.config["solver"]), instantiate(trial.config["instances"])
    settings, record = trial.settings, dict[str, Any]()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="instances-") as name:
        folder, row = Path(name), solver.space.default
        if trial.slack != DEFAULT:
            assert not isinstance(trial.slack, str)
            paths, features = _write(instances, range(int(settings["train"])), folder)
            own = Settings(settings["budget_s"], settings["kappa_max_s"], trial.slack, trial.run, settings["treatment"])

            def target(row: Float[np.ndarray, " d"], pair: Pair, cap_s: float) -> SolverRun:
                return solver.run(row, paths[pair[0]], pair[1], cap_s)

            result = configure(solver.space, features, target, own)
            row, record = result.incumbent, _described(result, features, solver)
        times = _timed(solver, instances, row, settings, folder)
    record |= {"spec": trial.spec(), "release": getattr(solver, "release", None), "test": times}
    record |= {"settings": solver.space.settings(row), "wall_s": round(time.perf_counter() - began, 3)}
    body = json.dumps(record, sort_keys=True)
    write_atomically(trial.path(), json.dumps({"sha256": _digest(body), "record": body}).encode())


def read(path: Path) -> tuple[Spec, dict[str, Any]]:
    """Return a record's spec, and the record. Raises DamagedRecord, or BadInput if its spec is not its name's."""
    with damage_named(path):
        sealed = json.loads(path.read_text())
        if not isinstance(sealed, dict) or _digest(str(sealed.get("record"))) != sealed.get("sha256"):
            raise ValueError("it does not match its checksum")
        record: dict[str, Any] = json.loads(sealed["record"])
        spec: Spec = record["spec"]
    check_place(path, path.stem, spec_hash(spec))
    return spec, record


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(instances: InstanceSet, numbers: range, folder: Path) -> tuple[list[Path], Float[np.ndarray, "i k"]]:
    paths = [folder / f"{i}.{instances.suffix}" for i in numbers]
    return paths, np.array([instances.write(i, path) for i, path in zip(numbers, paths, strict=True)])


def _timed(
    solver: Solver, instances: InstanceSet, row: Float[np.ndarray, " d"], settings: Mapping[str, Any], folder: Path
) -> list[dict[str, Any]]:
    """Time a configuration on the test instances, the solver's seed being the instance's number.

    Raises RuntimeError if it crashes on every one: nothing is known of its runtime then.
    """
    paths, _ = _write(instances, range(TEST, TEST + int(settings["test"])), folder)
    runs = [solver.run(row, path, int(path.stem), settings["kappa_max_s"]) for path in paths]
    if all(run.status == CRASHED for run in runs):
        raise RuntimeError(f"the solver crashes on every test instance: {runs[0].note}")
    most_s = settings["kappa_max_s"]
    seconds = [run.cpu_s if run.status == SOLVED else most_s for run in runs]
    return [{"seconds": s, "status": run.status, "note": run.note} for s, run in zip(seconds, runs, strict=True)]


def _described(result: Result, features: Float[np.ndarray, "i k"], solver: Solver) -> dict[str, Any]:
    return {
        "target_s": result.target_s,
        "model_s": result.model_s,
        "models": result.models,
        "trajectory": result.trajectory,
        "features": features.tolist(),
        "categories": list(solver.space.categories),
        "rows": np.array(result.history.rows).tolist(),
        "runs": [
            {"row": e.configuration, "instance": e.pair[0], "seed": e.pair[1], "cap_s": e.cap_s, **asdict(e.run)}
            for e in result.history.entries
        ],
    }

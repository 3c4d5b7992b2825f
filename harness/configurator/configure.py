"""The configurator: model, selection and intensification in turn, until the budget is spent.

Source: Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response data", Algorithm 3.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from harness.configurator.history import History, Pair
from harness.configurator.intensify import Intensifier, Target
from harness.configurator.model import RuntimeModel, challengers
from harness.solvers.options import OptionSpace
from harness.solvers.protocol import CRASHED
from harness.streams import stream
from harness.surrogates.censored import SAMPLED

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
    history: History
    target_s: float
    model_s: float
    models: int
    trajectory: list[tuple[float, int]] = field(default_factory=list)  # seconds spent, number of the incumbent


def configure(space: OptionSpace, features: Float[np.ndarray, "i k"], target: Target, settings: Settings) -> Result:
    """Search for the configuration of least mean runtime on the instances that `features` has rows for.

    A model is fitted, challengers are chosen, and these are raced for at least as long as that took and at least two
    of them (Algorithm 3's split of the time). Time is CPU time: the solver's, of its own process, and this one's.
    """
    history = History(settings.kappa_max_s)
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
    """Return the sequence of (instance, solver seed): every instance once, in random order, then again.

    Raises ValueError where there is no instance.
    """
    if instances < 1:
        raise ValueError("there is no instance to configure on")
    rng, found = stream(seed, "configurator", "pairs"), list[Pair]()
    while len(found) < most:
        found += [(int(i), int(rng.integers(1 << 20))) for i in rng.permutation(instances)]
    return found[:most]

"""The runtime model and the choice of promising configurations.

Source: Hutter, Hoos and Leyton-Brown 2011, "Sequential model-based optimization for general algorithm configuration"
(features of instances, averaging each tree's predictions over them, local search on EI, every second
challenger random); 2013, Algorithm 1 (censored runs).
"""

import math

import numpy as np
from jaxtyping import Float

from harness.acquisitions.ei import log_ei
from harness.configurator.history import History
from harness.solvers.options import OptionSpace
from harness.surrogates.censored import CensoredForest
from harness.surrogates.forest import ForestPosterior, RandomForest

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
        self._posterior: ForestPosterior | None = None

    def fit(self, history: History) -> None:
        """Fit to all runs so far."""
        configuration, instance, y, censored = history.data()
        X = np.hstack([np.array(history.rows)[configuration], self._features[instance]])
        self._posterior = self._model.fit(X, y, censored, math.log10(history.kappa_max_s)).posterior

    def mean_sd(self, rows: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd over trees of the average over instances; raises ValueError before the first fit."""
        if self._posterior is None:
            raise ValueError("mean_sd was called before fit")
        m, i = len(rows), len(self._features)
        X = np.hstack([np.repeat(rows, i, axis=0), np.tile(self._features, (m, 1))])
        return self._posterior.moments(self._posterior.each(X).reshape(TREES, m, i).mean(axis=2))


def challengers(
    model: RuntimeModel, history: History, space: OptionSpace, incumbent: int, rng: np.random.Generator
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

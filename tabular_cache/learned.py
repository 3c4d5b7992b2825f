"""Learning log cost from other problems' tables: once for what it is learned from, then from the cache."""

import math
import warnings
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import skops.io
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from datasets.files import cache_folder, read_sealed, write_sealed
from harness.streams import seed_sequence
from tabular_cache.lesson import Lesson, inputs
from tabular_cache.sampled import kin, sampled

FOLDS = 5
# What the regressors of the shipped cost models hold besides what skops itself trusts: compiled state, no code.
TRUSTED = (
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
    "tabular_cache.regressors.LinearRegressor",
    "tabular_cache.regressors.NetworkRegressor",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBRegressor",
)


@dataclass(frozen=True)
class Learned:
    """A fitted pipeline from `inputs` to log cost; sd: of its error on a data set that it has not seen."""

    model: Any
    sd: float


@lru_cache(maxsize=8)
def learn(lesson: Lesson) -> Learned:
    """Return what the lesson teaches, from the cache or trained now; the last few are remembered.

    The cache holds skops files under the lesson's digest, sealed with their own; damaged ones are trained again.
    Nothing is unpickled: types other than skops' own and TRUSTED are not loaded, so a regressor of the user's own is
    trained anew in every process.
    """
    path = cache_folder("transfer") / f"{lesson.digest}.skops"
    content = read_sealed(path)
    found = None if content is None else _loaded(content)
    if found is not None:
        return found
    trained = _train(lesson)
    content = skops.io.dumps({"model": trained.model, "sd": trained.sd})
    found = _loaded(content)  # what was read and what was just trained are to be the same
    if found is None:
        return trained
    write_sealed(path, content)
    return found


def _loaded(content: bytes) -> Learned | None:
    """Return what the file holds; None if that is of other types, or no such file at all."""
    try:
        if set(skops.io.get_untrusted_types(data=content)) - set(TRUSTED):
            return None
        found = skops.io.loads(content, trusted=TRUSTED)
        return Learned(found["model"], float(found["sd"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile):
        return None


def _train(lesson: Lesson) -> Learned:
    """Fit to all rows; sd is the root mean square of out-of-fold errors, folds being whole data sets."""
    parts, log_cost, groups = [], [], []
    for problem, source in lesson.sources.items():
        rows = sampled(problem, source.sha256, lesson.folder, lesson.rows, lesson.seed)
        parts.append(inputs(rows[:, :-1], source.about, lesson.meta))
        log_cost.append(rows[:, -1])
        groups += [min(kin(source.about.dataset))] * len(rows)
    X, y = np.concatenate(parts), np.concatenate(log_cost)
    model = make_pipeline(StandardScaler(), _seeded(lesson.regressor, lesson.seed))
    error = np.empty_like(y)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network's number of passes is its regularisation
        for known, new in GroupKFold(min(FOLDS, len(set(groups)))).split(X, y, groups):
            error[new] = y[new] - clone(model).fit(X[known], y[known]).predict(X[new])
        model.fit(X, y)
    return Learned(model, math.sqrt(float(np.square(error).mean())))


def _seeded(regressor: Any, seed: int) -> Any:
    """Return an unfitted copy whose random states, where they are not set, come from `seed`."""
    copy = clone(regressor)
    unset = [name for name, value in copy.get_params(deep=True).items() if value is None and _is_state(name)]
    state = int(seed_sequence(seed, "transfer", "regressor").generate_state(1)[0] >> 1)  # some want 31 bits
    return copy.set_params(**dict.fromkeys(unset, state))


def _is_state(name: str) -> bool:
    return name.split("__")[-1] == "random_state"

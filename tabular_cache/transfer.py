"""Transfer: log cost as it is on other data sets' tables, whatever this run observes (`Transfer`), and log regret.

`TrainingSet` is what a model is trained on, `TransferModel` what came of it; trained models are kept in the cache.
"""

import math
import platform
import sys
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, no_type_check

import numpy as np
import scipy
import sklearn
from jaxtyping import Float
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from datasets import catalogue
from datasets.errors import BadInput
from datasets.files import cache_folder, read_sealed, write_sealed
from harness.arrays import CandidatePoints, PerCandidate, point_keys
from harness.compile_cache import njit
from harness.cost_models import CostModel, Features, log_costs
from harness.errors import flag, whole
from harness.normal import exp, log
from harness.problem import About, Problem
from harness.space import XGBOOST_SPACE
from harness.streams import seed_sequence, stream
from harness.surrogates.prior import PriorMean
from tabular_cache.schema import digest_of
from tabular_cache.table import TABLES, about, load_unchanged, table_entries

# Whose tables a model is trained on: those of other data sets, and some measured rows of each.

VERSION = 1  # raise it when the same table gives other rows


Entries = Mapping[str, Mapping[str, Any]]  # the manifest's, by problem


@cache
def related_datasets(dataset: str) -> frozenset[str]:
    """Return the data sets made of a raw file that `dataset` is made of, those that share rows, and itself.

    `satimage_code` is `satellite` with another target: the same rows and columns. A data set that is not in the
    catalogue is related to none but itself.
    """
    known = catalogue.entries()
    files = {
        name: {file.sha256 for source in entry.sources for file in source.files if file.sha256}
        for name, entry in known.items()
    }
    kin = {name: set(entry.kin) for name, entry in known.items()}
    same_file = {name for name, theirs in files.items() if files.get(dataset, set()) & theirs}
    return frozenset({dataset, *same_file, *kin.get(dataset, ()), *(name for name in kin if dataset in kin[name])})


LOG_COST, LOG_REGRET = "log_cost", "log_regret"
_LARGEST_REGRET, _SMALLEST_REGRET = 10.0, 0.01


def log_regret(error: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log(r + 0.01), r = (error - lowest) / (median - lowest) in [0, 10]: of the errors of one table.

    0 is what half of the configurations reach. Where the median is the lowest, all of its rank count as such. Raises
    BadInput for no errors.
    """
    if not len(error):
        raise BadInput("no training succeeded")
    lowest, median = error.min(), float(np.median(error))
    unit = median - lowest if median > lowest else max(float(error.max() - lowest), np.finfo(np.float64).tiny)
    return log(np.clip((error - lowest) / unit, 0.0, _LARGEST_REGRET) + _SMALLEST_REGRET)


@lru_cache(maxsize=512)
def training_rows(
    problem: str, sha256: str, folder: Path, rows: int, seed: int, target: str = LOG_COST
) -> Float[np.ndarray, "rows 8"]:
    """Return unit-cube coordinates and the target of `rows` measured rows, drawn from (problem, seed).

    target: LOG_COST, of `scaled_s`, or LOG_REGRET, `log_regret` of the validation errors of all measured
    rows that have one.

    Drawn without replacement; a table of fewer rows gives all of them, then again from the first one drawn, so that
    every problem weighs the same. Remembered, since reading all tables takes seconds. Raises BadInput for a
    table that is damaged or is not that of `sha256`, and for one with a cost that is not finite and positive.
    """
    table = load_unchanged(problem, sha256, folder)
    measured = np.flatnonzero(table.measured)
    try:
        if target == LOG_COST:
            value = log_costs(table["scaled_s"][measured])
        else:
            measured = measured[np.isfinite(table["val_error"][measured])]
            value = log_regret(table["val_error"][measured].astype(np.float64))
    except BadInput as error:
        raise BadInput(f"the table of {problem}: {error} of those measured") from None
    drawn = np.resize(stream(seed, "transfer", problem).permutation(len(measured)), rows)
    return np.column_stack([table.unit[measured[drawn]], value[drawn]])


# What a transferred cost model is trained on: which tables, which regressor and inputs.

TRAINING_SET_VERSION = 1  # raise it when the same training set gives another model
META = ("sizes", "work", "task", None)
_FEATURES = Features(XGBOOST_SPACE.names)


@dataclass(frozen=True)
class TrainingSet:
    """`rows` rows of each of the tables `sources`, for `regressor`; equal where the digest is.

    digest: over all that determines the model.
    """

    digest: str = field(init=False)
    regressor: Any = field(compare=False, repr=False)
    meta: str | None = field(compare=False)
    sources: Entries = field(compare=False, repr=False)
    folder: Path = field(compare=False)
    rows: int = field(compare=False)
    seed: int = field(compare=False)
    target: str = field(compare=False, default=LOG_COST)

    def __post_init__(self) -> None:
        parts = {"": self.regressor, **self.regressor.get_params(deep=True)}
        modules = {type(part).__module__.split(".")[0] for part in parts.values() if hasattr(part, "get_params")}
        libraries = {np, scipy, sklearn, *(sys.modules[module] for module in modules)}
        determining = {
            "version": [TRAINING_SET_VERSION, VERSION],
            "regressor": {name: _named(part) for name, part in parts.items()},
            "settings": [self.meta, self.rows, self.seed, *([self.target] if self.target != LOG_COST else [])],
            "tables": {p: [entry["sha256"], repr(about(p, entry))] for p, entry in self.sources.items()},
            "libraries": {library.__name__: getattr(library, "__version__", "") for library in libraries},
            "python": platform.python_version(),
        }
        object.__setattr__(self, "digest", digest_of(determining))


def _named(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}" if hasattr(part, "get_params") else repr(part)


def transfer_inputs(unit: Float[np.ndarray, "n d"], about: About, meta: str | None) -> Float[np.ndarray, "n k"]:
    """Return the hyperparameters on the scales of `Features`, and the problem's meta-features beside them.

    meta: "sizes": log rows, log columns, log trees per round (the classes where there are more than two, else 1);
    "work": the sum of the three, the log of what one round looks at; "task": sizes, log classes, and whether it is a
    regression; None: nothing. Raises BadInput for a problem without rows or columns.
    """
    if min(about.rows, about.columns) < 1:
        raise BadInput(f"{about.dataset}/{about.pipeline}: rows and columns must be >= 1, got {about}")
    sizes = [math.log(about.rows), math.log(about.columns), math.log(about.classes if about.classes > 2 else 1)]
    task = [*sizes, math.log(max(about.classes, 1)), float(about.task == "regression")]
    values = {"sizes": sizes, "work": [sum(sizes)], "task": task, None: []}[meta]
    return np.column_stack([*_FEATURES.columns(unit), *(np.full(len(unit), value) for value in values)])


# Training on other problems' tables: once for each training set, then from the cache.

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
class TransferModel:
    """A fitted pipeline from `transfer_inputs` to the target; sd: of a log cost on a data set that it has not seen."""

    model: Any
    sd: float


@lru_cache(maxsize=8)
def train_transfer(training_set: TrainingSet) -> TransferModel:
    """Return the model of this training set, from the cache or trained now; the last few are remembered.

    The cache holds skops files under the training set's digest, sealed with their own; damaged ones are trained again.
    Nothing is unpickled: types other than skops' own and TRUSTED are not loaded, so a regressor of the user's own is
    trained again in every process.
    """
    path = cache_folder("transfer") / f"{training_set.digest}.skops"
    content = read_sealed(path)
    found = None if content is None else _loaded(content)
    if found is not None:
        return found
    import skops.io  # takes seconds: it imports all of scikit-learn

    trained = _train(training_set)
    content = skops.io.dumps({"model": trained.model, "sd": trained.sd})
    found = _loaded(content)  # what was read and what was just trained are to be the same
    if found is None:
        return trained
    write_sealed(path, content)
    return found


def _loaded(content: bytes) -> TransferModel | None:
    """Return what the file holds; None if that is of other types, or no such file at all."""
    import skops.io

    try:
        if set(skops.io.get_untrusted_types(data=content)) - set(TRUSTED):
            return None
        found = skops.io.loads(content, trusted=TRUSTED)
        return TransferModel(found["model"], float(found["sd"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile):
        return None


def _train(training_set: TrainingSet) -> TransferModel:
    """Fit to all rows; sd is the root mean square of out-of-fold errors, folds whole data sets: of a cost only."""
    parts, values, groups = [], [], []
    settings = training_set.folder, training_set.rows, training_set.seed, training_set.target
    for problem, entry in training_set.sources.items():
        rows = training_rows(problem, entry["sha256"], *settings)
        parts.append(transfer_inputs(rows[:, :-1], about(problem, entry), training_set.meta))
        values.append(rows[:, -1])
        groups += [_group(problem)] * len(rows)
    X, y = np.concatenate(parts), np.concatenate(values)
    model = make_pipeline(StandardScaler(), _seeded(training_set.regressor, training_set.seed))
    error = np.empty_like(y)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a network's number of passes is its regularisation
        folds = GroupKFold(min(FOLDS, len(set(groups)))).split(X, y, groups) if training_set.target == LOG_COST else ()
        for known, new in folds:
            error[new] = y[new] - clone(model).fit(X[known], y[known]).predict(X[new])
        model.fit(X, y)
    sd = math.sqrt(float(np.square(error).mean())) if training_set.target == LOG_COST else math.nan
    return TransferModel(model, sd)


def _seeded(regressor: Any, seed: int) -> Any:
    """Return an unfitted copy whose random states, where they are not set, come from `seed`."""
    copy = clone(regressor)
    settings = copy.get_params(deep=True).items()
    unset = [name for name, value in settings if value is None and name.split("__")[-1] == "random_state"]
    state = int(seed_sequence(seed, "transfer", "regressor").generate_state(1)[0] >> 1)  # some want 31 bits
    return copy.set_params(**dict.fromkeys(unset, state))


_MOST_REMEMBERED = 1 << 16  # predictions; beyond that, candidates do not come again, and remembering is in vain


class Transferred:
    """What a regressor learned from the tables of other data sets: the base of `Transfer` and `TransferPrior`.

    Never seen: any table of the problem's own data set, nor of one made of the same raw file (`related_datasets`).

    regressor: scikit-learn style, unfitted; meta: the meta-features, see `transfer_inputs`; related: train on problems
    of the same kind of task (regression or classification) behind the same pipeline only, or behind any while fewer
    than two other data sets have that; rows: drawn from each table; tables: their folder, None for the shipped ones.
    An object serves one run. Raises BadInput for wrong settings.
    """

    target: ClassVar[str]

    def __init__(
        self,
        regressor: Any,
        meta: str | None = "sizes",
        related: bool = False,
        rows: int = 256,
        tables: str | None = None,
        seed: int = 0,
    ) -> None:
        if not all(hasattr(regressor, name) for name in ("fit", "predict", "get_params", "set_params")):
            raise BadInput(f"regressor must be a scikit-learn style regressor, got {regressor!r}")
        if meta not in META:
            raise BadInput(f"meta must be sizes, work, task or null, got {meta!r}")
        self._regressor, self._meta, self._related = regressor, meta, flag("related", related)
        self._rows, self._seed = whole("rows", rows, 1), whole("seed", seed, 0)
        self._folder = TABLES if tables is None else Path(tables)
        self._predictions: Predictions | None = None
        self.trained_on = 0

    def start(self, problem: Problem) -> None:
        """Train for this problem; raises BadInput for one that does not say what it is, or without tables for it."""
        about = described(problem)
        training_set = self.training_set(about)
        self._trained = train_transfer(training_set)
        self._predictions = predictions_of(training_set, about)
        self.trained_on = training_set.rows * len(training_set.sources)

    def fingerprint(self, problem: Problem) -> str:
        """Return the digest of the training set for this problem, without training; raises as `start`."""
        return self.training_set(described(problem)).digest

    def training_set(self, mine: About) -> TrainingSet:
        """Return what the model of a problem is trained on; its digest says what predictions are made of."""
        entries = other_tables(mine, self._folder, self._related)
        return TrainingSet(self._regressor, self._meta, entries, self._folder, self._rows, self._seed, self.target)

    def _predicted(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the target at `C`; what was asked before in this run is remembered."""
        if self._predictions is None:
            raise ValueError("predict was called before start")
        return self._predictions.at(C)


class Transfer(Transferred, CostModel):
    """log c(x) = g(h(x), meta-features), g a regressor fitted to the tables of other data sets.

    h: all hyperparameters on the scales of `Features`; both are standardised over the training rows. sd: root mean
    square of g's errors on data sets left out of its fit (5 groups), the same everywhere. Costs are the tables'
    `scaled_s`. Source: Guinet et al. 2020 (transferred cost models).
    """

    target: ClassVar[str] = LOG_COST

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Check the costs, which change nothing; raises BadInput naming the first that is not finite and positive."""
        log_costs(cost_s, len(X))

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`."""
        return self._predicted(C), np.full(len(C), self._trained.sd)


class TransferPrior(Transferred, PriorMean):
    """m(x) = exp(g(h(x), meta-features)), g a regressor fitted to `log_regret` of the tables of other data sets.

    So a point is expected to be as good, between the best and the median of a problem, as it was elsewhere.
    """

    target: ClassVar[str] = LOG_REGRET

    def predict(self, C: CandidatePoints) -> PerCandidate:
        """Return the expected regret at `C`, in units of the median's, plus 0.01 (`log_regret`)."""
        return exp(self._predicted(C))


class Predictions:
    """What a trained model says of points of one problem; what was asked before is remembered, in a hash table."""

    def __init__(self, model: Any, about: About, meta: str | None) -> None:
        self._model, self._about, self._meta = model, about, meta
        self._forget()

    def _forget(self) -> None:
        self._keys, self._values, self._n = np.zeros(_PLACES, np.uint64), np.zeros(_PLACES), 0

    def at(self, C: CandidatePoints) -> PerCandidate:
        """Return the model's prediction at unit-cube points."""
        keys, out = np.maximum(point_keys(C), np.uint64(1)), np.empty(len(C))
        new = _look_up(self._keys, self._values, keys, out)
        if not len(new):
            return out
        if self._n + len(new) > _MOST_REMEMBERED:
            self._forget()
        found = self._model.predict(transfer_inputs(C[new], self._about, self._meta))
        out[new] = found
        kept = new[:_MOST_REMEMBERED]
        self._n += _remember(self._keys, self._values, keys[kept], out[kept])
        return out


@lru_cache(maxsize=4)
def predictions_of(training_set: TrainingSet, about: About) -> Predictions:
    """Return the predictions of the model of a training set for one problem: the runs of a worker share them."""
    return Predictions(train_transfer(training_set).model, about, training_set.meta)


_PLACES = 2 * _MOST_REMEMBERED  # a power of two; 0 marks a free place, and the next free one is taken


@njit(cache=True)
@no_type_check
def _look_up(table, values, keys, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the values of `keys`, and return the indices of those that the table does not hold."""
    missing, n, last = np.empty(len(keys), np.intp), 0, np.uint64(len(table) - 1)
    for i in range(len(keys)):
        place = keys[i] & last
        while table[place] != 0 and table[place] != keys[i]:
            place = (place + np.uint64(1)) & last
        if table[place] == 0:
            missing[n] = i
            n += 1
        else:
            out[i] = values[place]
    return missing[:n]


@njit(cache=True)
@no_type_check
def _remember(table, values, keys, found):  # type: ignore[no-untyped-def]
    """Put keys with their values into the table; return how many are new."""
    new, last = 0, np.uint64(len(table) - 1)
    for i in range(len(keys)):
        place = keys[i] & last
        while table[place] != 0 and table[place] != keys[i]:
            place = (place + np.uint64(1)) & last
        new += table[place] == 0
        table[place], values[place] = keys[i], found[i]
    return new


def other_tables(mine: About, folder: Path, related: bool) -> Entries:
    """Return the tables to learn from for a problem: those of no data set that is related to its own.

    related: only those of the same task (regression or classification) behind the same pipeline, or behind any while
    fewer than two other data sets have that. Raises BadInput where there are not two other data sets.
    """
    found = {problem: (entry, about(problem, entry)) for problem, entry in table_entries(folder).items()}
    others = {p: (e, a) for p, (e, a) in found.items() if a.dataset not in related_datasets(mine.dataset)}
    if related:
        others = {p: (e, a) for p, (e, a) in others.items() if _kind(a) == _kind(mine)}
        closer = {p: (e, a) for p, (e, a) in others.items() if a.pipeline == mine.pipeline}
        others = closer if len(set(map(_group, closer))) > 1 else others
    if (groups := len(set(map(_group, others)))) < 2:
        which = f" {_kind(mine)}" if related else ""
        raise BadInput(
            f"transfer needs tables of two{which} data sets other than {mine.dataset}; {folder} has {groups}"
        )
    return {problem: entry for problem, (entry, _) in others.items()}


def described(problem: Problem) -> About:
    """Return what a problem says of itself; raises BadInput for one that transfer cannot serve."""
    if problem.about is None or problem.space != XGBOOST_SPACE:
        raise BadInput(
            f"transfer needs a problem that says what it is (`about`) in XGBoost's search space; "
            f"{problem.name} does not"
        )
    return problem.about


def _kind(about: About) -> str:
    return "regression" if about.task == "regression" else "classification"


def _group(problem: str) -> str:
    """Return one name for all data sets that are related to that of a problem."""
    return min(related_datasets(problem.partition("/")[0]))

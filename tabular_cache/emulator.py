"""The emulator: a table made continuous by an ensemble of small neural networks; and the evaluator `surface`.

    (log validation error, log test error, log cost) = mean over members of MLP(2u - 1), u in the unit cube

Each is fitted to all measured rows of one problem, prefixes included, targets standardised. Its accuracy is that
on configurations left out whole: a row's neighbours in the table are prefixes of the same training.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from datasets.errors import BadInput
from datasets.files import cache_folder, read_sealed, write_sealed
from harness.cli import SOME_FAILED
from harness.errors import whole
from harness.execution import run_counted
from harness.normal import exp, log
from harness.problem import PREFIX_GRID, ContinuousProblem, Curve, Evaluation, Problems, Stop, cap, stopped
from harness.streams import seed_sequence, stream
from tabular_cache.regressors import Layers, NetworkRegressor, outputs
from tabular_cache.replay import TableSettings
from tabular_cache.schema import sha256_of
from tabular_cache.table import TABLES, Table, about, first_configs, load_table, table_entry

VERSION = 2  # raise it when the same table gives another emulator
LEAST_ROWS = 50
OUTPUTS = ("val_error", "test_error", "scaled_s")
_HIDDEN, _MEMBERS, _PASSES, _BATCH, _RATE, _DECAY = (64, 64), 4, 120, 256, 3e-3, 1e-5


@dataclass(frozen=True)
class Emulator:
    """Fitted networks: `members` of layers (weights, biases), the targets' means and standard deviations."""

    members: list[Layers]
    mean: Float[np.ndarray, " 3"]
    sd: Float[np.ndarray, " 3"]

    def predict(self, unit: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 3"]:
        """Return validation error, test error and cost in seconds (`OUTPUTS`) at points of the unit cube."""
        total = np.zeros((len(unit), len(OUTPUTS)))
        for layers in self.members:
            total += outputs(layers, 2.0 * unit - 1.0)
        return exp(self.mean + self.sd * (total / len(self.members)))

    @property
    def arrays(self) -> list[np.ndarray]:
        """Means, standard deviations, then weights and biases, layer by layer, of each member."""
        return [self.mean, self.sd, *(a for layers in self.members for layer in layers for a in layer)]

    @property
    def digest(self) -> str:
        """The SHA-256 of the networks' weights."""
        return sha256_of(b"".join(np.ascontiguousarray(array).tobytes() for array in self.arrays))


def targets(table: Table) -> Float[np.ndarray, "n 3"]:
    """Return the logs of `OUTPUTS`; an error of zero counts as half a misclassified row, or half the least RMSE."""
    rows = {"val_error": table.meta["n_valid"], "test_error": table.meta["n_test"]}
    if table.meta["task"] == "regression":  # in units of the target, whatever they are
        least = {name: 0.5 * min((v for v in table[name] if v > 0), default=1.0) for name in rows}
    else:
        least = {name: 0.5 / n for name, n in rows.items()}
    return log(np.stack([np.maximum(table[name], least.get(name, 0.0)) for name in OUTPUTS], axis=1))


def fit(table: Table, rows: Bool[np.ndarray, " n"] | None = None, members: int = _MEMBERS) -> Emulator:
    """Fit an emulator to the measured rows of a table, or to those of them in `rows`.

    Raises BadInput when there are too few.
    """
    chosen = table.measured & np.isfinite(table["val_error"]) & (True if rows is None else rows)
    if chosen.sum() < LEAST_ROWS:
        raise BadInput(
            f"an emulator is fitted to at least {LEAST_ROWS} measured rows, those asked for of {table.problem} are "
            f"{chosen.sum()}: more configurations (evaluator.n_configs), or evaluator=replay"
        )
    x, y = 2.0 * table.unit[chosen] - 1.0, targets(table)[chosen]
    mean, sd = y.mean(axis=0), y.std(axis=0) + 1e-12
    y = (y - mean) / sd
    return Emulator([_train(x, y, table.problem, member) for member in range(members)], mean, sd)


def _train(x: np.ndarray, y: np.ndarray, problem: str, member: int) -> Layers:
    """Train one network by Adam on squared error, its step falling to zero along a cosine."""
    seed = int(seed_sequence(member, "emulator", problem).generate_state(1)[0])
    network = NetworkRegressor(_HIDDEN, _DECAY, _BATCH, _RATE, _PASSES, True, seed)
    return network.fit(x, y).layers_


def left_out(table: Table, share: float = 0.1, seed: int = 0) -> Bool[np.ndarray, " n"]:
    """Return the rows of a random `share` of the configurations, whole."""
    configs: Int[np.ndarray, " c"] = np.unique(table["config"])
    n = max(1, round(share * len(configs)))
    drawn = stream(seed, "left out", table.problem).choice(configs, size=n, replace=False)
    return np.isin(table["config"], drawn)


def accuracy(
    table: Table, share: float = 0.1, seed: int = 0, best: float = 0.1, n_configs: int | None = None
) -> dict[str, float]:
    """Return the relative errors of an emulator on left-out configurations: medians over rows, as fractions.

    error_all, cost_all: over all measured rows; error_best, cost_best: over those in the `best` share by error. The
    emulator learns from the first `n_configs` configurations (None: all) that are not left out; whatever their number,
    it is judged on the same rows. Raises BadInput when there are too few.
    """
    out = left_out(table, share, seed)
    emulator = fit(table, ~out & first_configs(table, n_configs))
    usable = table.measured & np.isfinite(table["val_error"])
    judged = out & usable
    truth = exp(targets(table)[judged])
    relative = np.abs(emulator.predict(table.unit[judged]) / truth - 1.0)
    good = truth[:, 0] <= np.quantile(exp(targets(table)[usable, 0]), best)
    some = good if good.any() else truth[:, 0] == truth[:, 0].min()
    return {
        "error_all": float(np.median(relative[:, 0])),
        "cost_all": float(np.median(relative[:, 2])),
        "error_best": float(np.median(relative[some, 0])),
        "cost_best": float(np.median(relative[some, 2])),
    }


# How well the emulators of tables predict configurations they have not seen: `python -m tabular_cache emulator`.

COLUMNS = {"error_all": "error, all", "error_best": "error, best tenth"}
COLUMNS |= {"cost_all": "cost, all", "cost_best": "cost, best tenth"}


def judge(
    executor: Executor, names: Sequence[str], folder: Path, n_configs: int | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row of median relative errors (percent) per problem, and what could not be judged and why.

    n_configs: the emulators learn from so many configurations, see `accuracy`.
    """
    rows, failed = {}, []
    for problem, found in run_counted(executor, partial(_judged, folder, n_configs), names, "emulators", "fit"):
        if isinstance(found, BaseException):
            failed.append(f"{problem}: {found}")
        else:
            rows[problem] = {"problem": problem} | {name: 100 * value for name, value in found.items()}
    return pd.DataFrame([rows[name] for name in names if name in rows], columns=["problem", *COLUMNS]), failed


def _judged(folder: Path, n_configs: int | None, problem: str) -> dict[str, float]:
    return accuracy(load_table(problem, folder), n_configs=n_configs)


def print_judged(frame: pd.DataFrame, failed: list[str]) -> int:
    """Print the table and its medians; returns the exit code."""
    if len(frame):
        print("median relative error on configurations left out whole (a tenth of them), percent")
        print(frame.rename(columns=COLUMNS).to_string(index=False, float_format="{:.2f}".format))
        medians = frame[list(COLUMNS)].median()
        print("median over problems: " + ", ".join(f"{title} {medians[name]:.2f}" for name, title in COLUMNS.items()))
    for line in failed:
        print(f"not judged: {line}")
    return SOME_FAILED if failed else 0


# Surface: a table made continuous again. Candidates are fresh Sobol points; evaluating one asks the emulator.


class SurfaceProblem(ContinuousProblem):
    """One emulated problem for one run; it offers the points that a live problem of this name and seed offers."""

    costs_known = True
    rounds = "n_estimators"

    def __init__(self, name: str, emulator: Emulator, seed: int, n_candidates: int, entry: Mapping[str, Any]) -> None:
        super().__init__(name, seed, n_candidates)
        self._emulator, self.about = emulator, about(name, entry)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the emulator's costs in seconds."""
        return self._emulator.predict(C)[:, 2]

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return what the emulator says of the native hyperparameters `x`; its cost stands for wall time too."""
        error, test_error, cost = self._emulator.predict(self.space.to_unit(x[None, :]))[0]
        return Evaluation(error=float(error), cost_s=float(cost), test_error=float(test_error), wall_s=float(cost))

    def evaluate_with_curve(self, candidate: int, stop: Stop | None = None) -> Evaluation:
        """Return what the emulator says of the candidate and its prefixes; raises ValueError for `stop`."""
        if stop is not None:
            raise ValueError(f"{self.name}: emulated trainings are not stopped")
        x, axis = self.native(candidate), self.space.names.index(self.rounds)
        shown = [*(r for r in PREFIX_GRID if r < x[axis]), int(x[axis])]
        points = np.tile(x, (len(shown), 1))
        points[:, axis] = shown
        error, test_error, cost_s = self._emulator.predict(self.space.to_unit(points)).T
        cost_s = np.maximum.accumulate(cost_s)
        curve = Curve(tuple(shown), tuple(error.tolist()), tuple(test_error.tolist()), tuple(cost_s.tolist()))
        return replace(self.measure(x), curve=curve)

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Look the surface up, as a training stopped at `cap_s` seconds would have ended."""
        return stopped(self.evaluate(candidate), cap(cap_s))


@dataclass(frozen=True)
class Surface(TableSettings):
    """The evaluator `surface`: opens emulated tables as problems.

    tables: folder of the tables, null for the shipped one; n_candidates: points offered per step; n_configs: learn
    from the first so many configurations of a table only, null for all; at_most_configs: the same where tables may have
    fewer. The emulator of a table is fitted when it is first needed (some ten seconds, for large tables a minute), by
    a study's workers before anything else, and kept in the cache under the table's content.
    """

    tables: str | None = None
    n_candidates: int = 4096
    n_configs: int | None = None
    seeds_per_block: int | None = 10
    at_most_configs: int | str | None = None

    def __post_init__(self) -> None:
        whole("evaluator.n_candidates", self.n_candidates, 1)
        super().__post_init__()

    def prepare(self, problems: Problems, executor: Callable[[], Executor]) -> None:
        """Fit the emulators that are not in the cache yet."""
        names = [self._problem(*one) for one in problems]
        asked = [(name, self._folder, self._configs(name)) for name in names]
        missing = [one for one in asked if _kept(*one) is None]
        if not missing:
            return
        for one, outcome in run_counted(executor(), _fitted, missing, "surfaces", "fitted once"):
            if not isinstance(outcome, BaseException) and _kept(*one) is None:  # the worker has a cache of its own
                sha256, content = outcome
                write_sealed(_kept_at(sha256, one[2]), content)

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the digest of the fitted emulator; raises BadInput when its table is missing or damaged."""
        return self._emulator(dataset, pipeline).digest

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> SurfaceProblem:
        """Return the problem of one run."""
        name = self._problem(dataset, pipeline)
        entry = table_entry(name, self._folder)
        return SurfaceProblem(name, self._emulator(dataset, pipeline), seed, self.n_candidates, entry)

    def _emulator(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Emulator:
        name = self._problem(dataset, pipeline)
        return emulator_of(name, self._folder, self._configs(name))


@lru_cache(maxsize=8)
def emulator_of(problem: str, folder: Path = TABLES, n_configs: int | None = None) -> Emulator:
    """Return the emulator of a problem's table (of its first configurations), from the cache or fitted now."""
    content = _kept(problem, folder, n_configs)
    if content is not None:
        return load(content)
    table = load_table(problem, folder)  # not `read_table`: the one remembered may be older than a build
    emulator = fit(table, first_configs(table, n_configs))
    write_sealed(_kept_at(table.meta["sha256"], n_configs), dump(emulator))
    return emulator


def _fitted(one: tuple[str, Path, int | None]) -> tuple[str, bytes]:
    """Return the sha256 of the table here and its emulator (`dump`), from the cache here or fitted now."""
    problem, folder, _ = one
    return table_entry(problem, folder)["sha256"], dump(emulator_of(*one))


def _kept(problem: str, folder: Path, n_configs: int | None) -> bytes | None:
    return read_sealed(_kept_at(table_entry(problem, folder)["sha256"], n_configs))


def _kept_at(sha256: str, n_configs: int | None) -> Path:
    return cache_folder("emulators") / f"v{VERSION}-{sha256}-{n_configs or 'all'}.arrays"


def dump(emulator: Emulator) -> bytes:
    """Return an emulator as bytes."""
    sink = io.BytesIO()
    np.savez(sink, *emulator.arrays)
    return sink.getvalue()


def load(content: bytes) -> Emulator:
    """Return the emulator of `dump`. Nothing is unpickled."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        mean, sd, *arrays = (found[f"arr_{i}"] for i in range(len(found)))
    layers, size = list(zip(arrays[::2], arrays[1::2], strict=True)), len(_HIDDEN) + 1
    return Emulator([layers[i : i + size] for i in range(0, len(layers), size)], mean, sd)

"""The emulator: a table made continuous by an ensemble of small neural networks.

    (log validation error, log test error, log cost) = mean over members of MLP(2u - 1), u in the unit cube

Each is fitted to all measured rows of one problem, prefixes included, targets standardised. Its accuracy is that
on configurations left out whole: a row's neighbours in the table are prefixes of the same training.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from datasets.errors import BadInput
from harness.normal import exp, log
from harness.streams import seed_sequence, stream
from tabular_cache.cargo import first
from tabular_cache.regressors import Layers, NetworkRegressor, outputs
from tabular_cache.table import Table

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
    def digest(self) -> str:
        """The SHA-256 of the networks' weights."""
        content = hashlib.sha256()
        for array in (self.mean, self.sd, *(a for layers in self.members for layer in layers for a in layer)):
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()


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
    emulator = fit(table, ~out & first(table, n_configs))
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

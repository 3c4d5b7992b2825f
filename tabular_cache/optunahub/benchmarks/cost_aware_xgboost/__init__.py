"""Measured trainings of XGBoost as problems of OptunaHub; needs NumPy, and the folder `tables` beside this file."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optunahub.benchmarks import BaseProblem

__all__ = ["Problem", "problems"]
_FOLDER = Path(__file__).resolve().parent / "tables"


def problems() -> list[tuple[str, str]]:
    """Return the pairs (dataset, pipeline) that are there."""
    found = (path.stem.split("--") for path in sorted(_FOLDER.glob("*.npz")))
    return [(dataset, pipeline) for dataset, pipeline in found]


class Problem(BaseProblem):  # type: ignore[misc]
    """Minimises the validation error over measured trainings; raises ValueError for a problem that is not there.

    A trial gets the outcome of the measured configuration nearest in the unit cube, by Euclidean distance, the first
    of equal ones; its user attributes are `cost` in seconds, `test_error` and `row`.
    """

    def __init__(self, dataset: str = "abalone", pipeline: str = "clean") -> None:
        if (dataset, pipeline) not in problems():
            there = ", ".join(sorted({"/".join(pair) for pair in problems()}))
            raise ValueError(f"no table of {dataset}/{pipeline}; there are: {there}")
        with np.load(_FOLDER / f"{dataset}--{pipeline}.npz", allow_pickle=False) as file:
            self._native, self._error = file["X"].astype(float), file["error"]
            self._test_error, self._cost = file["test_error"], file["cost"]
        self._unit = self._to_unit(self._native)

    @cached_property
    def search_space(self) -> dict[str, BaseDistribution]:
        """The seven hyperparameters, in the order of the columns."""
        return {p["name"]: _distribution(**p) for p in json.loads((_FOLDER / "space.json").read_text())}

    @property
    def directions(self) -> list[optuna.study.StudyDirection]:
        """One: minimise."""
        return [optuna.study.StudyDirection.MINIMIZE]

    @property
    def best(self) -> float:
        """The lowest validation error of the table."""
        return float(self._error.min())

    def look_up(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return row, error, test_error, cost and the params of the measured configuration nearest to `params`."""
        x = self._to_unit(np.array([[float(params[name]) for name in self.search_space]]))
        row = int(np.square(self._unit - x).sum(axis=1).argmin())
        values = zip(self.search_space.items(), self._native[row].tolist(), strict=True)
        nearest = {name: round(v) if isinstance(p, IntDistribution) else v for (name, p), v in values}
        numbers = {"error": self._error[row], "test_error": self._test_error[row], "cost": self._cost[row]}
        return {"row": row, **{name: float(value) for name, value in numbers.items()}, "params": nearest}

    def evaluate(self, params: dict[str, Any]) -> float:
        """Return the validation error."""
        return float(self.look_up(params)["error"])

    def __call__(self, trial: optuna.Trial) -> float:
        """Return the validation error of a trial, and note its cost."""
        value = float(super().__call__(trial))
        found = self.look_up(trial.params)
        for name in ("cost", "test_error", "row"):
            trial.set_user_attr(name, found[name])
        return value

    def _to_unit(self, native: np.ndarray) -> np.ndarray:
        unit = np.empty_like(native)
        for j, p in enumerate(self.search_space.values()):
            assert isinstance(p, IntDistribution | FloatDistribution)
            x, low, high = native[:, j], p.low, p.high
            unit[:, j] = np.log(x / low) / np.log(high / low) if p.log else (x - low) / (high - low)
        return unit


def _distribution(name: str, low: float, high: float, log: bool, integer: bool) -> BaseDistribution:
    return IntDistribution(int(low), int(high), log=log) if integer else FloatDistribution(low, high, log=log)

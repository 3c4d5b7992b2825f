"""A step can be computed again from its record alone, by nothing but NumPy and SciPy."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from scipy.stats import norm

import harness
from harness.errors import BadInput
from harness.execution import serial
from harness.problem import LATE
from harness.records import read_models, read_traces
from harness.space import XGBOOST_SPACE

TABLES = Path(__file__).parents[1] / "golden" / "tables"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    where = ("dataset=[phoneme]", "pipeline=[clean]", "seeds=[0]", f"evaluator.tables={TABLES}")
    for more in (
        ("+acq=eialpha", "alpha=0.3", f"iterations={LATE + 12}"),  # beyond LATE solutions are extended, not made anew
        ("+acq=ei", "fit=gpyopt", "iterations=16"),
        ("+acq=ei", "surrogate=rf", "surrogate.trees=20", "iterations=8"),
        ("+acq=random", "iterations=8"),
    ):
        with serial() as executor:
            harness.run(harness.compose(*where, *more), folder, executor)
    return folder


def matern(A: np.ndarray, B: np.ndarray, lengths: np.ndarray, signal: float) -> np.ndarray:
    r = math.sqrt(5.0) * cdist(A / lengths, B / lengths)
    return signal * (1 + r + r * r / 3) * np.exp(-r)


def log_ei(run: pd.DataFrame, step: int, fitted: pd.Series, noise_in_sd: bool, jitter: float) -> float:
    """Return log EI of the point evaluated at `step` given what was evaluated before (none of which failed)."""
    unit = XGBOOST_SPACE.to_unit(run[list(XGBOOST_SPACE.names)].to_numpy(float))
    X, y, x = unit[:step], run["error"].to_numpy()[:step], unit[step : step + 1]
    lengths, signal, noise = map(
        np.exp, (fitted.log_length_scales, fitted.log_signal_variance, fitted.log_noise_variance)
    )
    K = cho_factor(matern(X, X, lengths, signal) + noise * np.eye(step))
    z, k = (y - y.mean()) / y.std(), matern(X, x, lengths, signal)[:, 0]
    mean = y.mean() + y.std() * k @ cho_solve(K, z)
    sd = y.std() * math.sqrt(signal - k @ cho_solve(K, k) + noise * noise_in_sd)
    at_points = y.mean() + y.std() * matern(X, X, lengths, signal) @ cho_solve(K, z)
    gap = (at_points.min() if noise_in_sd else y.min()) - jitter * y.std() - mean
    return math.log(sd * (norm.pdf(gap / sd) + gap / sd * norm.cdf(gap / sd)))


def test_log_ei_of_every_choice_follows_from_hyperparameters_and_evaluations(results: Path) -> None:
    models = read_models(results).set_index(["spec", "seed", "step"])
    traces, checked = read_traces(results).sort_values("step"), 0
    made = traces[(traces["acq"] != "random") & (traces["surrogate"] != "rf")]
    for (spec, seed), run in made.groupby(["spec", "seed"]):
        gpyopt = run["surrogate"].iloc[0] == "gp_shared"  # its sd has the noise in it, its incumbent is a mean
        for step in range(5, len(run)):
            found = log_ei(run, step, models.loc[(spec, seed, step)], gpyopt, 0.01 * gpyopt)
            assert found == pytest.approx(run["log_ei"].iloc[step], rel=1e-9, abs=1e-9)
            checked += 1
    assert checked == LATE + 12 - 5 + 11


def test_both_ends_of_alpha_and_no_numbers_without_models(results: Path) -> None:
    traces, models = read_traces(results), read_models(results)
    rows = traces.merge(models, on=["spec", "seed", "step"])
    assert len(rows) == len(models) == LATE + 7 + 11 + 3 + 3 and rows["effective_alpha"].equals(
        rows["effective_alpha_low"]
    )
    own = rows[rows["acq"] == "eialpha"]
    assert (own["effective_alpha_low"] <= 0.3 + 1e-9).all() and (own["effective_alpha_high"] >= 0.3 - 1e-9).all()
    assert {len(lengths) for lengths in own["log_length_scales"]} == {7}
    blind, forest = rows[rows["acq"] == "random"], rows[rows["surrogate"] == "rf"]
    assert blind[["predicted_cost_s", "log_ei", "effective_alpha", "effective_alpha_high"]].isna().all(axis=None)
    for part in (blind, forest):
        assert part[["log_length_scales", "log_signal_variance", "log_noise_variance"]].isna().all(axis=None)
    assert forest["effective_alpha_high"].notna().any()


def test_records_without_models_have_none_and_damaged_ones_are_named(results: Path) -> None:
    path = next(results.rglob("random*/*.models.parquet"))
    content = path.read_bytes()
    path.unlink()
    assert len(read_models(results)) == LATE + 7 + 11 + 3 and len(read_traces(results)) == LATE + 12 + 16 + 8 + 8
    path.write_bytes(content[:60] + b"\xff" + content[61:])
    with pytest.raises(BadInput, match=rf"damaged record .*{path.name} .*: move it and seeds-0.parquet beside it away"):
        read_models(results)
    path.write_bytes(content)

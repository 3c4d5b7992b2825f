"""KG, MES and GIBBON against BoTorch's kept values, on the same posterior; deviations are printed by `pytest -s`.

The posterior is chosen to be well conditioned: 8 points, signal variance 1.3, noise 0.01 (QUIET: 1e-4), so that K has a
condition number of at most 8 x 1.3 / 0.01 = 1e3 (1e5), and rounding moves means and variances by 1e-12 at most (1e-10
with a constant of 8, in fact 1e-13).
"""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from botorch_values import GOLDEN, NOISE, QUIET, C, X, Y, values
from lookahead_cases import make_context, posterior

from harness.acquisitions.entropy import Gibbon, MaxValueEntropySearch
from harness.acquisitions.kg import KnowledgeGradient

SCALE = float(Y.std())


@cache
def golden() -> dict[str, Any]:
    kept = json.loads(GOLDEN.read_text())
    return {name: value if name == "versions" else np.array(value) for name, value in kept.items()}


def report(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    deviation = float(np.abs(found - expected).max())
    print(f"{name}: largest deviation {deviation:.2e} of values up to {np.abs(expected).max():.3g}")
    return deviation


def standardised(noise: float) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = posterior(X, Y, noise=noise).moments(C)
    return (mean - Y.mean()) / SCALE, variance / SCALE**2


@pytest.mark.slow
def test_the_kept_values_are_botorchs() -> None:
    pytest.importorskip("torch", reason="the optional extra parity (torch) is not installed")
    pytest.importorskip("botorch", reason="the optional extra parity (botorch) is not installed")
    again = values()
    for name, kept in golden().items():
        if name != "versions":
            np.testing.assert_allclose(again[name], kept, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_posteriors_are_the_same() -> None:
    joint = posterior(X, Y, noise=NOISE).joint(C)
    assert report("mean", (joint.mean - Y.mean()) / SCALE, golden()["mean"]) < 1e-10
    assert report("covariance", joint.covariance / SCALE**2, golden()["covariance"]) < 1e-10


def test_exact_kg_agrees_with_fantasies() -> None:
    context = make_context(C, X, Y, posterior(X, Y, noise=NOISE))
    found = np.exp(KnowledgeGradient(points=len(C)).log_value(context)) / SCALE
    # theirs is a mean over 4,096 quasi-random fantasies, of a quantity that varies by some 0.1
    assert report("KG against fantasies", found, golden()["kg"]) < 3e-3
    assert golden()["kg"].max() > 0.02


def test_gibbon_is_botorchs_lower_bound() -> None:
    kept = golden()
    found = np.exp(Gibbon().given(kept["gibbon_mean"], kept["gibbon_variance"], NOISE, kept["samples"]))
    # the same closed formula of the same numbers, values below 1: some units of rounding
    assert report("GIBBON, from BoTorch's own mean and variance", found, kept["gibbon"]) < 1e-14
    ours = np.exp(Gibbon().given(*standardised(NOISE), NOISE, kept["samples"]))
    assert report("GIBBON, from our mean and variance", ours, kept["gibbon"]) < 1e-10


def test_mes_is_botorchs_noisy_one_where_there_is_hardly_any_noise() -> None:
    """Theirs is the information of a noisy observation, by Monte Carlo; it differs by the noise's share."""
    kept = golden()
    mean, variance = standardised(QUIET)
    assert report("mean with less noise", mean, kept["quiet_mean"]) < 1e-10
    found = np.exp(MaxValueEntropySearch().given(mean, variance, QUIET, kept["quiet_samples"]))
    assert report("MES where there is hardly any noise, nats", found, kept["mes"]) < 0.01
    large = kept["mes"] > 0.01
    assert large.sum() >= 10
    assert report("MES, relative", found[large] / kept["mes"][large], np.ones(large.sum())) < 0.03

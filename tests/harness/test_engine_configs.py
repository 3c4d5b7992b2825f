"""Every engine YAML is short, instantiates, and keeps its protocol."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from harness.acquisitions import StepContext
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.cost_models.linear import LowVariance
from harness.surrogates.gp import GaussianProcess

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
GROUPS = ("acq", "utility", "surrogate", "cost_model")
FILES = [path for group in GROUPS for path in sorted((CONFIGS / group).glob("*.yaml"))]
RNG = np.random.default_rng(0)
X, C = RNG.random((12, 7)), RNG.random((40, 7))


def _load(group: str, name: str) -> Any:
    acq = OmegaConf.load(CONFIGS / group / f"{name}.yaml")
    return OmegaConf.create({"lam": 0.25, "alpha": 0.4, "node": acq}).node


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_config_has_at_most_ten_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 10


def test_acquisitions_name_themselves_and_their_rules() -> None:
    found = {p.stem: _load("acq", p.stem) for p in FILES if p.parent.name == "acq"}
    assert all(node.name == stem for stem, node in found.items())
    rules = {stem: instantiate(node.rule) for stem, node in found.items()}
    types = {"ei": Ignore, "eialpha": Power, "eipu": Power, "eicool": Cool, "cei": Contextual}
    assert {stem: type(rules[stem]) for stem in types} == types
    assert (rules["eialpha"].alpha, rules["eipu"].alpha, rules["cei"].lam) == (0.4, 1.0, 0.25)


@pytest.mark.parametrize("name", [p.stem for p in FILES if p.parent.name == "acq"])
def test_each_rule_scores_every_candidate(name: str) -> None:
    rule = instantiate(_load("acq", name).rule)
    value, cost = RNG.normal(size=40), RNG.normal(size=40)
    value[3] = -np.inf
    belief = StepContext(value, np.ones(40), 0.0, cost, np.ones(40), 20, 100, 5, 3.0, 1.0, 10.0)
    score = rule.score(value, cost, belief)
    assert score.shape == (40,) and not np.isnan(score).any() and np.isfinite(score.max())


def test_low_variance_models_are_nested() -> None:
    features = [instantiate(_load("cost_model", f"lv{k}")).features for k in (1, 2, 3)]
    assert [len(f) for f in features] == [1, 2, 3]
    assert features[2][:2] == features[1] and features[1][:1] == features[0]
    assert isinstance(instantiate(_load("cost_model", "lv3")), LowVariance)


def test_the_default_surrogate_and_utility_fit_and_score() -> None:
    surrogate = instantiate(_load("surrogate", "gp"))
    assert isinstance(surrogate, GaussianProcess)
    mean, sd = surrogate.fit(X, X[:, 0]).mean_sd(C)
    belief = StepContext(mean, sd, float(X[:, 0].min()), mean, sd, 12, 100, 5, 1.0, 1.0, None)
    value = instantiate(_load("utility", "ei")).log_value(belief)
    assert value.shape == (40,) and np.isfinite(value).all()

"""Every component that a YAML names keeps its protocol's promises; a new one is picked up by itself."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from fakes import Unasked, make_tables
from hydra.utils import instantiate
from omegaconf import OmegaConf

import datasets
import pipelines
from harness.acquisitions import CostRule, FittedData, StepContext, choose
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.acquisitions.designs import Design
from harness.component import asks_for_problem
from harness.config import CONFIGS, OPTIONAL
from harness.cost_models import CostModel
from harness.cost_models.linear import LowVariance
from harness.errors import BadInput
from harness.more_candidates import MoreCandidates
from harness.optimizer import Optimizer
from harness.problem import About, Evaluation
from harness.space import XGBOOST_SPACE as SPACE
from harness.streams import stream
from harness.surrogates import Surrogate
from harness.surrogates.gp import GaussianProcess

T = TypeVar("T")
PARAMETERS = {"lam": 0.3, "alpha": 0.5}
RNG = stream(0, "contracts")
X, C = SPACE.snap(RNG.random((12, 7))), SPACE.snap(RNG.random((40, 7)))
Y, COST = np.sin(3 * X[:, 0]) + X[:, 1], np.exp(2 * X[:, 0] + X[:, 6])


def configs(group: str) -> list[Path]:
    found = sorted((CONFIGS / group).glob("*.yaml"))
    assert found, f"configs/{group} is empty"
    return found


def load(path: Path):
    return OmegaConf.to_container(OmegaConf.merge(PARAMETERS, OmegaConf.load(path)), resolve=True)


def make(path: Path):
    if path.stem == "gpyopt":
        pytest.importorskip("GPyOpt", reason="the extra `gpyopt` is not installed")
    plain = load(path)
    for name in PARAMETERS:
        plain.pop(name)
    return instantiate(plain)


def context(m: int = 40) -> StepContext:
    rng, posterior = stream(1, "belief"), GaussianProcess().fit(X, Y)
    mean, sd = posterior.mean_sd(C[:m])
    return StepContext(
        mean=mean,
        sd=sd,
        incumbent=float(Y.min()),
        log_cost=rng.normal(size=m),
        log_cost_sd=np.full(m, 0.1),
        step=8,
        iterations=20,
        n_initial=5,
        spent=3.0,
        initial_cost=1.0,
        tau=None,
        history=FittedData(X, Y, posterior),
        points=C[:m],
        cost_s=COST[:8],
    )


@pytest.mark.parametrize("path", configs("surrogate"), ids=lambda p: p.stem)
def test_surrogates(path: Path, tables: Path) -> None:
    surrogate = started(path, tables, Surrogate)
    for n in (5, 8, 12):
        mean, sd = surrogate.fit(X[:n], Y[:n]).mean_sd(C)
        assert mean.shape == sd.shape == (40,)
        assert np.isfinite(mean).all()
        assert (np.isfinite(sd) & (sd > 0)).all()
    scaled = started(path, tables, Surrogate).fit(X, 1000 * Y + 5).mean_sd(X)[0]
    assert np.corrcoef(scaled, Y)[0, 1] > 0.9


class Priced(Unasked):
    """A problem as cost models see it: it says what it is, and knows its costs."""

    name, space = "a/p", SPACE
    about = About("a", "p", "binary", 60, 3, 2)
    costs_known = anywhere = True

    def true_cost_s(self, points: np.ndarray) -> np.ndarray:
        return np.exp(2 * points[:, 0] + points[:, 6])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COST_AWARE_BO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p", "b/q", "c/p"], 8)


def started(path: Path, tables: Path, base: type[T]) -> T:
    """A component that knows the problem, if it asks; where it learns from tables, from these."""

    def elsewhere(node: object) -> None:
        if isinstance(node, dict):
            node |= {"tables": str(tables)} if "tables" in node else {}
            for part in node.values():
                elsewhere(part)

    if path.stem == "gpyopt":
        pytest.importorskip("GPyOpt", reason="the extra `gpyopt` is not installed")
    plain = load(path)
    elsewhere(plain)
    model = instantiate({k: v for k, v in plain.items() if k not in PARAMETERS})
    if hasattr(model, "start"):
        model.start(Priced())
    assert isinstance(model, base)
    return model


@pytest.mark.parametrize("path", configs("design"), ids=lambda p: p.stem)
def test_designs(path: Path, tables: Path) -> None:
    points = started(path, tables, Design).points(Priced(), 5)
    assert points.shape[1:] == (7,) and 1 <= len(points) <= 5
    assert ((points >= 0) & (points <= 1)).all() and len(np.unique(points, axis=0)) == len(points)
    np.testing.assert_array_equal(started(path, tables, Design).points(Priced(), 2), points[:2])


@pytest.mark.parametrize("path", configs("candidates"), ids=lambda p: p.stem)
def test_candidates(path: Path, tables: Path) -> None:
    errors = np.where(Y > 1.0, np.nan, Y)
    for n in (1, 12):
        one, other = (started(path, tables, MoreCandidates).points(X[:n], errors[:n], stream(n, "more")) for _ in "ab")
        assert one.shape[1:] == (7,) and len(one) and ((one >= 0) & (one <= 1)).all()
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("path", configs("cost_model"), ids=lambda p: p.stem)
def test_cost_models(path: Path, tables: Path) -> None:
    one = X.copy()
    one[:, 6] = 0.4
    same, rows = np.full_like(X, 0.4), np.array([7, 0, 39, 7])
    for points, cost in ((X, COST), (X, np.full(12, 3.0)), (one, COST), (same, COST)):
        model, again = started(path, tables, CostModel), started(path, tables, CostModel)
        for n in (1, 6, 12):
            model.fit(points[:n], cost[:n])
            again.fit(points[:n], cost[:n])
            mean, sd = model.predict(C)
            assert mean.shape == sd.shape == (40,)
            assert np.isfinite(mean).all() and (np.isfinite(sd) & (sd >= 0)).all()
            np.testing.assert_array_equal(again.predict(C), (mean, sd))
            np.testing.assert_array_equal(again.predict_mean(C), mean)
            np.testing.assert_array_equal(again.predict_mean_at(C, rows), mean[rows])
    if not asks_for_problem(type(model)):
        model.fit(X, COST)
        again.fit(X, 10 * COST)
        np.testing.assert_allclose(again.predict(C)[0], model.predict(C)[0] + np.log(10), rtol=0, atol=1e-6)
    for bad in (0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"got {bad} in row 3"):
            model.fit(X, np.where(np.arange(12) == 3, bad, COST))


@pytest.mark.parametrize("path", configs("utility"), ids=lambda p: p.stem)
def test_utilities_are_deterministic_and_defined_for_one_candidate(path: Path) -> None:
    for m in (40, 1):
        value = make(path).log_value(context(m))
        assert value.shape == (m,) and not np.isnan(value).any()
        np.testing.assert_array_equal(make(path).log_value(context(m)), value)


@pytest.mark.parametrize("tau", [None, 7.0])
@pytest.mark.parametrize("path", configs("utility"), ids=lambda p: p.stem)
def test_the_identities_of_the_cost_rules_hold_for_every_utility(path: Path, tau: float | None) -> None:
    b, unit = replace(context(), tau=tau), np.exp(5.0)
    dearer = replace(
        b,
        log_cost=b.log_cost + 5.0,
        initial_cost=b.initial_cost * unit,
        spent=b.spent * unit,
        tau=None if tau is None else tau * unit,
    )
    value = make(path).log_value(b)
    assert np.isfinite(value).sum() >= 3

    def pick(rule: CostRule, where: StepContext = b, of: np.ndarray = value) -> int:
        return choose(rule.score(of, where.log_cost, where), of, where.log_cost)

    best = pick(Ignore())
    assert value[best] == value.max()
    assert pick(Contextual(0.0)) == pick(Power(0.0)) == best
    assert pick(Contextual(1.0)) == int(b.log_cost.argmin())
    near = np.flatnonzero(value >= value.max() + np.log(0.7))
    assert pick(Contextual(0.3)) == near[b.log_cost[near].argmin()]
    assert pick(Power(1.0)) == int((value - b.log_cost).argmax())
    other = make(path).log_value(dearer)
    np.testing.assert_allclose(other, value, rtol=1e-8)  # the unit of cost means nothing to a utility
    for rule in (Contextual(0.3), Power(1.0), Cool()):
        assert pick(rule, dearer, other) == pick(rule)


def combined(utility: Path, rule: CostRule, tau: float | None) -> Optimizer:
    cost_model = LowVariance(("n_estimators", "max_depth", "subsample"))
    return Optimizer(GaussianProcess(), cost_model, make(utility), rule, iterations=20, tau=tau)


@pytest.mark.parametrize("path", configs("utility"), ids=lambda p: p.stem)
def test_any_utility_goes_with_any_rule_or_says_in_one_line_why_not(path: Path) -> None:
    asked = 0
    for acq, tau in product(configs("acq"), (None, 500.0)):
        rule = instantiate(load(acq)["rule"])
        try:
            optimizer = combined(path, rule, tau)
        except BadInput as refusal:
            assert re.fullmatch(r"[^\n]*utility=[^\n]+", str(refusal)), f"+acq={acq.stem}, tau={tau}: {refusal}"
            continue
        for x, y, cost in zip(X, Y, COST, strict=True):
            optimizer.tell(x, Evaluation(float(y), float(cost), 0.0, 0.0))
        proposal = optimizer.ask(C)
        assert 0 <= proposal.index < 40 and np.isfinite(proposal.log_ei) == rule.uses_models
        asked += 1
    assert asked, "it goes with no rule"


@pytest.mark.parametrize("utility", ["pbgi", "pbgi_d", "mcms", "mcms_paper", "bmsei"])
def test_utilities_that_count_cost_refuse_the_rules_that_would_count_it_again(utility: str) -> None:
    """An index always contains the cost; multi-step values do where there is a budget, and dividing them is refused."""
    index, path = utility in ("pbgi", "pbgi_d"), CONFIGS / "utility" / f"{utility}.yaml"
    for acq, tau in product(configs("acq"), (None, 500.0)):
        rule = instantiate(load(acq)["rule"])
        twice = not isinstance(rule, Ignore) if index else tau is not None and isinstance(rule, Power | Cool)
        with pytest.raises(BadInput, match=r"^[^\n]*use \+acq=ei[^\n]*$") if twice else nullcontext():
            combined(path, rule, tau)


@pytest.mark.parametrize("path", configs("acq"), ids=lambda p: p.stem)
def test_cost_rules_choose_on_the_front_whatever_the_unit_of_cost(path: Path) -> None:
    plain = load(path)
    assert plain["name"] == path.stem
    rule, b = instantiate(plain["rule"]), context()
    value = stream(2, "values").normal(size=40)
    i = choose(rule.score(value, b.log_cost, b), value, b.log_cost)
    if not rule.uses_models:
        assert rule.score(b.log_cost, value, b)[i] == 0.0, "whatever value and cost are"
        return
    better = (value >= value[i]) & (b.log_cost <= b.log_cost[i])
    assert not (better & ((value > value[i]) | (b.log_cost < b.log_cost[i]))).any()
    assert i == choose(rule.score(value, b.log_cost + 5.0, b), value, b.log_cost + 5.0)


@pytest.mark.parametrize("path", configs("acq"), ids=lambda p: p.stem)
def test_a_rule_that_stays_on_the_front_does_not_see_the_rest(path: Path) -> None:
    rule, b = instantiate(load(path)["rule"]), context()
    if not getattr(rule, "on_front", False):
        pytest.skip(f"{path.stem} does not declare `on_front`: every candidate is scored")
    for seed in range(8):
        value = np.round(stream(3, "values", str(seed)).normal(size=40), 1)  # ties
        more, less = np.subtract.outer(value, value), np.subtract.outer(b.log_cost, b.log_cost)
        beaten = ((more <= 0) & (less > 0)) | ((more < 0) & (less >= 0))  # [i, j]: j dominates i
        front = np.flatnonzero(~beaten.any(axis=1))
        names = ("mean", "sd", "log_cost", "log_cost_sd", "points")
        part = replace(b, **{name: getattr(b, name)[front] for name in names})
        i = choose(rule.score(value, b.log_cost, b), value, b.log_cost)
        j = choose(rule.score(value[front], part.log_cost, part), value[front], part.log_cost)
        assert i == front[j]


@pytest.mark.parametrize("group", ["dataset", "pipeline"])
def test_data_sets_and_pipelines_are_keyed_by_their_name(group: str) -> None:
    for path in configs(group):
        if "@package _global_" in path.read_text():
            continue  # dataset=csv, which tests/test_own_file.py runs
        assert list(load(path)) == [*PARAMETERS, path.stem]
        assert load(path)[path.stem]["name"] == path.stem


def test_the_default_grid_is_the_study() -> None:
    text = OmegaConf.load(CONFIGS / "problems.yaml")
    chosen = {key: value for entry in text.defaults for key, value in entry.items()}
    assert set(chosen["dataset"]) == set(datasets.names())
    assert tuple(chosen["pipeline"]) == tuple(pipelines.names())


def test_component_files_are_short() -> None:
    groups = ("acq", "utility", "surrogate", "cost_model", "dataset", "pipeline", "evaluator", *OPTIONAL)
    for group in groups:
        assert max(len(path.read_text().splitlines()) for path in configs(group)) <= 10, group


def test_an_evaluation_needs_its_cost() -> None:
    with pytest.raises(TypeError, match="cost_s"):
        Evaluation(error=0.1, test_error=0.1, wall_s=1.0)  # type: ignore[call-arg]

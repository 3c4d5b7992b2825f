"""The study: blocks, resume, determinism. Small made-up tables, the real engine."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import make_tables
from omegaconf import OmegaConf

from harness.choices import CONFIGS
from harness.continuous import ContinuousProblem
from harness.errors import BadInput
from harness.executors import local, run_tasks, serial
from harness.grid import COST_SD, LOOK_AHEAD
from harness.methods import Method
from harness.problem import Evaluation, Problem
from harness.records import read_traces, spec_hash
from harness.study import Grid, blocks, run_study

IGNORE = {"_target_": "harness.acquisitions.ignore.Ignore"}
CEI = {"_target_": "harness.acquisitions.contextual.Contextual", "lam": 0.3}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p", "b/p"], 24)


def grid(tables: Path, seeds: tuple[int, ...] = (0, 1), iterations: int = 12) -> Grid:
    return Grid(
        datasets={name: {"name": name} for name in ("a", "b")},
        pipelines={"p": {"name": "p"}},
        methods=[Method("ei", "ei", IGNORE), Method("cei", "cei(lam=0.3)", CEI)],
        seeds=seeds,
        iterations=iterations,
        n_initial=5,
        tau=None,
        components={
            "evaluator": {"_target_": "tabular_cache.replay.Replay", "tables": str(tables)},
            "utility": {"_target_": "harness.acquisitions.ei.ExpectedImprovement"},
            "surrogate": {"_target_": "harness.surrogates.gp.GaussianProcess"},
            "cost_model": {"_target_": "harness.cost_models.lv.LowVariance", "features": ["n_estimators"]},
        },
        names={"evaluator": "replay", "utility": "ei", "surrogate": "gp", "cost_model": "lv1"},
    )


def contents(folder: Path) -> dict[str, bytes]:
    files = folder.rglob("seeds-*.parquet")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files if "timings" not in p.name}


def do(study: Grid, results: Path, n_jobs: int = 0) -> int:
    todo, skipped = blocks(study, results)
    with local(n_jobs) if n_jobs else serial() as executor:
        report = run_study(todo, skipped, executor, "test")
    assert not report.failed
    return report.runs


def test_a_study_is_run_once_and_in_full(tables: Path, tmp_path: Path) -> None:
    assert do(grid(tables), tmp_path) == 8
    frame = read_traces(tmp_path)
    runs = frame.groupby(["dataset", "method", "seed"], observed=True).size()
    assert runs.tolist() == [12] * 8
    assert frame.groupby(["dataset", "method", "seed"], observed=True)["candidate"].nunique().tolist() == [12] * 8
    before = contents(tmp_path)
    assert do(grid(tables), tmp_path) == 0
    assert contents(tmp_path) == before


def test_methods_share_the_initial_design(tables: Path, tmp_path: Path) -> None:
    do(grid(tables), tmp_path)
    first = read_traces(tmp_path).query("step < 5")
    for _, part in first.groupby(["dataset", "seed"], observed=True):
        designs = {tuple(run["candidate"]) for _, run in part.groupby("method", observed=True)}
        assert len(designs) == 1
    assert first["log_ei"].isna().all()


def test_same_spec_same_bytes_whatever_the_workers_and_the_order(tables: Path, tmp_path: Path) -> None:
    do(grid(tables), tmp_path / "serial")
    do(grid(tables), tmp_path / "two", n_jobs=2)
    todo, _ = blocks(grid(tables), tmp_path / "backwards")
    for block in reversed(todo):
        run_study([block], 0, serial(), "")
    assert contents(tmp_path / "serial") == contents(tmp_path / "two") == contents(tmp_path / "backwards")


def test_an_interrupted_study_resumes_to_the_same_bytes(tables: Path, tmp_path: Path) -> None:
    do(grid(tables), tmp_path / "whole")
    todo, _ = blocks(grid(tables), tmp_path / "resumed")
    for block in todo[:2]:
        run_study([block], 0, serial(), "")
    kept = contents(tmp_path / "resumed")
    assert do(grid(tables), tmp_path / "resumed") == 4
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    assert kept.items() <= contents(tmp_path / "resumed").items()


def test_more_seeds_run_only_the_new_ones(tables: Path, tmp_path: Path) -> None:
    results = tmp_path / "in parts"
    do(grid(tables, seeds=(0,)), results)
    before = contents(results)
    assert do(grid(tables, seeds=(0, 1, 2)), results) == 8
    assert before.items() <= contents(results).items()
    do(grid(tables, seeds=(0, 1, 2)), tmp_path / "at once")
    keys = ["dataset", "method", "seed", "step"]
    a, b = (read_traces(folder).sort_values(keys) for folder in (tmp_path / "at once", tmp_path / "in parts"))
    assert a["candidate"].tolist() == b["candidate"].tolist()


def test_a_changed_table_is_another_spec(tables: Path, tmp_path: Path) -> None:
    other = make_tables(tmp_path / "other", ["b/p", "a/p"], 24)  # another noise, other costs
    a, _ = blocks(grid(tables), tmp_path / "r")
    b, _ = blocks(grid(other), tmp_path / "r")
    assert {block.spec["data"] for block in a}.isdisjoint({block.spec["data"] for block in b})


def test_a_budget_stops_a_run_after_the_evaluation_that_crosses_it(tables: Path, tmp_path: Path) -> None:
    tau = 0.3
    do(replace(grid(tables, iterations=100), tau=tau), tmp_path)
    for _, run in read_traces(tmp_path).groupby(["dataset", "method", "seed"], observed=True):
        spent = run["cost_s"].cumsum().to_numpy()
        assert len(run) >= 5
        assert (spent[4:-1] < tau).all()


def test_an_exhausted_table_ends_the_run(tables: Path, tmp_path: Path) -> None:
    small = make_tables(tmp_path / "small", ["a/p", "b/p"], 6)
    do(grid(small, seeds=(0,), iterations=100), tmp_path / "r")
    frame = read_traces(tmp_path / "r")
    rows = frame.groupby(["dataset", "method"], observed=True)["candidate"].agg(["size", "nunique"])
    assert (rows["size"] == rows["nunique"]).all()
    assert (rows["size"] < 100).all()


def test_a_failing_block_is_reported_and_the_others_go_on(tables: Path, tmp_path: Path) -> None:
    study = grid(tables)
    todo, _ = blocks(study, tmp_path)
    (broken := dict(todo[0].spec))["rule"] = {"_target_": "harness.acquisitions.nowhere.Rule"}
    todo[0] = replace(todo[0], spec=broken)
    report = run_study(todo, 0, serial(), "test")
    assert len(report.failed) == 1
    assert "a/p ei" in report.failed[0]
    assert report.runs == 6


def test_what_has_finished_is_handed_on_before_more_is_asked_for() -> None:
    """A source of tasks that waits (for a quiet machine, say) keeps no result from being written."""
    seen: list[int] = []
    asked: list[tuple[int, int]] = []

    def source() -> Iterator[int]:
        for number in range(5):
            asked.append((number, len(seen)))
            yield number

    for _, result in run_tasks(serial(), abs, source(), window=3):
        seen.append(result)
    assert asked == [(k, k) for k in range(5)] and seen == [0, 1, 2, 3, 4]
    with local(2) as executor:
        calm = iter([True, False, False, False, False])
        asked.clear()
        seen.clear()
        for _, result in run_tasks(executor, abs, source(), window=3, ready=lambda: next(calm, True)):
            seen.append(result)
    assert sorted(seen) == [0, 1, 2, 3, 4] and asked[2][1] == 2  # not ready: both were written before the third


def test_run_tasks_gives_every_task_its_own_result_or_error() -> None:
    def work(n: int) -> int:
        if n == 7:
            raise ValueError("seven")
        return n * n

    outcomes = dict(run_tasks(serial(), work, range(20), window=3))
    assert isinstance(outcomes.pop(7), ValueError)
    assert outcomes == {n: n * n for n in itertools.chain(range(7), range(8, 20))}


class Taught:
    """A cost model that knows something beforehand."""

    known = "one"

    def start(self, problem: Problem) -> None:
        self.name = problem.name

    def fingerprint(self, problem: Problem) -> str:
        return f"{self.known} {problem.name}"

    def fit(self, X: np.ndarray, cost_s: np.ndarray) -> None:
        pass

    def predict(self, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(C)), np.ones(len(C))


def test_what_a_cost_model_knows_beforehand_belongs_to_the_spec(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cost_models.lv.LowVariance", Taught)
    plain = grid(tables)
    taught = {**plain.components, "cost_model": {"_target_": "harness.cost_models.lv.LowVariance"}}
    study = replace(plain, components=taught)
    todo, _ = blocks(study, tmp_path)
    assert {block.spec["cost_model_data"] for block in todo} == {"one a/p", "one b/p"}
    assert do(study, tmp_path) == 8 and do(study, tmp_path) == 0
    monkeypatch.setattr(Taught, "known", "two")
    assert len(blocks(study, tmp_path)[0]) == len(todo)


def test_a_cost_model_that_cannot_serve_a_problem_is_refused_before_anything_runs(tmp_path: Path) -> None:
    plain = grid(tmp_path)
    parts = {**plain.components, "evaluator": {"_target_": f"{__name__}.Unknown"}}
    parts["cost_model"] = {"_target_": "harness.cost_models.oracle.Oracle"}
    with pytest.raises(BadInput, match="cost_model=oracle needs costs known beforehand"):
        blocks(replace(plain, components=parts), tmp_path)


def test_statistics_that_depend_on_the_sd_of_costs_say_of_which(tables: Path, tmp_path: Path) -> None:
    plain = {"cost_sd" in block.spec for block in blocks(grid(tables), tmp_path)[0]}
    other = replace(grid(tables), cost_statistic="expected")
    assert plain == {False}
    assert {block.spec["cost_sd"] for block in blocks(other, tmp_path)[0]} == {COST_SD}


@pytest.mark.parametrize(("utility", "weighs"), [("pbgi", True), ("mcms", True), ("bmsei", True), ("kg", False)])
def test_utilities_that_weigh_the_sd_of_costs_say_of_which(
    utility: str, weighs: bool, tables: Path, tmp_path: Path
) -> None:
    plain = grid(tables)
    config = OmegaConf.to_container(OmegaConf.load(CONFIGS / "utility" / f"{utility}.yaml"))
    own = replace(plain, components={**plain.components, "utility": config})
    assert {block.spec.get("cost_sd") for block in blocks(own, tmp_path)[0]} == {COST_SD if weighs else None}


@pytest.mark.parametrize(("utility", "ahead"), [("mes", True), ("mcms", True), ("pbgi", False), ("ei", False)])
def test_utilities_that_look_ahead_say_of_which_version(
    utility: str, ahead: bool, tables: Path, tmp_path: Path
) -> None:
    plain = grid(tables)
    config = OmegaConf.to_container(OmegaConf.load(CONFIGS / "utility" / f"{utility}.yaml"))
    own = replace(plain, components={**plain.components, "utility": config})
    assert {block.spec.get("look_ahead") for block in blocks(own, tmp_path)[0]} == {LOOK_AHEAD if ahead else None}


def test_how_censored_costs_are_treated_is_told_wherever_it_is_not_the_default(tables: Path, tmp_path: Path) -> None:
    """An evaluator of the user's own may stop trainings by settings that this project does not know."""
    plain = grid(tables)
    assert not any("censored_costs" in block.spec for block in blocks(plain, tmp_path)[0])
    for block in blocks(replace(plain, censored_costs="dropped"), tmp_path)[0]:
        assert block.spec["censored_costs"] == "dropped" and block.spec["cost_model"].endswith(":dropped")


def test_the_scale_of_errors_is_told_wherever_it_is_not_their_own(tables: Path, tmp_path: Path) -> None:
    plain = grid(tables)
    todo = blocks(plain, tmp_path)[0]
    assert not any("error_scale" in block.spec for block in todo)
    for block, other in zip(todo, blocks(replace(plain, error_scale="log"), tmp_path)[0], strict=True):
        surrogate = block.spec["surrogate"]
        assert other.spec == {**block.spec, "error_scale": "log", "surrogate": f"{surrogate}:log"}
        assert spec_hash(other.spec) != spec_hash(block.spec)


def test_many_seeds_of_a_problem_are_shared_among_workers(tables: Path, tmp_path: Path) -> None:
    todo, _ = blocks(grid(tables, tuple(range(25))), tmp_path)
    assert [len(block.seeds) for block in todo] == 4 * [10, 10, 5]
    assert sorted(seed for block in todo[:3] for seed in block.seeds) == list(range(25))


class Unknown:
    """An evaluator of problems that do not know their costs."""

    seeds_per_block = None

    def fingerprint(self, dataset: object, pipeline: object) -> str:
        return "none"

    def open(self, dataset: object, pipeline: object, seed: int) -> Problem:
        return Measured("unknown", seed, 10)


class Measured(ContinuousProblem):
    def measure(self, x: np.ndarray) -> Evaluation:
        return Evaluation(0.1, 1.0, 0.1, 1.0)

"""The study: blocks, resume, determinism, the checks of a worker's result. Made-up tables, the real engine."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import make_tables
from omegaconf import OmegaConf
from study_cases import contents, do, grid

from harness.config import CONFIGS
from harness.errors import BadInput
from harness.execution import ExecutorGone, run_tasks, serial
from harness.grid import COST_SD, LOOK_AHEAD, Study, make_evaluator, make_spec
from harness.problem import ContinuousProblem, Evaluation, Evaluator, Problem, Problems
from harness.records import read_traces
from harness.sealed import spec_hash
from harness.study import Block, Stopped, blocks, receive, run_block, run_missing, run_study
from tabular_cache.replay import Replay

RUN = ["dataset", "method", "seed"]


def test_a_study_is_run_once_and_in_full_and_methods_share_the_initial_design(tables: Path, whole: Path) -> None:
    frame = read_traces(whole)
    assert frame.groupby(RUN, observed=True)["candidate"].agg(["size", "nunique"]).to_numpy().tolist() == [[12, 12]] * 8
    first = frame.query("step < 5")
    for _, part in first.groupby(["dataset", "seed"], observed=True):
        assert len({tuple(run["candidate"]) for _, run in part.groupby("method", observed=True)}) == 1
    assert first["log_ei"].isna().all()
    before = contents(whole)
    assert do(grid(tables), whole) == 0 and contents(whole) == before


def test_names_of_files_have_room_for_the_seeds_of_a_block(tables: Path, tmp_path: Path) -> None:
    """An evaluator without `seeds_per_block` has one block for all seeds, whose files are named by them."""
    study = grid(tables, seeds=[7 * 10**6 * i for i in range(60)], iterations=6)
    study.components["evaluator"]["seeds_per_block"] = None
    study.methods.pop()
    todo = [block for block in blocks(study, tmp_path)[0] if block.spec["dataset"] == "a"]
    assert sorted(seed for block in todo for seed in block.seeds) == list(study.seeds) and len(todo) < 6
    run_study(todo, 0, serial(), "")
    assert {len(block.seeds) for block in blocks(study, tmp_path)[0] if block.spec["dataset"] == "a"} == set()


def test_workers_that_end_while_problems_are_prepared_stop_the_study(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def prepare(self: Replay, problems: Problems, executor: Callable[[], Executor]) -> None:
        asked.append([(dataset["name"], pipeline["name"]) for dataset, pipeline in problems])
        assert executor() is executor()
        raise ExecutorGone("the cluster has ended")

    monkeypatch.setattr(Replay, "prepare", prepare)
    with pytest.raises(Stopped, match="the cluster has ended"):
        run_missing(grid(tables), tmp_path / "results", serial)
    assert asked == [[("a", "p"), ("b", "p")]] and not (tmp_path / "results").exists()


def test_same_spec_same_bytes_on_two_workers_in_any_order_and_in_parts(
    tables: Path, whole: Path, tmp_path: Path
) -> None:
    do(grid(tables), tmp_path / "two", n_jobs=2)
    todo, _ = blocks(grid(tables), tmp_path / "parts")
    for block in reversed(todo[:2]):
        run_study([block], 0, serial(), "")
    kept = contents(tmp_path / "parts")
    assert do(grid(tables), tmp_path / "parts") == 4
    assert contents(tmp_path / "two") == contents(tmp_path / "parts") == contents(whole)
    assert kept.items() <= contents(tmp_path / "parts").items()


class Bare:
    """An evaluator without a method that it needs."""

    def open(self, dataset: dict, pipeline: dict, seed: int) -> None:
        """Open nothing."""


class Enough(Bare):
    """One that has all, and derives from nothing."""

    def fingerprint(self, dataset: dict, pipeline: dict) -> str:
        """Return a text."""
        return "1"


def test_an_evaluator_needs_its_methods_and_no_base_class() -> None:
    with pytest.raises(BadInput, match=r"^Bare needs a method `fingerprint`, as harness.problem.Evaluator has it$"):
        make_evaluator({"_target_": f"{__name__}.Bare"})
    assert make_evaluator({"_target_": f"{__name__}.Enough"}).seeds_per_block is None


def test_more_seeds_run_only_the_new_ones(tables: Path, whole: Path, tmp_path: Path) -> None:
    do(grid(tables, seeds=(0,)), tmp_path)
    before = contents(tmp_path)
    assert do(grid(tables), tmp_path) == 4
    assert before.items() <= contents(tmp_path).items()
    a, b = (read_traces(folder).sort_values([*RUN, "step"]) for folder in (whole, tmp_path))
    assert a["candidate"].tolist() == b["candidate"].tolist()


def test_a_changed_table_is_another_spec_and_a_worker_that_has_it_refuses(tables: Path, tmp_path: Path) -> None:
    other = make_tables(tmp_path / "other", ["b/p", "a/p"], 24)  # another noise, other costs
    a, b = (blocks(grid(folder), tmp_path / "r")[0][0] for folder in (tables, other))
    assert a.spec["data"] != b.spec["data"]
    with pytest.raises(BadInput, match="this worker has other data of a/p than the study"):
        run_block(replace(a, spec={**a.spec, "data": b.spec["data"]}))
    with pytest.raises(BadInput, match="cost_model=lv1 would learn from other data on this worker"):
        run_block(replace(a, spec={**a.spec, "cost_model_data": "0123456789abcdef"}))


def test_a_budget_stops_a_run_after_the_evaluation_that_crosses_it(tables: Path, tmp_path: Path) -> None:
    tau = 0.3
    do(replace(grid(tables, iterations=100), tau=tau), tmp_path)
    for _, run in read_traces(tmp_path).groupby(RUN, observed=True):
        assert len(run) >= 5
        assert (run["cost_s"].cumsum().to_numpy()[4:-1] < tau).all()


def test_an_exhausted_table_ends_the_run(tmp_path: Path) -> None:
    small = make_tables(tmp_path / "small", ["a/p", "b/p"], 6)
    do(grid(small, seeds=(0,), iterations=100), tmp_path / "r")
    rows = read_traces(tmp_path / "r").groupby(["dataset", "method"], observed=True)["candidate"]
    rows = rows.agg(["size", "nunique"])
    assert (rows["size"] == rows["nunique"]).all() and (rows["size"] < 100).all()


def test_a_failing_block_is_reported_and_the_others_go_on(tables: Path, tmp_path: Path) -> None:
    todo, _ = blocks(grid(tables, iterations=6), tmp_path)
    (broken := dict(todo[0].spec))["rule"] = {"_target_": "harness.acquisitions.nowhere.Rule"}
    todo[0] = replace(todo[0], spec=broken)
    report = run_study(todo, 0, serial(), "test")
    assert len(report.failed) == 1 and "a/p ei" in report.failed[0] and report.runs == 6


def test_a_workers_result_is_checked(tables: Path, tmp_path: Path) -> None:
    block = replace(blocks(grid(tables, iterations=7), tmp_path / "results")[0][0])
    good, other = run_block(block), run_block(replace(block, seeds=[5]))
    name = max(good.files, key=len)
    for wrong, message in (
        (replace(good, files={**good.files, name: good.files[name][:-1]}), "damaged record"),
        (other, "is not of this block"),
        (replace(good, files={f"../../{n}": content for n, content in good.files.items()}), "is not of this block"),
        (replace(good, versions={**good.versions, "numpy": "1.0"}), r"other versions.*numpy 1\.0 there"),
    ):
        with pytest.raises(BadInput, match=message):
            receive(block, wrong)
        assert not (tmp_path / "results").exists()
    receive(block, good)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("seeds-0-1.parquet")}
    receive(block, good)  # a record that is there stays as it is
    assert before == {path: path.stat().st_mtime_ns for path in before} and len(before) == 1


def test_a_full_disk_stops_the_study_and_keeps_what_is_there(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo: list[Block] = blocks(grid(tables, iterations=6), tmp_path)[0]
    written = []

    def full(path: Path, content: bytes) -> None:
        if len(written) >= 6:  # three files of each block
            raise OSError(28, "No space left on device")
        written.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    monkeypatch.setattr("harness.records.write_atomically", full)
    with pytest.raises(Stopped, match=r"cannot write records to .*: No space left on device") as stopped:
        run_study(todo, 0, serial(), "test")
    assert stopped.value.report.runs == 4
    todo, skipped = blocks(grid(tables, iterations=6), tmp_path)
    assert (len(todo), skipped) == (2, 4)


def test_finished_results_are_yielded_before_more_tasks_are_asked_for() -> None:
    seen: list[int] = []
    asked: list[tuple[int, int]] = []

    def source() -> Iterator[int]:
        for number in range(5):
            asked.append((number, len(seen)))
            yield number

    for _, result in run_tasks(serial(), abs, source(), window=3):
        seen.append(result)
    assert asked == [(k, k) for k in range(5)] and seen == [0, 1, 2, 3, 4]


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


def test_knowledge_of_a_cost_model_belongs_to_the_spec(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cost_models.linear.LowVariance", Taught)
    plain = grid(tables, iterations=6)
    taught = {**plain.components, "cost_model": {"_target_": "harness.cost_models.linear.LowVariance"}}
    study = replace(plain, components=taught)
    todo, _ = blocks(study, tmp_path)
    assert {block.spec["cost_model_data"] for block in todo} == {"one a/p", "one b/p"}
    assert do(study, tmp_path) == 8 and do(study, tmp_path) == 0
    monkeypatch.setattr(Taught, "known", "two")
    assert len(blocks(study, tmp_path)[0]) == len(todo)


class Unknown(Evaluator):
    """An evaluator of problems that do not know their costs."""

    def fingerprint(self, dataset: object, pipeline: object) -> str:
        return "none"

    def open(self, dataset: object, pipeline: object, seed: int) -> Problem:
        return Measured("unknown", seed, 10)


class Measured(ContinuousProblem):
    def measure(self, x: np.ndarray) -> Evaluation:
        return Evaluation(0.1, 1.0, 0.1, 1.0)


def test_a_cost_model_that_cannot_serve_a_problem_is_refused_before_anything_runs(tmp_path: Path) -> None:
    plain = grid(tmp_path)
    parts = {**plain.components, "evaluator": {"_target_": f"{__name__}.Unknown"}}
    parts["cost_model"] = {"_target_": "harness.cost_models.Oracle"}
    with pytest.raises(BadInput, match="cost_model=oracle needs costs known beforehand"):
        blocks(replace(plain, components=parts), tmp_path)


def spec(study: Study) -> dict:
    return make_spec(study, {"name": "a"}, {"name": "p"}, study.methods[0], "data")


@pytest.mark.parametrize("utility", ["ei", "kg", "mes", "pbgi", "mcms", "bmsei"])
def test_numbers_of_versions_stand_in_the_specs_that_depend_on_them(utility: str, tmp_path: Path) -> None:
    plain = grid(tmp_path)
    config = OmegaConf.to_container(OmegaConf.load(CONFIGS / "utility" / f"{utility}.yaml"))
    found = spec(replace(plain, components={**plain.components, "utility": config}))
    assert found.get("cost_sd") == (COST_SD if utility in ("pbgi", "mcms", "bmsei") else None)
    assert found.get("look_ahead") == (LOOK_AHEAD if utility in ("mes", "mcms", "bmsei", "kg") else None)
    assert spec(replace(plain, cost_statistic="expected"))["cost_sd"] == COST_SD


def test_settings_other_than_the_default_stand_in_spec_and_name(tmp_path: Path) -> None:
    plain = spec(grid(tmp_path))
    assert "censored_costs" not in plain and "error_scale" not in plain
    scaled = spec(replace(grid(tmp_path), error_scale="log"))
    assert scaled == {**plain, "error_scale": "log", "surrogate": "gp:log"} and spec_hash(scaled) != spec_hash(plain)
    dropped = spec(replace(grid(tmp_path), censored_costs="dropped"))
    assert dropped == {**plain, "censored_costs": "dropped", "cost_model": "lv1:dropped"}


def test_many_seeds_of_a_problem_are_shared_among_workers(tables: Path, tmp_path: Path) -> None:
    todo, _ = blocks(grid(tables, tuple(range(25))), tmp_path)
    assert [len(block.seeds) for block in todo] == 4 * [10, 10, 5]
    assert sorted(seed for block in todo[:3] for seed in block.seeds) == list(range(25))

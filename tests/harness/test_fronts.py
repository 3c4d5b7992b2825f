"""Fronts of a run: the definition by brute force, what is noted, and that a run is not changed by being watched."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from study_cases import do, grid

from harness.errors import BadInput
from harness.fronts import FrontRecorder, ei_cost_front
from harness.grid import Method, Study, make_optimizer
from harness.loop import run
from harness.problem import Candidates, Evaluation, WrappedProblem
from harness.records import FRONTS, front_files, read_traces, seeds_done
from harness.settings import read_budgets
from harness.study import blocks
from tabular_cache.replay import Replay

RULE = {"_target_": "harness.acquisitions.cost_rules.Power", "alpha": 0.3}
SETTINGS = {"iterations": 9, "n_initial": 5, "tau": None, "cost_statistic": "exp_mean"}
A, P = {"name": "a"}, {"name": "p"}


def study(tables: Path, **changes: object) -> Study:
    one = {"datasets": {"a": A}, "methods": [Method("eialpha", "eialpha(alpha=0.3)", RULE)]}
    return replace(grid(tables, iterations=9), **one, **changes)


def dominated(value: np.ndarray, cost: np.ndarray) -> np.ndarray:
    better = (value[:, None] >= value) & (cost[:, None] <= cost) & ((value[:, None] > value) | (cost[:, None] < cost))
    return better.any(axis=0)


def test_the_front_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 40):
        for _ in range(20):
            value, cost = rng.integers(0, 6, m).astype(float), rng.integers(0, 6, m).astype(float)
            value[rng.uniform(size=m) < 0.1] = -np.inf
            np.testing.assert_array_equal(ei_cost_front(value, cost), ~dominated(value, cost))
    with pytest.raises(ValueError, match="NaN"):
        ei_cost_front(np.array([np.nan]), np.zeros(1))


def test_what_is_noted_agrees_with_the_optimizer(tables: Path) -> None:
    problem = Replay(str(tables)).open(A, P, 0)
    optimizer = make_optimizer(study(tables).components, RULE, SETTINGS)
    with pytest.raises(ValueError, match="ask before looking"):
        optimizer.outlook(problem.candidates(0).unit)
    watched = FrontRecorder(problem, optimizer, 0)
    assert watched.about is problem.about and watched.costs_known
    trace = run(watched, optimizer, 0, 9, 5, None)
    seen = {name: np.array(values) for name, values in watched.columns.items()}
    assert sorted(set(seen["step"])) == [5, 6, 7, 8]
    for step in (5, 6, 7, 8):
        at = seen["step"] == step
        value, cost = seen["log_ei"][at], seen["log_cost"][at]
        assert not dominated(value, cost).any()
        chosen = seen["candidate"][at][np.argmax(value - 0.3 * cost)]
        assert chosen == trace.columns["candidate"][step], "EI^alpha's maximiser lies on the front"
        assert seen["candidate"][at][seen["chosen"][at]].tolist() == [chosen]
        stays = seen["stays"][at]
        unknown = [s is None for s in stays]
        assert unknown == (seen["candidate"][at] == chosen).tolist() if step < 8 else all(unknown)
        again = set(seen["candidate"][seen["step"] == step + 1])
        known = [k for k, s in zip(seen["candidate"][at], stays, strict=True) if s]
        assert set(known) <= again, "the candidates are the same rows, so who stays is on the next front"
        left = [k for k, s in zip(seen["candidate"][at], stays, strict=True) if s is False]
        assert not set(left) & again
        for candidate, counted in zip(seen["candidate"][at], seen["stays_for"][at], strict=True):
            throughout = 0
            while candidate in set(seen["candidate"][seen["step"] == step + throughout + 1]):
                throughout += 1
            assert counted == (throughout if step == 5 and candidate != chosen else None)


class Halves(WrappedProblem):
    """A problem that offers every step another half of its rows."""

    def candidates(self, step: int) -> Candidates:
        offered = super().candidates(step)
        kept = np.sort(np.random.default_rng(step).permutation(len(offered.ids))[: len(offered.ids) // 2])
        return Candidates(offered.ids[kept], offered.unit[kept])


@pytest.mark.parametrize("problem_of", [WrappedProblem, Halves])
def test_who_stays_by_looking_at_all_of_the_last_candidates(
    tables: Path, problem_of: type[WrappedProblem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether candidates are the same from step to step or others: those of the last step, less the one evaluated."""
    optimizer = make_optimizer(study(tables).components, RULE, SETTINGS)
    watched = FrontRecorder(problem_of(Replay(str(tables)).open(A, P, 0)), optimizer, 0)
    offered: list[tuple[int, Candidates, int]] = []
    truth: dict[int, set[int]] = {}
    evaluate = watched.evaluate

    def looked_at(candidate: int) -> Evaluation:
        if optimizer.uses_models and watched._step is not None:
            for step, then, chosen in offered[-1:]:
                left = then.ids != chosen
                on = ei_cost_front(*optimizer.outlook(then.unit[left]))
                truth[step] = set(then.ids[left][on].tolist())
            offered.append((watched._step, watched._offered, candidate))
        return evaluate(candidate)

    monkeypatch.setattr(watched, "evaluate", looked_at)
    run(watched, optimizer, 0, 9, 5, None)
    assert set(truth) == {5, 6, 7}
    for step, on in truth.items():
        rows = [i for i, at in enumerate(watched.columns["step"]) if at == step]
        found = {watched.columns["candidate"][i]: watched.columns["stays"][i] for i in rows}
        assert {candidate for candidate, stays in found.items() if stays} == on & set(found)
        assert any(stays is not None for stays in found.values())


def test_watching_changes_no_trace_and_can_come_later(tables: Path, tmp_path: Path) -> None:
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    assert do(study(tables), plain) == 2 and do(study(tables, fronts=True), watched) == 2
    names = [p.relative_to(plain) for p in plain.rglob("seeds-0-1.parquet")]
    assert names and all((plain / n).read_bytes() == (watched / n).read_bytes() for n in names)
    before = (plain / names[0]).stat().st_mtime_ns
    assert not front_files(plain)
    assert do(study(tables, fronts=True), plain) == 2
    assert (plain / names[0]).stat().st_mtime_ns == before, "the trace that was there is untouched"
    assert [p.read_bytes() for p in front_files(plain)] == [p.read_bytes() for p in front_files(watched)]
    assert do(study(tables, fronts=True), plain) == 0
    todo, _ = blocks(study(tables, fronts=True, seeds=(0, 1, 2)), plain)
    assert [block.seeds for block in todo] == [[2]]
    assert seeds_done(plain, todo[0].spec, fronts=True) == {0, 1}
    assert pq.read_schema(front_files(plain)[0]).names == FRONTS.names
    assert len(read_traces(plain)) == 18, "fronts are no traces"


def test_tau_in_multiples_of_each_problems_budget(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "budgets.csv"
    path.write_text("dataset,pipeline,budget_s,method\na,p,0.04,ei\n")
    budgets = read_budgets(path)
    assert budgets == {"a/p": 0.04}
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as spreadsheets save it
    assert read_budgets(path) == budgets
    same = blocks(study(tables, tau=0.5 * 0.04), tmp_path)[0][0].spec
    assert blocks(study(tables, tau=0.5, budgets=budgets), tmp_path)[0][0].spec == same
    with pytest.raises(BadInput, match="no budget for a/p, only for b/p"):
        blocks(study(tables, tau=0.5, budgets={"b/p": 1.0}), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset,budget_s\na,1\n", "lacks pipeline; its columns"),
        ("dataset,pipeline,budget_s\n", "lacks rows"),
        ("dataset,pipeline,budget_s\na,p,x\n", "line 2: budget_s must be a number of seconds > 0, got 'x'"),
        ("dataset,pipeline,budget_s\na,p,1\na,p,2\n", "line 3 names a/p a second time"),
        ("dataset,pipeline,budget_s\n\n\na,p\n", "line 4: budget_s must be"),
        ("budget_s,dataset,pipeline\n1\n", "line 2 names no problem"),
    ],
)
def test_wrong_budgets_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(BadInput, match=message):
        read_budgets(tmp_path / "b.csv")
    with pytest.raises(BadInput, match="cannot read"):
        read_budgets(tmp_path / "none.csv")

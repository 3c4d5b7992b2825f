"""A longer run goes on from the record of a shorter one, and has the bytes of a run in one piece."""

import math
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.acquisitions.designs import Design, RandomSearch
from harness.acquisitions.ei import ExpectedImprovement
from harness.cost_models.linear import LowVariance
from harness.execution import serial
from harness.grid import all_specs
from harness.loop import Begun, Trace, recorded
from harness.loop import run as run_once
from harness.optimizer import Optimizer, Proposal
from harness.problem import LATE, Problem
from harness.records import MODELS_SUFFIX, front_files, read_header, read_timings, read_traces, trace_files
from harness.surrogates.gp import GaussianProcess
from tabular_cache.packed import pack, unpack
from tabular_cache.replay import ReplayProblem
from tabular_cache.table import load_table

TABLES = Path(__file__).parents[1] / "golden" / "tables"
MORE, DESIGN = 12, 5
WHERE = ("dataset=[phoneme]", "pipeline=[clean]", f"evaluator.tables={TABLES}", "evaluator.max_candidates=400")
CEI = ("+acq=cei", "lam=0.3")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the candidates that optimizers are asked to choose among."""
    found, ask = list[int](), Optimizer.ask

    def counting(self: Optimizer, C: np.ndarray, rows: np.ndarray | None = None) -> Proposal:
        found.append(len(C if rows is None else rows))
        return ask(self, C, rows)

    monkeypatch.setattr(Optimizer, "ask", counting)
    return found


def run(folder: Path, *settings: str) -> None:
    with serial() as executor:
        harness.run(harness.compose(*WHERE, *settings), folder, executor)


def contents(folder: Path, iterations: int) -> dict[str, bytes]:
    """Return the files of the runs so long, timings left out."""
    found = {}
    for path in trace_files(folder):
        for one in (path, path.with_suffix(MODELS_SUFFIX)):
            found[str(one.relative_to(folder))] = one.read_bytes()
    return {name: content for name, content in found.items() if f'"iterations": {iterations}'.encode() in content}


@pytest.mark.slow
@pytest.mark.parametrize("method", [CEI, ("+acq=random",)])
def test_going_on_gives_the_bytes_of_one_piece(tmp_path: Path, asked: list[int], method: tuple[str, ...]) -> None:
    whole, parts, long = tmp_path / "whole", tmp_path / "parts", f"iterations={LATE + MORE}"
    run(whole, *method, "seeds=[3,4]", long)
    assert len(asked) == 2 * (LATE + MORE - DESIGN)
    asked.clear()
    run(parts, *method, "seeds=[3]", f"iterations={LATE}")  # of seed 4 there is nothing to go on from
    run(parts, *method, "seeds=[3,4]", long)
    assert len(asked) == (LATE - DESIGN) + MORE + (LATE + MORE - DESIGN)
    assert contents(parts, LATE + MORE) == contents(whole, LATE + MORE) != {}
    assert contents(parts, LATE), "what is finished stays"
    times = read_timings(parts).groupby("seed")["step"].count()
    assert times[3] == (LATE - DESIGN) + (LATE + MORE - DESIGN), "milliseconds are those of the run that took them"


def test_a_budget_ends_a_repeated_run_where_it_ends_one_in_one_piece(tmp_path: Path, asked: list[int]) -> None:
    limits = "seeds=[3]", "tau=1.5", f"iterations={LATE + MORE}"
    run(tmp_path / "whole", *CEI, *limits)
    evaluations = len(asked)
    assert 0 < evaluations < LATE - DESIGN, "the budget must end within the shorter run for this test"
    run(tmp_path / "parts", *CEI, "seeds=[3]", f"iterations={LATE}")
    asked.clear()
    run(tmp_path / "parts", *CEI, *limits)
    assert not asked
    assert contents(tmp_path / "parts", LATE + MORE) == contents(tmp_path / "whole", LATE + MORE) != {}


@pytest.mark.slow
def test_what_depends_on_its_plan_or_cannot_be_trusted_begins_anew(tmp_path: Path, asked: list[int]) -> None:
    for more in (("+acq=eicool",), (*CEI, "+surrogate.refit_until=90"), (*CEI, "cost_model=gp")):
        run(tmp_path, *more, "seeds=[3]", f"iterations={LATE}")
        asked.clear()
        run(tmp_path, *more, "seeds=[3]", f"iterations={LATE + 1}")
        assert len(asked) == LATE + 1 - DESIGN, more
    run(tmp_path / "fronts", "+acq=ei", "seeds=[3]", f"iterations={LATE}")
    asked.clear()
    run(tmp_path / "fronts", "+acq=ei", "seeds=[3]", f"iterations={LATE + 1}", "fronts=true")
    assert len(asked) == LATE + 1 - DESIGN and len(front_files(tmp_path / "fronts")) == 1


class Diagonal(Design):
    def points(self, problem: Problem, n: int) -> np.ndarray:
        return np.tile(np.linspace(0.1, 0.9, n)[:, None], len(problem.space))


def test_random_search_after_a_design_goes_on_where_not_all_rows_are_candidates(asked: list[int]) -> None:
    """It chooses among all rows of a table, where the candidates of other methods are a draw of them."""

    def trace(begun: Begun) -> Trace:
        parts = GaussianProcess(), LowVariance(("n_estimators",)), ExpectedImprovement(), RandomSearch()
        problem = ReplayProblem(load_table("phoneme/clean", TABLES), 3, max_candidates=20)
        return run_once(problem, Optimizer(*parts, iterations=20, design=Diagonal()), 3, 20, DESIGN, None, begun)

    whole, proposal = trace({}), Proposal(0, *[math.nan] * 4, None, 0.0, 0.0)
    asked.clear()
    again = trace({step: (whole.columns["candidate"][step], proposal) for step in range(DESIGN, 16)})
    np.testing.assert_equal(again.columns, whole.columns)
    assert len(asked) == 4


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    run(tmp_path, *CEI, "seeds=[3]", f"iterations={LATE}")
    path = trace_files(tmp_path)[0].with_suffix(MODELS_SUFFIX)
    study = harness.compose(*WHERE, *CEI, "seeds=[3]", f"iterations={LATE}")
    (spec,) = all_specs(study)
    (begun, rounded) = recorded(tmp_path, spec)
    assert set(begun) == {3} and len(begun[3]) == LATE - DESIGN and rounded == set()
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\xff" + content[61:])
    assert recorded(tmp_path, spec) == ({}, set())
    path.unlink()
    assert recorded(tmp_path, spec) == ({}, set())


def test_from_packed_records_it_goes_on_with_the_same_choices_and_says_so(tmp_path: Path, asked: list[int]) -> None:
    whole, parts, long = tmp_path / "whole", tmp_path / "parts", f"iterations={LATE + MORE}"
    run(whole, *CEI, "seeds=[3,4]", f"iterations={LATE}")
    pack(whole, tmp_path / "packed")
    assert unpack(tmp_path / "packed", parts) == (1, 1)
    asked.clear()
    for folder in (whole, parts):
        run(folder, *CEI, "seeds=[3,4]", long)
    assert len(asked) == 2 * 2 * MORE
    old, new = (read_traces(folder).query(f"iterations == {LATE + MORE}") for folder in (whole, parts))
    chosen = ["seed", "step", "candidate", "n_estimators", "error", "cost_s"]
    assert len(old) == 2 * (LATE + MORE) and old[chosen].equals(new[chosen])
    for folder, says in ((whole, None), (parts, True)):
        headers = [read_header(path) for path in trace_files(folder)]
        assert {header.get("rounded") for header in headers} == {says}
    assert read_timings(parts)["fit_ms"].notna().sum() == (LATE - DESIGN) + (LATE - DESIGN) + 2 * MORE

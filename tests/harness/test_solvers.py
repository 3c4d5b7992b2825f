"""Solvers and instances: answers are right, settings arrive, generators repeat themselves."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets.errors import BadInput
from harness.configurator import solvers
from harness.configurator.instances import Auctions, Colouring, Knapsacks, SetCover
from harness.configurator.solvers import CRASHED, CUT, SOLVED, SolverRun

SETS = [Auctions(12, 30), SetCover(15, 30, 0.1), Knapsacks(12, 3), Colouring(20, 3, 0.3, 3)]


def needs(instances: Any) -> None:
    if instances.suffix == "mps":
        pytest.importorskip("highspy", reason="the extra `solvers` is not installed")


@pytest.mark.parametrize("instances", SETS, ids=lambda s: type(s).__name__)
def test_an_instance_is_the_same_whenever_it_is_asked_for(instances: Any, tmp_path: Path) -> None:
    needs(instances)
    files, features = [], []
    for k, i in enumerate((3, 4, 3)):
        path = tmp_path / f"{k}.{instances.suffix}"
        features.append(instances.write(i, path))
        files.append(path.read_bytes())
    assert files[0] == files[2] != files[1]
    np.testing.assert_array_equal(features[0], features[2])
    assert len(features[0]) == len(instances.features) and np.isfinite(features).all()


def read_model(path: Path) -> Any:
    highspy = pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    return highs


def test_a_set_cover_is_one_and_its_optimum_is_that_of_trying_all(tmp_path: Path) -> None:
    path = tmp_path / "0.mps"
    instances = SetCover(8, 10, 0.2)
    pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    instances.write(0, path)
    highs = read_model(path)
    program = highs.getLp()
    from scipy.sparse import csc_array

    member = csc_array((program.a_matrix_.value_, program.a_matrix_.index_, program.a_matrix_.start_)).toarray() > 0
    assert (member.sum(axis=1) >= 2).all() and (member.sum(axis=0) >= 1).all()
    cost = np.array(program.col_cost_)
    assert ((cost >= 1) & (cost <= 100) & (cost == np.rint(cost))).all()
    best = min(
        cost[list(chosen)].sum()
        for r in range(1, len(cost) + 1)
        for chosen in itertools.combinations(range(len(cost)), r)
        if member[:, chosen].any(axis=1).all()
    )
    highs.run()
    assert highs.getInfo().objective_function_value == pytest.approx(best)


def test_an_auction_sells_no_item_twice_and_takes_the_most(tmp_path: Path) -> None:
    pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    Auctions(6, 10).write(1, tmp_path / "0.mps")
    highs = read_model(tmp_path / "0.mps")
    program = highs.getLp()
    from scipy.sparse import csc_array

    inside = csc_array((program.a_matrix_.value_, program.a_matrix_.index_, program.a_matrix_.start_)).toarray()
    sign = 1.0 if "kMaximize" in str(program.sense_) else -1.0
    value = sign * np.array(program.col_cost_)
    choices = np.array(list(itertools.product((0, 1), repeat=len(value))))
    allowed = (inside @ choices.T <= 1).all(axis=0)
    highs.run()
    assert sign * highs.getInfo().objective_function_value == pytest.approx((choices @ value)[allowed].max())


def test_a_knapsack_keeps_to_its_room_and_takes_the_most(tmp_path: Path) -> None:
    pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    Knapsacks(10, 3, room=0.4).write(1, tmp_path / "0.mps")
    highs = read_model(tmp_path / "0.mps")
    program = highs.getLp()
    from scipy.sparse import csc_array

    weight = csc_array((program.a_matrix_.value_, program.a_matrix_.index_, program.a_matrix_.start_)).toarray()
    assert weight.shape[0] == 3 and weight.min() >= 1 and weight.max() <= 1000
    room = np.array(program.row_upper_)
    assert np.array_equal(room, np.floor(0.4 * weight.sum(axis=1)))
    sign = 1.0 if "kMaximize" in str(program.sense_) else -1.0
    profit = sign * np.array(program.col_cost_)
    assert (np.abs(profit - weight.mean(axis=0) - 250.0) <= 250.5).all()
    choices = np.array(list(itertools.product((0, 1), repeat=len(profit))))
    allowed = (weight @ choices.T <= room[:, None]).all(axis=0)
    highs.run()
    assert sign * highs.getInfo().objective_function_value == pytest.approx((choices @ profit)[allowed].max())


def test_highs_solves_is_capped_and_gets_its_settings(tmp_path: Path) -> None:
    pytest.importorskip("highspy", reason="the extra `solvers` is not installed")
    from harness.configurator.solvers import Highs, solve

    solver, path = Highs(), tmp_path / "0.mps"
    assert len(solver.space) >= 10 and re.fullmatch(r"highspy \d+\.\d+\.\d+", solver.release)
    SetCover(60, 120, 0.05).write(0, path)
    assert solver.run(solver.space.default, path, 0, 60.0).status == SOLVED
    SetCover(200, 400, 0.1).write(0, path)  # takes a hundred times as long as the cap
    assert solver.run(solver.space.default, path, 0, 0.02) == SolverRun(0.02, CUT)
    broken = solver.run(solver.space.default, tmp_path / "absent.mps", 0, 5.0)
    assert broken.status == CRASHED and "cannot read" in broken.note
    with pytest.raises(ValueError, match="HiGHS refuses presolve = 'bogus'"):
        solve(str(path), {"presolve": "bogus"})
    for option in solver.space.options:  # every end of every range is accepted
        for value in option.choices or (option.value(0.0), option.value(1.0)):
            with pytest.raises(ValueError, match="cannot read"):
                solve(str(tmp_path / "absent.mps"), {option.name: value})


def brute_force_colours(path: Path) -> bool:
    clauses = [[int(v) for v in line.split()[:-1]] for line in path.read_text().splitlines()[1:]]
    n = max(abs(v) for clause in clauses for v in clause)
    return any(
        all(any((v > 0) == signs[abs(v) - 1] for v in clause) for clause in clauses)
        for signs in itertools.product((False, True), repeat=n)
    )


def test_kissat_decides_is_capped_and_gets_its_settings(tmp_path: Path) -> None:
    try:
        solver = solvers.Kissat()
    except BadInput:
        pytest.skip("the extra `solvers` is not installed")
    from harness.execution import sandbox

    assert re.fullmatch(r"kissat \d+\.\d+\.\d+", solver.release)
    answers = set()
    for colours in (2, 3):
        path = tmp_path / f"{colours}.cnf"
        Colouring(6, 2, 0.3, colours).write(0, path)
        code = sandbox.program([solvers.find_program(), "-q", str(path)], 10.0).value
        assert (code == 10) == brute_force_colours(path)
        answers.add(code)
        assert solver.run(solver.space.default, path, 0, 10.0).status == SOLVED
    assert answers == {10, 20}
    hard = tmp_path / "hard.cnf"
    Colouring(150, 7, 0.8, 5).write(0, hard)
    assert solver.run(solver.space.default, hard, 0, 0.15) == SolverRun(0.15, CUT)
    assert solver.run(solver.space.default, tmp_path / "absent.cnf", 0, 5.0).status == CRASHED
    for end in (0, -1):  # every end of every range is accepted
        settings = {o.name: (o.choices or (o.value(0.0), o.value(1.0)))[end] for o in solver.space.options}
        assert solver.run(solver.space.row(settings), tmp_path / "2.cnf", 1, 10.0).status == SOLVED


def test_a_missing_solver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(solvers, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"Kissat needs the extra packages: .* -e '.\[solvers\]'"):
        solvers.Kissat()

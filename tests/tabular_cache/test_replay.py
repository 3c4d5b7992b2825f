import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fakes import journal_line, make_tables, vouch
from hypothesis import given
from hypothesis import strategies as st

from datasets.errors import BadInput
from harness.problem import Candidates
from tabular_cache import table as table_module
from tabular_cache.replay import Replay, ReplayProblem, smallest
from tabular_cache.store import Store
from tabular_cache.table import load_table, read_table

NAMES = ({"name": "a"}, {"name": "p"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tables(tmp_path / "tables", ["a/p"])


def test_candidates_are_the_unevaluated_rows_and_evaluating_looks_up(folder: Path) -> None:
    table = read_table("a/p", folder)
    problem = Replay(str(folder)).open(*NAMES, seed=0)
    offer = problem.candidates(5)
    assert np.array_equal(offer.ids, np.arange(len(table)))
    assert np.array_equal(offer.unit, table.unit)
    outcome = problem.evaluate(7)
    assert outcome.error == table["val_error"][7]
    assert outcome.cost_s == table["scaled_s"][7]
    assert outcome.test_error == table["test_error"][7]
    assert 7 not in problem.candidates(6).ids
    assert len(problem.candidates(6).ids) == len(table) - 1


def test_the_initial_design_draws_configurations_by_problem_and_seed(folder: Path) -> None:
    evaluator = Replay(str(folder))
    table = read_table("a/p", folder)
    a = evaluator.open(*NAMES, seed=0).initial(5)
    assert np.array_equal(a.ids, evaluator.open(*NAMES, seed=0).initial(5).ids)
    assert len(set(table["config"][a.ids])) == 5
    assert table["own"][a.ids].all()
    assert not np.array_equal(a.ids, evaluator.open(*NAMES, seed=1).initial(5).ids)
    with pytest.raises(BadInput, match="has 16 configurations, the initial design needs 17"):
        evaluator.open(*NAMES, seed=0).initial(17)


def test_too_many_rows_are_drawn_from_with_the_incumbents_neighbours(folder: Path) -> None:
    table = read_table("a/p", folder)
    problem = ReplayProblem(table, seed=0, max_candidates=20)
    first = problem.candidates(5).ids
    assert len(first) == len(set(first)) == 20
    assert np.array_equal(first, ReplayProblem(table, 0, 20).candidates(5).ids)
    best = int(np.nanargmin(table["val_error"]))
    problem.evaluate(best)
    offer = problem.candidates(6).ids
    assert len(offer) == len(set(offer)) == 20
    others = np.setdiff1d(np.arange(len(table)), [best])
    order = others[np.argsort(np.square(table.unit[others] - table.unit[best]).sum(axis=1))]
    assert set(order[:9]) <= set(offer)
    assert np.array_equal(problem.all_candidates(6).ids, others), "what predicts nothing chooses among all rows"


@given(st.lists(st.integers(0, 60), min_size=1, max_size=400), st.integers(1, 60))
def test_the_smallest_values_are_those_of_a_stable_sort(values: list[int], count: int) -> None:
    distance = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(smallest(distance, count), np.argsort(distance, kind="stable")[:count])


def test_candidates_are_the_same_rows_however_they_are_asked_about(folder: Path) -> None:
    table, where = read_table("a/p", folder), np.array([3, 0, 8])
    rows = ReplayProblem(table, 0, 20).candidates(5)
    points = Candidates(rows.ids, table.unit[rows.ids])
    assert np.array_equal(rows.unit, points.unit) and np.array_equal(rows.point(4), points.point(4))
    some, few = rows.some(where), points.some(where)
    assert np.array_equal(some.ids, few.ids) and np.array_equal(some.unit, few.unit)
    (array, chosen), (gathered, none) = some.rows, few.rows
    assert array is table.unit and np.array_equal(array[chosen], gathered) and none is None
    for one in (some, few):
        assert one.same_points(few) and one.same_points(some) and not one.same_points(rows.some(where[::-1]))


def test_rows_that_the_build_cut_short_are_not_replayed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        for config in range(8):
            store.append("a/p", journal_line(config, status="timeout" if config == 3 else "ok"))
        store.pack("a/p")
    table = read_table("a/p", tmp_path)
    cut = table["config"] == 3
    assert (~table.measured).sum() == 1
    assert np.isnan(table["val_error"][~table.measured]).all()
    offered = Replay(str(tmp_path)).open(*NAMES, seed=0).candidates(0).ids
    assert np.array_equal(offered, np.flatnonzero(table.measured))
    prefix = np.flatnonzero(cut & table.measured)
    assert len(prefix)  # the shorter trainings in it were measured
    assert table.longest[prefix[-1]]
    assert table.longest.sum() == 8


def test_missing_and_damaged_tables_are_refused_in_one_line(folder: Path) -> None:
    evaluator = Replay(str(folder))
    with pytest.raises(BadInput, match=r"no table for b/p .*build 'dataset=\[b\]' 'pipeline=\[p\]'"):
        evaluator.fingerprint({"name": "b"}, {"name": "p"})
    read_table.cache_clear()
    path = folder / "a--p.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    build = f"measure anew with `python -m tabular_cache build 'dataset=[a]' 'pipeline=[p]' tables={folder}`"
    with pytest.raises(BadInput, match=f"damaged or foreign: .*{re.escape(build)}$"):
        evaluator.fingerprint(*NAMES)
    path.unlink()
    with pytest.raises(BadInput, match="cannot read the table of a/p"):
        evaluator.fingerprint(*NAMES)
    (folder / "empty").mkdir()
    build = re.escape(f"`python -m tabular_cache build tables={folder / 'empty'}`")
    with pytest.raises(BadInput, match=f"no tables in .*/empty: build them with {build}"):
        Replay(str(folder / "empty")).fingerprint(*NAMES)
    with pytest.raises(BadInput, match="no tables in"):
        Replay(str(folder / "nowhere")).fingerprint(*NAMES)


def test_a_file_of_another_schema_is_refused(folder: Path) -> None:
    path = folder / "a--p.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.replace_schema_metadata({"schema_version": "1"}), path)
    vouch(folder, "a/p")
    reported = "a--p.parquet has schema 1, this version reads 2"
    with pytest.raises(BadInput, match=re.escape(reported)):
        Replay(str(folder)).fingerprint(*NAMES)


def test_the_cost_can_be_as_measured(folder: Path) -> None:
    table = read_table("a/p", folder)
    for cost, column in (("cpu", "cpu_s"), ("wall", "wall_s"), ("scaled", "scaled_s")):
        assert Replay(str(folder), cost=cost).open(*NAMES, seed=0).evaluate(3).cost_s == table[column][3]
    with pytest.raises(BadInput, match="must be one of scaled, cpu, wall, got 'money'"):
        Replay(str(folder), cost="money")


def test_a_part_of_the_configurations(folder: Path) -> None:
    table = read_table("a/p", folder)
    problem = Replay(str(folder), n_configs=6).open(*NAMES, seed=0)
    assert set(table["config"][problem.candidates(5).ids]) == set(range(6))
    assert set(table["config"][problem.initial(6).ids]) == set(range(6))
    with pytest.raises(BadInput, match="n_configs must be a whole number >= 1, got 0"):
        Replay(str(folder), n_configs=0)
    with pytest.raises(BadInput, match=r"the table of a/p has 16 configurations, evaluator.n_configs=17"):
        Replay(str(folder), n_configs=17).open(*NAMES, seed=0)


def test_at_most_so_many_configurations(folder: Path, tmp_path: Path) -> None:
    """Of a table with 16: a number above that is no error; another folder's table says how many of this one's count."""

    def offered(most: int | str) -> int:
        return len(set(table["config"][Replay(str(folder), at_most_configs=most).open(*NAMES, 0).candidates(5).ids]))

    table, smaller = read_table("a/p", folder), str(make_tables(tmp_path / "small", ["a/p"], 7))
    larger = str(make_tables(tmp_path / "large", ["a/p"], 40))
    assert [offered(most) for most in (6, 17, smaller, larger)] == [6, 16, 7, 16]
    back = Replay(smaller, at_most_configs=str(folder)).open(*NAMES, seed=0)
    assert len(set(read_table("a/p", Path(smaller))["config"][back.candidates(5).ids])) == 7
    prints = [Replay(str(folder), at_most_configs=most).fingerprint(*NAMES) for most in (6, smaller, larger)]
    assert len(set(prints)) == 3 and prints[0] == Replay(str(folder)).fingerprint(*NAMES)  # the number is a setting
    for wrong in (0, "", True):
        with pytest.raises(BadInput, match="at_most_configs, if it names no folder, must be a whole number >= 1"):
            Replay(str(folder), at_most_configs=wrong)
    Replay(str(folder), at_most_configs=6).check_design(*NAMES, 6)
    with pytest.raises(
        BadInput, match=r"a/p has 6 configurations in use \(evaluator.at_most_configs=6\), n_initial=7 needs more"
    ):
        Replay(str(folder), at_most_configs=6).check_design(*NAMES, 7)
    with pytest.raises(BadInput, match="exclude each other"):
        Replay(str(folder), n_configs=5, at_most_configs=5)
    with pytest.raises(BadInput, match="no table"):
        Replay(str(folder), at_most_configs=str(tmp_path)).fingerprint(*NAMES)


def test_log_loss_as_what_is_minimised(folder: Path) -> None:
    table = read_table("a/p", folder)
    outcome = Replay(str(folder), objective="loss").open(*NAMES, seed=0).evaluate(7)
    assert (outcome.error, outcome.test_error) == (table["val_loss"][7], table["test_loss"][7])
    assert outcome.error != table["val_error"][7] and outcome.cost_s == table["scaled_s"][7]
    with pytest.raises(BadInput, match="objective must be one of error, loss, got 'auc'"):
        Replay(str(folder), objective="auc")


def test_a_capped_look_up_is_censored_past_the_cap(folder: Path) -> None:
    problem, again = (Replay(str(folder)).open({"name": "a"}, {"name": "p"}, 0) for _ in range(2))
    for i in problem.initial(5).ids:
        whole = again.evaluate(int(i))
        capped = problem.evaluate_capped(int(i), 0.01)
        if whole.cost_s <= 0.01:
            assert capped == whole
        else:
            assert (capped.status, capped.cost_s, capped.censored) == ("timeout", 0.01, True)
    with pytest.raises(BadInput, match="cap_s must be a number of seconds > 0, or inf"):
        problem.evaluate_capped(0, float("nan"))


def test_a_capped_look_up_does_not_tell_where_the_hidden_error_is_low(folder: Path) -> None:
    table = read_table("a/p", folder)
    best = int(np.argmin(table["val_error"]))
    capped, unreported, reported = (ReplayProblem(table, 0, 12) for _ in range(3))
    for problem in (capped, unreported, reported):
        problem.evaluate(0)
    capped.evaluate_capped(best, 1e-9)
    reported.evaluate(best)
    unreported._take(np.array([best]))
    assert (
        capped.candidates(2).ids.tolist()
        == unreported.candidates(2).ids.tolist()
        != reported.candidates(2).ids.tolist()
    )
    assert best not in capped.candidates(2).ids


def test_a_table_that_a_build_has_just_written_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader had the manifest of before."""
    inner, asked = table_module.table_entry, list[str]()

    def stale(problem: str, folder: Path) -> dict[str, object]:
        asked.append(problem)
        return inner(problem, folder) | ({"sha256": 64 * "0"} if len(asked) == 1 else {})

    monkeypatch.setattr(table_module, "table_entry", stale)
    assert len(load_table("a/p", folder)) and len(asked) == 2
    monkeypatch.setattr(table_module, "table_entry", lambda *where: inner(*where) | {"sha256": 64 * "0"})
    with pytest.raises(BadInput, match="is damaged or foreign"):
        load_table("a/p", folder)

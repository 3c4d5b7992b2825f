"""The emulator of a table and the evaluator that replays it on the whole space."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import journal_line, make_tables, prepared

from datasets.errors import BadInput
from datasets.files import read_sealed
from harness import live as live_module
from harness.execution import SerialExecutor, serial
from harness.live import Live
from tabular_cache import emulator as emulator_module
from tabular_cache.emulator import (
    Surface,
    accuracy,
    dump,
    emulator_of,
    fit,
    judge,
    left_out,
    load,
    print_judged,
    targets,
)
from tabular_cache.store import Store
from tabular_cache.table import load_table, read_table

NAMES = ({"name": "a"}, {"name": "p"})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(emulator_module, "_PASSES", 5)
    emulator_of.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tables(tmp_path / "tables", ["a/p"], 256)


def test_the_emulator_learns_errors_and_costs_of_configurations_it_never_saw(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator_module, "_PASSES", 120)
    table = load_table("a/p", folder)
    found = accuracy(table)
    assert found["error_all"] < 0.03
    assert found["error_best"] < 0.03
    assert found["cost_all"] < 0.05  # the made-up costs carry noise of 3 %
    out = left_out(table)
    inside = {int(c) for c in table["config"][~out]}
    assert inside.isdisjoint(int(c) for c in table["config"][out])
    assert len(inside) == 256 - 26


def test_what_is_left_out_is_not_learned_from(folder: Path) -> None:
    table = load_table("a/p", folder)
    out = left_out(table)
    clean = fit(table, ~out, members=1)
    table["val_error"][out] *= 50.0
    table["scaled_s"][out] *= 50.0
    assert fit(table, ~out, members=1).digest == clean.digest
    assert fit(table, members=1).digest != clean.digest


def test_the_command_judges_what_it_can(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tables(folder, ["b/p"], 2)
    frame, failed = judge(serial(), ["a/p", "b/p"], folder, 64)
    assert frame["problem"].tolist() == ["a/p"]
    expected = accuracy(load_table("a/p", folder), n_configs=64)
    assert frame.iloc[0][list(expected)].to_dict() == pytest.approx({k: 100 * v for k, v in expected.items()})
    assert failed == ["b/p: the table of b/p has 2 configurations, evaluator.n_configs=64"]
    assert print_judged(frame, failed) == 3
    said = capsys.readouterr().out
    assert f"error, best tenth {100 * expected['error_best']:.2f}" in said and "not judged: b/p" in said


def test_the_same_table_gives_the_same_surface_and_keeps_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, emulator_train = emulator_of("a/p", folder), emulator_module._train
    emulator_of.cache_clear()
    monkeypatch.setattr(emulator_module, "_train", lambda *_: pytest.fail("fitted again"))
    assert emulator_of("a/p", folder).digest == first.digest
    monkeypatch.setattr(emulator_module, "_train", emulator_train)
    assert fit(load_table("a/p", folder)).digest == first.digest
    table = load_table("a/p", folder)
    kept = load(dump(first))
    assert np.array_equal(kept.predict(table.unit), first.predict(table.unit))


def test_surfaces_are_fitted_by_the_workers_those_alone_that_are_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a cluster: the worker has a cache of its own, and what it fitted is kept here, too."""
    make_tables(folder, ["b/p", "c/p"], 2)  # too small to be fitted
    here, there = tmp_path / "cache", tmp_path / "elsewhere"
    surface, calls = Surface(tables=str(folder)), list[str]()

    class Elsewhere(SerialExecutor):
        def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            calls.append(args[0][0])
            monkeypatch.setenv("COST_AWARE_BO_CACHE", str(there))
            done = super().submit(fn, *args, **kwargs)
            monkeypatch.setenv("COST_AWARE_BO_CACHE", str(here))
            return done

    problems = [({"name": name}, {"name": "p"}) for name in ("a", "b")]
    surface.prepare(problems, Elsewhere)
    assert calls == ["a/p", "b/p"]
    assert "2/2 surfaces" in capsys.readouterr().err
    kept = [list((cache / "emulators").iterdir()) for cache in (here, there)]
    assert len(kept[0]) == 1 and kept[0][0].read_bytes() == kept[1][0].read_bytes()
    emulator_of.cache_clear()
    monkeypatch.setattr(emulator_module, "fit", lambda *_: pytest.fail("fitted again"))
    assert surface.fingerprint(*NAMES) == load(read_sealed(kept[0][0]) or b"").digest
    surface.prepare([NAMES], lambda: pytest.fail("started for nothing"))


def test_what_cannot_be_fitted_is_refused_as_before(folder: Path) -> None:
    make_tables(folder, ["b/p"], 2)
    surface, problem = Surface(tables=str(folder)), ({"name": "b"}, {"name": "p"})
    surface.prepare([problem], serial)
    with pytest.raises(BadInput, match="b/p"):
        surface.fingerprint(*problem)


def test_too_small_a_table_is_refused(tmp_path: Path) -> None:
    table = load_table("a/p", make_tables(tmp_path / "few", ["a/p"], 4))
    with pytest.raises(BadInput, match="at least 50 measured rows, those asked for of a/p are 22"):
        fit(table)


def test_a_surface_offers_the_points_that_live_training_offers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepared()
    monkeypatch.setattr(live_module, "_prepared", lambda *_: data)
    live = Live(n_candidates=64).open({"name": "fake", "_target_": "x"}, {"name": "raw"}, seed=3)
    surface = Surface(str(folder), n_candidates=64).open(*NAMES, seed=3)
    surface.name = live.name
    for offer in (lambda p: p.initial(5), lambda p: p.candidates(7)):
        ours, theirs = offer(surface), offer(live)
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.unit, theirs.unit)


def test_evaluating_asks_the_emulator_at_the_offered_point(folder: Path) -> None:
    problem = Surface(str(folder), n_candidates=32).open(*NAMES, seed=0)
    problem.initial(5)
    offer = problem.candidates(5)
    outcome = problem.evaluate(int(offer.ids[9]))
    expected = emulator_of("a/p", folder).predict(offer.unit[9:10])[0]
    assert (outcome.error, outcome.test_error, outcome.cost_s) == tuple(expected)
    with pytest.raises(BadInput, match=r"n_candidates must be a whole number >= 1, got 0"):
        Surface(n_candidates=0)
    with pytest.raises(BadInput, match="no table for b/p"):
        Surface(str(folder)).fingerprint({"name": "b"}, {"name": "p"})


def test_a_small_rmse_is_no_share_of_rows(folder: Path) -> None:
    """Errors of a regression are in units of the target, whatever these are."""
    table = load_table("a/p", folder)
    for task, floored in (("regression", False), ("binary", True)):
        small = replace(table, meta={**table.meta, "task": task, "n_valid": 10, "n_test": 10})
        small.columns["val_error"] = 1e-6 * table["val_error"]
        reported = np.exp(targets(small)[:, 0])
        assert np.allclose(reported, small["val_error"], rtol=1e-12) != floored
        small.columns["val_error"] = table["val_error"]
    zero = replace(table, meta={**table.meta, "task": "regression"})
    zero["val_error"][0] = 0.0
    assert np.exp(targets(zero)[0, 0]) == pytest.approx(0.5 * zero["val_error"][1:].min())


def test_a_surface_is_kept_under_the_table_it_is_of(folder: Path, tmp_path: Path) -> None:
    """The process has read the table before a build changed it."""
    read_table("a/p", folder)
    before = emulator_of("a/p", folder).digest
    store = Store(folder)
    with store.locked():
        store.append("a/p", journal_line(300, "a/p"))
        store.pack("a/p")
    emulator_of.cache_clear()
    after = emulator_of("a/p", folder).digest
    assert after == fit(load_table("a/p", folder)).digest != before

"""Replay settings against live training, on made-up records."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables
from synthetic_records import Way, block, on_disk, spec

from analysis import density
from analysis import density as density_figure
from analysis import density as density_settings
from analysis.__main__ import main
from analysis.density import confirmed, draw_density, exhausted, n_configs, settings
from analysis.evaluations import CELL
from analysis.traces import collect
from analysis.tradeoffs import finals
from datasets.errors import BadInput
from harness.records import TRACE, block_files, write_block
from harness.streams import stream
from tabular_cache.table import load_table

WAYS = (Way("ei"), Way("eialpha", alpha=0.3), Way("cei", lam=0.3))
PROBLEMS = [("a", "p"), ("a", "q"), ("b", "p"), ("b", "q"), ("c", "p"), ("c", "q")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same records in four settings; a test that changes them does so in a copy."""
    made = tmp_path_factory.mktemp("settings") / "all"
    on_disk(made / "live", PROBLEMS, WAYS, (0, 1, 2, 3), 30)
    for name in ("surface-512", "rows-1024", "rows-128"):
        shutil.copytree(made / "live", made / name)
    return made


@pytest.fixture(scope="module")
def effects(folder: Path) -> dict[str, Any]:
    return density.method_effects(settings(folder))


def table_of(values: np.ndarray, names: list[str]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(
        [(d, p, s) for d, p in PROBLEMS for s in range(4)], names=["dataset", "pipeline", "seed"]
    )
    return pd.DataFrame(values, index=index, columns=names)


def test_settings_come_in_order_with_live_first(folder: Path) -> None:
    assert list(settings(folder)) == ["live", "rows-128", "rows-1024", "surface-512"]
    assert [n_configs(n) for n in ("live", "rows-128", "surface-512")] == [None, 128, 512]


def test_without_live_the_shipped_runs_are_compared_with(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(density_settings, "TRUTH", folder / "live")
    shutil.copytree(folder / "rows-128", tmp_path / "all/rows-128")
    assert list(settings(tmp_path / "all")) == ["live", "rows-128"]
    assert not density.method_effects(settings(tmp_path / "all"))["live"]["saved"].empty


def test_equal_records_are_at_no_distance(effects: dict[str, Any]) -> None:
    numbers = density.effects_table(effects)
    assert (numbers["off_value"] == 0).all()
    assert set(numbers["method"]) == {"eialpha(alpha=0.3)", "cei(lam=0.3)"}
    agreement = density.sign_agreement(effects)
    assert (agreement["distance"] == 0).all()
    assert (agreement["sure"] > 0).all() and agreement["same_sign"].eq(1).all()


def test_effects_by_hand(folder: Path) -> None:
    traces = settings(folder)["live"]
    problem = (traces.runs["dataset"] == "b") & (traces.runs["pipeline"] == "p")
    of = {m: np.flatnonzero(problem & (traces.runs["method"] == m)) for m in ("ei", "cei(lam=0.3)")}
    cost = {m: np.nansum(traces.cost_s[i]) for m, i in of.items()}
    error = {m: np.nanmin(traces.error[i], axis=1).sum() for m, i in of.items()}
    found = {
        name: f["cei(lam=0.3)"].loc["b", "p"] for name, f in density.method_effects({"live": traces})["live"].items()
    }
    assert len(found["saved"]) > 1 and found["saved"].std() > 0
    assert found["saved"].mean() == pytest.approx(100 * (1 - cost["cei(lam=0.3)"] / cost["ei"]))
    assert found["added"].mean() == pytest.approx(100 * (error["cei(lam=0.3)"] / error["ei"] - 1))


def test_distance_is_of_the_means_without_the_scatter_of_the_seeds() -> None:
    """A shift of 6 points and scatter of 10 over seeds: the distance is 6; with no shift it is near 0."""
    rng = stream(0, "density test")
    names = [f"m{i}" for i in range(400)]
    truth = table_of(rng.normal(size=(24, 400)), names)
    for shift in (0.0, 6.0):
        shifted = truth + shift + 10 * rng.normal(size=truth.shape)
        found = {"live": {"saved": truth, "added": truth}, "rows-128": {"saved": shifted, "added": shifted}}
        line = density.sign_agreement(found).iloc[0]
        assert line["distance"] == pytest.approx(shift, abs=1.2)
        assert line["low"] <= line["distance"] <= line["high"]
        assert line["bias"] == pytest.approx(shift, abs=0.6)
        assert line["bias_low"] < shift < line["bias_high"] < line["bias_low"] + 2


def test_only_runs_that_every_setting_has_count(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "all")
    folder = tmp_path / "all"
    on_disk(folder / "rows-2048", PROBLEMS[:2], WAYS, (1, 2), 30)
    found = density.method_effects(settings(folder))
    assert {len(frame) for frames in found.values() for frame in frames.values()} == {4}
    live = settings(folder)["live"]
    kept = [live.runs[c].isin(set(found["live"]["saved"].index.get_level_values(c))) for c in CELL]
    spent = pd.Series(np.nansum(live.cost_s, axis=1))[np.logical_and.reduce(kept)]
    of = spent.groupby([live.runs[c] for c in ("dataset", "pipeline", "method")]).sum().unstack()
    saved = found["live"]["saved"].groupby(level=["dataset", "pipeline"]).mean()
    for method in saved:
        assert saved[method].to_numpy() == pytest.approx(100 - 100 * (of[method] / of["ei"]).to_numpy())
    on_disk(folder / "rows-4096", PROBLEMS[3:], WAYS, (1, 2), 30)
    with pytest.raises(BadInput, match="no problem and seed was run under every setting"):
        density.method_effects(settings(folder))


def test_runs_that_found_the_best_row_exhausted_the_table(tmp_path: Path) -> None:
    tables = make_tables(tmp_path / "tables", ["a/p"], 8)
    table = load_table("a/p", tables)
    best = table["val_error"][table["config"] < 4].min()
    trace = block("a", "p", WAYS[0], (0, 1, 2), 10)
    errors = np.full((3, 10), 2 * best)
    errors[1, 7] = best
    trace["error"] = errors.ravel().tolist()
    evaluator = {"_target_": "x", "tables": str(tables), "n_configs": 4}
    full = spec("a", "p", WAYS[0], 10) | {"components": {"evaluator": evaluator}, "data": table.meta["sha256"]}
    timings: dict[str, list[float]] = {n: [] for n in ("seed", "step", "fit_ms", "propose_ms")}
    files = block_files(full, [0, 1, 2], trace, timings)
    write_block(tmp_path / "r" / "rows-4", files)
    frame = pd.DataFrame(trace).assign(**{k: v for k, v in spec("a", "p", WAYS[0], 10).items() if v is not None})
    frame = frame.assign(spec="s", lam=np.nan, alpha=np.nan, tau=np.nan)
    assert set(TRACE.names) <= set(frame.columns)
    assert exhausted(tmp_path / "r", "rows-4", collect(frame), cells((0, 1, 2))) == pytest.approx(1 / 3)
    write_block(
        tmp_path / "r" / "older",
        block_files(full | {"data": "older"}, [0], {k: v[:10] for k, v in trace.items()}, timings),
    )
    assert np.isnan(exhausted(tmp_path / "r", "older", collect(frame), cells((0, 1, 2))))
    assert exhausted(tmp_path / "r", "rows-4", collect(frame), cells((0, 1))) == 0.5


def cells(seeds: tuple[int, ...]) -> pd.MultiIndex:
    return pd.MultiIndex.from_tuples([("a", "p", seed) for seed in seeds], names=["dataset", "pipeline", "seed"])


@pytest.mark.usefixtures("undrawn")
def test_settings_that_cannot_be_compared_are_named(folder: Path, tmp_path: Path) -> None:
    def compared(ways: tuple[Way, ...], steps: int) -> None:
        shutil.rmtree(tmp_path / "all", ignore_errors=True)
        shutil.copytree(folder / "live", tmp_path / "all/live")
        on_disk(tmp_path / "all/rows-64", PROBLEMS, ways, (0, 1), steps)
        settings(tmp_path / "all")

    compared(WAYS, 30)
    with pytest.raises(BadInput, match=r"rows-64: runs of \[20\] iterations, those of live have \[30\]"):
        compared(WAYS, 20)
    with pytest.raises(BadInput, match=r"rows-64: no runs of cei\(lam=0.3\), which live has"):
        compared(WAYS[:2], 30)
    with pytest.raises(BadInput, match="live: no runs of eipu, which rows-64 has"):
        compared((*WAYS, Way("eipu")), 30)


def test_live_runs_alone_are_compared_with_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "live", tmp_path / "all/live")
    with pytest.raises(BadInput, match=r"has no setting to compare with live training: a folder beside live"):
        draw_density(tmp_path / "all", tmp_path / "out")


def test_signs_by_hand() -> None:
    """Of a problem with two seeds each: sure and told, sure and told wrongly, unsure; and of what is told nothing."""
    index = pd.MultiIndex.from_product([["a", "b", "c"], ["p"], [0, 1]], names=["dataset", "pipeline", "seed"])
    live = pd.DataFrame({"m": [5.0, 6.0, -5.0, -6.0, 5.0, -4.0]}, index=index)
    told = pd.DataFrame({"m": [1.0, 1.0, 2.0, 2.0, -9.0, -9.0]}, index=index)
    expected = {"m": (0.5, 2)}
    for columns in (["m"], []):
        found = density.signs(told[columns], live[columns])
        share, sure = expected.get("".join(columns), (np.nan, 0))
        assert found["sure"] == sure and found["same_sign"] == pytest.approx(share, nan_ok=True)


def test_problems_of_one_seed_have_no_scatter_to_subtract(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "live", tmp_path / "all/live")
    on_disk(tmp_path / "all/rows-64", PROBLEMS[:2], WAYS, (0, 1), 30)
    on_disk(tmp_path / "all/rows-64", PROBLEMS[2:3], WAYS, (0,), 30)
    agreement = density.sign_agreement(density.method_effects(settings(tmp_path / "all")))
    assert np.isfinite(agreement["distance"]).all()
    assert (agreement["one_seed"] == 1).all()
    shutil.rmtree(tmp_path / "all/rows-64")
    on_disk(tmp_path / "all/rows-64", PROBLEMS[:2], WAYS, (0,), 30)
    with pytest.raises(BadInput, match="no problem has two seeds"):
        density.sign_agreement(density.method_effects(settings(tmp_path / "all")))


@pytest.mark.usefixtures("undrawn")
def test_what_was_trained_counts_for_surfaces(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings twice as bad as told for one method, as told for EI: its error added is 100 points more than told."""
    shutil.copytree(folder, tmp_path / "all")
    traces = settings(tmp_path / "all")
    told = finals(traces["surface-512"])
    twice = np.where(told["method"] == "eialpha(alpha=0.3)", 2.0, 1.0)
    trained = told[["dataset", "pipeline", "seed", "method"]].assign(error=told["final_error"] * twice)
    trained.to_csv(tmp_path / "all/surface-512/confirmed.csv", index=False)
    found = density.method_effects(traces, confirmed=confirmed(tmp_path / "all", traces))
    added, measured = (found["surface-512"][name] for name in ("added", "measured"))
    pd.testing.assert_series_equal(measured["cei(lam=0.3)"], added["cei(lam=0.3)"], check_index_type=False)
    expected = 2 * (added["eialpha(alpha=0.3)"] + 100) - 100
    pd.testing.assert_series_equal(measured["eialpha(alpha=0.3)"], expected, check_index_type=False)
    pd.testing.assert_frame_equal(found["rows-128"]["measured"], found["rows-128"]["added"])
    monkeypatch.setattr(density_figure, "exhausted", lambda *_: 0.25)
    drawn = density_figure.draw_density(tmp_path / "all", tmp_path / "out")
    assert set(drawn.numbers["effect"]) == {"saved", "added", "measured"}
    assert "was trained live" in drawn.caption


@pytest.mark.usefixtures("undrawn")
def test_the_figure_and_its_tables(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density_figure, "exhausted", lambda *_: 0.25)
    assert main(["density", f"results_dir={folder}", f"out_dir={tmp_path / 'out'}"]) == 0
    assert {p.suffix for p in (tmp_path / "out").iterdir()} == {".png", ".svg", ".csv", ".txt"}
    drawn = density_figure.draw_density(folder, tmp_path / "again")
    assert "6 problems of 3 data sets" in drawn.caption
    assert "24 runs per method" in drawn.caption
    assert len(drawn.numbers) == 4 * 2 * 2
    agreement = pd.read_csv(tmp_path / "out" / "density-agreement.csv")
    assert len(agreement) == 3 * 2
    assert agreement["exhausted"].eq(0.25).all()

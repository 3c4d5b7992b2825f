"""Replay settings against live training, on made-up records."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables
from synthetic_records import Way, block, on_disk, spec

from analysis import density, density_figure
from analysis.__main__ import main
from analysis.traces import collect
from harness.errors import BadInput
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
    return density.effects(density.settings(folder))


def table_of(values: np.ndarray, names: list[str]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(
        [(d, p, s) for d, p in PROBLEMS for s in range(4)], names=["dataset", "pipeline", "seed"]
    )
    return pd.DataFrame(values, index=index, columns=names)


def test_settings_come_in_order_with_live_first(folder: Path) -> None:
    assert list(density.settings(folder)) == ["live", "rows-128", "rows-1024", "surface-512"]
    assert [density.density(n) for n in ("live", "rows-128", "surface-512")] == [None, 128, 512]


def test_without_live_there_is_nothing_to_compare_with(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "live", tmp_path / "all/dead")
    with pytest.raises(BadInput, match="needs a folder 'live'"):
        density.settings(tmp_path / "all")


def test_equal_records_are_at_no_distance(effects: dict[str, Any]) -> None:
    numbers = density.compare(effects)
    assert (numbers["off_value"] == 0).all()
    assert set(numbers["method"]) == {"eialpha(alpha=0.3)", "cei(lam=0.3)"}
    agreement = density.agreement(effects)
    assert (agreement["distance"] == 0).all()
    assert agreement["same_sign"].dropna().eq(1).all()


def test_effects_by_hand(folder: Path) -> None:
    traces = density.settings(folder)["live"]
    cell = (traces.runs["dataset"] == "b") & (traces.runs["pipeline"] == "p") & (traces.runs["seed"] == 2)
    of = {m: np.flatnonzero(cell & (traces.runs["method"] == m))[0] for m in ("ei", "cei(lam=0.3)")}
    cost, error = (
        {m: f(a[i]) for m, i in of.items()} for f, a in ((np.nansum, traces.cost_s), (np.nanmin, traces.error))
    )
    found = density.effects({"live": traces})["live"]
    assert found["saved"].loc[("b", "p", 2), "cei(lam=0.3)"] == pytest.approx(
        100 * (1 - cost["cei(lam=0.3)"] / cost["ei"])
    )
    assert found["added"].loc[("b", "p", 2), "cei(lam=0.3)"] == pytest.approx(
        100 * (error["cei(lam=0.3)"] / error["ei"] - 1)
    )


def test_distance_is_of_the_means_without_the_scatter_of_the_seeds() -> None:
    """A shift of 6 points and scatter of 10 over seeds: the distance is 6; with no shift it is near 0."""
    rng = stream(0, "density test")
    names = [f"m{i}" for i in range(400)]
    truth = table_of(rng.normal(size=(24, 400)), names)
    for shift in (0.0, 6.0):
        shifted = truth + shift + 10 * rng.normal(size=truth.shape)
        found = {"live": dict.fromkeys(density.EFFECTS, truth), "rows-128": dict.fromkeys(density.EFFECTS, shifted)}
        line = density.agreement(found).iloc[0]
        assert line["distance"] == pytest.approx(shift, abs=1.2)
        assert line["low"] <= line["distance"] <= line["high"]
        assert line["bias"] == pytest.approx(shift, abs=0.6)


def test_only_runs_that_every_setting_has_count(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "all")
    folder = tmp_path / "all"
    on_disk(folder / "rows-2048", PROBLEMS[:2], WAYS, (1, 2), 30)
    found = density.effects(density.settings(folder))
    assert {len(frame) for frames in found.values() for frame in frames.values()} == {4}
    on_disk(folder / "rows-4096", PROBLEMS[3:], WAYS, (1, 2), 30)
    with pytest.raises(BadInput, match="no problem and seed was run under every setting"):
        density.effects(density.settings(folder))


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
    assert density.exhausted(tmp_path / "r", "rows-4", collect(frame)) == pytest.approx(1 / 3)
    write_block(
        tmp_path / "r" / "older",
        block_files(full | {"data": "older"}, [0], {k: v[:10] for k, v in trace.items()}, timings),
    )
    with pytest.raises(BadInput, match="older: the table of a/p has changed since it was replayed"):
        density.exhausted(tmp_path / "r", "older", collect(frame))


def test_the_figure_and_its_tables(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "exhausted", lambda *_: 0.25)
    assert main(["density", f"results_dir={folder}", f"out_dir={tmp_path / 'out'}"]) == 0
    assert {p.suffix for p in (tmp_path / "out").iterdir()} == {".png", ".svg", ".csv", ".txt"}
    drawn = density_figure.draw(folder, tmp_path / "again")
    for path in drawn.paths:
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes()
    assert "6 problems of 3 data sets" in drawn.caption
    assert "24 runs per method" in drawn.caption
    assert len(drawn.numbers) == 4 * 2 * 2
    agreement = pd.read_csv(tmp_path / "out" / "density-agreement.csv")
    assert len(agreement) == 3 * 2
    assert agreement["exhausted"].eq(0.25).all()

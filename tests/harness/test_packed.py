"""Packed records: what was measured comes back exactly, the rest as precisely as is said; what is there stays."""

import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from study_cases import contents, do, grid

from analysis import best
from analysis.evaluations import read_evaluations
from analysis.traces import collect
from analysis.tradeoffs import read_fronts
from harness.errors import BadInput
from harness.records import FRONTS_SUFFIX, MODELS_SUFFIX, read_models, read_timings, read_traces, trace_files
from harness.sealed import read_record, record_path, sealed_parquet, write_record
from tabular_cache.packed import SCORES_SUFFIX, VALUES, main, pack, rounded, unpack
from tabular_cache.table import TABLES, about, read_manifest

RUNS = Path(__file__).resolve().parents[2] / "runs"
KEPT = ["dataset", "pipeline", "method", "spec", "data", "seed", "step", "candidate", "error", "test_error", "cost_s"]
KEPT += ["status", "iterations"]


@pytest.fixture(scope="module")
def packed(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    assert pack(whole, folder) == (4, 4)
    return folder


def test_what_reports_are_made_of_comes_back(packed: Path, whole: Path, tmp_path: Path) -> None:
    assert unpack(packed, tmp_path) == (4, 4)
    before, after = (read_traces(folder)[KEPT] for folder in (whole, tmp_path))
    assert before.equals(after)
    old, new = (collect(read_evaluations(folder), {}) for folder in (whole, tmp_path))
    assert np.array_equal(old.proposed, new.proposed) and old.proposed.any()
    ei, cei = ((old.runs["method"] == name).to_numpy() for name in ("ei", "cei(lam=0.3)"))
    assert np.allclose(new.log_ei[ei], old.log_ei[ei], rtol=1e-6, equal_nan=True)
    assert np.allclose(new.predicted_cost_s[ei], old.predicted_cost_s[ei], rtol=1e-6, equal_nan=True)
    assert np.allclose(new.predicted_cost_s, old.predicted_cost_s, rtol=2**-3, equal_nan=True)
    for name in ("effective_alpha", "effective_alpha_high"):
        values = getattr(old, name)[cei]
        assert np.isfinite(values).any()
        assert np.allclose(getattr(new, name)[cei], values, rtol=2**-6, equal_nan=True)
    assert read_timings(tmp_path)["seed"].eq(0).all() and len(read_timings(tmp_path)) == 4 * 7
    assert read_models(tmp_path)["log_length_scales"].isna().all()
    with pytest.raises(BadInput, match="do not hold the configurations"):
        best.best(read_traces(tmp_path), defaultdict(dict))


def packed_specs(path: Path) -> list[dict[str, Any]]:
    blocks = pq.read_table(path, columns=["block"])["block"].drop_null().to_pylist()
    return [json.loads(block)["spec"] for block in blocks]


def taught_now(model: dict[str, Any], problem: str, tables: dict[str, Any]) -> str:
    """Return the fingerprint of what a transferred cost model learns from the tables as they are."""
    return str(instantiate(model).training_set(about(problem, tables[problem])).digest)


def test_the_runs_of_our_study_are_of_the_shipped_tables() -> None:
    """So that a method which is run beside them meets the same data."""
    problems, tables = set(), read_manifest(TABLES)["tables"]
    learned = dict[str, tuple[str, dict[str, Any]]]()  # fingerprint and settings of a cost model that was taught
    for path in RUNS.rglob("*.parquet"):
        other = path.relative_to(RUNS).parts[0] in ("solvers", "registered", "live", "elsewhere")
        if other or "costs" in path.parts or path.name.endswith(FRONTS_SUFFIX):
            continue
        for spec in packed_specs(path):
            problem = f"{spec['dataset']}/{spec['pipeline']}"
            if problem in tables:  # not those of the figures alone
                problems.add(problem)
                assert spec["data"] == tables[problem]["sha256"], f"{path}: {problem} was measured anew since"
                if "cost_model_data" in spec:
                    seen = spec["cost_model_data"], spec["components"]["cost_model"]
                    assert learned.setdefault(problem, seen) == seen, f"{problem} is there with two states of others"
    assert problems == set(learned) == set(tables)
    for problem, (fingerprint, settings) in learned.items():
        assert fingerprint == taught_now(settings, problem, tables), (
            f"{problem}: tables that its cost models learned from were measured anew since"
        )


def test_the_scores_of_cost_models_are_of_the_shipped_tables() -> None:
    tables, problems = read_manifest(TABLES)["tables"], list[str]()
    for path in (RUNS / "study/costs").glob("*.parquet"):
        for spec in packed_specs(path):
            problem = spec["problem"]
            assert spec["data"] == tables[problem]["sha256"], f"{path}: {problem} was measured anew since"
            if spec["cost_model"] in ("transfer_linear", "transfer_xgboost"):  # by related tables, by all others
                problems.append(problem)
                now = taught_now(spec["config"], problem, tables)
                assert spec["known"] == now, f"{path}: tables that {spec['cost_model']} learned from have changed"
    assert Counter(problems) == dict.fromkeys(tables, 2)


def test_what_the_shipped_table_has_is_not_packed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("packed", "again"):
        (tmp_path / name / "abalone").mkdir(parents=True)
    shutil.copy(RUNS / "study/paper/abalone/clean.parquet", tmp_path / "packed/abalone")
    unpack(tmp_path / "packed", tmp_path / "records")
    pack(tmp_path / "records", tmp_path / "again")
    rows = pq.read_table(tmp_path / "again/abalone/clean.parquet")
    assert all(rows[name].null_count == len(rows) > 10_000 for name in ("error", "test_error", "cost_s", "status"))
    unpack(tmp_path / "again", tmp_path / "unpacked")
    assert read_traces(tmp_path / "unpacked")[KEPT].equals(read_traces(tmp_path / "records")[KEPT])
    monkeypatch.setattr("tabular_cache.packed.table_entries", lambda _: {"abalone/clean": {"sha256": "of another"}})
    with pytest.raises(BadInput, match="a table of abalone/clean that has changed since"):
        unpack(tmp_path / "again", tmp_path / "other")


def test_packing_what_was_unpacked_gives_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    unpack(packed, tmp_path / "records")
    pack(tmp_path / "records", tmp_path / "again")
    files = [path.relative_to(packed) for path in packed.glob("*/*.parquet")]
    assert len(files) == 2
    assert all((packed / file).read_bytes() == (tmp_path / "again" / file).read_bytes() for file in files)


def test_what_is_there_stays_and_the_study_goes_on(packed: Path, tables: Path, tmp_path: Path) -> None:
    results = tmp_path / "records"
    assert do(grid(tables, seeds=(0, 1)), results) == 8
    mine = contents(results)
    assert unpack(packed, results) == (0, 4)
    assert contents(results) == mine
    assert unpack(packed, tmp_path / "other") == (4, 4)
    assert do(grid(tables, seeds=(0, 1, 2)), tmp_path / "other") == 4  # of the third seed alone
    sealed = {path: path.read_bytes() for path in packed.glob("*/*.parquet")}
    assert pack(tmp_path / "other", tmp_path / "more") == (8, 8)
    assert pack(results, packed) == (0, 4) and {path: path.read_bytes() for path in sealed} == sealed


def test_records_from_before_models_were_kept(whole: Path, tmp_path: Path) -> None:
    for path in trace_files(whole):
        for file in path.parent.iterdir():
            if not file.name.endswith(MODELS_SUFFIX):
                target = tmp_path / "old" / file.relative_to(whole)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    pack(tmp_path / "old", tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "new")
    old, new = (read_traces(tmp_path / name).query("acq == 'cei'") for name in ("old", "new"))
    assert np.allclose(new["effective_alpha"], old["effective_alpha"], rtol=2**-6, equal_nan=True)


def test_runs_whose_ids_mean_different_points_come_back_too(tables: Path, tmp_path: Path) -> None:
    """As on surfaces and in live runs, where ids count the points that were offered."""
    surface = {"_target_": "tabular_cache.emulator.Surface", "tables": str(tables), "n_candidates": 40}
    study = grid(tables, iterations=8)
    study.components["evaluator"], study.names["evaluator"] = surface, "surface"
    do(study, tmp_path / "records")
    old = read_traces(tmp_path / "records")
    assert old.groupby(["dataset", "candidate"], observed=True)["cost_s"].nunique().max() > 1
    pack(tmp_path / "records", tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "again")
    assert read_traces(tmp_path / "again")[KEPT].equals(old[KEPT])


def test_fronts_come_back_and_where_the_points_lie_in_the_first_seeds(tables: Path, tmp_path: Path) -> None:
    do(replace(grid(tables), fronts=True), tmp_path / "records")
    pack(tmp_path / "records", tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "again")
    old, new = (read_fronts(tmp_path / name) for name in ("records", "again"))
    flags = [name for name in old.columns if name not in VALUES]
    assert len(old) > 50 and old[flags].equals(new[flags]) and old["stays"].notna().any()
    drawn = old["seed"] == 0
    assert np.allclose(new.loc[drawn, [*VALUES]], old.loc[drawn, [*VALUES]], rtol=2**-10, equal_nan=True)
    assert new.loc[~drawn, [*VALUES]].isna().all(axis=None)
    assert do(replace(grid(tables), fronts=True), tmp_path / "again") == 0


def test_records_of_other_experiments_are_no_part_of_a_study(whole: Path, tmp_path: Path) -> None:
    """Runs with capped evaluations, say, whose seconds are not to be rounded."""
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    write_record(
        record_path(results / "capped" / "own", "seed-0", {"a": 1}),
        [{"s": 0.1}],
        pa.schema([("s", pa.float64())]),
        {"a": 1},
    )
    assert pack(results, tmp_path / "packed") == (4, 4)


def test_scores_of_cost_models_come_back(tmp_path: Path) -> None:
    columns = pa.schema([("seed", pa.int32()), ("rmse", pa.float64()), ("n", pa.int64())])
    specs = [{"cost_model": name, "problem": "a/p"} for name in ("gp", "lv1")]
    for spec in specs:
        rows = [{"seed": seed, "rmse": 1 / (seed + 3), "n": 7} for seed in range(5)]
        write_record(record_path(tmp_path / "records/costs/a--p", spec["cost_model"], spec), rows, columns, spec)
    assert pack(tmp_path / "records", tmp_path / "packed/part") == (2, 2)
    assert unpack(tmp_path / "packed", tmp_path / "again") == (2, 2)
    for spec in specs:
        path = record_path(Path("costs/a--p"), spec["cost_model"], spec)
        (_, old), (found, new) = (read_record(tmp_path / name / path) for name in ("records", "again"))
        assert found == spec and new.schema == old.schema and new["n"] == old["n"] and new["seed"] == old["seed"]
        assert np.allclose(new["rmse"], old["rmse"], rtol=2**-16, atol=0)
    older = {**specs[0], "schema": 0}
    write_record(
        record_path(tmp_path / "records/costs/a--p", "gp", older), [{"n": 1}], pa.schema([columns.field("n")]), older
    )
    with pytest.raises(BadInput, match="different columns"):
        pack(tmp_path / "records", tmp_path / "packed/part")


def test_wrong_input_is_one_line(packed: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "damaged" / "a" / "p.parquet"
    damaged.parent.mkdir(parents=True)
    content = bytearray((packed / "a" / "p.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    outside = tmp_path / "outside"
    (outside / "costs").mkdir(parents=True)
    table = pa.table({"block": [json.dumps({"label": "../../../../x", "spec": {}})], "n": [1]})
    (outside / f"costs/a--p{SCORES_SUFFIX}").write_bytes(sealed_parquet(table))
    for arguments, message in (
        (["pack", f"results_dir={tmp_path / 'none'}"], "no records in"),
        (["unpack", f"packed_dir={tmp_path / 'none'}"], "nothing packed in"),
        (["unpack", f"packed_dir={tmp_path / 'damaged'}", f"results_dir={tmp_path / 'r'}"], "damaged record"),
        (["pack", f"results_dir={whole}", "packed_dir=/proc/packed"], "packed_dir: cannot read and write /proc"),
        (["unpack", f"packed_dir={whole}", f"results_dir={tmp_path / 'r'}"], "is no packed file"),
        (["unpack", f"packed_dir={outside}", f"results_dir={tmp_path / 'r'}"], "would be written outside"),
        (["squeeze"], "pack or unpack"),
        (["pack", "results="], "pack or unpack"),
        (["pack", "out_dir=x"], "unknown setting out_dir"),
    ):
        monkeypatch.setattr("sys.argv", ["tabular_cache.packed", *arguments])
        with pytest.raises(BadInput, match=message):
            main()


@given(st.lists(st.floats(width=32), min_size=1), st.integers(1, 20))
def test_rounding_keeps_so_many_binary_digits(values: list[float], digits: int) -> None:
    exact, near = np.array(values), rounded(np.array(values), digits)
    large = np.isfinite(exact) & (abs(exact) >= np.finfo(np.float32).tiny) & np.isfinite(near)
    assert np.all(abs(near[large] - exact[large]) <= 2.0**-digits * abs(exact[large]))
    assert np.array_equal(np.isnan(exact), np.isnan(near))
    assert np.array_equal(rounded(near, digits), near, equal_nan=True)

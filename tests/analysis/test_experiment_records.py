"""Records of experiments beside the study: what damage and strangers do to those who write and who read them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from fakes import make_tables

from analysis.cost_models import read_costs
from analysis.papers.hutter2013.records import read_censored
from datasets.errors import BadInput
from harness.sealed import DamagedRecord, read_record, record_path, write_record
from tabular_cache.cost_study import CENSORING_COLUMNS as CENSORED_COLUMNS
from tabular_cache.cost_study import PREDICTION_COLUMNS as COSTS_COLUMNS
from tabular_cache.cost_study import SLACK, CensoringTrial, PredictionTrial, run_trial

LV = {"_target_": "harness.cost_models.linear.LowVariance", "features": ["n_estimators"]}
SPEC = {"problem": "a/p", "version": 1}
COLUMNS = pa.schema([("seed", pa.int32()), ("rmse", pa.float64())])
ROWS = [{"seed": 0, "rmse": 0.5}, {"seed": 1, "rmse": 0.25}]


@dataclass(frozen=True)
class Experiment:
    """One case on made-up tables: where its record lies, what makes it, what reads it."""

    path: Path
    run: Callable[[], None]
    read: Callable[[], pd.DataFrame]
    columns: pa.Schema


@pytest.fixture(params=["costs", "censored"])
def experiment(request: pytest.FixtureRequest, tables: Path, tmp_path: Path) -> Experiment:
    if request.param == "costs":
        trial = PredictionTrial("a/p", "lv1", LV, (0,), (4,), str(tables), str(tmp_path))
        path, columns = trial.path(trial.spec()), COSTS_COLUMNS
        return Experiment(path, lambda: run_trial(trial), lambda: read_costs(tmp_path), columns)
    case = CensoringTrial(SLACK, "a/p", (0,), (10,), (1.0,), 3, {}, 0.25, str(tables), str(tmp_path))
    return Experiment(
        case.path(case.spec()), lambda: run_trial(case), lambda: read_censored(tmp_path), CENSORED_COLUMNS
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["a/p"], 50)


def damaged(content: bytes) -> dict[str, bytes]:
    flipped = bytearray(content)
    flipped[len(content) // 3] ^= 4
    return {"empty": b"", "cut": content[:-1], "half": content[: len(content) // 2], "flipped": bytes(flipped)}


def test_a_damaged_record_is_refused_by_readers_and_done_again_to_the_same_bytes(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.run()
    whole, rows, path = experiment.path.read_bytes(), experiment.read(), experiment.path
    for k, (kind, content) in enumerate(damaged(whole).items(), 1):
        path.write_bytes(content)
        with pytest.raises(DamagedRecord, match=f"damaged record {path} "):
            experiment.read()
        assert capsys.readouterr().err == ""
        experiment.run()
        aside = path.with_name(f"{path.name}.damaged" + (f".{k}" if k > 1 else ""))
        told = capsys.readouterr().err
        assert f"damaged record {path}" in told and f"moved to {aside.name}" in told, kind
        assert (path.read_bytes(), aside.read_bytes()) == (whole, content), kind
    pd.testing.assert_frame_equal(experiment.read(), rows)


def test_a_record_that_lies_where_another_belongs_is_refused_by_both(experiment: Experiment) -> None:
    write_record(experiment.path, [], COLUMNS, SPEC)
    content = experiment.path.read_bytes()
    for do in (experiment.run, experiment.read):
        with pytest.raises(BadInput, match=f"foreign record {experiment.path}: its spec is [0-9a-f]{{16}}, its name"):
            do()
    assert experiment.path.read_bytes() == content


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = record_path(tmp_path, "case", SPEC)
    write_record(path, ROWS, COLUMNS, SPEC)
    content = path.read_bytes()
    spec, table = read_record(path)
    assert spec == SPEC and table.to_pylist() == ROWS and table.schema.names == COLUMNS.names
    for place in range(0, len(content), 9):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(bytes(flipped))
        with pytest.raises(DamagedRecord):
            read_record(path)

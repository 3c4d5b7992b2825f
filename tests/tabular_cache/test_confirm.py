"""Training live what emulated runs chose."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import prepared

import tabular_cache.confirm as confirm_module
from harness.errors import BadInput
from harness.executors import serial
from harness.records import TRACE, block_files, write_block
from harness.space import XGBOOST_SPACE
from harness.training import train
from tabular_cache.confirm import choices, confirm, print_confirmed


def record(results: Path, method: str, errors: list[float], rounds: list[int]) -> None:
    n = len(errors)
    trace: dict[str, list[object]] = {name: [0.5] * n for name in TRACE.names}
    trace |= {"seed": [0] * n, "step": list(range(n)), "candidate": list(range(n)), "status": ["ok"] * n}
    trace |= {"error": list(errors), "cost_s": [0.1] * n, "n_estimators": list(rounds), "max_depth": [3.0] * n}
    trace |= {"learning_rate": [0.3] * n, "gamma": [0.01] * n, "reg_alpha": [0.01] * n, "reg_lambda": [1.0] * n}
    spec = {"dataset": "fake", "pipeline": "raw", "method": method, "acq": method, "iterations": n, "lam": None}
    spec |= {
        "alpha": None,
        "tau": None,
        "evaluator": "surface",
        "utility": "ei",
        "surrogate": "gp",
        "cost_model": "lv3",
    }
    write_block(results, block_files(spec, [0], trace, {"seed": [], "step": [], "fit_ms": [], "propose_ms": []}))


def test_final_choices_are_trained_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, "ei", [0.9, 0.3, 0.4], [4, 7, 9])
    record(tmp_path, "eipu", [0.9, 0.3, 0.4], [4, 7, 9])  # chose the same
    record(tmp_path, "cei", [0.8, np.nan, 0.5], [4, 7, 9])
    found = sorted(choices(tmp_path), key=lambda c: c.error)
    assert [(c.error, c.x[0]) for c in found] == [(0.3, 7.0), (0.5, 9.0)]
    data = prepared()
    monkeypatch.setattr(confirm_module, "prepared", lambda *_: data)
    frame = confirm(serial(), tmp_path, {("fake", "raw")})
    for _, row in frame.iterrows():
        x = np.array([row[name] for name in XGBOOST_SPACE.names])
        assert row["error"] == train(data, x, ()).val_error[-1]
        assert row["cost_s"] > 0
    assert len(pd.read_csv(tmp_path / "confirmed.csv")) == 2
    assert print_confirmed(frame) == 0
    off = np.median(np.abs(100 * (frame["error"] / frame["told_error"] - 1)))
    assert f"median over problems: error {off:.2f} %" in capsys.readouterr().out
    with pytest.raises(BadInput, match="no runs of these problems"):
        confirm(serial(), tmp_path, {("other", "raw")})

"""The report on utilities, from records of a small study; its numbers against ones worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from analysis import utilities
from harness.errors import BadInput
from harness.records import TIMINGS, TRACE, write_block

ERRORS = {"ei": [0.5, 0.4, 0.2], "kg": [0.5, 0.1, 0.1], "mes": [0.5, 0.4, 0.2]}
COSTS = {"ei": [1.0, 1.0, 2.0], "kg": [1.0, 4.0, 1.0], "mes": [1.0, 0.5, 0.5]}


def record(folder: Path, utility: str, seed: int, **changes: object) -> None:
    n = len(ERRORS[utility])
    numbers = {"seed": [seed] * n, "step": list(range(n)), "candidate": list(range(n))}
    trace = {
        **{name: [0.5] * n for name in TRACE.names}, **numbers, "status": ["ok"] * n, "error": ERRORS[utility],
        "cost_s": COSTS[utility],
    }  # fmt: skip
    timings = {"seed": [seed], "step": [2], "fit_ms": [100.0], "propose_ms": [400.0 if utility == "kg" else 0.0]}
    assert set(timings) == set(TIMINGS.names)
    spec = {
        "dataset": "wine", "pipeline": "clean", "acq": "ei", "method": "ei", "evaluator": "replay", "utility": utility,
        "surrogate": "gp", "cost_model": "lv3", "cost_statistic": "exp_mean", "lam": None, "alpha": None, "tau": None,
        "iterations": 3, **changes,
    }  # fmt: skip
    write_block(folder, spec, [seed], trace, timings)


def test_ranks_and_both_totals(tmp_path: Path) -> None:
    for seed in (0, 1):
        for utility in ERRORS:
            record(tmp_path, utility, seed)
    found = utilities.scores(utilities.runs(tmp_path))
    np.testing.assert_array_equal(found["at the end"].iloc[0], [0.2, 0.1, 0.2])  # ei, kg, mes
    np.testing.assert_array_equal(found["within 50% of EI's time"].iloc[0], [0.4, 0.5, 0.2])  # EI takes 4 s in all
    text = utilities.report(tmp_path, tmp_path).read_text()
    rows = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]] for line in text.splitlines()[4:]}
    assert rows["kg x ei"][0] == "1.0 [1.0, 1.0]"
    assert rows["ei x ei"][0] == rows["mes x ei"][0] == "2.5 [2.5, 2.5]"
    assert rows["kg x ei"][-5:] == ["3", "500", "6", "0.5", "6.5"]
    assert "1 of 144 problems, 2 seeds" in text


def test_with_a_deadline_only_what_ends_in_time_counts(tmp_path: Path) -> None:
    for utility in ERRORS:
        record(tmp_path, utility, 0, tau=3.0)
    found = utilities.scores(utilities.runs(tmp_path))
    assert list(found) == ["at the end"]
    np.testing.assert_array_equal(found["at the end"].iloc[0], [0.4, 0.5, 0.2])


def test_what_cannot_be_ranked_is_told(tmp_path: Path) -> None:
    record(tmp_path, "kg", 0)
    with pytest.raises(BadInput, match="needs the method ei x ei"):
        utilities.scores(utilities.runs(tmp_path))
    record(tmp_path, "ei", 1)
    with pytest.raises(BadInput, match="no problem and seed has a run of every method"):
        utilities.scores(utilities.runs(tmp_path))
    record(tmp_path, "kg", 0, iterations=4)
    with pytest.raises(BadInput, match="recorded twice"):
        utilities.runs(tmp_path)

"""The demo's page: what its sentences claim is what the intervals of its numbers say, and it ends with no verdicts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawing import not_drawing
from synthetic_records import Way, frame, fronts_on_disk, on_disk

from analysis.__main__ import main
from analysis.report.demo import conclusions, differences
from analysis.traces import collect
from datasets.errors import BadInput

WAYS = [Way("ei"), Way("eialpha", alpha=0.2), Way("eipu"), Way("cei", lam=0.5)]
GRID = [(name, "clean") for name in ("wind", "wine", "sonar", "abalone")]


def row(method: str, cost: tuple, error: tuple, off: tuple) -> dict[str, object]:
    named = {"cost": cost, "error": error, "off": off}
    ends = {f"{k}{end}": v for k, values in named.items() for end, v in zip(("", "_low", "_high"), values, strict=True)}
    return {"method": method, **ends}


def test_only_what_lies_on_one_side_with_its_whole_interval_is_said() -> None:
    numbers = pd.DataFrame([
        row("eipu", (50.0, 40.0, 60.0), (103.0, 101.0, 105.0), (1.0, 0.5, 1.5)),
        row("cei(lam=0.1)", (90.0, 79.0, 101.0), (99.0, 98.5, 99.5), (-1.0, -1.5, -0.5)),
        row("eialpha(alpha=0.2)", (120.0, 101.0, 139.0), (100.0, 99.0, 101.0), (0.0, -1.0, 1.0)),
    ])  # fmt: skip
    assert conclusions(numbers) == [
        "Cheaper than EI beyond the noise: EIpu (50.0 [40.0, 60.0] %) of its cost.",
        "Dearer than EI: EI^0.2 (120.0 [101.0, 139.0] %) of its cost.",
        "Larger error than EI's beyond the noise: EIpu (103.0 [101.0, 105.0] %).",
        "Smaller error than EI's beyond the noise: CEI 0.1 (99.0 [98.5, 99.5] %).",
        "Worse than EI merely stopped at the same cost: EIpu.",
        "Better than EI merely stopped at the same cost: CEI 0.1.",
        "At equal cost too close to EI stopped early for so few runs: EI^0.2.",
    ]


def test_of_one_data_set_nothing_is_concluded() -> None:
    none = (50.0, np.nan, np.nan)
    said = conclusions(pd.DataFrame([row("eipu", none, none, none)]))
    assert said == ["Runs on one data set have no interval, so that nothing can be said beyond the noise."]


def test_differences_are_those_of_the_runs() -> None:
    rows = frame(GRID, WAYS, [0, 1], 20)
    found = differences(collect(rows)).set_index("method")
    ends = rows.groupby(["dataset", "seed", "method"]).agg(cost=("cost_s", "sum"), error=("error", "min"))
    for measure in ("cost", "error"):
        sums = ends[measure].unstack("method").groupby("dataset").sum()
        expected = 100 * sums.div(sums["ei"], axis=0).mean().drop("ei")
        np.testing.assert_allclose(found[measure].reindex(expected.index), expected)
    assert (found["off_low"] < found["off"]).all()
    with pytest.raises(BadInput, match="there are runs of ei alone"):
        differences(collect(rows[rows["method"] == "ei"]))


def test_the_command_ends_with_what_can_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_disk(tmp_path / "results", GRID, WAYS, [0, 1], 12)
    fronts_on_disk(tmp_path / "results-fronts", GRID[:1], [0], stays=True, steps=12)
    with not_drawing():
        assert main(["demo", f"results_dir={tmp_path / 'results'}", f"out_dir={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Cheaper than EI beyond the noise: EIpu (") and said[-1] == str(
        tmp_path / "out/demo.html"
    )
    text, html = ((tmp_path / f"out/demo.{suffix}").read_text() for suffix in ("md", "html"))
    assert said[0] in text and "![RUN:" in text and "![F5:" in text and "`make reproduce`" in text
    assert "undecided" not in html and 'id="front-data"' in html

"""Verdicts under several settings, compared on what they have in common."""

from pathlib import Path

import pandas as pd
import pytest
from synthetic_records import Way, frame, on_disk
from test_claims import DATASETS, records

from analysis.__main__ import main
from analysis.report import sections
from analysis.sensitivities import TEST, compare, from_other_data, read
from harness.errors import BadInput
from harness.records import read_traces

SAVES = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (48.0, 101.0)}
WASTES = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.1): (90.0, 101.0)}


def test_a_verdict_that_changes_is_found() -> None:
    same = compare("wall", records(SAVES, steps=100), records(SAVES, steps=100))
    other = compare("wall", records(SAVES, steps=100), records(WASTES, steps=100))
    assert same.changed == [] and other.changed == [1]
    assert (other.base[0].verdict, other.own[0].verdict) == ("holds", "does not hold")


def test_only_what_both_have_is_compared() -> None:
    """The base has two more data sets, a setting one more method; both are left out."""
    base = pd.concat([records(SAVES, steps=100), records(WASTES, ("wind2", "wine2"), 100)])
    found = compare("hist", base, records({**SAVES, Way("eipu"): (1.0, 1.0)}, steps=100))
    assert sorted(found.cells["dataset"]) == sorted(DATASETS) and found.methods == 2
    assert found.changed == [] and "[52.0, 52.0]" in found.base[0].ours
    with pytest.raises(BadInput, match="setting hist: no problem, seed and method in common"):
        compare("hist", base, frame([("letters", "onehot")], [Way("ei")], [0], 6))


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [("wind", "clean"), ("wine", "clean")]
    for name in ("base", "wall", "mine"):
        on_disk(tmp_path / "all" / name, problems, [Way("ei"), Way("eialpha", alpha=0.1)], (0, 1), 12)
    assert [one.setting for one in read(tmp_path / "all")] == [TEST, "wall", "mine"]
    assert main(["sensitivities", f"results_dir={tmp_path / 'all'}", f"out_dir={tmp_path / 'o'}"]) == 0
    text = (tmp_path / "o" / "sensitivities.md").read_text()
    assert "| `wall`: wall-clock seconds as cost, for CPU seconds | 2 x 2 | undecided |" in text
    every = ", ".join(map(str, range(1, 9)))
    assert f"says nothing of a change: test ({every}); wall ({every}); mine ({every})." in text  # nothing was decided
    assert "Claims 9 to 12" in text and "`mine`: as its records say" in text
    rows = pd.read_csv(tmp_path / "o" / "sensitivities.csv")
    assert len(rows) == 3 * 2 * 8 and set(rows["compared"]) == {"test", "wall", "mine"}
    same = read_traces(tmp_path / "all" / "base")
    assert from_other_data(tmp_path / "o", same) == ""
    newer = same.assign(data=same["data"].astype(str).where(same["dataset"] != "wine", "another table"))
    assert "other tables than the rest of this page on 1 problem." in from_other_data(tmp_path / "o", newer)
    (page,) = sections.sensitivities(tmp_path / "o", newer)
    assert page.text[0].startswith("**Made earlier, from other tables") and len(page.text) == 2
    (tmp_path / "o" / "sensitivities_data.csv").unlink()
    assert "not known which tables" in from_other_data(tmp_path / "o", same)
    (tmp_path / "all" / "base").rename(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="needs a folder 'base' of records to compare with; folders there: mine, wall"):
        read(tmp_path / "all")

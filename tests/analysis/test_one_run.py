"""One run, drawn: which run is meant, its numbers, and what is said where fronts or models are missing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame, fronts_on_disk, on_disk

from analysis.__main__ import main
from analysis.figures.one_run import draw_run, one_run
from datasets.errors import BadInput


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all") / "results"
    on_disk(folder, [("wind", "clean"), ("wine", "onehot")], [Way("ei"), Way("cei", lam=0.1)], [0, 1], 8)
    fronts_on_disk(Path(f"{folder}-fronts"), [("wind", "clean")], [0], stays=True)
    return folder


def test_one_run_has_to_be_named_as_far_as_there_are_several(results: Path, tmp_path: Path) -> None:
    several = r"dataset= \(wind, wine\), pipeline= \(clean, onehot\), method= \(cei\(lam=0\.1\), ei\), seed= \(0, 1\)"
    with pytest.raises(BadInput, match=rf"^8 runs fit: name one with {several}$"):
        one_run(results, {})
    with pytest.raises(BadInput, match=r"^2 runs fit: name one with seed= \(0, 1\)$"):
        one_run(results, {"dataset": "wine", "method": "ei"})
    on_disk(tmp_path, [("wind", "clean")], [Way("ei")], [0], 8)
    on_disk(tmp_path, [("wind", "clean")], [Way("ei")], [0], 12)
    with pytest.raises(BadInput, match=r"^2 runs fit: name one with iterations= \(8, 12\)$"):
        one_run(tmp_path, {"method": "ei"})
    assert len(one_run(tmp_path, {"method": "ei", "iterations": "12"})[0]) == 12
    on_disk(tmp_path, [("wind", "clean")], [Way("ei")], [0], 12, tau=1.5)
    assert one_run(tmp_path, {"iterations": "12", "tau": "1.5"})[0]["tau"].eq(1.5).all()
    assert one_run(tmp_path, {"iterations": "12", "tau": "null"})[0]["tau"].isna().all()
    with pytest.raises(BadInput, match=r"^no run of method=eipu; there are: cei\(lam=0\.1\), ei$"):
        one_run(results, {"dataset": "wine", "method": "eipu"})
    run, fronts = one_run(results, {"dataset": "wind", "method": "ei", "seed": "0"})
    assert run["step"].tolist() == list(range(8)) and set(run["method"]) == {"ei"}
    assert fronts is not None and fronts["step"].unique().tolist() == [5, 6, 7]
    assert one_run(results, {"dataset": "wind", "method": "ei", "seed": "1"})[1] is None


def test_the_command_draws_it_and_says_what_was_not_recorded(results: Path, tmp_path: Path) -> None:
    named = ["run", f"results_dir={results}", "dataset=wind", "method=ei"]
    assert main([*named, "seed=0", f"out_dir={tmp_path}"]) == 0
    numbers, caption = pd.read_csv(tmp_path / "run.csv"), (tmp_path / "run.txt").read_text()
    run = frame([("wind", "clean")], [Way("ei")], [0], 8)
    np.testing.assert_allclose(numbers.loc[numbers["panel"] == "evaluations", "error"], run["error"], rtol=1e-5)
    assert (numbers["panel"] == "fronts").sum() == 12 and "before 3 choices of 3" in caption
    assert "on the front at 3 of 3 steps" in caption
    off = np.abs(np.log(run["predicted_cost_s"] / run["cost_s"]).to_numpy()[5:]) < np.log(2)
    assert f"first half of the choices {off[:1].sum()} of 1, of the second {off[1:].sum()} of 2" in caption
    assert main([*named, "seed=1", f"out_dir={tmp_path / 'other'}"]) == 0
    assert "not recorded: run it with fronts=true" in " ".join((tmp_path / "other/run.txt").read_text().split())


@pytest.mark.usefixtures("laid_out")
def test_a_search_without_models_and_failures(tmp_path: Path) -> None:
    rows = frame([("wind", "clean")], [Way("random")], [0], 9, fail=0.4).assign(predicted_cost_s=np.nan)
    drawn = draw_run(rows, None, tmp_path)
    assert "No cost was predicted" in drawn.caption and f"{rows['error'].isna().sum()} failed" in drawn.caption
    with pytest.raises(BadInput, match="no evaluation of this run succeeded"):
        draw_run(rows.assign(error=np.nan), None, tmp_path)

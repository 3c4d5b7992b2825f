from pathlib import Path

import numpy as np
import pytest
from conftest import loaded, needs_data

from pipelines import __main__ as cli
from pipelines import names, prepare


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path))


@needs_data
def test_list_prints_one_line_per_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "phoneme"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line[1] for line in lines] == list(names())
    for dataset, name, before, after, layout, seconds, dropped in lines:
        p = prepare(dataset, name)
        assert (int(before), int(after), int(dropped)) == (5, p.width_after, len(p.dropped))
        assert layout == ("dense" if isinstance(p.X_train, np.ndarray) else "sparse")
        assert float(seconds) == pytest.approx(p.fit_seconds, abs=0.01)


@needs_data
def test_check_tells_a_pair_that_does_not_differ(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["check", "phoneme"]) == 0
    assert "all pairs differ" in capsys.readouterr().out
    twin = {name: name for name in names()} | {"log_pca": "quantile_pca"}
    monkeypatch.setattr(cli, "prepare", lambda dataset, name: prepare(dataset, twin[name]))
    assert cli.main(["check", "phoneme"]) == 1
    assert "SAME: quantile_pca = log_pca" in capsys.readouterr().out


def test_an_unknown_data_set_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "phonem"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("unknown data set 'phonem'; known are: ")
    assert len(error.splitlines()) == 1


@needs_data
def test_the_readme_says_which_columns_each_step_acts_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.load", loaded)
    text = (Path(cli.__file__).parent / "README.md").read_text()
    assert cli.main(["steps"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 2 + 18
    assert said in text

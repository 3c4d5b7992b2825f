from pathlib import Path

import numpy as np
import pytest
from raw_data import ROOT, loaded, needs_data

from pipelines import __main__ as cli
from pipelines import names, prepare

pytestmark = needs_data


def test_list_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path))
    assert cli.main(["list", "phoneme"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line[1] for line in lines] == list(names())
    for dataset, name, before, after, layout, seconds, dropped in lines:
        p = prepare(dataset, name)
        assert (int(before), int(after), int(dropped)) == (5, p.width_after, len(p.dropped))
        assert layout == ("dense" if isinstance(p.X_train, np.ndarray) else "sparse")
        assert float(seconds) == pytest.approx(p.fit_seconds, abs=0.01)
    assert cli.main(["check", "phoneme"]) == 0
    assert "all pairs differ" in capsys.readouterr().out
    twin = {name: name for name in names()} | {"log_pca": "quantile_pca"}
    monkeypatch.setattr(cli, "prepare", lambda dataset, name: prepare(dataset, twin[name]))
    assert cli.main(["check", "phoneme"]) == 1
    assert "SAME: quantile_pca = log_pca" in capsys.readouterr().out
    assert cli.main(["list", "phonem"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: unknown data set 'phonem' (did you mean phoneme?); known are: ")
    assert cli.main(["bogus"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: command: invalid choice: 'bogus' (choose from ")


def test_the_readme_says_which_columns_each_step_acts_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one data set of each kind; those with extreme columns among them."""
    monkeypatch.setattr(cli, "load", loaded)
    assert cli.main(["steps", "abalone", "bach", "coil2000", "mtp", "spam"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 2 + 5
    assert set(found) <= set((ROOT / "pipelines/README.md").read_text().splitlines())

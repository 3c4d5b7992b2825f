"""The pages in docs: the tutorial's Python as it stands, its files as a user would make them, links between pages."""

import contextlib
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from command_lines import CommandLines

from datasets.catalogue import Dataset
from harness import read
from harness.acquisitions import Utility
from harness.component import complete
from harness.errors import BadInput
from harness.reference import PAGE, page
from harness.settings import compose

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = (ROOT / "docs/TUTORIAL.md").read_text()


def test_the_tutorial_runs_and_its_rule_joins_from_files_beside_it(
    tmp_path: Path, command_line: CommandLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, names, said = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL), dict[str, Any](), io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(said):
        for block in blocks:
            exec(compile(block, "TUTORIAL.md", "exec"), names)
    assert "cei(lam=0.1)" in said.getvalue()
    assert names["optimizer"].ask(names["space"].sobol(100, seed=0)).log_ei < 0
    (tmp_path / "my_rules.py").write_text(blocks[1])
    (tmp_path / "conf/acq").mkdir(parents=True)
    (tmp_path / "conf/acq/frugal.yaml").write_text(re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)[0])
    line = next(line for line in TUTORIAL.splitlines() if "+acq=frugal" in line)
    settings = [part.strip("'") for part in line.split()[3:]]
    small = ["seeds=[0]", "iterations=8", "executor=serial", "pipeline=[clean]"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = command_line("harness", *settings, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"frugal"} == set(read(tmp_path / "results")["method"])
    assert {"ei", "cei(lam=0.1)"} == set(read(tmp_path / "results-python")["method"])


def only_python(page: str) -> str:
    """The one block of Python on a page."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return block


def test_the_lines_for_a_file_of_ones_own_predict_new_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    rows.assign(price=10 * rows["a"]).to_csv(tmp_path / "my.csv", index=False)
    rows.head(5).to_csv(tmp_path / "new.csv", index=False)
    with contextlib.chdir(tmp_path):
        exec(compile(only_python("datasets/YOUR_FILE.md"), "YOUR_FILE.md", "exec"), {})
    found = np.array(capsys.readouterr().out.strip("[]\n ").split(), dtype=float)
    np.testing.assert_allclose(found, 10 * rows["a"].head(5), atol=1.5)


def test_the_lines_for_capped_runs_find_the_shortest() -> None:
    seconds: list[float] = []

    def solve(x: float) -> float:
        seconds.append(float(1.0 + 10.0 * abs(np.log10(x))))
        return seconds[-1]

    names: dict[str, Any] = {"solve": solve}
    exec(compile(only_python("harness/configurator/README.md"), "configurator/README.md", "exec"), names)
    assert len(seconds) == 30 and min(seconds) < 1.5
    assert names["asked"].cap_s < 60.0, "later runs are stopped at the slack"


EXTENDING = (ROOT / "harness/EXTENDING.md").read_text()


def test_the_rule_on_the_page_on_extending_is_that_of_the_tutorial() -> None:
    assert re.findall(r"```python\n(.*?)```", EXTENDING, re.DOTALL)[0].strip() in TUTORIAL


def test_the_utility_and_the_data_set_on_the_page_on_extending_are_such() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", EXTENDING, re.DOTALL):
        exec(compile(block, "EXTENDING.md", "exec"), names)
    step = SimpleNamespace(incumbent=0.0, mean=np.array([0.0, 1.0]), sd=np.ones(2))
    utility = complete(names["ProbabilityOfImprovement"](), Utility)
    np.testing.assert_allclose(utility.log_value(cast(Any, step)), np.log([0.5, 0.15865525]))
    data, other = (names["load_mine"]("mine", rows) for rows in (60, 61))
    assert isinstance(data, Dataset) and len(data.y) == 60 and data.sha256 != other.sha256


def test_the_evaluator_on_the_page_on_extending_runs(
    tmp_path: Path, command_line: CommandLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = EXTENDING.partition("## An evaluator\n")[2].partition("\n## ")[0]
    ((module,), (config,)) = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("python", "yaml"))
    (tmp_path / "my_evaluators.py").write_text(module)
    (tmp_path / "conf/evaluator").mkdir(parents=True)
    (tmp_path / "conf/evaluator/formulas.yaml").write_text(config)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = ["hydra.searchpath=[file://conf]", "allow_targets=[my_evaluators]", "evaluator=formulas", "executor=serial"]
    small = ["+acq=ei", "dataset=[abalone]", "pipeline=[clean]", "seeds=[0]", "iterations=8"]
    done = command_line("harness", *own, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    traces = read(tmp_path / "results")
    assert set(traces["evaluator"]) == {"formulas"} and (traces["cost_s"] > 0).all()
    np.testing.assert_allclose(traces["cost_s"], 1e-3 * traces["n_estimators"] * traces["max_depth"])


@pytest.mark.slow
def test_rules_that_the_first_page_names_are_there() -> None:
    rules = re.findall(r"`(\+acq=[^`]*)`", (ROOT / "docs/START.md").read_text())
    assert len(rules) >= 4
    for rule in rules:
        compose(*rule.split())
    with pytest.raises(BadInput, match="did you mean"):
        compose("+acq=cie", "lam=0.1")


def test_links_between_pages_lead_to_files() -> None:
    for file in (*ROOT.glob("*.md"), *(path for p in ("docs", "datasets", "pipelines", "harness", "tabular_cache",
                 "analysis", "configs") for path in (ROOT / p).rglob("*.md"))):  # fmt: skip
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", file.read_text()):
            assert "://" in target or (file.parent / target).exists(), f"{file.relative_to(ROOT)} -> {target}"


def test_the_reference_is_that_of_the_configuration() -> None:
    assert PAGE.read_text() == page(), "python -m harness.reference writes it anew"
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 200 and not [line for line in rows if line.endswith("|  |")], "every setting says what it is"
    for name in ("lam=", "evaluator.max_candidates=", "`cost_model=gp_lv`", "`optimizer=smac`"):
        assert name in PAGE.read_text()

"""New components: one class or function and one YAML each, inside the project or in a package of the user's own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import ENVIRONMENT, ROOT, CommandLines, Done
from fakes import make_tables

from analysis.ranks import minimal_budgets, ranks
from analysis.selection import at_horizon, for_budgets, select_families
from analysis.traces import collect
from harness.config import options
from harness.records import read_traces, specs
from harness.sealed import read_record

RULES = """
class Priced:
    def __init__(self, k=1.0, mode="a"):
        self.k = k

    def score(self, log_value, log_cost, context):
        return log_value - self.k * log_cost


class Steady(Priced):
    plans_ahead = False


class Broken:
    def score(self, log_value, log_cost, context):
        return log_value / (1 // 0)


class Short:
    def score(self, log_value, log_cost, context):
        return log_value[:3]
"""
FILES = {
    "priced": "name: priced\nrule:\n  _target_: mine.rules.Priced\n  k: 0.5\n  mode: x\n",
    "plain": "name: plain\nrule:\n  _target_: mine.rules.Priced\n",
    "steady": "name: steady\nrule:\n  _target_: mine.rules.Steady\n",
    "broken": "name: broken\nrule:\n  _target_: mine.rules.Broken\n",
    "short": "name: short\nrule:\n  _target_: mine.rules.Short\n",
    "gone": "name: gone\nrule:\n  _target_: mine.nowhere.Rule\n",
    "typo": "name: typo\nrulee:\n  _target_: mine.rules.Priced\n",
}
MEAN = """
import numpy as np


class Mean:
    def fit(self, X, cost_s):
        self.log_cost = np.log(cost_s)

    def predict(self, C):
        return np.full(len(C), self.log_cost.mean()), np.full(len(C), self.log_cost.std() + 1e-6)
"""
WITHIN = {  # a new component of every kind, written inside the project: the module, and the file of its group
    "harness/acquisitions/mine.py": RULES,
    "configs/acq/mine.yaml": "name: mine\nrule:\n  _target_: harness.acquisitions.mine.Priced\n",
    "harness/cost_models/mine.py": MEAN,
    "configs/cost_model/mine.yaml": "_target_: harness.cost_models.mine.Mean\n",
    "harness/surrogates/mine.py": """
import numpy as np


class Nearest:
    def fit(self, X, y):
        self.X, self.y = X, y
        return self

    def mean_sd(self, C):
        distance = np.abs(C[:, None, :] - self.X).sum(axis=2)
        return self.y[distance.argmin(axis=1)], 0.1 + distance.min(axis=1)
""",
    "configs/surrogate/mine.yaml": "_target_: harness.surrogates.mine.Nearest\n",
    "datasets/mine.py": """
import numpy as np
import pandas as pd

from datasets.catalogue import Dataset


def load_line(name):
    x = np.linspace(0, 1, 90)
    return Dataset(name, pd.DataFrame({"x": x, "z": x[::-1] ** 2}), 3 * x, "regression", (), "", "", "0" * 64)
""",
    "configs/dataset/mine.yaml": "mine:\n  _target_: datasets.mine.load_line\n  name: mine\n",
    "pipelines/mine.py": """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def build():
    return make_pipeline(StandardScaler())
""",
    "configs/pipeline/mine.yaml": "mine:\n  _target_: pipelines.build\n  name: mine\n",
}


@pytest.mark.slow
def test_each_kind_is_added_to_the_project_by_a_module_and_a_yaml(tmp_path: Path) -> None:
    for package in ("datasets", "pipelines", "harness", "tabular_cache", "configs"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("tables*", "truth", "*.pyc"))
    for name, text in WITHIN.items():
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(text)
    chosen = ["+acq=mine", "dataset=[mine]", "pipeline=[mine]", "surrogate=mine", "cost_model=mine", "evaluator=live"]
    small = ["iterations=7", "seeds=[0]", "evaluator.n_candidates=32", "executor=serial"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path), "COST_AWARE_BO_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "harness", *chosen, *small]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("1 run, 7 evaluations"), done.stderr
    (spec,) = specs(tmp_path / "results")
    assert [spec[k] for k in ("acq", "dataset", "pipeline", "surrogate", "cost_model")] == ["mine"] * 5
    assert sorted(spec["code"]) == [
        *("datasets.mine.load_line", "harness.acquisitions.mine.Priced", "harness.cost_models.mine.Mean"),
        "harness.surrogates.mine.Nearest",
    ]


class Mine:
    """`python -m harness` in a folder with a package `mine` and config files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tables = folder, make_tables(folder / "tables", ["wine/clean"], 12)
        (folder / "mine").mkdir()
        (folder / "mine" / "__init__.py").write_text("")
        (folder / "mine" / "rules.py").write_text(RULES)
        for name, text in FILES.items():
            self.file("conf", name, text)
        self.run = CommandLines(folder)

    def file(self, place: str, name: str, text: str, group: str = "acq") -> None:
        (self.folder / place / group).mkdir(parents=True, exist_ok=True)
        (self.folder / place / group / f"{name}.yaml").write_text(text)

    def tabular(self, command: str, *arguments: str, place: str) -> Done:
        """`python -m tabular_cache COMMAND`, the package not yet vouched for."""
        search = f"hydra.searchpath=[file://{self.folder / place}]"
        settings = ["dataset=[wine]", *([] if command == "info" else ["executor=serial"]), search, *arguments]
        return self.run("tabular_cache", command, *settings, cwd=self.folder)

    def __call__(self, *arguments: str, allowed: str = "allow_targets=[mine]") -> Done:
        given = ["dataset=[wine]", "pipeline=[clean]", "seeds=[0]", "iterations=7", f"evaluator.tables={self.tables}"]
        given += [f"hydra.searchpath=[file://{self.folder / 'conf'}]", allowed]
        if not any(argument.startswith("executor=") for argument in arguments):
            given.append("executor=serial")
        return self.run("harness", *given, *arguments, cwd=self.folder)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mine]:
    made = Mine(tmp_path_factory.mktemp("own"))
    yield made
    made.run.close()


def test_its_parameters_are_part_of_its_name(mine: Mine) -> None:
    settings = (["+acq=priced"], ["+acq=priced", "acq.rule.k=0.30000001"], ["+acq=plain"])
    for more in (*settings, ["+acq=plain", "+acq.rule.k=0.7"]):
        done = mine(*more, "results_dir=named")
        assert done.returncode == 0, done.stderr
    methods = {"priced(k=0.5,mode=x)", "priced(k=0.30000001,mode=x)", "plain", "plain(k=0.7)"}
    assert set(read_traces(mine.folder / "named")["method"]) == methods


@pytest.mark.parametrize("executor", ["serial", "local"])
def test_an_error_of_its_own_says_where_it_arose(mine: Mine, executor: str) -> None:
    one = ["executor.n_jobs=1"] if executor == "local" else []
    done = mine("+acq=broken", f"executor={executor}", *one, f"results_dir=broken-{executor}")
    line = RULES.splitlines().index("        return log_value / (1 // 0)") + 1
    assert done.returncode == 3
    assert f"broken: ZeroDivisionError: integer division or modulo by zero at mine/rules.py:{line}" in done.stderr
    failed = json.loads((mine.folder / f"broken-{executor}/.study/failed.json").read_text())
    assert "return log_value / (1 // 0)" in failed[0]["traceback"]


def test_too_few_scores_are_named(mine: Mine) -> None:
    done = mine("+acq=short", "results_dir=short")
    assert done.returncode == 3 and "clean short: Short.score returned shape (3,) of float64, needed" in done.stderr
    assert "optimizer.py" not in done.stderr, "it is not the project's line that is wrong"
    assert not list((mine.folder / "short").rglob("seeds-*.parquet"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "+acq=typo",
            "the file of the acquisition needs `rule:`, with a line `_target_: my.pkg.Class`; it has name, rulee",
        ),
        ("+acq=plain acq.rule.k=0.3", "unknown setting 'acq.rule.k': its file does not list it; where its class takes"),
        ("+acq=nope", f"unknown acq 'nope'; allowed: {', '.join(sorted({*options('acq'), *FILES}))}"),
        ("+acq=gone", "_target_ mine.nowhere.Rule cannot be loaded: No module named 'mine.nowhere'"),
    ],
)
def test_a_missing_one_is_named(mine: Mine, settings: str, message: str) -> None:
    done = mine(*settings.split(), "results_dir=refused")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr and not (mine.folder / "refused").exists()


def test_a_changed_source_makes_other_runs(mine: Mine) -> None:
    rules = mine.folder / "mine" / "rules.py"
    assert "1 run," in mine("+acq=plain", "results_dir=edited").stdout
    assert "nothing to do" in mine("+acq=plain", "results_dir=edited").stdout
    rules.write_text(RULES.replace("self.k * log_cost", "2 * self.k * log_cost"))
    try:
        done = mine("+acq=plain", "results_dir=edited")
    finally:
        rules.write_text(RULES)
    assert done.stdout.startswith("1 run,"), "the runs of the rule as it was are no longer those of the rule as it is"
    assert len({spec["code"]["mine.rules.Priced"] for spec in specs(mine.folder / "edited")}) == 2


def test_a_rule_that_does_not_plan_is_ranked_under_every_budget(mine: Mine) -> None:
    for more in (["+acq=plain"], ["+acq=steady"], ["+acq=ei"], ["+acq=eipu"]):
        done = mine(*more, "results_dir=ranked", "seeds=[0,1]")
        assert done.returncode == 0, done.stderr
    frame = read_traces(mine.folder / "ranked")
    assert set(frame.loc[~frame["plans_ahead"], "method"]) == {"steady"}
    budgets = minimal_budgets(select_families(at_horizon(collect(frame), 7)[0], "alpha"))
    runs = for_budgets(collect(frame), budgets)
    assert set(runs.runs["method"]) == {"ei", "eipu", "steady"}
    ranked = ranks(runs, budgets, ["ei", "eipu", "steady"])
    assert ranked.present.all() and len(ranked.cells) == 2


@pytest.mark.parametrize(("command", "more"), [("costs", []), ("censored", ["experiments=[timeout]"])])
def test_a_cost_model_is_compared(mine: Mine, command: str, more: list[str]) -> None:
    source = mine.folder / "mine" / "costs.py"
    mine.file("costs", "mymean", "_target_: mine.costs.Mean\n", "cost_model")
    given = [f"tables={mine.tables}", "pipeline=[clean]", "seeds=[0]", "sizes=[4]", f"results_dir={command}", *more]
    source.write_text(MEAN)
    refused = mine.tabular(command, "cost_models=[mymean]", *given, place="costs")
    assert refused.returncode == 2 and "add 'allow_targets=[mine]'" in refused.stderr
    for text in (MEAN, MEAN.replace(".mean()", ".max()")):  # a changed source makes another record
        source.write_text(text)
        for _ in range(2):
            done = mine.tabular(command, "cost_models=[mymean]", *given, "allow_targets=[mine]", place="costs")
            assert done.returncode == 0, done.stderr
    found = [read_record(path)[0] for path in (mine.folder / command).rglob("*.parquet")]
    codes = [spec["code"]["mine.costs.Mean"] for spec in found if "code" in spec]
    assert len(codes) == len(set(codes)) == 2


def test_tables_go_by_the_name_in_a_pipelines_file(mine: Mine) -> None:
    mine.file("recipes", "mypipe", "mypipe:\n  _target_: pipelines.build\n  name: mine.pipe\n", "pipeline")
    mine.file("recipes", "nameless", "nameless:\n  _target_: pipelines.build\n", "pipeline")
    tables = make_tables(mine.folder / "tables-of-mine", ["wine/mine.pipe"], 4)
    given = [f"tables={tables}", "allow_targets=[mine]"]
    done = mine.tabular("info", "pipeline=[mypipe]", *given, place="recipes")
    assert done.returncode == 0 and "wine/mine.pipe" in done.stdout, done.stderr
    done = mine.tabular("info", "pipeline=[nameless]", *given, place="recipes")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "pipeline nameless needs a line `name: ...`" in done.stderr


# Where `datasets` is another project's package.


def other_datasets(folder: Path) -> Path:
    """A folder with a package of that name, as Hugging Face's is."""
    (folder / "site" / "datasets").mkdir(parents=True)
    (folder / "site" / "datasets" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    return folder / "site"


@pytest.mark.parametrize(
    "module",
    [
        *("pipelines", "harness", "harness.status", "harness.configurator", "harness.compile_all"),
        *("tabular_cache", "analysis", "analysis.papers.snoek2011"),
    ],
)
def test_every_command_says_that_datasets_is_anothers(module: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(other_datasets(tmp_path)), str(ROOT)])
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"the package `datasets` is {tmp_path}" in done.stderr and f"start from {ROOT}" in done.stderr

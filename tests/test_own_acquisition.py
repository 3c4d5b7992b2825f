"""Components in a package and a folder of the user's own, acquisitions above all: names, errors, what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import CommandLines, Done
from conftest import needs_data
from fakes import make_tables

from analysis.ranks import minimal_budgets, ranks
from analysis.selection import at_horizon, for_budgets, of_families
from analysis.traces import collect
from harness.config import options
from harness.records import read_record, read_traces, specs

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
}


MEAN = """
import numpy as np


class Mean:
    def fit(self, X, cost_s):
        self.log_cost = np.log(cost_s)

    def predict(self, C):
        return np.full(len(C), self.log_cost.mean()), np.full(len(C), self.log_cost.std() + 1e-6)
"""


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
        settings = ["dataset=[wine]", "executor=serial", search, *arguments]
        return self.run("tabular_cache", command, *settings, cwd=self.folder)

    def __call__(self, *arguments: str, place: str = "conf") -> Done:
        grid = ["dataset=[wine]", "pipeline=[clean]", "seeds=[0]", "iterations=7", f"evaluator.tables={self.tables}"]
        grid += [f"hydra.searchpath=[file://{self.folder / place}]", "allow_targets=[mine]"]
        if not any(argument.startswith("executor=") for argument in arguments):
            grid.append("executor=serial")
        return self.run("harness", *grid, *arguments, cwd=self.folder)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mine]:
    made = Mine(tmp_path_factory.mktemp("own"))
    yield made
    made.run.close()


def test_its_parameters_are_part_of_its_name(mine: Mine) -> None:
    for more in (["+acq=priced"], ["+acq=priced", "acq.rule.k=0.30000001"], ["+acq=plain"]):
        done = mine(*more, "results_dir=named")
        assert done.returncode == 0, done.stderr
    methods = {"priced(k=0.5,mode=x)", "priced(k=0.30000001,mode=x)", "plain"}
    assert set(read_traces(mine.folder / "named")["method"]) == methods


@pytest.mark.parametrize("executor", ["serial", "local"])
def test_an_error_of_its_own_says_where_it_arose(mine: Mine, executor: str) -> None:
    lanes = ["executor.n_jobs=1"] if executor == "local" else []
    done = mine("+acq=broken", f"executor={executor}", *lanes, f"results_dir=broken-{executor}")
    assert done.returncode == 3
    line = RULES.splitlines().index("        return log_value / (1 // 0)") + 1
    assert f"broken: ZeroDivisionError: integer division or modulo by zero at mine/rules.py:{line}" in done.stderr
    failed = json.loads((mine.folder / f"broken-{executor}/.study/failed.json").read_text())
    assert "return log_value / (1 // 0)" in failed[0]["traceback"]


def test_too_few_scores_are_named(mine: Mine) -> None:
    done = mine("+acq=short", "results_dir=short")
    assert done.returncode == 3
    assert "Short.score returned shape (3,) of float64, needed (" in done.stderr
    assert not list((mine.folder / "short").rglob("seeds-*.parquet"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nameless", "rule:\n  _target_: mine.rules.Priced\n", "nameless.yaml needs a line `name: ...`"),
        ("mycei", "name: cei\nrule:\n  _target_: mine.rules.Priced\n", "name: cei is an acquisition of the project"),
        ("cei", "name: own\nrule:\n  _target_: mine.rules.Priced\n", "has the name of a file of the project"),
    ],
)
def test_names_that_cannot_be_are_refused(mine: Mine, name: str, text: str, message: str) -> None:
    mine.file(f"conf-{name}", name, text)
    done = mine(f"+acq={name}", "results_dir=refused", place=f"conf-{name}")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr and not (mine.folder / "refused").exists()


def test_what_is_missing_is_told_with_what_there_is(mine: Mine) -> None:
    done = mine("+acq=nope", "results_dir=refused")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"unknown acq 'nope'; allowed: {', '.join(sorted({*options('acq'), *FILES}))}" in done.stderr
    done = mine("+acq=gone", "results_dir=refused")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "_target_ mine.nowhere.Rule cannot be loaded: No module named 'mine.nowhere'" in done.stderr


def test_a_changed_source_makes_other_runs(mine: Mine) -> None:
    rules = mine.folder / "mine" / "rules.py"
    assert "1 runs" in mine("+acq=plain", "results_dir=edited").stdout
    assert "0 runs" in mine("+acq=plain", "results_dir=edited").stdout
    rules.write_text(RULES.replace("self.k * log_cost", "2 * self.k * log_cost"))
    try:
        done = mine("+acq=plain", "results_dir=edited")
    finally:
        rules.write_text(RULES)
    assert done.stdout.startswith("1 runs"), "the runs of the rule as it was are no longer those of the rule as it is"
    codes = {spec["code"]["mine.rules.Priced"] for spec in specs(mine.folder / "edited")}
    assert len(codes) == 2


def test_a_rule_that_does_not_plan_is_ranked_under_every_budget(mine: Mine) -> None:
    for more in (["+acq=plain"], ["+acq=steady"], ["+acq=ei"], ["+acq=eipu"]):
        done = mine(*more, "results_dir=ranked", "seeds=[0,1]")
        assert done.returncode == 0, done.stderr
    frame = read_traces(mine.folder / "ranked")
    assert set(frame.loc[~frame["plans_ahead"], "method"]) == {"steady"}
    budgets = minimal_budgets(of_families(at_horizon(collect(frame), 7)[0], "alpha"))
    runs = for_budgets(collect(frame), budgets)
    assert set(runs.runs["method"]) == {"ei", "eipu", "steady"}
    ranked = ranks(runs, budgets, ["ei", "eipu", "steady"])
    assert ranked.present.all() and len(ranked.cells) == 2


@pytest.mark.parametrize(("command", "more"), [("costs", []), ("censored", ["experiments=[timeout]"])])
def test_a_cost_model_is_compared(mine: Mine, command: str, more: list[str]) -> None:
    source = mine.folder / "mine" / "costs.py"
    source.write_text(MEAN)
    mine.file("costs", "mymean", "_target_: mine.costs.Mean\n", "cost_model")
    given = [f"tables={mine.tables}", "pipeline=[clean]", "seeds=[0]", "sizes=[4]", f"results_dir={command}", *more]
    refused = mine.tabular(command, "cost_models=[mymean]", *given, place="costs")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "_target_ mine.costs.Mean" in refused.stderr and "add allow_targets=[mine]" in refused.stderr
    given += ["allow_targets=[mine]"]
    unknown = mine.tabular(command, "cost_models=[mymeen]", *given, place="costs")
    assert "unknown cost_model 'mymeen'; allowed: gp, " in unknown.stderr and " mymean, " in unknown.stderr
    for text in (MEAN, MEAN.replace(".mean()", ".max()")):  # a changed source makes another record
        source.write_text(text)
        for _ in range(2):
            done = mine.tabular(command, "cost_models=[mymean,lv3]", *given, place="costs")
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


@needs_data
def test_an_error_of_a_pipeline_is_one_line(mine: Mine) -> None:
    mine.file("broken", "mypipe", "mypipe:\n  _target_: pipelines.build\n  name: mine.broken\n", "pipeline")
    (mine.folder / "mine" / "broken.py").write_text("def build():\n    return [][3]\n")
    search, grid = f"hydra.searchpath=[file://{mine.folder / 'broken'}]", ["seeds=[0]", "iterations=7"]
    given = ["dataset=[wine]", "pipeline=[mypipe]", "evaluator=live", "executor=serial", "allow_targets=[mine]"]
    done = mine.run("harness", "+acq=ei", *given, *grid, search, "results_dir=broken", cwd=mine.folder)
    told = "pipeline 'mine.broken': IndexError: list index out of range at mine/broken.py:2"
    assert (done.returncode, done.stderr) == (2, f"error: {told}\n")

"""The command line: wrong input gets one line that says what is allowed, exit code 2, and writes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import ENVIRONMENT, CommandLines
from conftest import STUDY
from fakes import make_tables
from forked import Forked, Process
from hydra.core.override_parser.overrides_parser import OverridesParser

import tabular_cache.__main__
from harness.cli import run_cli
from harness.config import options
from harness.errors import quoted
from harness.records import read_traces


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tables(tmp_path_factory.mktemp("tables"), ["abalone/clean", "wine/clean"], 12)


DEFAULTS = ["dataset=[abalone]", "pipeline=[clean]", "executor=serial", "seeds=[0]", "iterations=7"]


class Cli:
    """`python -m harness` with small defaults, in a folder of the test's own."""

    def __init__(self, command_line: CommandLines, folder: Path, tables: Path) -> None:
        self._run, self.folder, self._tables = command_line, folder, tables

    def __call__(self, *arguments: str) -> tuple[int, list[str], list[str]]:
        settings = {a.partition("=")[0].lstrip("+"): a for a in (*DEFAULTS, *arguments)}
        if "evaluator" not in settings:
            settings.setdefault("evaluator.tables", f"evaluator.tables={self._tables}")
        if settings["executor"] == "executor=serial" and "executor.n_jobs" in settings:
            settings["executor"] = "executor=local"
        done = self._run("harness", *settings.values(), cwd=self.folder)
        return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.fixture
def cli(command_line: CommandLines, tmp_path: Path, tables: Path) -> Cli:
    (tmp_path / "work").mkdir()
    return Cli(command_line, tmp_path / "work", tables)


WRONG = [
    (["+acq=foo"], "unknown acq 'foo'; allowed: cei, ei, eialpha, eicool, eipu"),
    (["acq=cei"], "write +acq=NAME, with a plus; allowed: cei"),
    (["+acq=cei", "lam=2"], "lam must be a number in [0, 1], got 2"),
    (["+acq=cei", "lam=abc"], "lam must be a number in [0, 1], got abc"),
    (["+acq=cei", "lam=nan"], "lam must be a number in [0, 1], got nan"),
    (["+acq=cei"], "lam is not set: +acq=cei needs a number in [0, 1], for example lam=0.1"),
    (["+acq=eialpha", "alpha=-1"], "alpha must be a number >= 0, got -1"),
    (["+acq=eialpha"], "alpha is not set"),
    (["lam=0.1"], "lam is set but no acquisition"),
    (["+acq=ei", "dataset=[nope]"], "unknown dataset 'nope'; allowed: a1a, a3a, abalone"),
    (["+acq=ei", "dataset=[]"], "dataset is empty: name at least one"),
    (["+acq=ei", "dataset=[abalone"], "no viable alternative"),
    (["+acq=ei", "pipeline=[nope]"], "unknown pipeline 'nope'; allowed: clean"),
    (["+acq=ei", "seeds=[-1]"], "each of seeds must be a whole number from 0 to 2147483647, got -1"),
    (["+acq=ei", "seeds=[3000000000]"], "each of seeds must be a whole number from 0 to 2147483647, got 3000000000"),
    (["+acq=ei", "seeds=[]"], "seeds must be a list of whole numbers >= 0"),
    (["+acq=ei", "seeds=3"], "seeds must be a list of whole numbers >= 0"),
    (["+acq=ei", "seeds=[1,1]"], "seeds must differ from each other"),
    (["+acq=ei", "iterations=0"], "iterations must be a whole number >= 1, got 0"),
    (["+acq=ei", "iterations=1.5"], "iterations must be a whole number >= 1, got 1.5"),
    (["+acq=ei", "n_initial=0"], "n_initial must be a whole number >= 1, got 0"),
    (
        ["+acq=ei", "n_initial=13", "iterations=20"],
        "the table of abalone/clean has 12 configurations, n_initial=13 needs",
    ),
    (
        ["+acq=ei", "evaluator.n_configs=4"],
        "has 4 configurations in use (evaluator.n_configs=4), n_initial=5 needs more",
    ),
    (["+acq=ei", "tau=-5"], "tau must be a number of seconds > 0 or null, got -5"),
    (["+acq=ei", "surrogate=nope"], "unknown surrogate 'nope'; allowed: gp"),
    (["+acq=ei", "cost_model=nope"], "unknown cost_model 'nope'; allowed: gp, gp3, gp_lv, "),
    (["+acq=ei", "surrogate.ard=3"], "ard must be true or false, got 3"),
    (
        ["+acq=cei", "lam=0.1", "cost_statistic=expected_inverse"],
        "expected_inverse needs a rule that divides by a power",
    ),
    (
        ["+acq=ei", "cost_statistic=mean"],
        "cost_statistic must be one of exp_mean, expected, expected_inverse, got 'mean'",
    ),
    (["+acq=ei", "error_scale=ln"], "error_scale must be one of raw, log, winsorized, got 'ln'"),
    (["+acq=ei", "error_scale=null"], "error_scale must be one of raw, log, winsorized, got None"),
    (
        ["+acq=ei", "study=nope"],
        f"unknown study 'nope'; allowed: {', '.join(options('study'))}",
    ),
    (["+acq=ei", "utility=nope"], "unknown utility 'nope'; allowed: bmsei, ei, ei_gpyopt, es, gibbon, kg, logei, mcms"),
    (["+acq=cei", "lam=0.3", "utility=pbgi"], "utility=pbgi has the cost inside its index"),
    (["+acq=eipu", "utility=mcms", "tau=10"], "utility=mcms with a deadline (tau) has the cost inside its value"),
    (["+acq=ei", "utility=kg", "surrogate=gpyopt"], "utility=kg needs joint predictions"),
    (["+acq=ei", "utility=es", "utility.representers=0"], "utility.representers must be a whole number >= 1, got 0"),
    (["+acq=ei", "utility=mcms", "tau=0"], "tau must be a number of seconds > 0 or null, got 0"),
    (["+acq=ei", "executor.n_jobs=0"], "executor.n_jobs must be a whole number >= 1 or null, got 0"),
    (["+acq=ei", "evaluator.max_candidates=0"], "evaluator.max_candidates must be a whole number >= 2, got 0"),
    (["+acq=ei", "evaluator=live", "evaluator.tree_method=gpu"], "tree_method must be one of exact, hist, approx"),
    (["+acq=ei", "evaluator=live", "evaluator.memory_limit_mb=abc"], "memory_limit_mb must be megabytes > 0 or null"),
    (["+acq=ei", "iteration=5"], "unknown setting 'iteration'; allowed: +acq, allow_targets, alpha"),
    (["+acq=cei", "lam=0.1,0.2"], "lam=0.1,0.2 is several runs, which need -m before all; a list is written lam=[...]"),
    (["+acq=ei", "seeds=range(0,3)"], "seeds=range(0,3) is several runs, which need -m before all; a list is written"),
    (["+acq=ei", "+evaluator.foo=1"], "Replay has no setting 'foo'; allowed: tables"),
    (["+aqc=cei"], "unknown setting 'aqc'; allowed: +acq, allow_targets, alpha"),
    (["+acq=ei", "+split_seed=4"], "unknown setting 'split_seed'; allowed: +acq, allow_targets, alpha"),
    (["study.methods=[]"], "study.methods is empty: a study needs one method or more"),
    (["study.methods=[{acq: ei},{acq: cei, lam: [0.1, 0.1]}]"], "study.methods names cei(lam=0.1) twice"),
    (["+acq=ei", "evaluator.tables=/nowhere"], "no tables in /nowhere: build them with"),
    (["+acq=ei", "pipeline=[onehot]"], "no table for abalone/onehot"),
    (["+acq=ei", "lam=0.3"], "lam is set, but +acq=ei has no such parameter: leave it out"),
    (["+acq=ei", "results_dir="], "results_dir must name a folder, for example results_dir=results"),
    (["+acq=ei", "results_dir=null"], "results_dir must name a folder"),
    (["+acq=ei", "results_dir=[a]"], "results_dir must name a folder, for example results_dir=results (. is the one"),
    (["+acq=ei", "executor=null"], "executor must be one of dask, local, serial, slurm, got null"),
    (["+acq=ei", "surrogate=5"], "surrogate must be one of gp, gp_shared, gpyopt, rf, got 5"),
    (["+acq=ei", "dataset=null"], "dataset must be one of a1a, a3a, abalone"),
    (["+acq=ei", "dataset=[1]"], "dataset must be one of a1a, a3a, abalone"),
    (["+acq=null"], f"acq must be one of {', '.join(options('acq'))}, got null"),
    (["+acq=nan"], f"acq must be one of {', '.join(options('acq'))}, got nan"),
    (
        ["+acq=eipu", "acq.rule.alpha=0.2"],
        "acq.rule: eipu has nothing to set; another rule needs a file,",
    ),
    (["+acq=cei", "lam=0.2", "acq.rule.lam=0.3"], "acq.rule: cei is set by lam= alone"),
    (["+acq=ei", "acq.rule._target_=harness.acquisitions.cost_rules.Cool"], "acq.rule: ei has nothing to set"),
    (["--foo"], "unknown flag --foo"),
    (["+acq=ei", "setting=cpu", "evaluator=live"], "setting=cpu needs evaluator=replay or"),
    (["study=1"], "study must be one of cost_models, deadlines"),
    (["study.methods=3"], "study.methods must be a list such as [{acq: ei}], got 3"),
    (["+acq=ei", "tau=[1,2]"], "tau must be a number of seconds > 0 or null, got [1, 2]"),
    (["+acq=ei", "evaluator.tables=3"], "no tables in 3: build them with"),
    (["+acq=ei", "evaluator.tables=[3]"], "evaluator.tables must name a folder"),
    (
        ["+acq=ei", "setting=log_loss", "evaluator=live"],
        "setting=log_loss needs evaluator=replay_loss, got evaluator=l",
    ),
    (["+acq=ei", "setting=surface", "evaluator=live"], "setting=surface needs evaluator=surface, got evaluator=live"),
    (["+acq=ei", "setting=ard_off", "surrogate=rf"], "setting=ard_off needs surrogate=gp or surrogate=gp_shared, got"),
    (["+acq=ei", "setting=coarse", "evaluator=live"], "setting=coarse needs evaluator=replay or"),
    (["+acq=ei", "setting=wall", "evaluator=surface"], "setting=wall needs evaluator=replay or"),
    (["halp"], "'halp' is no setting: write name=value"),
    (["+acq=ei", "results_dir=/dev/null/results"], "results_dir: /dev/null is not a folder"),
    (["+acq=ei", "results_dir=/proc/results"], "results_dir: cannot read and write /proc"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(a) for a, _ in WRONG])
def test_wrong_input(cli: Cli, arguments: list[str], message: str) -> None:
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == []
    assert len(err) == 1
    assert err[0].startswith("error: ")
    assert message in err[0]
    assert list(cli.folder.iterdir()) == []


def test_a_damaged_table(cli: Cli, tmp_path: Path) -> None:
    folder = make_tables(tmp_path / "damaged", ["abalone/clean"], 12)
    path = folder / "abalone--clean.parquet"
    path.write_bytes(path.read_bytes()[:-10])
    code, out, err = cli("+acq=ei", f"evaluator.tables={folder}")
    assert (code, out, len(err)) == (2, [], 1)
    assert "abalone--clean.parquet is damaged or foreign" in err[0]
    assert list(cli.folder.iterdir()) == []


def test_a_damaged_record_is_named_kept_aside_and_done_again(cli: Cli) -> None:
    assert cli("+acq=ei")[0] == 0
    path = next(p for p in cli.folder.rglob("seeds-0.parquet"))
    whole = path.read_bytes()
    path.write_bytes(b"garbage")
    code, _, err = cli("+acq=ei")
    assert code == 0
    assert "damaged record" in err[0] and "moved to seeds-0.parquet.damaged" in err[0]
    assert path.read_bytes() == whole
    assert path.with_name("seeds-0.parquet.damaged").read_bytes() == b"garbage"


def test_one_acquisition_runs_and_tells_what_it_did(cli: Cli) -> None:
    code, out, _ = cli("+acq=cei", "lam=0.1", "dataset=[abalone,wine]", "seeds=[0,1]")
    assert code == 0
    assert out[-1].startswith("4 runs, 28 evaluations in")
    frame = read_traces(cli.folder / "results")
    assert set(frame["method"]) == {"cei(lam=0.1)"}
    assert set(frame["dataset"]) == {"abalone", "wine"}
    again = cli("+acq=cei", "lam=0.1", "dataset=[abalone,wine]", "seeds=[0,1]")
    assert again[0] == 0
    assert "4 runs were there already" in again[1][-1]


NAMES = {
    "dataset.path=Jürgen.csv": "Jürgen.csv",
    "dataset.path=C#1 (copy).csv": "C#1 (copy).csv",
    "dataset.target=price, EUR": "price, EUR",
    "dataset.target=it's": "it's",
    "dataset.target=true": "true",
    "dataset.target=1.50": "1.50",
    "results_dir=a=b[1]": "a=b[1]",
    "results_dir=2026_11": "2026_11",
    "dataset.target='x y'": "x y",
    "dataset.target=x y": "x y",
    "results_dir=null": None,
    "results_dir=[a]": ["a"],
    "seeds=[0,1]": [0, 1],
}


@pytest.mark.parametrize("given", NAMES)
def test_names_are_taken_as_they_are_written(given: str) -> None:
    (override,) = OverridesParser.create().parse_overrides(quoted([given]))
    assert override.value() == NAMES[given]


def test_commas_part_values_of_several_runs() -> None:
    assert quoted(["-m", "dataset.target=a,b"]) == ["-m", "dataset.target=a,b"]


def test_a_folder_may_have_a_number_for_a_name(cli: Cli) -> None:
    assert cli("+acq=ei", "results_dir=2026_11")[0] == 0  # to Hydra the number 202611
    assert cli("+acq=ei", "results_dir=2026")[0] == 0
    assert sorted(path.name for path in cli.folder.iterdir()) == ["2026", "2026_11"]


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("harness.configurator", ["executor.n_jobs=0"], "executor.n_jobs must be a whole number >= 1 or null, got 0"),
        ("harness.configurator", ["results_dir="], "results_dir must name a folder"),
        ("harness.configurator", ["results_dir=/dev/null/x"], "results_dir: /dev/null is not a folder"),
        ("tabular_cache", ["costs", "executor.n_jobs=0"], "executor.n_jobs must be a whole number >= 1 or null, got 0"),
        ("tabular_cache", ["costs", "results_dir=null"], "results_dir must name a folder"),
        ("tabular_cache", ["costs", "+sises=[4]"], "unknown setting 'sises'; allowed: cost_models"),
        ("tabular_cache", ["censored", "results_dir=/dev/null/x"], "results_dir: /dev/null is not a folder"),
    ],
)
def test_the_other_commands_check_the_same(
    command_line: CommandLines, tmp_path: Path, module: str, arguments: list[str], message: str
) -> None:
    small = ["scenario=[kissat_colouring]"] if module == "harness.configurator" else ["dataset=[wine]"]
    done = command_line(module, *arguments, *small, cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_acquisition_the_studys_list_runs(cli: Cli) -> None:
    code, _, _ = cli("study=demo")
    assert code == 0
    methods = {"ei", "eialpha(alpha=0.1)", "eialpha(alpha=0.3)", "eipu", "eicool"}
    methods |= {f"cei(lam={lam})" for lam in ("0.1", "0.3", "0.9")}
    frame = read_traces(cli.folder / "results")
    assert set(frame["method"]) == methods
    assert set(frame.query("acq == 'eipu'")["alpha"]) == {1.0}


def run(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)


def test_multirun_runs_each_acquisition(command_line: CommandLines, tmp_path: Path, tables: Path) -> None:
    grid = ["dataset=[abalone]", "pipeline=[clean]", "seeds=[0]", "iterations=7", "executor=serial"]
    grid += [f"evaluator.tables={tables}"]
    done = command_line("harness", "-m", "+acq=cei,eipu", "lam=0.1", *grid, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(read_traces(tmp_path / "results")["method"]) == {"cei(lam=0.1)", "eipu"}


def test_cfg_job_shows_the_settings(command_line: CommandLines, tmp_path: Path) -> None:
    done = command_line("harness", "+acq=cei", "lam=0.1", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 0
    assert "lam: 0.1" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("harness", "python -m harness +acq=eialpha alpha=0.2 dataset=[abalone,wind]"),
        ("harness.configurator", "kappa_max_s: 3 # CPU seconds"),
        ("harness.status", "python -m harness.status [results_dir=results] [--json]"),
        ("tabular_cache", "usage: python -m tabular_cache COMMAND"),
        ("analysis", "bootstrap=hierarchical|plain"),
        ("analysis.papers.snoek2011", "python -m analysis.papers.snoek2011 [branin|svm|network|pictures ...]"),
    ],
)
def test_help_is_given(command_line: CommandLines, tmp_path: Path, module: str, said: str) -> None:
    done = command_line(module, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_analysis_that_cannot_be_written_or_has_no_budgets(cli: Cli, command_line: CommandLines) -> None:
    assert cli("+acq=cei", "lam=0.1")[0] == 0
    for arguments, message in (
        (["summary", "out_dir=/proc/x"], "out_dir: cannot read and write /proc"),
        (["budgets", "out_dir=out"], "the minimal budget needs runs of EI^alpha"),
    ):
        done = command_line("analysis", *arguments, cwd=cli.folder)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert message in done.stderr
    assert not (cli.folder / "out").exists()


def test_an_acquisition_of_the_users_own_needs_no_change_here(
    command_line: CommandLines, tmp_path: Path, tables: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "rule.py").write_text(
        "class Cheapest:\n    def score(self, log_value, log_cost, belief):\n        return -log_cost\n"
    )
    (tmp_path / "conf" / "acq").mkdir(parents=True)
    (tmp_path / "conf" / "acq" / "mine.yaml").write_text("name: mine\nrule:\n  _target_: mine.rule.Cheapest\n")
    grid = ["dataset=[abalone]", "pipeline=[clean]", "seeds=[0]", "iterations=7", "executor=serial"]
    grid += [f"evaluator.tables={tables}", f"hydra.searchpath=[file://{tmp_path / 'conf'}]"]
    refused = command_line("harness", "+acq=mine", *grid, cwd=tmp_path)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "_target_ mine.rule.Cheapest" in refused.stderr and "add allow_targets=[mine]" in refused.stderr
    grid += ["allow_targets=[mine]"]
    done = command_line("harness", "+acq=mine", *grid, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(read_traces(tmp_path / "results")["method"]) == {"mine"}


def test_wrong_commands_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run("-m", "tabular_cache", "biuld", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    monkeypatch.chdir(tmp_path)
    for arguments, message in [
        (["biuld"], "unknown command 'biuld'; allowed: build, plan, grow, left, audit, identify, info, "),
        (["info", "dataset=[nope]"], "unknown dataset 'nope'; allowed:"),
        (["info", "tables=/nowhere"], "no tables in /nowhere"),
        (["info", "tables=2026"], "no tables in 2026"),
        (["info", "tables=[a]"], "tables must name a folder"),
        (["info", "--foo"], "unknown flag --foo; settings are given as setting=value"),
        (["confirm", "results_dir=null"], "results_dir must name a folder"),
        (["truth", "truth=-5"], "truth must name a folder"),
        (["build", "n_configs=0"], "n_configs must be a whole number from 1 to 16384, got 0"),
        (["build", "at_most=20000"], "at_most must be a whole number from 384 to 16384, got 20000"),
        (["costs", "cost_model=gp"], "unknown setting 'cost_model'; allowed: cost_models, dataset, executor"),
        (["costs", "cost_models=lv3"], "cost_models must be a list, [a,b], got 'lv3'"),
        (["costs", "cost_models=[nope]"], "unknown cost_model 'nope'; allowed: gp, gp3"),
        (["build", "tree_method=gpu"], "tree_method must be one of exact, hist, approx, got 'gpu'"),
        (["build", "tables=/proc/tables"], "cannot write tables to /proc/tables"),
    ]:
        monkeypatch.setattr(sys, "argv", ["tabular_cache", *arguments])
        with pytest.raises(SystemExit) as stopped:
            run_cli(tabular_cache.__main__.main)
        out, err = capsys.readouterr()
        assert (stopped.value.code, out, len(err.splitlines())) == (2, "", 1)
        assert message in err
    assert list(tmp_path.iterdir()) == []


def test_help_of_a_command_shows_its_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, setting in (("build", "slice_s: 30"), ("audit", "sample_seed: 0"), ("costs", "cost_models:")):
        monkeypatch.setattr(sys, "argv", ["tabular_cache", command, "--help"])
        assert tabular_cache.__main__.main() == 0
        out = capsys.readouterr().out
        assert "usage: python -m tabular_cache" in out and setting in out


MORE = ["dataset=[abalone,wine]", "pipeline=[clean]", "seeds=[0,1,2]", "iterations=30", "study=demo"]


def begun(studies: Forked, folder: Path, tables: Path) -> Process:
    """A study in a process of its own that has written a record: its trace, which is the last and makes it count."""
    there = records(folder)
    settings = [*MORE, f"evaluator.tables={tables}", "executor=local", "executor.n_jobs=1", "results_dir=r"]
    started = studies.start(STUDY, *settings, cwd=folder, environment=ENVIRONMENT)
    while records(folder) == there and started.poll() is None:
        time.sleep(0.02)
    return started


def records(folder: Path) -> set[Path]:
    """The traces there, by name."""
    return {path for path in folder.rglob("seeds-*.parquet") if "timings" not in path.name}


def traces(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in records(folder)}


def test_a_study_survives_kill_interrupt_and_damage_and_gives_the_same_bytes(
    cli: Cli, command_line: CommandLines, studies: Forked, tables: Path
) -> None:
    first = begun(studies, cli.folder, tables)
    os.kill(first.pid, signal.SIGSTOP)  # or it might have done all before it is met
    code, _, err = cli(*MORE, "results_dir=r")
    assert (code, len(err)) == (2, 1)
    assert f"another study is writing to r (process {first.pid} on " in err[0]
    first.kill()
    second = begun(studies, cli.folder, tables)
    os.kill(second.pid, signal.SIGINT)
    assert second.wait() == 130
    assert second.err.read_text().splitlines()[-1] == "stopped; what is finished is kept"
    path = min(records(cli.folder / "r"))
    path.write_bytes(path.read_bytes()[:-9])
    code, out, err = cli(*MORE, "results_dir=r")
    assert code == 0
    assert "damaged record" in err[0]
    assert " 0 runs were there already" not in out[-1]
    assert cli(*MORE, "results_dir=whole", "executor=serial")[0] == 0
    assert traces(cli.folder / "r") == traces(cli.folder / "whole")
    assert len(traces(cli.folder / "r")) == 16
    told = command_line("harness.status", "results_dir=r", "--json", cwd=cli.folder)
    status = json.loads(told.stdout)
    assert (status["total"]["done"], status["total"]["missing"], status["running"]) == (48, 0, False)
    assert status["by_dataset"]["wine"]["done"] == 24
    wrong = command_line("harness.status", "results_dir=nowhere", cwd=cli.folder)
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("whose", ["harness", "datasets"])
def test_a_reader_that_has_had_enough_is_no_error(whose: str) -> None:
    lines = "from harness.cli import run_cli; run_cli(lambda: [print('x' * 1000) for _ in range(1000)] and 0)"
    if whose == "datasets":
        lines = (
            "import datasets.__main__ as command; command._list = lambda chosen: [print('x' * 9**5) for _ in chosen]; "
            "command.main(['list'])"
        )
    with subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(3) == b"xxx"
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (1, b"")


def test_a_broken_pipe_that_is_not_standard_outputs_is_an_error() -> None:
    lines = (
        "import os; from harness.cli import run_cli; read, write = os.pipe(); os.close(read); "
        "run_cli(lambda: os.write(write, b'x'))"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr

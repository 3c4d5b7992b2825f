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
from fakes import make_tables
from forked import STUDY, Forked, Process
from hydra.core.override_parser.overrides_parser import OverridesParser

import tabular_cache.__main__
from harness.cli import run_cli
from harness.config import as_written, options
from harness.records import read_traces, trace_files


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


WRONG = [  # one of each kind
    (["+acq=foo"], "unknown acq 'foo'; allowed: carbo, cei, ei, eialpha, eicool, eipu"),
    (["acq=cei"], "write +acq=NAME, with a plus; allowed: carbo, cei"),
    (["+acq=null"], f"acq must be one of {', '.join(options('acq'))}, got null"),
    (["+acq=cei", "lam=2"], "lam must be a number in [0, 1], got 2"),
    (["+acq=cei"], "lam must be a number in [0, 1], and is not set"),
    (["+acq=cei", "lam="], "lam must be a number in [0, 1], and is not set"),
    (["lam=0.1"], "lam is set but no acquisition"),
    (["+acq=ei", "lam=0.3"], "lam is set, but +acq=ei has no such parameter: leave it out"),
    (["+acq=ei", "dataset=[nope]"], "unknown dataset 'nope'; allowed: a1a, a3a, abalone"),
    (["+acq=ei", "dataset=[]"], "dataset is empty: name at least one"),
    (["+acq=ei", "dataset=[abalone"], "dataset=[abalone: a bracket [ without its ]"),
    (["+acq=ei", "seeds=[-1]"], "seeds must be a list of whole numbers from 0 to 2147483647, for example"),
    (["+acq=ei", "seeds=[1,1]"], "seeds must differ from each other"),
    (["+acq=ei", "iterations=0"], "iterations must be a whole number >= 1, got 0"),
    (["+acq=ei", "tau=-5"], "tau must be a number of seconds > 0 or null, got -5"),
    (["+acq=ei", "fronts=3"], "fronts must be true or false, got 3"),
    (["+acq=ei", "budgets=b.csv"], "budgets is given, so tau must say how many times the budget"),
    (["+acq=ei", "error_scale=ln"], "error_scale must be one of raw, log, winsorized, got 'ln'"),
    (["+acq=ei", "n_initial=13", "iterations=20"], "the table of abalone/clean has 12 configurations, n_initial=13"),
    (["+acq=ei", "executor.n_jobs=0"], "executor.n_jobs must be a whole number >= 1 or null, got 0"),
    (["+acq=cei", "lam=0.3", "utility=pbgi"], "utility=pbgi has the cost inside its index"),
    (["+aqc=cei"], "unknown setting 'aqc' (did you mean +acq?); allowed: +acq"),
    (
        ["+acq=ei", "iteration=5"],
        "unknown setting 'iteration' (did you mean iterations?); allowed: +acq, allow_targets, alpha",
    ),
    (["+acq=ei", "surrogate.adr=5"], "unknown setting 'surrogate.adr' (did you mean surrogate.ard?); allowed: surr"),
    (["+acq=ei", "iterations=5"], "iterations=5 is spent on the initial design alone, and ei would choose nothing"),
    (["+acq=cei", "lam=0,1"], "lam=0,1 is several runs, which need -m before all (a decimal point? lam=0.1)"),
    (["+acq=cei,eipu"], "+acq=cei,eipu is several runs, which need -m before all"),
    (["+acq=[cei,eipu]"], "several runs need -m before all: +acq=cei,eipu"),
    (["+acq=ei", "utility=[ei,kg]"], "several runs need -m before all: utility=ei,kg"),
    (["+acq=ei", "seeds=range(3)"], "seeds=range(3): a list is written 'seeds=[0,1,...]'; several runs need -m"),
    (["study.methods=[{acq: ei, lam: 0.1}]"], "lam is set, but +acq=ei has no such parameter: leave it out"),
    (["+acq=ei", "+evaluator.seeds_per_block=-1"], "seeds_per_block must be a whole number >= 1, got -1"),
    (["optimizer=cfo", "optimizer.cheap.eta=1"], "optimizer.cheap.eta is not in its file: a key is added with a plus"),
    (["+acq=ei", "seeds=0,1"], "seeds=0,1: a list is written 'seeds=[0,1]'; several runs need -m before all"),
    (["+acq=ei", "iterations=3,5"], "iterations=3,5 is several runs, which need -m before all"),
    (["+acq=cei", "~lam"], "~lam: nothing can be taken away"),
    (["+acq=ei", "hydra.foo=1"], "unknown setting 'hydra.foo'; those of Hydra itself: --hydra-help"),
    (["+acq=ei", "dataset=csv", "dataset.targt=y"], "(did you mean dataset.target?); allowed: dataset.decimal, datas"),
    (["+acq=ei", "optimizer=tpe", "optimizer.etta=2"], "allowed: optimizer.arguments, optimizer.as_asked, optimizer.s"),
    (["+acq=ei", "+evaluator.foo=1"], "Replay has no setting 'foo'; allowed: tables"),
    (["+acq=cei", "lam=0.1,0.2"], "lam=0.1,0.2 is several runs, which need -m before all"),
    (["study.methods=[]"], "study.methods is empty: a study needs one method or more"),
    (["study.methods=[{acq: ei},{acq: cei, lam: [0.1, 0.1]}]"], "study.methods names cei(lam=0.1) twice"),
    (["+acq=ei", "evaluator.tables=/nowhere"], "no tables in /nowhere: build them with"),
    (["+acq=ei", "results_dir="], "results_dir must name a folder, for example results_dir=results"),
    (["+acq=ei", "results_dir=/proc/results"], "results_dir: cannot read and write /proc"),
    (["+acq=cei", "lam=0.2", "acq.rule.lam=0.3"], "acq.rule: cei is set by lam= alone"),
    (["+acq=ei", "setting=cpu", "evaluator=live"], "setting=cpu needs evaluator=replay or"),
    (["+iterations=9"], "iterations has a value already: write it without the plus"),
    (["seeds={a:1}"], "seeds={a:1} is no value that seeds may have, such as seeds=[0,1,2"),
    (["+acq=ei", "cost_model.features=null"], "features must be a list, [a,b], got None"),
    (["-m", "+acq=ei,eipu", "lam=0.5"], "lam is set, but none of acq=[ei, eipu] has such a parameter"),
    (["--foo"], "unknown flag --foo"),
    (["halp"], "'halp' is no setting: write name=value"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(a) for a, _ in WRONG])
def test_wrong_input(cli: Cli, arguments: list[str], message: str) -> None:
    code, out, err = cli(*arguments)
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith("error: ") and message in err[0]
    assert list(cli.folder.iterdir()) == []


def test_one_acquisition_runs_and_tells_what_it_did(cli: Cli) -> None:
    code, out, _ = cli("+acq=cei", "lam=0.1", "dataset=[abalone,wine]", "seeds=[0,1]")
    assert code == 0 and out[-1].startswith("4 runs, 28 evaluations in")
    frame = read_traces(cli.folder / "results")
    assert set(frame["method"]) == {"cei(lam=0.1)"}
    assert set(frame["dataset"]) == {"abalone", "wine"}
    again = cli("+acq=cei", "lam=0.1", "dataset=[abalone,wine]", "seeds=[0,1]")
    assert again[0] == 0
    assert "4 runs were there already" in again[1][-1]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("dataset.path=C#1 (Jürgen).csv", "C#1 (Jürgen).csv"),
        ("dataset.target=true", "true"),
        ("dataset.target=1.50", "1.50"),
        ("results_dir=2026_11", "2026_11"),
        ("out_dir=2026_11", "2026_11"),
        ("design.tables=2026_11", "2026_11"),
        ("executor.folder=2026_11", "2026_11"),
        ("dataset.target='x, y'", "x, y"),
        ("results_dir=null", None),
        ("seeds=[0,1]", [0, 1]),
        ("optimizer.arguments={seed:1}", {"seed": 1}),
    ],
)
def test_names_are_taken_as_they_are_written(given: str, read: object) -> None:
    (override,) = OverridesParser.create().parse_overrides(as_written([given]))
    assert override.value() == read


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("harness.configurator", ["executor.n_jobs=0"], "executor.n_jobs must be a whole number >= 1 or null, got 0"),
        ("harness.configurator", ["results_dir=/dev/null/x"], "results_dir: /dev/null is not a folder"),
        ("tabular_cache", ["costs", "results_dir=null"], "results_dir must name a folder"),
        (
            "tabular_cache",
            ["costs", "+sises=[4]"],
            "unknown setting 'sises' (did you mean sizes?); allowed",
        ),
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


def test_a_budget_spent_on_the_initial_design_is_said(cli: Cli) -> None:
    code, out, err = cli("+acq=ei", "tau=1e-9", "iterations=8")
    assert code == 0 and out[-1].startswith("1 run, 5 evaluations")
    assert any("1 run ended before anything was chosen: the points that a run begins with" in line for line in err)
    assert not any("before anything was chosen" in line for line in cli("+acq=ei", "iterations=8")[2])


def test_multirun_runs_each_acquisition(command_line: CommandLines, tmp_path: Path, tables: Path) -> None:
    grid = ["dataset=[abalone]", "pipeline=[clean]", "seeds=[0]", "iterations=7", "executor=serial"]
    grid += [f"evaluator.tables={tables}"]
    done = command_line("harness", "+acq=cei,eipu", "-m", "lam=0.1", *grid, cwd=tmp_path)  # wherever the flag stands
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
        ("harness", "python -m harness +acq=eialpha alpha=0.2 'dataset=[abalone,wind]'"),
        ("harness.configurator", "kappa_max_s: 3 # CPU seconds"),
        ("harness.status", "python -m harness.status [results_dir=results] [--json]"),
        ("tabular_cache", "usage: python -m tabular_cache COMMAND"),
        ("analysis", "bootstrap=datasets|hierarchical|plain"),
        ("analysis.papers.snoek2011", "python -m analysis.papers.snoek2011 [branin|shortcuts|svm|network|pict"),
        ("harness.capped", "kappa_max_s: 60 # CPU seconds"),
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


def test_wrong_commands_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, message in [
        (
            ["biuld"],
            "unknown command 'biuld' (did you mean build?); allowed: build, grow, left",
        ),
        (["info", "dataset=[nope]"], "unknown dataset 'nope'; allowed:"),
        (["info", "tables=/nowhere"], "no tables in /nowhere"),
        (["truth", "truth="], "truth must name a folder"),
        (["grow", "dataset=[wind]"], "dataset= means nothing to 'grow', which takes executor, tables, hours"),
        (["left", "executor.n_jobs=1"], "executor= means nothing to 'left', which takes tables"),
        (["build", "n_configs=0"], "n_configs must be a whole number from 1 to 16384, got 0"),
        (
            ["costs", "cost_model=gp"],
            "unknown setting 'cost_model' (did you mean cost_models?); allowed",
        ),
        (["costs", "cost_models=lv3"], "cost_models must be a list, [a,b], got 'lv3'"),
        (["build", "tables=/proc/tables"], "cannot write tables to /proc/tables"),
    ]:
        monkeypatch.setattr(sys, "argv", ["tabular_cache", *arguments])
        with pytest.raises(SystemExit) as stopped:
            run_cli(tabular_cache.__main__.main)
        out, err = capsys.readouterr()
        assert (stopped.value.code, out, len(err.splitlines())) == (2, "", 1)
        assert message in err
    assert list(tmp_path.iterdir()) == []


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
    return set(trace_files(folder))


def traces(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in records(folder)}


@pytest.mark.slow
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
    assert "there already" in out[-1]
    assert cli(*MORE, "results_dir=whole", "executor=serial")[0] == 0
    assert traces(cli.folder / "r") == traces(cli.folder / "whole")
    assert len(traces(cli.folder / "r")) == 16
    reported = command_line("harness.status", "results_dir=r", "--json", cwd=cli.folder)
    status = json.loads(reported.stdout)
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
        reported = process.stderr.read()
    assert (process.returncode, reported) == (1, b"")


def test_a_broken_pipe_that_is_not_standard_outputs_is_an_error() -> None:
    lines = (
        "import os; from harness.cli import run_cli; read, write = os.pipe(); os.close(read); "
        "run_cli(lambda: os.write(write, b'x'))"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr

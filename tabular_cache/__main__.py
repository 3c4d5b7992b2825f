"""Command line of the tables: `python -m tabular_cache COMMAND [setting=value ...]`.

A command is a function of its settings (`Call`): it checks them, does its work and returns the exit code. What it works
with is imported there, so that the help and a wrong command need none of it.
"""

import itertools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import datasets
import pipelines
from datasets.errors import BadInput
from harness.cli import SOME_FAILED, helped, run_cli, tell_records, wants_help
from harness.config import (
    SETTING,
    check_targets,
    compose_config,
    given_on_command_line,
    named,
    search_places,
)
from harness.errors import folder, listed, number, one_of, positive, unknown, whole, writable

USAGE = """usage: python -m tabular_cache COMMAND ['dataset=[a,b]'] ['pipeline=[c]'] [setting=value ...]

build         measure: live trainings to tables       info          the table of problems
grow          measure stage by stage, in parts: goes on where it was; hours=2 for one run
left          what is left of the stages, in core-hours
audit         train a random sample again             confirm       train what the runs of results_dir chose
truth         live runs of results_dir to the shipped ones that `python -m analysis density` compares with
costs         how well the cost models predict        censored      treatments of capped and timed-out costs
emulator      how well evaluator=surface predicts configurations it has not seen
export        the tables for other benchmarks' tools: format=hpob, synetune or optunahub, out_dir=FOLDER
card          what each table and data set holds, for readers (CARD.md) and for tools (croissant.json)"""


@dataclass(frozen=True)
class Call:
    """A command's settings, and the command line that they are from."""

    cfg: Any
    overrides: Sequence[str]

    @property
    def tables(self) -> Path:
        """The folder of tables."""
        from tabular_cache.table import TABLES

        return TABLES if self.cfg.tables is None else folder("tables", self.cfg.tables)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """The problems, by data set and pipeline."""
        return list(itertools.product(named(self.cfg, "dataset"), named(self.cfg, "pipeline")))

    @property
    def names(self) -> list[str]:
        """The names of the problems."""
        from tabular_cache.schema import problem_name

        return [problem_name(*pair) for pair in self.problems]

    def executor(self) -> Executor:
        """Return the executor that the settings name."""
        from hydra.utils import instantiate

        executor: Executor = instantiate(self.cfg.executor)
        return executor

    def number_or_none(self, name: str, least: int) -> int | None:
        """Return a setting that is a whole number or null; raises BadInput for another."""
        return None if self.cfg[name] is None else whole(name, self.cfg[name], least)

    def numbers(self, name: str, least: int, most: int | None = None) -> tuple[int, ...]:
        """Return a setting that is a list of whole numbers, sorted, each once; raises BadInput for another."""
        return tuple(sorted({whole(f"each of {name}", n, least, most) for n in listed(name, self.cfg[name])}))

    def held(self) -> list[tuple[str, str]]:
        """Return the problems asked for by name; where none is, those whose tables are in the folder."""
        from tabular_cache import audit as auditing

        whole = set(self.problems) == set(itertools.product(datasets.names(), pipelines.names()))
        return auditing.held(self.tables, self.problems) if whole else self.problems

    def cost_models(self) -> dict[str, dict[str, Any]]:
        """Return the configs of the cost models named: the project's, and those on the command line's search path."""
        names = [str(name) for name in listed("cost_models", self.cfg.cost_models)]
        return {name: _cost_model(name, self.overrides) for name in names}


PROBLEMS = ("dataset", "pipeline")
_TAKEN: dict[str, tuple[str, ...]] = {}
Command = TypeVar("Command", bound=Callable[[Call], int])


def takes(*settings: str) -> Callable[[Command], Command]:
    """Say which of the settings that several commands share this one looks at; others are refused."""

    def noted(command: Command) -> Command:
        _TAKEN[command.__name__] = settings
        return command

    return noted


def _check_taken(name: str, overrides: Sequence[str]) -> None:
    """Raise BadInput for a setting that other commands look at, and this one does not."""
    shared = set().union(*_TAKEN.values())
    for override in overrides:
        setting = override.lstrip("+~").partition("=")[0].partition(".")[0]
        if setting in shared - set(_TAKEN[name]):
            raise BadInput(f"{setting}= means nothing to {name!r}, which takes {', '.join(_TAKEN[name])}")


# Measuring.


@takes(
    *PROBLEMS,
    "executor",
    "tables",
    "minutes",
    "at_least",
    "at_most",
    "n_configs",
    "slice_s",
    "max_passes",
    "tree_method",
    "time_limit_s",
)
def build(call: Call) -> int:
    """Measure what is missing of the tables."""
    from harness.execution import worker_count
    from harness.training import TREE_METHODS
    from tabular_cache import build as building
    from tabular_cache.measure import LoadMonitor
    from tabular_cache.schema import MOST_CONFIGS
    from tabular_cache.store import Store
    from tabular_cache.table import sidecars

    cfg = call.cfg
    one_of("tree_method", cfg.tree_method, TREE_METHODS)
    if cfg.time_limit_s is not None and cfg.time_limit_s != building.AUTO:
        positive("time_limit_s", cfg.time_limit_s, f"{building.AUTO}, null or seconds")
    if cfg.n_configs is None:
        least = whole("at_least", cfg.at_least, 1)
        most = whole("at_most", cfg.at_most, least, MOST_CONFIGS)
        budget = building.MeasurementBudget(positive("minutes", cfg.minutes) * 60, least, most)
    else:
        n = whole("n_configs", cfg.n_configs, 1, MOST_CONFIGS)
        budget = building.MeasurementBudget(0.0, n, n)
    slice_s, passes = positive("slice_s", cfg.slice_s), call.number_or_none("max_passes", 1)
    store = Store(call.tables, cfg.tree_method)
    if sidecars(call.tables):
        raise BadInput(f"the tables in {call.tables} grow by parts: `python -m tabular_cache grow` goes on with them")
    with store.locked():
        for problem in call.names:  # what an earlier, killed build left in its journal
            store.pack(problem)
        planner = building.Planner(store, call.problems, budget, cfg.time_limit_s, slice_s)
        with call.executor() as executor, LoadMonitor() as monitor:
            report = building.Builder(planner, executor, worker_count(executor), monitor).run(passes)
    if not report.trainings and not report.failed:
        print(f"nothing to do: {len(call.problems)} problems have had their share")
    else:
        print(report)
    return _tell_failed(report.failed)


def _tell_failed(failed: Sequence[str]) -> int:
    for failure in failed:
        print(f"not measured: {failure}", file=sys.stderr)
    return SOME_FAILED if failed else 0


@takes("executor", "tables", "hours")
def grow(call: Call) -> int:
    """Measure stage by stage, and say what is left."""
    from harness.execution import worker_count
    from tabular_cache import grow as growing
    from tabular_cache.measure import LoadMonitor

    hours = None if call.cfg.hours is None else positive("hours", call.cfg.hours, "null or hours")
    store = growing.PartStore(call.tables, growing.read_plan(call.tables))
    with store.locked():
        with call.executor() as executor, LoadMonitor() as monitor:
            grower = growing.Grower(store, executor, worker_count(executor), monitor, hours)
            report = grower.run()
        print(report)
        for part in grower.finished:
            print(f"part: {part}")
        growing.print_left(store)
    return _tell_failed(report.failed)


@takes("tables")
def left(call: Call) -> int:
    """Say what is left of the stages."""
    from tabular_cache import grow as growing

    growing.print_left(growing.PartStore(call.tables, growing.read_plan(call.tables)))
    return 0


# What tables hold, and whether it is so.


@takes(*PROBLEMS, "executor", "tables", "sample", "n_problems", "sample_seed")
def audit(call: Call) -> int:
    """Train a random sample again.

    Raises BadInput for a pipeline that would run code of its own: a manifest cannot vouch for what it names.
    """
    from tabular_cache import audit as auditing
    from tabular_cache.table import read_manifest

    sample, seed = whole("sample", call.cfg.sample, 1), whole("sample_seed", call.cfg.sample_seed, 0)
    problems = auditing.drawn(call.held(), call.number_or_none("n_problems", 1), seed)
    recipes = [{"_target_": "pipelines.build", "name": pipeline} for _, pipeline in problems]
    check_targets(recipes, given_on_command_line(call.overrides))
    with call.executor() as executor:
        rows = auditing.audit(executor, problems, call.tables, sample, seed)
    return auditing.print_audit(rows, read_manifest(call.tables))


@takes(*PROBLEMS, "tables")
def info(call: Call) -> int:
    """Print what the tables hold."""
    from tabular_cache import audit as auditing

    return auditing.print_info(call.held(), call.tables)


@takes(*PROBLEMS, "executor", "results_dir")
def confirm(call: Call) -> int:
    """Train what runs chose."""
    from tabular_cache import live_truth

    results = folder("results_dir", call.cfg.results_dir)
    with call.executor() as executor:
        return live_truth.print_confirmed(live_truth.confirm(executor, results, set(call.problems)))


@takes(*PROBLEMS, "results_dir", "truth")
def truth(call: Call) -> int:
    """Gather live runs."""
    from tabular_cache import live_truth

    target = live_truth.TRUTH if call.cfg.truth is None else folder("truth", call.cfg.truth)
    results = folder("results_dir", call.cfg.results_dir)
    for spec, runs in live_truth.gather_live_runs(results, set(call.problems), target):
        print(f"{spec['dataset']}/{spec['pipeline']} {spec['method']}: {runs} runs")
    return 0


@takes(*PROBLEMS, "executor", "tables", "n_configs")
def emulator(call: Call) -> int:
    """Judge the emulators of tables."""
    from tabular_cache import emulator as emulators

    n_configs = call.number_or_none("n_configs", 1)
    with call.executor() as executor:
        return emulators.print_judged(*emulators.judge(executor, call.names, call.tables, n_configs))


@takes(*PROBLEMS, "tables", "format", "out_dir")
def export(call: Call) -> int:
    """Write the tables in another benchmark's format."""
    from tabular_cache import export as exporting

    write = exporting.FORMATS[one_of("format", call.cfg.format, exporting.FORMATS)]
    target = writable("out_dir", folder("out_dir", call.cfg.out_dir))
    for path in write(call.held(), call.tables, target):
        print(path)
    return 0


@takes(*PROBLEMS, "tables", "out_dir")
def card(call: Call) -> int:
    """Write the card of the tables; without out_dir= above their folder."""
    from tabular_cache import card as cards

    target = call.tables.parent if call.cfg.out_dir is None else folder("out_dir", call.cfg.out_dir)
    for path in cards.write(call.held(), call.tables, writable("out_dir", target)):
        print(path)
    return 0


# Cost models.


def costs(call: Call) -> int:
    """Score cost models on the problems."""
    from harness.records import LARGEST_SEED
    from tabular_cache import cost_study

    executor, results = call.executor(), writable("results_dir", folder("results_dir", call.cfg.results_dir))
    sizes, seeds, models = call.numbers("sizes", 1), call.numbers("seeds", 0, LARGEST_SEED), call.cost_models()
    if not (sizes and seeds and models):
        raise BadInput("sizes, seeds and cost_models must not be empty")
    trials = [
        cost_study.PredictionTrial(problem, name, config, seeds, sizes, str(call.tables), str(results))
        for problem in call.names
        for name, config in models.items()
    ]
    with executor:
        failed = cost_study.run_all(executor, trials)
    return tell_records(failed, len(trials), results / "costs")


def censored(call: Call) -> int:
    """Score treatments of censored costs on the problems."""
    from harness.problem import slack_factor
    from harness.records import LARGEST_SEED
    from tabular_cache import cost_study

    cfg, executor = call.cfg, call.executor()
    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    given = listed("experiments", cfg.experiments)
    experiments = [one_of("each of experiments", e, cost_study.VERSIONS) for e in given]
    sizes, seeds = call.numbers("sizes", 4), call.numbers("seeds", 0, LARGEST_SEED)
    slacks = tuple(slack_factor(value) for value in listed("slack", cfg.slack))
    share, trees = number("share", cfg.share, "a share in [0.01, 0.9]", 0.01, 0.9), whole("trees", cfg.trees, 1)
    models = call.cost_models()
    if not (sizes and seeds and slacks and models and experiments):
        raise BadInput("experiments, sizes, seeds, slack and cost_models must not be empty")
    settings = (seeds, sizes, slacks, trees, models, share, str(call.tables), str(results))
    trials = [cost_study.CensoringTrial(name, problem, *settings) for problem in call.names for name in experiments]
    with executor:
        failed = cost_study.run_all(executor, trials)
    return tell_records(failed, len(trials), results / "censored")


def _cost_model(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the config of a cost model: the project's, or one on the search path of a command line's `overrides`."""
    from omegaconf import OmegaConf

    trust = [o for o in overrides if list(search_places([o])) or o.lstrip("+~").partition("=")[0] == SETTING]
    plain = OmegaConf.to_container(compose_config("costs", [f"+cost_model@one={name}", *trust]).one, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


COMMANDS: dict[str, Callable[[Call], int]] = {
    command.__name__: command
    for command in (build, grow, left, audit, info, confirm, truth, costs, censored, emulator, export, card)
}


def main() -> int:
    """Run one command; returns the exit code."""
    name, *overrides = sys.argv[1:] or [""]
    if wants_help([name]):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    config = "tables" if name in _TAKEN else name
    if helped(USAGE, config, overrides):
        return 0
    if name in _TAKEN:
        _check_taken(name, overrides)
    return COMMANDS[name](Call(compose_config(config, overrides), overrides))


if __name__ == "__main__":
    run_cli(main)

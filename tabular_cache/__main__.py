"""Command line of the tables: `python -m tabular_cache COMMAND [setting=value ...]`."""

import itertools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.errors import BadInput
from harness.cli import SOME_FAILED, run_cli, tell_records, wants_help
from harness.config import CONFIGS, SETTING, compose_config, named, search_places
from harness.errors import folder, listed, number, positive, whole, writable

USAGE = """usage: python -m tabular_cache COMMAND [dataset=[a,b]] [pipeline=[c]] [setting=value ...]

build         measure: live trainings to tables       info          the table of problems
plan          decide the stages by which tables grow  left          what is left of them, in core-hours
grow          measure stage by stage, in parts: goes on where it was; hours=2 for one sitting
audit         train a random sample again             confirm       train what the runs of results_dir chose
identify      give tables measured before there were identities of data theirs, confirmed by hash or trainings
truth         live runs of results_dir to the shipped ones that `python -m analysis density` compares with
costs         how well the cost models predict        significance  which features and ridge a linear one should have
censored      treatments of capped and timed-out costs
emulator      how well evaluator=surface predicts configurations it has not seen"""


@dataclass(frozen=True)
class Call:
    """A command's settings, the problems that they name, the folder of tables, and the command line they are from."""

    cfg: Any
    problems: list[tuple[str, str]]
    tables: Path
    overrides: Sequence[str]

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
        import datasets
        import pipelines
        from tabular_cache.audit import held

        whole = set(self.problems) == set(itertools.product(datasets.names(), pipelines.names()))
        return held(self.tables, self.problems) if whole else self.problems

    def cost_models(self) -> dict[str, dict[str, Any]]:
        """Return the configs of the cost models named: the project's, and those on the command line's search path."""
        names = [str(name) for name in listed("cost_models", self.cfg.cost_models)]
        return {name: _cost_model(name, self.overrides) for name in names}


def main() -> int:
    """Run one command; returns the exit code."""
    name, *overrides = sys.argv[1:] or [""]
    if wants_help([name]):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        raise BadInput(f"unknown command {name!r}; allowed: {', '.join(COMMANDS)}")
    config = name if name in ("costs", "censored") else "tables"
    if wants_help(overrides):
        print(f"{USAGE}\n\n{(CONFIGS / f'{config}.yaml').read_text()}", end="")
        return 0
    from tabular_cache.table import TABLES

    cfg = compose_config(config, overrides)
    problems = list(itertools.product(named(cfg, "dataset"), named(cfg, "pipeline")))
    tables = TABLES if cfg.tables is None else folder("tables", cfg.tables)
    return COMMANDS[name](Call(cfg, problems, tables, overrides))


# Measuring.


def _build(call: Call) -> int:
    from harness.execution.supervisor import worker_count
    from harness.training import TREE_METHODS
    from tabular_cache.build import AUTO, Builder, MeasurementBudget, Planner
    from tabular_cache.measure import LoadMonitor
    from tabular_cache.parts import sidecars
    from tabular_cache.schema import MOST_CONFIGS, problem_name
    from tabular_cache.store import Store

    cfg = call.cfg
    if cfg.tree_method not in TREE_METHODS:
        raise BadInput(f"tree_method must be one of {', '.join(TREE_METHODS)}, got {cfg.tree_method!r}")
    if cfg.time_limit_s is not None and cfg.time_limit_s != AUTO:
        positive("time_limit_s", cfg.time_limit_s, f"{AUTO}, null or seconds")
    if cfg.n_configs is None:
        least = whole("at_least", cfg.at_least, 1)
        most = whole("at_most", cfg.at_most, least, MOST_CONFIGS)
        budget = MeasurementBudget(positive("minutes", cfg.minutes) * 60, least, most)
    else:
        n = whole("n_configs", cfg.n_configs, 1, MOST_CONFIGS)
        budget = MeasurementBudget(0.0, n, n)
    slice_s, passes = positive("slice_s", cfg.slice_s), call.number_or_none("max_passes", 1)
    store = Store(call.tables, cfg.tree_method)
    if sidecars(call.tables):
        raise BadInput(f"the tables in {call.tables} grow by parts: `python -m tabular_cache grow` goes on with them")
    with store.locked():
        for pair in call.problems:  # what an earlier, killed build left in its journal
            store.pack(problem_name(*pair))
        planner = Planner(store, call.problems, budget, cfg.time_limit_s, slice_s)
        with call.executor() as executor, LoadMonitor() as monitor:
            report = Builder(planner, executor, worker_count(executor), monitor).run(passes)
    if not report.trainings and not report.failed:
        print(f"nothing to do: {len(call.problems)} problems have had their share")
    else:
        print(report)
    return _tell_failed(report.failed)


def _tell_failed(failed: Sequence[str]) -> int:
    for failure in failed:
        print(f"not measured: {failure}", file=sys.stderr)
    return SOME_FAILED if failed else 0


def _plan(call: Call) -> int:
    from tabular_cache.grow import decide, write_plan

    anew = [str(problem) for problem in listed("anew", call.cfg.anew)]
    plan = decide(call.tables, anew, positive("limit_s", call.cfg.limit_s))
    write_plan(call.tables, plan)
    for stage, units in plan.stages.items():
        print(f"{stage}: {len(units)} units")
    return 0


def _grow(call: Call) -> int:
    from harness.execution.supervisor import worker_count
    from tabular_cache.grow import Grower, PartStore, print_left, read_plan
    from tabular_cache.measure import LoadMonitor

    hours = None if call.cfg.hours is None else positive("hours", call.cfg.hours, "null or hours")
    store = PartStore(call.tables, read_plan(call.tables))
    with store.locked():
        with call.executor() as executor, LoadMonitor() as monitor:
            grower = Grower(store, executor, worker_count(executor), monitor, hours)
            report = grower.run()
        print_left(store)
    print(report)
    for part in grower.finished:
        print(f"part: {part}")
    return _tell_failed(report.failed)


def _left(call: Call) -> int:
    from tabular_cache.grow import PartStore, print_left, read_plan

    print_left(PartStore(call.tables, read_plan(call.tables)))
    return 0


# What tables hold, and whether it is so.


def _audit(call: Call) -> int:
    from tabular_cache.audit import audit, drawn, print_audit
    from tabular_cache.table import read_manifest

    sample, seed = _sample(call)
    picked = drawn(call.held(), call.number_or_none("n_problems", 1), seed)
    _check_recipes(picked, call.overrides)
    with call.executor() as executor:
        rows = audit(executor, picked, call.tables, sample, seed)
    return print_audit(rows, read_manifest(call.tables))


def _identify(call: Call) -> int:
    from tabular_cache.audit import identify

    sample, seed = _sample(call)
    picked = call.held()
    _check_recipes(picked, call.overrides)
    with call.executor() as executor:
        return identify(executor, picked, call.tables, sample, seed)


def _sample(call: Call) -> tuple[int, int]:
    return whole("sample", call.cfg.sample, 1), whole("sample_seed", call.cfg.sample_seed, 0)


def _check_recipes(problems: list[tuple[str, str]], overrides: Sequence[str]) -> None:
    """Raise BadInput for a pipeline that would run code of its own: a manifest cannot vouch for what it names."""
    from harness.config import check_targets, given_on_command_line

    recipes = [{"_target_": "pipelines.build", "name": pipeline} for _, pipeline in problems]
    check_targets(recipes, given_on_command_line(overrides))


def _info(call: Call) -> int:
    from tabular_cache.audit import print_info

    return print_info(call.held(), call.tables)


def _confirm(call: Call) -> int:
    from tabular_cache.live_truth import confirm, print_confirmed

    with call.executor() as executor:
        return print_confirmed(confirm(executor, folder("results_dir", call.cfg.results_dir), set(call.problems)))


def _truth(call: Call) -> int:
    from tabular_cache.live_truth import TRUTH, gather_live_runs

    target = TRUTH if call.cfg.truth is None else folder("truth", call.cfg.truth)
    for spec, runs in gather_live_runs(folder("results_dir", call.cfg.results_dir), set(call.problems), target):
        print(f"{spec['dataset']}/{spec['pipeline']} {spec['method']}: {runs} runs")
    return 0


def _emulator(call: Call) -> int:
    from tabular_cache.emulator import judge, print_judged

    n_configs = call.number_or_none("n_configs", 1)
    with call.executor() as executor:
        return print_judged(*judge(executor, call.problems, call.tables, n_configs))


# Cost models.


def _costs(call: Call) -> int:
    from harness.records import LARGEST_SEED
    from tabular_cache.cost_study import PredictionTrial, run_all
    from tabular_cache.schema import problem_name

    executor, results = call.executor(), writable("results_dir", folder("results_dir", call.cfg.results_dir))
    sizes, seeds, models = call.numbers("sizes", 1), call.numbers("seeds", 0, LARGEST_SEED), call.cost_models()
    if not sizes or not seeds or not models:
        raise BadInput("sizes, seeds and cost_models must not be empty")
    trials = [
        PredictionTrial(problem_name(*pair), name, config, seeds, sizes, str(call.tables), str(results))
        for pair in call.problems
        for name, config in models.items()
    ]
    with executor:
        failed = run_all(executor, trials)
    return tell_records(failed, len(trials), results / "costs")


def _censored(call: Call) -> int:
    from harness.problem import slack_factor
    from harness.records import LARGEST_SEED
    from tabular_cache.cost_study import SLACK, TIMEOUT, CensoringTrial, run_all
    from tabular_cache.schema import problem_name

    cfg, executor = call.cfg, call.executor()
    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    experiments = [str(name) for name in listed("experiments", cfg.experiments)]
    for experiment in experiments:
        if experiment not in (SLACK, TIMEOUT):
            raise BadInput(f"each of experiments must be one of {SLACK}, {TIMEOUT}, got {experiment!r}")
    sizes, seeds, models = call.numbers("sizes", 4), call.numbers("seeds", 0, LARGEST_SEED), call.cost_models()
    slacks = tuple(slack_factor(value) for value in listed("slack", cfg.slack))
    if not (sizes and seeds and slacks and models and experiments):
        raise BadInput("experiments, sizes, seeds, slack and cost_models must not be empty")
    share, trees = number("share", cfg.share, "a share in [0.01, 0.9]", 0.01, 0.9), whole("trees", cfg.trees, 1)
    settings = (seeds, sizes, slacks, trees, models, share, str(call.tables), str(results))
    trials = [CensoringTrial(name, problem_name(*pair), *settings) for pair in call.problems for name in experiments]
    with executor:
        failed = run_all(executor, trials)
    return tell_records(failed, len(trials), results / "censored")


def _significance(call: Call) -> int:
    from hydra.utils import instantiate

    from tabular_cache.cost_study import print_significance
    from tabular_cache.schema import problem_name
    from tabular_cache.table import load_table

    tables = [load_table(problem_name(*pair), call.tables) for pair in call.problems]
    print(print_significance(tables, instantiate(_cost_model("lv3")).features))
    return 0


def _cost_model(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the config of a cost model: the project's, or one on the search path of a command line's `overrides`."""
    from omegaconf import OmegaConf

    trust = [o for o in overrides if list(search_places([o])) or o.lstrip("+~").partition("=")[0] == SETTING]
    plain = OmegaConf.to_container(compose_config("costs", [f"+cost_model@one={name}", *trust]).one, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


COMMANDS: dict[str, Callable[[Call], int]] = {
    "build": _build,
    "plan": _plan,
    "grow": _grow,
    "left": _left,
    "audit": _audit,
    "identify": _identify,
    "info": _info,
    "confirm": _confirm,
    "truth": _truth,
    "costs": _costs,
    "significance": _significance,
    "censored": _censored,
    "emulator": _emulator,
}

if __name__ == "__main__":
    run_cli(main)

"""Command line of the tables: `python -m tabular_cache COMMAND [setting=value ...]`."""

import itertools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.errors import BadInput
from harness.cli import SOME_FAILED, run_cli, tell_records, wants_help
from harness.config import CONFIGS, SETTING, compose_config, named, search_places
from harness.errors import folder, listed, positive, whole, writable

if TYPE_CHECKING:
    from tabular_cache.build import Planner
    from tabular_cache.grow import PartStore


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


def main() -> int:
    """Run one command; returns the exit code."""
    command, *overrides = sys.argv[1:] or [""]
    commands: dict[str, Callable[[Any, list[tuple[str, str]], Path], int]] = {
        "build": _build,
        "plan": _plan,
        "grow": _grow,
        "left": _left,
        "audit": partial(_audit, overrides),
        "identify": partial(_identify, overrides),
        "info": _info,
        "confirm": _confirm,
        "truth": _truth,
        "costs": partial(_costs, overrides),
        "significance": _significance,
        "censored": partial(_censored, overrides),
        "emulator": _emulator,
    }
    if wants_help([command]):
        print(USAGE)
        return 0
    if command not in commands:
        raise BadInput(f"unknown command {command!r}; allowed: {', '.join(commands)}")
    config = command if command in ("costs", "censored") else "tables"
    if wants_help(overrides):
        print(f"{USAGE}\n\n{(CONFIGS / f'{config}.yaml').read_text()}", end="")
        return 0
    from tabular_cache.table import TABLES

    cfg = compose_config(config, overrides)
    problems = list(itertools.product(named(cfg, "dataset"), named(cfg, "pipeline")))
    return commands[command](cfg, problems, TABLES if cfg.tables is None else folder("tables", cfg.tables))


def _executor(cfg: Any) -> tuple[Any, int]:
    from hydra.utils import instantiate

    from harness.execution.supervisor import worker_count

    executor = instantiate(cfg.executor)
    return executor, worker_count(executor)


def _planner(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> "Planner":
    from harness.training import TREE_METHODS
    from tabular_cache.build import AUTO, MeasurementBudget, Planner
    from tabular_cache.schema import MOST_CONFIGS
    from tabular_cache.store import Store

    if cfg.tree_method not in TREE_METHODS:
        raise BadInput(f"tree_method must be one of {', '.join(TREE_METHODS)}, got {cfg.tree_method!r}")
    if cfg.time_limit_s is not None and cfg.time_limit_s != AUTO:
        positive("time_limit_s", cfg.time_limit_s, f"{AUTO}, null or seconds")
    if cfg.n_configs is None:
        least = whole("at_least", cfg.at_least, 1)
        most = whole("at_most", cfg.at_most, least, MOST_CONFIGS)
        allowance = MeasurementBudget(positive("minutes", cfg.minutes) * 60, least, most)
    else:
        n = whole("n_configs", cfg.n_configs, 1, MOST_CONFIGS)
        allowance = MeasurementBudget(0.0, n, n)
    return Planner(
        Store(tables, cfg.tree_method),
        problems,
        allowance,
        cfg.time_limit_s,
        cfg.tree_method,
        positive("slice_s", cfg.slice_s),
    )


def _build(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.build import Builder
    from tabular_cache.parts import sidecars
    from tabular_cache.reference import LoadMonitor

    planner = _planner(cfg, problems, tables)
    if sidecars(tables):
        raise BadInput(f"the tables in {tables} grow by parts: `python -m tabular_cache grow` goes on with them")
    most = None if cfg.max_passes is None else whole("max_passes", cfg.max_passes, 1)
    with planner.store.locked():
        for dataset, pipeline in problems:  # what an earlier, killed build left in its journal
            planner.store.pack(f"{dataset}/{pipeline}")
        executor, n_jobs = _executor(cfg)
        with executor, LoadMonitor() as watch:
            report = Builder(planner, executor, n_jobs, watch).run(most)
    if not report.trainings and not report.failed:
        print(f"nothing to do: {len(problems)} problems have had their share")
    else:
        print(report)
    for failure in report.failed:
        print(f"not measured: {failure}", file=sys.stderr)
    return SOME_FAILED if report.failed else 0


def _plan(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.grow import check_undecided, decide, write_plan
    from tabular_cache.table import base_manifest

    anew = [str(problem) for problem in listed("anew", cfg.anew)]
    entries = base_manifest(tables)["tables"]
    unknown = sorted(set(anew) - set(entries))
    if unknown:
        raise BadInput(f"anew: there is no table of {unknown[0]} in {tables}")
    check_undecided(tables)
    plan = decide(tables, anew, positive("limit_s", cfg.limit_s))
    write_plan(tables, plan)
    for stage, units in plan.stages.items():
        print(f"{stage}: {len(units)} units")
    return 0


def _grow(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.grow import Grower, PartStore, read_plan
    from tabular_cache.reference import LoadMonitor

    hours = None if cfg.hours is None else positive("hours", cfg.hours, "null or hours")
    store = PartStore(tables, read_plan(tables))
    with store.locked():
        executor, n_jobs = _executor(cfg)
        with executor, LoadMonitor() as watch:
            grower = Grower(store, executor, n_jobs, watch, hours)
            report = grower.run()
        _print_left(store, tables)
    print(report)
    for part in grower.finished:
        print(f"part: {part}")
    for failure in report.failed:
        print(f"not measured: {failure}", file=sys.stderr)
    return SOME_FAILED if report.failed else 0


def _left(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.grow import PartStore, read_plan

    _print_left(PartStore(tables, read_plan(tables)), tables)
    return 0


def _print_left(store: "PartStore", tables: Path) -> None:
    """Print what is left of each stage, and whether costs that were measured again are as before."""
    import time

    from tabular_cache.noise import print_differences

    print(f"{len(store.repeats_due(time.time()))} repeats of the noise sample are due")
    rest = store.left()
    for stage in rest:
        amount = f"{stage.core_hours:7.2f} core-hours, {stage.trainings:6d} trainings, {stage.problems:3d} problems"
        print(f"{amount}  {stage.stage}")
    print(f"{sum(stage.core_hours for stage in rest):7.2f} core-hours are left")
    print_differences(tables)


def _audit(overrides: Sequence[str], cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.audit import audit, drawn, print_audit
    from tabular_cache.table import read_manifest

    sample, seed = whole("sample", cfg.sample, 1), whole("sample_seed", cfg.sample_seed, 0)
    n = None if cfg.n_problems is None else whole("n_problems", cfg.n_problems, 1)
    picked = drawn(_held(problems, tables), n, seed)
    _check_recipes(picked, overrides)
    executor, _ = _executor(cfg)
    with executor:
        rows = audit(executor, picked, tables, sample, seed)
    return print_audit(rows, read_manifest(tables))


def _identify(overrides: Sequence[str], cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.audit import identify

    sample, seed = whole("sample", cfg.sample, 1), whole("sample_seed", cfg.sample_seed, 0)
    picked = _held(problems, tables)
    _check_recipes(picked, overrides)
    executor, _ = _executor(cfg)
    with executor:
        return identify(executor, picked, tables, sample, seed)


def _check_recipes(problems: list[tuple[str, str]], overrides: Sequence[str]) -> None:
    """Raise BadInput for a pipeline that would run code of its own: a manifest cannot vouch for what it names."""
    from harness.config import check_targets, given_on_command_line

    recipes = [{"_target_": "pipelines.build", "name": pipeline} for _, pipeline in problems]
    check_targets(recipes, given_on_command_line(overrides))


def _seeds(cfg: Any) -> tuple[int, ...]:
    """Return the seeds that are set, sorted, each once; raises BadInput for what is none."""
    from harness.records import LARGEST_SEED

    return tuple(sorted({whole("each of seeds", seed, 0, LARGEST_SEED) for seed in listed("seeds", cfg.seeds)}))


def _info(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.audit import print_info

    return print_info(_held(problems, tables), tables)


def _held(problems: list[tuple[str, str]], tables: Path) -> list[tuple[str, str]]:
    """Return the problems asked for by name; where none is, those whose tables are in the folder."""
    import datasets
    import pipelines
    from tabular_cache.audit import held

    whole = set(problems) == set(itertools.product(datasets.names(), pipelines.names()))
    return held(tables, problems) if whole else problems


def _confirm(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.live_truth import confirm, print_confirmed

    executor, _ = _executor(cfg)
    with executor:
        return print_confirmed(confirm(executor, folder("results_dir", cfg.results_dir), set(problems)))


def _truth(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.live_truth import TRUTH, gather_live_runs

    target = TRUTH if cfg.truth is None else folder("truth", cfg.truth)
    for spec, runs in gather_live_runs(folder("results_dir", cfg.results_dir), set(problems), target):
        print(f"{spec['dataset']}/{spec['pipeline']} {spec['method']}: {runs} runs")
    return 0


def _costs(overrides: Sequence[str], cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:

    executor, _ = _executor(cfg)
    return costs(cfg, overrides, problems, tables, executor)


def _emulator(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:
    from tabular_cache.emulator import judge, print_judged

    n_configs = None if cfg.n_configs is None else whole("n_configs", cfg.n_configs, 1)
    executor, _ = _executor(cfg)
    with executor:
        return print_judged(*judge(executor, problems, tables, n_configs))


def _significance(cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:

    return significance(problems, tables)


def _censored(overrides: Sequence[str], cfg: Any, problems: list[tuple[str, str]], tables: Path) -> int:

    executor, _ = _executor(cfg)
    return censored(cfg, overrides, problems, tables, executor)


# The commands about cost models: `costs`, `significance` and `censored`.


def costs(cfg: Any, overrides: Sequence[str], problems: list[tuple[str, str]], tables: Path, executor: Executor) -> int:
    """Score the cost models of `cfg` on the problems; overrides: what it was composed with. Returns the exit code."""
    from tabular_cache.cost_study import PredictionTrial, run_all

    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    sizes = tuple(sorted({whole("each of sizes", n, 1) for n in listed("sizes", cfg.sizes)}))
    seeds = _seeds(cfg)
    names = [str(name) for name in listed("cost_models", cfg.cost_models)]
    if not sizes or not seeds or not names:
        raise BadInput("sizes, seeds and cost_models must not be empty")
    configs = {name: _cost_model(name, overrides) for name in names}
    trials = [
        PredictionTrial(f"{dataset}/{pipeline}", name, config, seeds, sizes, str(tables), str(results))
        for dataset, pipeline in problems
        for name, config in configs.items()
    ]
    with executor:
        failed = run_all(executor, trials)
    return tell_records(failed, len(trials), results / "costs")


def significance(problems: list[tuple[str, str]], tables: Path) -> int:
    """Print which features and ridge a linear cost model should have; returns the exit code."""
    from hydra.utils import instantiate

    from tabular_cache.cost_study import load_all, print_significance

    features = instantiate(_cost_model("lv3")).features
    print(print_significance(load_all([f"{dataset}/{pipeline}" for dataset, pipeline in problems], tables), features))
    return 0


def censored(
    cfg: Any, overrides: Sequence[str], problems: list[tuple[str, str]], tables: Path, executor: Executor
) -> int:
    """Score `cfg`'s treatments of censored costs on the problems; overrides: as for `costs`. Returns the exit code."""
    from harness.errors import number
    from harness.execution import run_all
    from harness.problem import slack_factor
    from tabular_cache.cost_study import SLACK, TIMEOUT, CensoringTrial, run_case

    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    experiments = listed("experiments", cfg.experiments)
    for experiment in experiments:
        if experiment not in (SLACK, TIMEOUT):
            raise BadInput(f"each of experiments must be one of {SLACK}, {TIMEOUT}, got {experiment!r}")
    sizes = tuple(sorted({whole("each of sizes", n, 4) for n in listed("sizes", cfg.sizes)}))
    seeds = _seeds(cfg)
    slacks = tuple(slack_factor(value) for value in listed("slack", cfg.slack))
    models = {str(name): _cost_model(str(name), overrides) for name in listed("cost_models", cfg.cost_models)}
    if not (sizes and seeds and slacks and models and experiments):
        raise BadInput("experiments, sizes, seeds, slack and cost_models must not be empty")
    share, trees = number("share", cfg.share, "a share in [0.01, 0.9]", 0.01, 0.9), whole("trees", cfg.trees, 1)
    cases = [
        CensoringTrial(
            str(experiment), f"{dataset}/{pipeline}", seeds, sizes, slacks, trees, models, share, str(tables),
            str(results),
        )
        for dataset, pipeline in problems
        for experiment in experiments
    ]  # fmt: skip
    with executor:
        failed = run_all(executor, run_case, cases, lambda c: f"{c.problem} {c.experiment}", "problems", "censored")
    return tell_records(failed, len(cases), results / "censored")


def _cost_model(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the config of a cost model: the project's, or one on the search path of a command line's `overrides`."""
    from omegaconf import OmegaConf

    trust = [o for o in overrides if list(search_places([o])) or o.lstrip("+~").partition("=")[0] == SETTING]
    plain = OmegaConf.to_container(compose_config("costs", [f"+cost_model@one={name}", *trust]).one, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


if __name__ == "__main__":
    run_cli(main)

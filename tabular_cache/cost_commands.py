"""The commands about cost models: `costs`, `significance` and `censored`."""

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from datasets.errors import BadInput
from harness.cli import tell_records
from harness.config import SETTING, compose_config, search_places
from harness.errors import folder, listed, whole_number, writable
from harness.records import LARGEST_SEED


def costs(cfg: Any, overrides: Sequence[str], problems: list[tuple[str, str]], tables: Path, executor: Executor) -> int:
    """Score the cost models of `cfg` on the problems; overrides: what it was composed with. Returns the exit code."""
    from tabular_cache.costs import Trial, run_all

    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    sizes = tuple(sorted({whole_number("each of sizes", n, 1) for n in listed("sizes", cfg.sizes)}))
    seeds = tuple(sorted({whole_number("each of seeds", seed, 0, LARGEST_SEED) for seed in listed("seeds", cfg.seeds)}))
    names = [str(name) for name in listed("cost_models", cfg.cost_models)]
    if not sizes or not seeds or not names:
        raise BadInput("sizes, seeds and cost_models must not be empty")
    configs = {name: _cost_model(name, overrides) for name in names}
    trials = [
        Trial(f"{dataset}/{pipeline}", name, config, seeds, sizes, str(tables), str(results))
        for dataset, pipeline in problems
        for name, config in configs.items()
    ]
    with executor:
        failed = run_all(executor, trials)
    return tell_records(failed, len(trials), results / "costs")


def significance(problems: list[tuple[str, str]], tables: Path) -> int:
    """Print which features and ridge a linear cost model should have; returns the exit code."""
    from hydra.utils import instantiate

    from tabular_cache.significance import load_all, report

    features = instantiate(_cost_model("lv3")).features
    print(report(load_all([f"{dataset}/{pipeline}" for dataset, pipeline in problems], tables), features))
    return 0


def censored(
    cfg: Any, overrides: Sequence[str], problems: list[tuple[str, str]], tables: Path, executor: Executor
) -> int:
    """Score `cfg`'s treatments of censored costs on the problems; overrides: as for `costs`. Returns the exit code."""
    from harness.errors import number
    from harness.execution import run_all
    from harness.problem import slack_factor
    from tabular_cache.censored import SLACK, TIMEOUT, Case, run_case

    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    experiments = listed("experiments", cfg.experiments)
    for experiment in experiments:
        if experiment not in (SLACK, TIMEOUT):
            raise BadInput(f"each of experiments must be one of {SLACK}, {TIMEOUT}, got {experiment!r}")
    sizes = tuple(sorted({whole_number("each of sizes", n, 4) for n in listed("sizes", cfg.sizes)}))
    seeds = tuple(sorted({whole_number("each of seeds", seed, 0, LARGEST_SEED) for seed in listed("seeds", cfg.seeds)}))
    slacks = tuple(slack_factor(value) for value in listed("slack", cfg.slack))
    models = {str(name): _cost_model(str(name), overrides) for name in listed("cost_models", cfg.cost_models)}
    if not (sizes and seeds and slacks and models and experiments):
        raise BadInput("experiments, sizes, seeds, slack and cost_models must not be empty")
    share, trees = number("share", cfg.share, "a share in [0.01, 0.9]", 0.01, 0.9), whole_number("trees", cfg.trees, 1)
    cases = [
        Case(
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

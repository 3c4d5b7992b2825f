"""Command line of the configuration experiment: `python -m harness.configurator ['scenario=[a]'] [NAME=VALUE ...]`."""

import sys
from collections.abc import Sequence
from typing import Any

from harness.cli import helped, run_cli, tell_records
from harness.config import chosen, compose_config
from harness.errors import BadInput, folder, listed, positive, whole, writable


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing of the experiment; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if helped(__doc__ or "", "configurator", argv):
        return 0
    from hydra.utils import instantiate

    from harness.configurator.experiment import run_all, trials
    from harness.problem import slack_factor
    from harness.surrogates.forest import CensoredForest, RandomForest

    cfg = compose_config("configurator", argv)
    scenarios = chosen(cfg, "scenario")
    for scenario in scenarios.values():
        instantiate(scenario["solver"])  # what is not installed is refused before anything runs
    slacks = [slack_factor(value) for value in listed("slack", cfg.slack)]
    if not slacks or len(set(slacks)) < len(slacks):
        raise BadInput(f"slack must be different factors, for example 'slack=[1,1.3,null]', got {list(cfg.slack)}")
    CensoredForest(RandomForest(), cfg.treatment)  # refuses an unknown treatment
    settings = {
        "budget_s": positive("budget_s", cfg.budget_s),
        "kappa_max_s": positive("kappa_max_s", cfg.kappa_max_s),
        "train": whole("train", cfg.train, 2),
        "test": whole("test", cfg.test, 1),
        "treatment": str(cfg.treatment),
    }
    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    todo = trials(scenarios, slacks, whole("runs", cfg.runs, 0), settings, str(results))
    executor: Any = instantiate(cfg.executor)
    with executor:
        failed = run_all(executor, todo)
    return tell_records(failed, len(todo), results / "configurator")


if __name__ == "__main__":
    run_cli(main)

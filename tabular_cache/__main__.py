"""Command line of the tables: `python -m tabular_cache build|audit|info [setting=value ...]`."""

import itertools
import sys
from pathlib import Path
from typing import Any

from harness.cli import SOME_FAILED, chosen, compose_config, run_cli, whole_number
from harness.errors import BadInput
from tabular_cache.table import TABLES

USAGE = "usage: python -m tabular_cache build|audit|info [dataset=[a,b]] [pipeline=[c]] [setting=value ...]"


def main() -> int:
    """Run one command; returns the exit code."""
    command, *overrides = sys.argv[1:] or [""]
    commands = {"build": _build, "audit": _audit, "info": _info}
    if command in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if command not in commands:
        raise BadInput(f"unknown command {command!r}; allowed: {', '.join(commands)}")
    cfg = compose_config("tables", overrides)
    problems = list(itertools.product(chosen(cfg, "dataset"), chosen(cfg, "pipeline")))
    folder = TABLES if cfg.tables is None else Path(cfg.tables)
    return commands[command](cfg, problems, folder)


def _executor(cfg: Any) -> tuple[Any, int]:
    from hydra.utils import instantiate

    executor = instantiate(cfg.executor)
    return executor, int(getattr(executor, "_max_workers", 1))


def _build(cfg: Any, problems: list[tuple[str, str]], folder: Path) -> int:
    from harness.training import TREE_METHODS
    from tabular_cache.build import build, plan
    from tabular_cache.store import Store

    n_configs = whole_number("n_configs", cfg.n_configs, 1)
    pass_size = whole_number("pass_size", cfg.pass_size, 1)
    if cfg.tree_method not in TREE_METHODS:
        raise BadInput(f"tree_method must be one of {', '.join(TREE_METHODS)}, got {cfg.tree_method!r}")
    store = Store(folder)
    with store.locked():
        for dataset, pipeline in problems:  # what an earlier, killed build left in its journal
            store.pack(f"{dataset}/{pipeline}")
        settings = {"tree_method": cfg.tree_method, "time_limit_s": cfg.time_limit_s}
        passes, means = plan(store, problems, n_configs, pass_size, **settings)
        if not passes:
            print(f"nothing to do: {len(problems)} problems have {n_configs} configurations each")
            return 0
        executor, n_jobs = _executor(cfg)
        with executor:
            report = build(store, executor, passes, means, n_jobs)
    print(f"{report.trainings} trainings, {report.cpu_s:.0f} CPU s, {report.wall_s:.0f} s")
    for failure in report.failed:
        print(f"not measured well: {failure}", file=sys.stderr)
    return SOME_FAILED if report.failed else 0


def _audit(cfg: Any, problems: list[tuple[str, str]], folder: Path) -> int:
    from tabular_cache.audit import audit, print_audit

    sample = whole_number("sample", cfg.sample, 1)
    executor, _ = _executor(cfg)
    with executor:
        rows = audit(executor, problems, folder, sample, whole_number("sample_seed", cfg.sample_seed, 0))
    return print_audit(rows)


def _info(cfg: Any, problems: list[tuple[str, str]], folder: Path) -> int:
    from tabular_cache.info import print_info

    return print_info(problems, folder)


if __name__ == "__main__":
    run_cli(main)

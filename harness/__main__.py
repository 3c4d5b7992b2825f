"""Command line of the study: `python -m harness [+acq=cei lam=0.1] [dataset=[a,b]] [setting=value ...]`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import SOME_FAILED, refuse, run_cli, stops_soon
from harness.config import (
    CONFIGS,
    check_added,
    check_choices,
    check_external_configs,
    options,
    overrides_of,
    users_mistakes,
)
from harness.errors import BadInput, folder, quoted, writable

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from harness.study import Report

_exit_code = 0


def _study(cfg: "DictConfig") -> None:
    """Run the study; what computes is imported here, since the help and a wrong setting need none of it."""
    global _exit_code
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from hydra.utils import instantiate

    from harness.settings import read_study
    from harness.study import Stopped, all_specs, run_missing

    own = HydraConfig.get()
    overrides = [*own.overrides.task, *own.overrides.hydra]
    grid = read_study(cfg, own.runtime.choices, overrides, several=own.mode != RunMode.RUN)
    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    try:
        report = run_missing(grid, results, lambda: instantiate(cfg.executor))
    except Stopped as stopped:
        report, _exit_code = stopped.report, SOME_FAILED
        print(f"error: {stopped}; what is finished is kept: run the same command again", file=sys.stderr)
    _tell(report, results)
    told = None
    if cfg.finish is not None:
        evaluator = instantiate(grid.components["evaluator"])
        told = instantiate(cfg.finish)(results, list(all_specs(grid, evaluator)))
    if report.failed or told is False:
        _exit_code = SOME_FAILED


def _tell(report: "Report", results: Path) -> None:
    from harness.progress import duration

    ms = report.engine_ms / report.proposals if report.proposals else 0.0
    print(
        f"{report.runs} runs, {report.steps:,} evaluations in {duration(report.wall_s)}; "
        f"{report.skipped} runs were there already; {ms:.2f} ms per step; records in {results}/"
    )
    for failure in report.failed:
        print(f"set aside: {failure}", file=sys.stderr)
    if report.failed:
        print(f"{len(report.failed)} blocks set aside; the same command tries them again", file=sys.stderr)


def _job(cfg: "DictConfig") -> None:
    """Run one study; Hydra would print its own lines about any exception, but lets an exit through."""
    try:
        with users_mistakes(arguments=sys.argv[1:]):
            _study(cfg)
    except BadInput as error:
        refuse(error)


def _help() -> str:
    """Return the help: what may be chosen, and the settings as their file explains them.

    Hydra's own, which takes as long as all the rest of starting up, is for help on a command with settings.
    """
    import yaml

    text = (CONFIGS / "config.yaml").read_text(encoding="utf-8")
    settings, _, _ = text.partition("\nhydra:\n")
    told = yaml.safe_load(text)["hydra"]["help"]
    groups = [path.name for path in sorted(CONFIGS.iterdir()) if path.is_dir() and path.name != "__pycache__"]
    return "\n".join(
        [
            told["header"].replace("${hydra.help.app_name}", told["app_name"]),
            "What may be chosen, GROUP=NAME:\n",
            *(f"  {group}: {', '.join(options(group))}" for group in groups),
            f"\nThe settings, NAME=VALUE:\n\n{settings}\n",
            told["footer"],
        ]
    )


def main() -> int:
    """Run Hydra on the command line; returns the exit code."""
    sys.argv[1:] = ["--help" if argument in ("help", "-h") else argument for argument in quoted(sys.argv[1:])]
    if sys.argv[1:] == ["--help"]:
        print(_help(), end="")
        return 0
    check_external_configs(sys.argv[1:])
    import hydra

    decorated = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")(_job)
    with users_mistakes(arguments=sys.argv[1:]), stops_soon():
        check_choices(overrides_of(sys.argv[1:]))
        check_added(overrides_of(sys.argv[1:]))
        decorated()
    return _exit_code


if __name__ == "__main__":
    run_cli(main)

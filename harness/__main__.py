"""Command line of the study: `python -m harness [+acq=cei lam=0.1] ['dataset=[a,b]'] [setting=value ...]`."""

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from datasets.errors import reader_may_leave
from harness.cli import SOME_FAILED, refuse, run_cli
from harness.config import (
    CONFIGS,
    as_written,
    check_external_configs,
    check_overrides,
    flags_and_overrides,
    options,
    settings_of,
    users_mistakes,
)
from harness.errors import BadInput, folder, writable

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from harness.study import Report

MANY_STEPS = 1000  # evaluations of a run above which a note says how long they will take
FINISH = "harness.finish"  # entry points of installed packages: functions to call when all is run
_exit_code = 0


def _run(cfg: "DictConfig") -> None:
    """Run one study; what computes is imported here, since the help and a wrong setting need none of it."""
    global _exit_code
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from hydra.utils import instantiate

    from harness.grid import all_specs
    from harness.settings import read_study
    from harness.study import Stopped, run_missing

    own = HydraConfig.get()
    overrides = [*own.overrides.task, *own.overrides.hydra]
    study = read_study(cfg, own.runtime.choices, overrides, several=own.mode != RunMode.RUN)
    results = writable("results_dir", folder("results_dir", cfg.results_dir))
    if study.iterations > MANY_STEPS:
        print(
            f"note: iterations={study.iterations}: a step takes longer the more evaluations there are, and "
            "a table ends with its rows", file=sys.stderr
        )  # fmt: skip
    finish = None if cfg.finish is None else _finish(str(cfg.finish))
    try:
        report = run_missing(study, results, lambda: instantiate(cfg.executor))
    except Stopped as stopped:
        report, _exit_code = stopped.report, SOME_FAILED
        print(f"error: {stopped}; what is finished is kept: run the same command again", file=sys.stderr)
    _print_report(report, results, study.iterations)
    good = finish is None or finish.load()(results, list(all_specs(study)))
    if report.failed or not good:
        _exit_code = SOME_FAILED


def _finish(name: str) -> EntryPoint:
    """Return the entry point `name` of FINISH: a function of the results directory and the study's specs.

    It returns whether all is well. Raises BadInput where no installed package has it.
    """
    known = entry_points(group=FINISH)
    if name not in known.names:
        names = ", ".join(sorted(known.names)) or "none"
        raise BadInput(f"finish={name} is no entry point of {FINISH} (there are: {names}): install the project again")
    return known[name]


def _print_report(report: "Report", results: Path, iterations: int) -> None:
    from harness.progress import duration, plural

    ms = report.engine_ms / report.proposals if report.proposals else 0.0
    there = f"{plural(report.skipped, 'run was', 'runs were')} there already" if report.skipped else ""
    done = f"{plural(report.runs, 'run')}, {plural(report.steps, 'evaluation')} in {duration(report.wall_s)}"
    pace = f"{ms:.2f} ms per step" if report.proposals else ""
    made = [done, there, pace] if report.runs or report.failed else ["nothing to do", there]
    print(f"{'; '.join(filter(None, made))}; records in {results}/")
    if report.exhausted:
        print(
            f"note: {plural(report.exhausted, 'run')} ended before iterations={iterations}: all that their problem "
            "offers was evaluated", file=sys.stderr
        )  # fmt: skip
    if report.all_design:
        print(
            f"note: {plural(report.all_design, 'run')} ended before anything was chosen: the points that a run begins "
            "with (n_initial) cost more than tau", file=sys.stderr
        )  # fmt: skip
    for failure in report.failed:
        print(f"set aside: {failure}", file=sys.stderr)
    if report.failed:
        print(f"{plural(len(report.failed), 'block')} set aside; the same command tries again", file=sys.stderr)


def _job(cfg: "DictConfig") -> None:
    """Run one study; Hydra would print its own lines about any exception, but lets an exit through."""
    try:
        with reader_may_leave(), users_mistakes():
            _run(cfg)
    except BadInput as error:
        refuse(error)


def _help() -> str:
    """Return the help: the choices, and the settings as their file explains them.

    Hydra's own, which takes as long as all the rest of starting up, is for help on a command with settings.
    """
    import yaml

    text = (CONFIGS / "config.yaml").read_text(encoding="utf-8")
    settings, _, _ = text.partition("\nhydra:\n")
    own = yaml.safe_load(text)["hydra"]["help"]
    groups = sorted({"acq", *settings_of("config")} & {path.name for path in CONFIGS.iterdir() if path.is_dir()})
    return "\n".join(
        [
            own["header"].replace("${hydra.help.app_name}", own["app_name"]),
            "What may be chosen, GROUP=NAME:\n",
            *(fill(f"  {group}: {', '.join(options(group))}", 120, subsequent_indent="    ") for group in groups),
            f"\nThe settings, NAME=VALUE:\n\n{settings}\n",
            own["footer"],
        ]
    )


def main() -> int:
    """Run Hydra on the command line; returns the exit code."""
    arguments = ["--help" if argument in ("help", "-h") else argument for argument in as_written(sys.argv[1:])]
    sys.argv[1:] = arguments
    if arguments == ["--help"]:
        print(_help(), end="")
        return 0
    check_external_configs(arguments)
    flags, overrides = flags_and_overrides(arguments)
    several = bool({"-m", "--multirun"} & set(flags))
    check_overrides(overrides, several=several)
    if several:
        from harness.settings import check_sweep

        check_sweep(overrides)
    sys.argv[1:] = [*flags, *overrides]  # Hydra loses what follows a flag in the middle
    import hydra

    decorated = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")(_job)
    with users_mistakes(overrides):
        decorated()
    return _exit_code


if __name__ == "__main__":
    run_cli(main)

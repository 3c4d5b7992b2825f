"""Command line of the study: `python -m harness [+acq=cei lam=0.1] [dataset=[a,b]] [setting=value ...]`."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from harness.budgets import read_budgets
from harness.cli import CONFIGS, SOME_FAILED, chosen, refuse, run_cli, users_mistakes, whole_number
from harness.cost_models import censored
from harness.cost_models.statistics import check
from harness.errors import BadInput
from harness.grid import Grid, all_specs, blocks
from harness.interrupts import stops_soon
from harness.ledger import locked, mend, write_plan
from harness.methods import PARAMETERS, Method, study_methods, to_method
from harness.progress import duration
from harness.strangers import check_strangers, no_secrets
from harness.study import Report, Stopped, make_optimizer, run_study
from harness.supervise import slots
from harness.targets import check_targets, given_on_command_line

COMPONENTS = ("evaluator", "utility", "surrogate", "cost_model")
_exit_code = 0


def read_grid(cfg: DictConfig) -> Grid:
    """Return the study that the configuration describes; raises BadInput for what is wrong in it."""
    check_targets(OmegaConf.to_container(cfg, resolve=False), _allowed())
    components = {name: _plain(cfg[name], name) for name in COMPONENTS}
    no_secrets(components)
    tau = cfg.tau
    if tau is not None and (isinstance(tau, (bool, str)) or not tau > 0):
        raise BadInput(f"tau must be a number of seconds > 0 or null, got {tau!r}")
    if cfg.budgets is not None and tau is None:
        raise BadInput("budgets is given, so tau must say how many times the budget, for example tau=20")
    if not isinstance(cfg.fronts, bool):
        raise BadInput(f"fronts must be true or false, got {cfg.fronts!r}")
    choices = HydraConfig.get().runtime.choices
    grid = Grid(
        datasets=chosen(cfg, "dataset"),
        pipelines=chosen(cfg, "pipeline"),
        methods=_methods(cfg),
        seeds=_seeds(cfg.seeds),
        iterations=whole_number("iterations", cfg.iterations, 1),
        n_initial=whole_number("n_initial", cfg.n_initial, 1),
        tau=None if tau is None else float(tau),
        components=components,
        names={name: str(choices[name]) for name in COMPONENTS},
        cost_statistic=check(cfg.cost_statistic),
        budgets=None if cfg.budgets is None else read_budgets(Path(str(cfg.budgets))),
        fronts=cfg.fronts,
        censored_costs=censored.check(cfg.censored_costs),
    )
    for method in grid.methods:
        make_optimizer(grid.parts(method), method.rule, grid.settings())  # what is wrong is told before anything runs
    return grid


def _allowed() -> list[str]:
    return given_on_command_line(HydraConfig.get().overrides.task)


def _plain(node: Any, name: str) -> dict[str, Any]:
    plain = OmegaConf.to_container(node, resolve=True) if isinstance(node, DictConfig) else None
    if not isinstance(plain, dict) or "_target_" not in plain:
        raise BadInput(f"{name} must name one of configs/{name}, got {node!r}")
    return {str(key): value for key, value in plain.items()}


def _methods(cfg: DictConfig) -> list[Method]:
    if "acq" in cfg:
        return [to_method(cfg, allowed=_allowed())]
    given = [name for name in PARAMETERS if cfg[name] is not None]
    if given:
        raise BadInput(f"{given[0]} is set but no acquisition: add +acq=..., or leave it out to run the study's list")
    search = [o for o in HydraConfig.get().overrides.hydra if o.startswith("hydra.searchpath")]
    return study_methods(cfg.study.methods, search, _allowed())


def _seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, ListConfig) or not len(seeds):
        raise BadInput(f"seeds must be a list of whole numbers >= 0, for example seeds=[0,1], got {seeds!r}")
    checked = [whole_number("each of seeds", seed, 0) for seed in seeds]
    if len(set(checked)) < len(checked):
        raise BadInput(f"seeds must differ from each other, got {checked}")
    return sorted(checked)


def _writable(folder: Path) -> Path:
    """Return `folder` if results can be written there; raises BadInput otherwise."""
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise BadInput(f"results_dir: {existing} is not a folder")
    try:
        next(existing.iterdir(), None)
        tempfile.TemporaryFile(dir=existing).close()  # leaves nothing behind
    except OSError as error:
        raise BadInput(f"results_dir: cannot read and write {existing}: {error.strerror}") from None
    return folder


def _study(cfg: DictConfig) -> None:
    global _exit_code
    grid = read_grid(cfg)
    results = _writable(Path(cfg.results_dir))
    label = grid.methods[0].label if len(grid.methods) == 1 else f"{len(grid.methods)} methods"
    with locked(results):
        for line in mend(results):
            print(line, file=sys.stderr)
        todo, skipped = blocks(grid, results)
        try:
            with instantiate(cfg.executor) as executor:
                write_plan(results, [block.row() for block in todo], slots(executor))
                report = run_study(todo, skipped, executor, label)
        except Stopped as stopped:
            report, _exit_code = stopped.report, SOME_FAILED
            print(f"error: {stopped}; what is finished is kept: run the same command again", file=sys.stderr)
    _tell(report, results)
    if cfg.finish is not None:
        evaluator = instantiate(grid.components["evaluator"])
        instantiate(cfg.finish)(results, list(all_specs(grid, evaluator)))
    if report.failed:
        _exit_code = SOME_FAILED


def _tell(report: Report, results: Path) -> None:
    ms = report.engine_ms / report.proposals if report.proposals else 0.0
    print(
        f"{report.runs} runs, {report.steps:,} evaluations in {duration(report.wall_s)}; "
        f"{report.skipped} runs were there already; {ms:.2f} ms per step; records in {results}/"
    )
    for failure in report.failed:
        print(f"set aside: {failure}", file=sys.stderr)
    if report.failed:
        print(f"{len(report.failed)} blocks set aside; the same command tries them again", file=sys.stderr)


def _job(cfg: DictConfig) -> None:
    """Run one study; Hydra would print its own lines about any exception, but lets an exit through."""
    try:
        with users_mistakes():
            _study(cfg)
    except BadInput as error:
        refuse(error)


def main() -> int:
    """Run Hydra on the command line; returns the exit code."""
    check_strangers(sys.argv[1:])
    decorated = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="config")(_job)
    with users_mistakes(), stops_soon():
        decorated()
    return _exit_code


if __name__ == "__main__":
    run_cli(main)

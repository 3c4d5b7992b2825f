"""The configuration experiment: scenarios x slack factors x runs, each a record, with times on unseen instances.

    results/configurator/<scenario>/slack-<factor>-run-<k>-<spec hash>.json     one configuration run, tested
    results/configurator/<scenario>/default-<spec hash>.json                    the solver's own defaults, tested

A rerun does what is missing. Instances are generated from their numbers: 0.. to configure on, from TEST on to test.
Measured seconds differ from run to run; all else depends on the spec and on the solver's release, which the record
names (`release`, an attribute that a solver may have) and which must be one in all that is compared.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from jaxtyping import Float

from datasets.files import write_atomically
from harness import execution
from harness.configurator.race import Pair, Result, Settings, configure, warm_up
from harness.configurator.solvers import CRASHED, SOLVED, InstanceSet, Solver, SolverRun
from harness.records import Spec, check_place, damage_named, is_done, record_path

TEST = 10_000  # number of the first test instance
VERSION = 2  # raise it when the same settings mean something else than before
DEFAULT = "default"


@dataclass(frozen=True)
class SolverTrial:
    """One record to make. slack: a factor, None for no capping, or DEFAULT: time the solver's defaults only."""

    scenario: str
    config: Mapping[str, Any]
    slack: float | str | None
    run: int
    settings: Mapping[str, Any]
    results: str

    def spec(self) -> dict[str, Any]:
        """Return all that determines what is done, as plain JSON values."""
        own = {} if self.slack == DEFAULT else {"slack": self.slack, "run": self.run}
        used = {k: v for k, v in self.settings.items() if self.slack != DEFAULT or k in ("kappa_max_s", "test")}
        return {"scenario": self.scenario, "config": dict(self.config), **own, **used, "version": VERSION}

    def path(self) -> Path:
        """Return where the record belongs."""
        slack = "none" if self.slack is None else f"{self.slack:g}" if not isinstance(self.slack, str) else ""
        stem = DEFAULT if self.slack == DEFAULT else f"slack-{slack}-run-{self.run}"
        return record_path(Path(self.results) / "configurator" / self.scenario, stem, self.spec(), "json")


def trials(
    scenarios: Mapping[str, Any], slacks: Sequence[float | None], runs: int, settings: Mapping[str, Any], results: str
) -> list[SolverTrial]:
    """Return every trial of the experiment: run by run, so that one stopped early has as much of each factor."""
    found = [SolverTrial(name, config, DEFAULT, 0, settings, results) for name, config in scenarios.items()]
    return found + [
        SolverTrial(name, config, slack, run, settings, results)
        for run in range(runs)
        for name, config in scenarios.items()
        for slack in slacks
    ]


def run_all(executor: Executor, todo: Sequence[SolverTrial]) -> list[str]:
    """Run the trials that have no record yet; returns a line for each that failed."""
    missing = [trial for trial in todo if not is_done(trial.path(), read)]
    return execution.run_all(executor, run_trial, missing, lambda t: t.path().stem, "runs", "configurator")


def run_trial(trial: SolverTrial) -> None:
    """Configure, time what was found on the test instances, and write the record."""
    warm_up()
    solver, instances = instantiate(trial.config["solver"]), instantiate(trial.config["instances"])
    settings, record = trial.settings, dict[str, Any]()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="instances-") as name:
        folder, row = Path(name), solver.space.default
        if trial.slack != DEFAULT:
            assert not isinstance(trial.slack, str)
            paths, features = _write(instances, range(int(settings["train"])), folder)
            own = Settings(settings["budget_s"], settings["kappa_max_s"], trial.slack, trial.run, settings["treatment"])

            def target(row: Float[np.ndarray, " d"], pair: Pair, cap_s: float) -> SolverRun:
                return solver.run(row, paths[pair[0]], pair[1], cap_s)

            result = configure(solver.space, features, target, own)
            row, record = result.incumbent, _described(result, features, solver)
        times = _timed(solver, instances, row, settings, folder)
    record |= {"spec": trial.spec(), "release": getattr(solver, "release", None), "test": times}
    record |= {"settings": solver.space.settings(row), "wall_s": round(time.perf_counter() - began, 3)}
    body = json.dumps(record, sort_keys=True)
    write_atomically(trial.path(), json.dumps({"sha256": _digest(body), "record": body}).encode())


def read(path: Path) -> tuple[Spec, dict[str, Any]]:
    """Return a record's spec, and the record. Raises DamagedRecord, or BadInput if its spec is not its name's."""
    with damage_named(path):
        sealed = json.loads(path.read_text())
        if not isinstance(sealed, dict) or _digest(str(sealed.get("record"))) != sealed.get("sha256"):
            raise ValueError("it does not match its checksum")
        record: dict[str, Any] = json.loads(sealed["record"])
        spec: Spec = record["spec"]
    check_place(path, path.stem, spec)
    return spec, record


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(instances: InstanceSet, numbers: range, folder: Path) -> tuple[list[Path], Float[np.ndarray, "i k"]]:
    paths = [folder / f"{i}.{instances.suffix}" for i in numbers]
    return paths, np.array([instances.write(i, path) for i, path in zip(numbers, paths, strict=True)])


def _timed(
    solver: Solver, instances: InstanceSet, row: Float[np.ndarray, " d"], settings: Mapping[str, Any], folder: Path
) -> list[dict[str, Any]]:
    """Time a configuration on the test instances, the solver's seed being the instance's number.

    Raises RuntimeError if it crashes on every one: nothing is known of its runtime then.
    """
    paths, _ = _write(instances, range(TEST, TEST + int(settings["test"])), folder)
    runs = [solver.run(row, path, int(path.stem), settings["kappa_max_s"]) for path in paths]
    if all(run.status == CRASHED for run in runs):
        raise RuntimeError(f"the solver crashes on every test instance: {runs[0].note}")
    most_s = settings["kappa_max_s"]
    seconds = [run.cpu_s if run.status == SOLVED else most_s for run in runs]
    return [{"seconds": s, "status": run.status, "note": run.note} for s, run in zip(seconds, runs, strict=True)]


def _described(result: Result, features: Float[np.ndarray, "i k"], solver: Solver) -> dict[str, Any]:
    return {
        "target_s": result.target_s,
        "model_s": result.model_s,
        "models": result.models,
        "trajectory": result.trajectory,
        "features": features.tolist(),
        "categories": list(solver.space.categories),
        "rows": np.array(result.history.rows).tolist(),
        "runs": [
            {"row": e.configuration, "instance": e.pair[0], "seed": e.pair[1], "cap_s": e.cap_s, **asdict(e.run)}
            for e in result.history.entries
        ],
    }

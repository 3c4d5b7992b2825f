"""A wheel carries the optimizer alone, and needs no more than it declares."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.compile_cache import folder

ROOT = Path(__file__).resolve().parents[1]
LOOP = """
import numpy as np
from harness import Evaluation, ExpectedImprovement, GaussianProcess, LowVariance, Optimizer, Parameter, SearchSpace
from harness.acquisitions.cost_rules import Contextual

space = SearchSpace((Parameter("size", 1, 1000, log=True, integer=True), Parameter("x", -2.0, 2.0)))
cost_model = LowVariance(["size"], space=space)
optimizer = Optimizer(GaussianProcess(), cost_model, ExpectedImprovement(), Contextual(lam=0.1), iterations=9)
for step in range(9):
    candidates = space.sobol(64, seed=step)
    point = candidates[optimizer.ask(candidates).index if step >= 5 else 0]
    size, x = space.from_unit(point[None])[0].tolist()
    optimizer.tell(point, Evaluation((x - 1) ** 2 + 1 / size, cost_s=0.01 * size, test_error=np.nan, wall_s=1.0))
import datasets
import harness
print(datasets.OWNER, step)
try:
    harness.compose
except ImportError as error:
    print(error)
try:
    Contextual(2.0)
except harness.BadInput as error:
    print(type(error).__module__, error)
"""
SAMPLER = """
import optuna
from harness.interop import CostAwareSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    trial.set_user_attr("cost", 1.0 + trial.suggest_int("size", 1, 9))
    return trial.suggest_float("x", -1, 1) ** 2


for names in ({"acq": "cei", "lam": 0.1}, {"acq": "ei", "utility": "logei", "cost_model": "gp"}):
    study = optuna.create_study(sampler=CostAwareSampler(**names, n_startup_trials=2, n_candidates=64, seed=0))
    study.optimize(objective, n_trials=4)
    print(len(study.trials))
"""


def built(folder: Path) -> Path:
    """Build the wheel from a copy, since setuptools leaves files behind."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("harness", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder))
    subprocess.run([*pip, str(source)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def needed(requirements: list[str], found: set[str], extra: str = "") -> set[str]:
    """Return the names of the distributions that are required, and of those that these require; extra: of the first."""
    for requirement in map(Requirement, requirements):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
            found.add(name)
            needed(importlib.metadata.requires(name) or [], found)
    return found


def link(site: Path, names: set[str]) -> None:
    """Put the installed distributions of these names into a folder."""
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = Path(file.locate()).parents[len(file.parts) - 2] if len(file.parts) > 1 else Path(file.locate())
            if ".." not in file.parts and not (site / top.name).exists():
                (site / top.name).symlink_to(top)


def printed(program: str, site: Path) -> list[str]:
    """Return the lines that a program prints where only `site` is installed."""
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(folder().path.parent)}
    command = [sys.executable, "-S", "-P", "-c", program]
    done = subprocess.run(command, env=environment, cwd=site.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_ask_and_tell_where_nothing_else_is_installed(tmp_path: Path) -> None:
    """Beside somebody else's package of the name `datasets`, which stays theirs."""
    wheel, site = built(tmp_path), tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {"harness"}
    (own,) = importlib.metadata.distributions(path=[str(site)])
    link(site, needed(own.requires or [], set()))
    (site / "datasets").mkdir()
    (site / "datasets" / "__init__.py").write_text("OWNER = 'theirs'\n")
    found, checkout, wrong = printed(LOOP, site)
    assert found == "theirs 8" and "harness.compose needs data sets, pipelines and tables" in checkout
    assert wrong == "harness.errors lam must be a number in [0, 1], got 2.0"
    pytest.importorskip("optuna", minversion="5", reason="needs the extra `optuna`")
    link(site, needed(own.requires or [], set(), "optuna"))
    assert printed(SAMPLER, site) == ["4", "4"], "components by name, from the copy of configs in the wheel"

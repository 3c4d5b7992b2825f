"""Kissat, the SAT solver, with its options on restarts, phases, clause reduction, in- and preprocessing."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness import child
from harness.solvers.options import Option, OptionSpace
from harness.solvers.protocol import Run, ended

_FLAGS = (0, 1)
OPTIONS = (
    *(
        Option(name, 1, _FLAGS)
        for name in ("bumpreasons", "chrono", "congruence", "eliminate", "factor", "phase", "phasesaving", "preprocess")
    ),
    *(Option(name, 1, _FLAGS) for name in ("probe", "simplify", "substitute", "sweep", "transitive", "vivify")),
    Option("stable", 1, (0, 1, 2)),
    Option("target", 1, (0, 1, 2)),
    Option("minimizedepth", 1000, low=1, high=10000, log=True, integer=True),
    Option("decay", 50, low=1, high=200, log=True, integer=True),
    Option("emafast", 33, low=10, high=1000, log=True, integer=True),
    Option("modeinit", 1000, low=10, high=100000, log=True, integer=True),
    Option("reduceint", 1000, low=10, high=100000, log=True, integer=True),
    Option("reducehigh", 900, low=500, high=1000, integer=True),
    Option("reluctantint", 1024, low=2, high=32768, log=True, integer=True),
    Option("rephaseint", 1000, low=10, high=100000, log=True, integer=True),
    Option("restartint", 1, low=1, high=1000, log=True, integer=True),
    Option("restartmargin", 10, low=0, high=25, integer=True),
    Option("tier1", 2, low=1, high=20, log=True, integer=True),
    Option("tier2", 6, low=1, high=100, log=True, integer=True),
)
_SATISFIABLE, _UNSATISFIABLE = 10, 20  # exit codes


class Kissat:
    """The program `kissat`, from the path or the package passagemath-kissat; raises BadInput where there is none."""

    def __init__(self) -> None:
        self.space = OptionSpace(OPTIONS)
        self._program = find_program()
        said = subprocess.run([self._program, "--version"], capture_output=True, text=True, timeout=60)
        self.release = f"kissat {said.stdout.strip()}"

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> Run:
        """Solve the formula at `instance` (DIMACS); reading it counts."""
        options = [f"--{name}={value}" for name, value in self.space.settings(row).items()]
        outcome = child.program([self._program, "-q", "-n", f"--seed={seed}", *options, str(instance)], cap_s)
        return ended(outcome, outcome.value in (_SATISFIABLE, _UNSATISFIABLE), f"exit code {outcome.value}")


def find_program() -> str:
    """Return the path of the solver; raises BadInput if it is not installed."""
    found = shutil.which("kissat")
    if found:
        return found
    package = find_spec("sage_wheels")
    for folder in package.submodule_search_locations or [] if package else []:
        path = Path(folder) / "bin" / "kissat"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise BadInput(
        "Kissat needs the extra packages: pip install -c constraints.txt -e '.[solvers]' (or `kissat` on the path)"
    )

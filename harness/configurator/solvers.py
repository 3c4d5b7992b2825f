"""The solvers to configure, HiGHS and Kissat, with their options; what a solver and a set of instances are."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput
from harness.execution import sandbox
from harness.execution.sandbox import CAPPED, DONE, Outcome

# Options of a program: reals, integers and categories, as a forest sees them and as the program is given them.
#
# A configuration is a row of numbers: reals and integers as their place in the range in [0, 1] (log scale where asked),
# categories as codes 0..k-1. Integers are snapped, so that equal settings are equal rows.

_STEP = 0.2  # sd of a neighbour's step in a numeric option, as a share of its range
_STEPS = 4  # neighbours per numeric option


@dataclass(frozen=True)
class Option:
    """One option: numbers in [low, high], or one of `choices`; `default` in native values."""

    name: str
    default: Any
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        if self.choices:
            if self.default not in self.choices:
                raise ValueError(f"{self.name}: the default {self.default!r} is not among {self.choices}")
        elif not self.low <= self.default <= self.high or not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"{self.name}: {self.default} in [{self.low}, {self.high}] is no default in a range")

    def place(self, value: Any) -> float:
        """Return a native value as a number of the row."""
        if self.choices:
            return float(self.choices.index(value))
        low, high, v = (np.log(x) if self.log else x for x in (self.low, self.high, value))
        return float((v - low) / (high - low))

    def value(self, place: float) -> Any:
        """Return the native value of a row's number."""
        if self.choices:
            return self.choices[int(place)]
        low, high = (np.log(x) if self.log else x for x in (self.low, self.high))
        v = low + float(np.clip(place, 0.0, 1.0)) * (high - low)
        v = float(np.clip(np.exp(v) if self.log else v, self.low, self.high))
        return round(v) if self.integer else v


class OptionSpace:
    """The options of one program; raises BadInput for none, or for a name that occurs twice."""

    def __init__(self, options: Sequence[Option]) -> None:
        names = [option.name for option in options]
        if not names or len(set(names)) < len(names):
            raise BadInput(f"options must have different names, got {names}")
        self.options = tuple(options)
        self.categories = tuple(len(option.choices) for option in options)
        self.default = self.row({option.name: option.default for option in options})

    def __len__(self) -> int:
        return len(self.options)

    def row(self, settings: dict[str, Any]) -> Float[np.ndarray, " d"]:
        """Return native settings, all of them, as a row."""
        return np.array([option.place(settings[option.name]) for option in self.options])

    def settings(self, row: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """Return a row's native settings."""
        return {option.name: option.value(place) for option, place in zip(self.options, row, strict=True)}

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n d"]:
        """Return `n` uniform configurations."""
        rows = rng.random((n, len(self)))
        for j, k in enumerate(self.categories):
            if k:
                rows[:, j] = np.floor(rows[:, j] * k)
        return self.snap(rows)

    def neighbours(self, row: Float[np.ndarray, " d"], rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Return configurations that differ from `row` in one option: every other category, some steps of a number."""
        found = []
        for j, k in enumerate(self.categories):
            values = np.arange(float(k)) if k else np.clip(row[j] + _STEP * rng.normal(size=_STEPS), 0.0, 1.0)
            for value in values:
                other = row.copy()
                other[j] = value
                found.append(other)
        rows = self.snap(np.array(found))
        return rows[(rows != row).any(axis=1)]

    def snap(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Move integers onto whole values."""
        rows = rows.copy()
        for j, option in enumerate(self.options):
            if option.integer:
                low, high = (np.log(x) if option.log else x for x in (option.low, option.high))
                value = low + np.clip(rows[:, j], 0.0, 1.0) * (high - low)
                whole = np.rint(np.clip(np.exp(value) if option.log else value, option.low, option.high))
                rows[:, j] = ((np.log(whole) if option.log else whole) - low) / (high - low)
        return rows


# What a solver to be configured is, and what a set of instances is.

SOLVED, CUT, CRASHED = "solved", "capped", "crashed"
INSTALL = "pip install -c constraints.txt -e '.[solvers]'"


@dataclass(frozen=True)
class SolverRun:
    """One run of a solver: CPU seconds (the cap, if reached); ``solved``, ``capped`` or ``crashed`` (note: why)."""

    cpu_s: float
    status: str
    note: str = ""


@runtime_checkable
class Solver(Protocol):
    """A program with options, run on one instance with one seed for at most cap_s CPU seconds."""

    space: OptionSpace

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> SolverRun:
        """Run the configuration `row`."""
        ...


@runtime_checkable
class InstanceSet(Protocol):
    """A distribution of instances; number i is the same whenever and wherever it is asked for."""

    suffix: str
    features: Sequence[str]

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` to `path` and return its `features`."""
        ...


def ended(outcome: Outcome, right: bool, note: str = "") -> SolverRun:
    """Return the run of a solver whose process ended so; right: whether its answer, if it gave one, is one."""
    if outcome.status == CAPPED:
        return SolverRun(outcome.cpu_s, CUT)
    if outcome.status == DONE and right:
        return SolverRun(outcome.cpu_s, SOLVED)
    return SolverRun(outcome.cpu_s, CRASHED, outcome.note or note)


# HiGHS, the mixed-integer solver, with its options on search, presolve, cuts, heuristics and the simplex method.

_OFF_ON, _HIGHS_FLAGS = ("off", "on"), (False, True)
HIGHS_OPTIONS = (
    Option("presolve", "on", _OFF_ON),
    Option("mip_detect_symmetry", True, _HIGHS_FLAGS),
    Option("mip_allow_restart", True, _HIGHS_FLAGS),
    Option("mip_root_presolve_only", False, _HIGHS_FLAGS),
    Option("mip_lifting_for_probing", -1, (-1, 0, 1)),
    Option("mip_lp_age_limit", 10, low=1, high=100, log=True, integer=True),
    Option("mip_pool_age_limit", 30, low=1, high=300, log=True, integer=True),
    Option("mip_pool_soft_limit", 10000, low=100, high=100000, log=True, integer=True),
    Option("mip_pscost_minreliable", 8, low=1, high=64, log=True, integer=True),
    Option("mip_heuristic_effort", 0.05, low=0.001, high=0.5, log=True),
    Option("mip_heuristic_run_feasibility_jump", True, _HIGHS_FLAGS),
    Option("mip_heuristic_run_rins", True, _HIGHS_FLAGS),
    Option("mip_heuristic_run_rens", True, _HIGHS_FLAGS),
    Option("mip_heuristic_run_root_reduced_cost", True, _HIGHS_FLAGS),
    Option("mip_heuristic_run_zi_round", False, _HIGHS_FLAGS),
    Option("mip_heuristic_run_shifting", False, _HIGHS_FLAGS),
    Option("mip_allow_cut_separation_at_nodes", True, _HIGHS_FLAGS),
    Option("simplex_strategy", 1, (1, 4)),  # dual, primal: the parallel ones need threads
    Option("simplex_scale_strategy", 2, (0, 1, 2, 3, 4)),
    Option("simplex_dual_edge_weight_strategy", -1, (-1, 0, 1, 2)),
    Option("simplex_update_limit", 5000, low=50, high=5000, log=True, integer=True),
)


class Highs:
    """`highspy`, one thread, to proven optimality (relative gap 1e-4); raises BadInput where it is not installed."""

    def __init__(self) -> None:
        self.space = OptionSpace(HIGHS_OPTIONS)
        try:
            import highspy  # noqa: F401
        except ImportError as error:
            raise BadInput(f"HiGHS needs the extra packages: {INSTALL} ({error})") from error
        self.release = f"highspy {version('highspy')}"

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> SolverRun:
        """Solve the model at `instance` (MPS) in a child process; reading it counts."""
        settings = {**self.space.settings(row), "random_seed": seed}
        outcome = sandbox.call(solve, (str(instance), settings), cap_s, ["harness.configurator.solvers", "highspy"])
        return ended(outcome, outcome.value == "Optimal", f"ended as {outcome.value}")


def solve(path: str, settings: dict[str, Any]) -> str:
    """Solve a model with these options and return the name of its status; raises ValueError for a bad option."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for name, value in {"threads": 1, "parallel": "off", **settings}.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise ValueError(f"HiGHS refuses {name} = {value!r}")
    if highs.readModel(path) != highspy.HighsStatus.kOk:
        raise ValueError(f"HiGHS cannot read {path}")
    highs.run()
    return str(highs.modelStatusToString(highs.getModelStatus()))


# Kissat, the SAT solver, with its options on restarts, phases, clause reduction, in- and preprocessing.

_KISSAT_FLAGS = (0, 1)
KISSAT_OPTIONS = (
    *(
        Option(name, 1, _KISSAT_FLAGS)
        for name in ("bumpreasons", "chrono", "congruence", "eliminate", "factor", "phase", "phasesaving", "preprocess")
    ),
    *(Option(name, 1, _KISSAT_FLAGS) for name in ("probe", "simplify", "substitute", "sweep", "transitive", "vivify")),
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
        self.space = OptionSpace(KISSAT_OPTIONS)
        self._program = find_program()
        said = subprocess.run([self._program, "--version"], capture_output=True, text=True, timeout=60)
        self.release = f"kissat {said.stdout.strip()}"

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> SolverRun:
        """Solve the formula at `instance` (DIMACS); reading it counts."""
        options = [f"--{name}={value}" for name, value in self.space.settings(row).items()]
        outcome = sandbox.program([self._program, "-q", "-n", f"--seed={seed}", *options, str(instance)], cap_s)
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
    raise BadInput(f"Kissat needs the extra packages: {INSTALL} (or `kissat` on the path)")

"""The stages by which the tables grow: which configurations of which problem are measured in which order.

A plan is decided once, from the times in the tables as they are then, and kept in `parts/plan.json`: which problems
are the dearest must not change while they are measured. A stage is a list of units, each a problem and how many
configurations it is to have after it; a unit without a number does again what a lower time limit cut short.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datasets.errors import BadInput
from datasets.files import write_atomically
from harness.problem import TIMEOUT
from tabular_cache.allowance import uncut_costs
from tabular_cache.parts import FOLDER
from tabular_cache.schema import MOST_CONFIGS
from tabular_cache.table import Table, base_manifest, load_table, to_table

FILE = "plan.json"
LIMIT_S = 120.0
PILOT = 32  # configurations from which on a table measured from scratch says what its trainings cost


@dataclass(frozen=True)
class Unit:
    """What a problem gets in a stage: `configs` configurations, or None: those that were cut short, to their end."""

    stage: str
    problem: str
    configs: int | None


@dataclass(frozen=True)
class Sizes:
    """How the problems are parted: the `dearest`, the rest of the `dear`, all others, and the `cheapest` of these."""

    dear: int = 40
    dearest: int = 20
    cheapest: int = 40
    some: int = 512
    many: int = 1024
    most: int = 2048


@dataclass(frozen=True)
class Plan:
    """The stages in their order, the limit in CPU seconds of a training, and what was known when it was decided.

    anew: problems whose data have changed, measured from scratch. cost_s: mean CPU seconds of a training
    under the limit, by problem, dearest first.
    """

    decided: str
    time_limit_s: float
    anew: tuple[str, ...]
    cost_s: Mapping[str, float]
    stages: Mapping[str, Sequence[tuple[str, int | None]]] = field(default_factory=dict)

    def units(self) -> Iterator[Unit]:
        """Yield the units in the order in which they are measured."""
        for stage, units in self.stages.items():
            for problem, configs in units:
                yield Unit(stage, problem, configs)

    @property
    def problems(self) -> list[str]:
        """All problems of the plan."""
        return list(dict.fromkeys(unit.problem for unit in self.units()))


def decide(folder: Path, anew: Collection[str], limit_s: float = LIMIT_S, sizes: Sizes = Sizes()) -> Plan:
    """Return the plan for the tables of a folder, from their times.

    Raises BadInput for problems to measure anew that have no table.
    """
    tables = {problem: load_table(problem, folder) for problem in base_manifest(folder)["tables"]}
    unknown = [problem for problem in anew if problem not in tables]
    if unknown:
        raise BadInput(f"anew: there is no table of {unknown[0]} in {folder}")
    cost = {problem: float(capped_costs(table, limit_s).mean()) for problem, table in tables.items()}
    order = sorted(tables, key=lambda problem: (-cost[problem], problem))
    dearest, dear = order[: sizes.dearest], order[sizes.dearest : sizes.dear]
    rest = order[::-1][: max(len(order) - sizes.dear, 0)]  # the cheapest first
    old = {problem: int(table.meta["configs"]) for problem, table in tables.items()}
    cut = {problem: int((~table.measured).sum()) for problem, table in tables.items() if problem not in anew}
    again = sorted((p for p in cut if cut[p]), key=lambda problem: (-cut[problem], problem))
    changed = [problem for problem in order[::-1] if problem in anew]
    later = [problem for problem in rest if problem in anew] + dear[::-1]
    stages: dict[str, list[tuple[str, int | None]]] = {
        f"i: {sizes.many} configurations of all but the {sizes.dear} dearest": [
            (problem, sizes.many) for problem in rest if problem not in anew
        ],
        f"ii: changed data from scratch, then what was cut short, up to {limit_s:g} s": [
            *((problem, old[problem]) for problem in changed),
            *((problem, None) for problem in again),
        ],
        f"iii: {sizes.many} configurations of the next {len(dear)}": [(problem, sizes.many) for problem in later],
        f"iv: {sizes.some} configurations of the {len(dearest)} dearest": [(p, sizes.some) for p in dearest[::-1]],
        f"v: {sizes.many} configurations of these": [(problem, sizes.many) for problem in dearest[::-1]],
        f"vi: {sizes.most} configurations of the {sizes.cheapest} cheapest": [
            (problem, sizes.most) for problem in rest[: sizes.cheapest]
        ],
    }
    costs = {problem: round(cost[problem], 4) for problem in order}
    return Plan(time.strftime("%Y-%m-%d"), limit_s, tuple(sorted(anew)), costs, stages)


def check_undecided(folder: Path) -> None:
    """Raise BadInput if a folder has a plan."""
    path = folder / FOLDER / FILE
    if path.exists():
        raise BadInput(f"{path} is decided already; a plan is not changed while tables grow by it")


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep a plan; raises BadInput if there is one."""
    check_undecided(folder)
    write_atomically(folder / FOLDER / FILE, json.dumps(asdict(plan), indent=1).encode() + b"\n")


def read_plan(folder: Path) -> Plan:
    """Return the plan of a folder; raises BadInput if there is none or it is damaged."""
    path = folder / FOLDER / FILE
    try:
        found = json.loads(path.read_text())
        stages = {
            str(name): [(str(p), None if n is None else _size(n)) for p, n in units]
            for name, units in found["stages"].items()
        }
        limit = float(found["time_limit_s"])
        if not limit > 0:
            raise ValueError(f"time_limit_s is {limit}")
        return Plan(found["decided"], limit, tuple(found["anew"]), found["cost_s"], stages)
    except FileNotFoundError:
        raise BadInput(f"no plan in {folder}: decide one with `python -m tabular_cache plan tables={folder}`") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"the plan {path} is damaged ({type(error).__name__}: {error}): restore it") from None


def _size(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_CONFIGS:
        raise ValueError(f"a problem cannot have {n!r} configurations, only 1 to {MOST_CONFIGS}")
    return n


def missing(unit: Unit, rows: pa.Table | None, limit_s: float) -> list[int]:
    """Return the configurations of a unit that are still to be measured, given the rows that its problem has."""
    if unit.configs is not None:
        there = set() if rows is None else set(rows["config"].to_pylist())
        return [config for config in range(unit.configs) if config not in there]
    if rows is None:
        return []
    own = rows.filter(rows["own"])
    cut = (np.array(own["status"].to_pylist()) == TIMEOUT) & (own["cpu_s"].to_numpy() < limit_s)
    return [int(config) for config in np.sort(own["config"].to_numpy()[cut])]


def capped_costs(table: Table, limit_s: float) -> np.ndarray:
    """Return what each configuration costs at its own rounds, in CPU seconds, or the limit where that is less."""
    return np.minimum(uncut_costs(table), limit_s)


@dataclass(frozen=True)
class Rest:
    """What is left of a stage: problems, trainings, and core-hours by what trainings have cost so far."""

    stage: str
    problems: int
    trainings: int
    core_hours: float


def left(plan: Plan, rows_of: Mapping[str, pa.Table | None], base_of: Mapping[str, Table]) -> list[Rest]:
    """Return what is left of each stage.

    rows_of: the rows that each problem has, those in the journal too; base_of: the tables that say what a training
    costs where a table measured from scratch has few rows. A configuration counts in the first stage that asks for it.
    """
    promised: dict[str, set[int]] = {}
    sums = {stage: [0, 0, 0.0] for stage in plan.stages}
    for unit in plan.units():
        rows, base = rows_of[unit.problem], base_of[unit.problem]
        todo = set(missing(unit, rows, plan.time_limit_s)) - promised.setdefault(unit.problem, set())
        if not todo:
            continue
        promised[unit.problem] |= todo
        table = base if rows is None else to_table(unit.problem, rows, base.meta)
        own = table["config"][table["own"]]
        if len(own) < PILOT:
            table, own = base, base["config"][base["own"]]
        costs = capped_costs(table, plan.time_limit_s)
        again = np.isin(own, list(todo))
        cpu_s = costs[again].sum() if unit.configs is None else costs.mean() * len(todo)
        beside = base.meta["core_s"] / base["cpu_s"][base["own"]].sum()  # scoring, repeats, short ones timed thrice
        total = sums[unit.stage]
        total[0], total[1], total[2] = total[0] + 1, total[1] + len(todo), total[2] + cpu_s * max(beside, 1.0) / 3600
    return [Rest(stage, int(n), int(trainings), hours) for stage, (n, trainings, hours) in sums.items()]

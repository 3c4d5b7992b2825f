"""`python -m harness.compile_all`: compile everything that any shipped method needs, once and in advance.

Which functions are compiled, and for which types, is known only in a run. So this is a rehearsal: every acquisition,
utility, surrogate, cost model and so on in `configs` takes a few steps on a replayed problem, with few observations and
with enough of them that the engine works in another way (`sizes`). `make setup` calls it; without it, the first runs
compile what they need. Where nothing is missing it takes some ten seconds, so it can be repeated at will.
"""

import contextlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.cli import run_cli, wants_help
from harness.config import CONFIGS, options
from harness.errors import BadInput

COMPONENTS = ("surrogate", "cost_model", "utility")
MORE = ("curves", "stopping")  # components that a run may do without
ASKS = 3  # a fit of its own, one that goes on from it, and predictions that remember
SEED = 0
_OTHERS = {"surrogate": ("gpyopt", "gp_transfer")}  # another library's; the default's with what takes long to learn


@dataclass(frozen=True)
class Rehearsal:
    """Components that go together, by group, and the numbers of observations with which they are to take steps."""

    names: Mapping[str, str]
    sizes: tuple[int, ...]


def rehearsals() -> list[Rehearsal]:
    """Return what is to be rehearsed: each component with the defaults of the others.

    In the order in which workers have least to wait for each other: many observations need other functions than few,
    and a forest others than a Gaussian process.
    """
    chosen = _chosen("config.yaml")
    usual, all_sizes = {group: chosen[group] for group in (*COMPONENTS, "evaluator")} | {"acq": "cei"}, sizes()
    found = [Rehearsal(usual, all_sizes), Rehearsal(usual, all_sizes[-1:])]
    for group in ("surrogate", "utility", "acq", "cost_model"):
        for name in options(group):
            config = _config(group, name)
            own = str(config.get("rule", config)["_target_"]).startswith("harness.")
            if own and name != usual[group] and name not in _OTHERS.get(group, ()):
                found.append(Rehearsal(usual | {group: name}, all_sizes))
    found += [Rehearsal(usual | {group: name}, all_sizes) for group in MORE for name in options(group)]
    return found + [Rehearsal(usual | {"acq": "ei", "utility": name}, all_sizes) for name in options("utility")]


def sizes() -> tuple[int, ...]:
    """Return numbers of observations: few, and as many as make the engine look twice at what passed rough bounds."""
    from harness.screening import MANY

    return 5, MANY


def _chosen(file: str) -> dict[str, Any]:
    """Return the defaults that a config file chooses, by group."""
    from omegaconf import OmegaConf

    listed: Any = OmegaConf.to_container(OmegaConf.load(CONFIGS / file))
    return {group: name for entry in listed["defaults"] if isinstance(entry, dict) for group, name in entry.items()}


def _config(group: str, name: str) -> dict[str, Any]:
    from omegaconf import OmegaConf

    whole = OmegaConf.create({"lam": 0.3, "alpha": 0.5, group: OmegaConf.load(CONFIGS / group / f"{name}.yaml")})
    plain: Any = OmegaConf.to_container(whole, resolve=True)
    return dict(plain[group])


def rehearse(rehearsal: Rehearsal) -> int:
    """Take the steps; return how many functions were compiled. Components that cannot go together do nothing."""
    from harness.compile_cache import compiled

    before = compiled()
    with contextlib.suppress(BadInput):
        _take_steps(rehearsal)
    return compiled() - before


def _take_steps(rehearsal: Rehearsal) -> None:
    """Ask and tell, at each size: among many candidates, which are screened, and few, which are not.

    Few alone for a utility without bounds, which scores all that it is asked about: some take minutes for many.
    """
    from hydra.utils import get_object, instantiate

    names, most = rehearsal.names, max(rehearsal.sizes)
    first = {group: _config(group, chosen[0])[chosen[0]] for group, chosen in _chosen("problems.yaml").items()}
    evaluator = instantiate(_config("evaluator", names["evaluator"]))
    problem = evaluator.open(first["dataset"], first["pipeline"], SEED)
    design = problem.initial(most)
    optimizer = _optimizer(names, most, sum(problem.true_cost_s(design.unit)))
    problem = optimizer.start(problem)
    outcomes = [problem.evaluate(int(candidate)) for candidate in design.ids]
    screened = get_object(str(_config("utility", names["utility"])["_target_"])).bounded
    given = 0
    for size in rehearsal.sizes:
        for x, outcome in zip(design.unit[given:size], outcomes[given:size], strict=True):
            optimizer.tell(x, outcome)
        given = size
        for k in range(ASKS + 1):
            offered = problem.candidates(size + k)
            many = k < ASKS and screened  # of them in either way: rows of a table, and points
            asked = offered.rows if many and k % 2 else (offered.unit[: None if many else 100],)
            chosen = optimizer.ask(*asked).index
            optimizer.tell(offered.unit[chosen], problem.evaluate(int(offered.ids[chosen])))
        if optimizer.uses_models:
            optimizer.outlook(offered.unit[: None if screened else 100])


def _optimizer(names: Mapping[str, str], n: int, cost_s: float) -> Any:
    """Return an optimizer of these components for somewhat more than `n` evaluations of `cost_s` seconds together."""
    from harness.grid import make_optimizer

    groups, rule = (*COMPONENTS, *(group for group in MORE if group in names)), _config("acq", names["acq"])
    components = {group: _config(group, names[group]) for group in groups}
    settings: dict[str, Any] = {"iterations": 2 * n, "n_initial": 5, "seed": SEED}
    try:
        return make_optimizer(components, rule["rule"], settings)
    except BadInput:  # some look ahead to the end of a budget, and need one
        return make_optimizer(components, rule["rule"], settings | {"tau": 1.2 * cost_s})


def compile_all(n_jobs: int | None = None) -> int:
    """Rehearse everything in `n_jobs` processes (None: one per core); return how many functions were compiled."""
    from harness.execution import local, run_tasks

    count = 0
    with local(n_jobs) as executor:
        for _, outcome in run_tasks(executor, rehearse, rehearsals(), retries=1):
            if isinstance(outcome, BaseException):
                raise outcome
            count += outcome
    return count


def main() -> int:
    """Compile what is missing; returns the exit code."""
    if sys.argv[1:]:
        if not wants_help(sys.argv[1:]):
            raise BadInput(f"python -m harness.compile_all takes no arguments, got {sys.argv[1]!r}")
        print(__doc__)
        return 0
    from harness.compile_cache import folder
    from harness.progress import duration

    began = time.monotonic()
    count = compile_all()
    print(f"{count} functions compiled in {duration(time.monotonic() - began)}; what is compiled is in {folder().path}")
    return 0


if __name__ == "__main__":
    from harness.compile_all import main as importable  # by workers, too

    run_cli(importable)

"""Utilities, cost rules, cost models and surrogates by the names of their files in `configs`, on any search space.

A study composes these files with Hydra. A sampler in somebody else's tool needs neither Hydra nor a checkout: here
they are read as they are, from `configs` or from the copy that a wheel has.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.component import asks_for_problem, complete
from harness.config import located
from harness.cost_models import CostModel
from harness.errors import BadInput, unknown
from harness.space import SearchSpace
from harness.surrogates import Surrogate

_PLACES = (Path(__file__).resolve().parents[2] / "configs", Path(__file__).resolve().parents[1] / "_configs")
_SETTING = re.compile(r"\$\{(\w+)\}")


def names(group: str) -> list[str]:
    """Return the names to choose from in a group: acq, utility, cost_model, surrogate, curves."""
    return sorted({path.stem for place in _PLACES for path in (place / group).glob("*.yaml")})


def read(group: str, name: str) -> dict[str, Any]:
    """Return the file of a component as plain values; raises BadInput for an unknown name."""
    import yaml

    for place in _PLACES:
        if name and (place / group / f"{name}.yaml").is_file():
            found: dict[str, Any] = yaml.safe_load((place / group / f"{name}.yaml").read_text(encoding="utf-8"))
            return found
    raise unknown(group, name, names(group))


def made(node: Any, settings: Mapping[str, Any]) -> Any:
    """Return what a configuration describes: `_target_`s called, ``${name}`` replaced from `settings`."""
    if isinstance(node, str) and (found := _SETTING.fullmatch(node)):
        return settings[found[1]]
    if isinstance(node, Mapping):
        values = {str(key): made(value, settings) for key, value in node.items() if key != "_target_"}
        return located(node["_target_"])(**values) if "_target_" in node else values
    return [made(value, settings) for value in node] if isinstance(node, list) else node


def make_rule(acq: str, lam: float | None, alpha: float | None) -> Any:
    """Return the cost rule of an acquisition; raises BadInput for a parameter that is missing, wrong or not its own."""
    whole, given = read("acq", acq), {"lam": lam, "alpha": alpha}
    if "defaults" in whole:
        raise BadInput(f"acq={acq} brings components that learn from this benchmark's problems: use earlier=[...]")
    rule = whole["rule"]
    used = {found[1] for value in rule.values() if (found := _SETTING.fullmatch(str(value)))}
    idle = [name for name, value in given.items() if value is not None and name not in used]
    if idle:
        raise BadInput(f"{idle[0]} is set, but acq={acq} has no such parameter: leave it out")
    return made(rule, given)


def make_surrogate(name: str) -> Surrogate:
    """Return a surrogate; raises BadInput for one that needs a problem of this benchmark, such as `gp_transfer`."""
    settings = read("surrogate", name)
    if asks_for_problem(located(settings["_target_"])):
        raise BadInput(
            f"surrogate={name} learns from this benchmark's problems: use earlier=[...], studies of your own"
        )
    return complete(made(settings, {}), Surrogate)


def make_cost_model(name: str, space: SearchSpace, features: Sequence[str]) -> CostModel:
    """Return a cost model on `space`; `features` replace those that its file names, if it names any.

    Raises BadInput for one that needs a problem of this benchmark, such as the transferred models.
    """
    settings = read("cost_model", name)
    if settings.get("features") is not None:
        settings |= {"features": list(features)}
        if "space" in inspect.signature(located(settings["_target_"])).parameters:
            settings["space"] = space
    if asks_for_problem(located(settings["_target_"])):
        raise BadInput(f"cost_model={name} knows the costs of this benchmark's problems, not those of your own study")
    return complete(made(settings, {}), CostModel)

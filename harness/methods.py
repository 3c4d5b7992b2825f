"""Methods: what a study compares. A method is an acquisition (utility x cost rule) with its parameters.

The utility is the run's own setting; a study's list may name others, to compare them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

from hydra import compose
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from datasets.errors import BadInput
from harness.checks import flag
from harness.choices import CONFIGS
from harness.mistakes import users_mistakes
from harness.targets import check_targets

PARAMETERS = ("lam", "alpha")
SHIPPED = ("cei", "ei", "eialpha", "eicool", "eipu")  # named by lam and alpha alone; others by all their parameters


@dataclass(frozen=True)
class Method:
    """One acquisition with its parameters: label such as ``cei(lam=0.1)``, and the cost rule's config.

    utility: name and config of the method's own utility, None for the run's. steady: whether a rule that the project
    does not ship says (`plans_ahead = False`) that its choices do not depend on the length or budget planned.
    """

    acq: str
    label: str
    rule: dict[str, Any]
    utility: tuple[str, dict[str, Any]] | None = None
    steady: bool = False

    def parameter(self, name: str) -> float | None:
        """Return lam or alpha of the cost rule, None if the rule has none that is a number."""
        value = self.rule.get(name)
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None


def to_method(cfg: DictConfig, utility: str | None = None, allowed: Sequence[str] = ()) -> Method:
    """Return the method that `cfg.acq` and the top-level lam and alpha describe; raises BadInput.

    utility: the name of `cfg.utility` if that belongs to the method. allowed: packages whose classes it may name
    besides the project's, see `harness.targets`.
    """
    node = cfg.acq
    if not isinstance(node, DictConfig) or "rule" not in node:
        raise BadInput(f"acq must name one acquisition, for example +acq=cei, got {node!r}")
    if not isinstance(node.get("name"), str) or not node.name:
        raise BadInput("the file of the acquisition needs a line `name: ...`, by which its records are known")
    _check_shipped(str(node.name), node.rule)
    used = [p for p in PARAMETERS if p in node.rule and OmegaConf.is_interpolation(node.rule, p)]
    rule = OmegaConf.to_container(node.rule, resolve=True)
    assert isinstance(rule, dict)
    check_targets(rule, allowed)
    plain: dict[str, Any] = {str(key): value for key, value in rule.items()}
    made = instantiate(plain)  # a wrong parameter is told before anything runs
    name, shown = str(node.name), ",".join(f"{p}={_shown(float(plain[p]))}" for p in used)
    if name not in SHIPPED:
        shown = ",".join(f"{key}={_shown(v)}" for key, v in plain.items() if key != "_target_" and v is not None)
    own: Any = None if utility is None else (utility, OmegaConf.to_container(cfg.utility, resolve=True))
    check_targets(own and own[1], allowed)
    steady = name not in SHIPPED and not flag(f"{name}: plans_ahead", getattr(made, "plans_ahead", True))
    return Method(name, f"{name}({shown})" if shown else name, plain, own, steady)


def _check_shipped(name: str, rule: DictConfig) -> None:
    """Raise BadInput where an acquisition of the project has another rule than its file: its name would be a lie."""
    if name not in SHIPPED:
        return
    plain = OmegaConf.to_container(rule, resolve=False)
    shipped = OmegaConf.load(CONFIGS / "acq" / f"{name}.yaml")
    if plain != OmegaConf.to_container(shipped.rule, resolve=False):
        own = " ".join(f"{p}=" for p in PARAMETERS if p in shipped.rule and OmegaConf.is_interpolation(shipped.rule, p))
        how = f"is set by {own} alone" if own else "has nothing to set"
        raise BadInput(f"acq.rule: {name} {how}; another rule needs a file, and so a name, of its own")


def _shown(value: Any) -> str:
    """Return a parameter as a label has it: short, but never the same for two values."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value)


def study_methods(entries: Sequence[Any], overrides: Sequence[str], allowed: Sequence[str] = ()) -> list[Method]:
    """Return the methods of a study's list: entries such as ``{acq: cei, lam: [0.1, 0.3], utility: [ei, kg]}``.

    `overrides` are passed on to Hydra (a search path, for acquisitions of the user's own); `allowed`: see `to_method`.
    """
    methods = []
    for entry in entries:
        plain: Any = OmegaConf.to_container(entry) if isinstance(entry, DictConfig) else entry
        if not isinstance(plain, dict) or "acq" not in plain or set(plain) - {"acq", "utility", *PARAMETERS}:
            raise BadInput(f"a study's method needs acq and may have lam, alpha, utility; got {plain!r}")
        grids = [value if isinstance(value, list) else [value] for key, value in plain.items() if key != "acq"]
        keys = [key for key in plain if key != "acq"]
        for values in product(*grids):
            given = dict(zip(keys, values, strict=True))
            settings = [f"{'+' * (key == 'utility')}{key}={value}" for key, value in given.items()]
            with users_mistakes(arguments=overrides):
                cfg = compose("method", overrides=[f"+acq={plain['acq']}", *settings, *overrides])
            methods.append(to_method(cfg, given.get("utility"), allowed))
    if not methods:
        raise BadInput("study.methods is empty: a study needs one method or more, for example [{acq: ei}]")
    labels = [(method.label, method.utility and method.utility[0]) for method in methods]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise BadInput(f"study.methods names {twice[0][0]} twice")
    return methods

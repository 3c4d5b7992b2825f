"""Which pairs of a utility and a cost rule there cannot be, and why: a table that lacks them says so."""

import re
from itertools import product

from hydra.utils import instantiate
from omegaconf import OmegaConf

from analysis.utilities_runs import Runs
from datasets.errors import BadInput
from harness.acquisitions import CostRule, DemandingUtility, Setup
from harness.acquisitions.cost_rules import Contextual, Cool, Ignore, Power
from harness.config import CONFIGS
from harness.cost_models import Oracle
from harness.surrogates.gp import GaussianProcess


def undefined(runs: Runs, deadline: bool) -> list[str]:
    """Return a line per reason for which pairs of the runs' utilities and rules are refused, and so have no row."""
    gone: dict[str, list[str]] = {}
    present = set(runs.table["label"])
    for utility, rule in product(sorted(set(runs.table["utility"])), sorted(set(runs.table["rule"]))):
        reason = None if f"{utility} x {rule}" in present else refusal(utility, rule, deadline)
        if reason is not None:
            gone.setdefault(reason, []).append(f"{utility} x {rule}")
    return [f"Not defined: {', '.join(pairs)}, since {reason}." for reason, pairs in gone.items()]


def refusal(utility: str, rule: str, deadline: bool) -> str | None:
    """Return why `utility` refuses `rule` (a method's name, such as ``cei(lam=0.3)``); None if it does not, or unknown.

    deadline: whether the run has one.
    """
    path, known = CONFIGS / "utility" / f"{utility}.yaml", _rule(rule)
    if known is None or not path.is_file():
        return None
    made = instantiate(OmegaConf.load(path))
    try:
        if isinstance(made, DemandingUtility):
            made.check(Setup(GaussianProcess(), Oracle(), known, 1.0 if deadline else None))
    except BadInput as error:
        return str(error)
    return None


def _rule(name: str) -> CostRule | None:
    plain: dict[str, CostRule] = {"ei": Ignore(), "eipu": Power(1.0), "eicool": Cool()}
    found = re.fullmatch(r"(eialpha|cei)\((?:alpha|lam)=([^,)]*)\)", name)
    if found:
        return Power(float(found[2])) if found[1] == "eialpha" else Contextual(float(found[2]))
    return plain.get(name)

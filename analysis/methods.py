"""Methods: their names, their place on the axes of alpha and lambda, and whether they plan.

`ei` is EI^alpha with alpha = 0 and `eipu` with alpha = 1 (STUDY: "Acquisitions"), whichever way a run was asked for;
both names are used everywhere, so that a method is never counted twice.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from hydra.utils import get_class
from omegaconf import OmegaConf

from datasets.errors import BadInput
from harness.config import CONFIGS

PROBLEM = ["dataset", "pipeline"]
EI, EIPU, EICOOL = "ei", "eipu", "eicool"


@cache
def plans_ahead(kind: str, name: str) -> bool:
    """Return whether the choices of a component (kind: ``acq`` or ``utility``) may depend on the planned length.

    The classes of the project that plan say so (`plans_ahead`); any that is not the project's is taken to plan.
    """
    path = CONFIGS / kind / f"{name}.yaml"
    if not path.is_file():
        return True
    config: Any = OmegaConf.to_container(OmegaConf.load(path))
    return bool(getattr(get_class(config.get("rule", config)["_target_"]), "plans_ahead", False))


def alpha_axis(acq: pd.Series, alpha: pd.Series) -> pd.Series:
    """Return each row's alpha: 0 for `ei`, 1 for `eipu`, alpha for `eialpha`, NaN for other families."""
    own = np.where(acq == "eialpha", alpha.astype(float), np.nan)
    fixed = np.select([acq == EI, acq == EIPU], [0.0, 1.0], default=own)
    return pd.Series(fixed, index=acq.index, name="alpha")


def canonical(runs: pd.DataFrame) -> pd.DataFrame:
    """Give every run its place on the alpha and lambda axes, the one label of its method, and whether it plans.

    A rule of a user's own says so itself (column plans_ahead of the records).
    """
    runs = runs.astype(dict.fromkeys([*PROBLEM, "acq", "method"], str))
    own = runs["plans_ahead"].astype(bool) if "plans_ahead" in runs else True  # absent from frames made by hand
    rule = own & runs["acq"].map(lambda acq: plans_ahead("acq", acq))
    runs["plans"] = rule | runs["utility"].astype(str).map(lambda name: plans_ahead("utility", name))
    runs["alpha"] = alpha_axis(runs["acq"], runs["alpha"])
    runs["lam"] = runs["lam"].astype(float).where(runs["acq"] == "cei")
    label = runs["alpha"].map(lambda a: f"eialpha(alpha={a:g})", na_action="ignore").astype(object)
    label = label.mask(runs["alpha"] == 0, EI).mask(runs["alpha"] == 1, EIPU)
    runs["method"] = label.where(runs["alpha"].notna(), runs["method"]).astype(str)
    return runs


def ordered(runs: pd.DataFrame) -> list[str]:
    """List the methods present: EI^alpha by alpha (ei first, eipu last), then CEI by lambda, then others."""
    seen = runs[["method", "alpha", "lam"]].drop_duplicates("method")
    return [str(m) for m in seen.sort_values(["alpha", "lam", "method"], na_position="last")["method"]]


def by_method(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the first row of each method, by its name: for what rows of one method have in common."""
    return rows.drop_duplicates("method").set_index("method")


_WRITTEN = {
    EI: "EI", EIPU: "EIpu", EICOOL: "EI-cool", "carbo": "CArBO", "sobol": "Sobol", "tpe": "TPE", "cmaes": "CMA-ES",
    "cfo": "CFO", "blendsearch": "BlendSearch", "smac": "SMAC", "botorch": "BoTorch", "asha": "ASHA",
    "hyperband": "Hyperband",
}  # fmt: skip


def name_in_figures(method: str) -> str:
    """Return a method's name for a figure: ``EI^0.1`` raised, ``CEI 0.3``, ``EI-cool``; unknown parts as they are."""
    method = re.sub(r"\b((eialpha\(alpha|cei\(lam)=[^,) ]*),", r"\1)(", method)  # what follows keeps its brackets
    method = re.sub(r"\beialpha[( ]alpha=([^,) ]*)\)?", r"EI$^{\1}$", method)
    method = re.sub(r"\bcei[( ]lam=([^,) ]*)\)?", r"CEI \1", method)
    return re.sub(r"(?<![\w-])[a-z]+(?!\w)", lambda word: _WRITTEN.get(word[0], word[0]), method)


def name_in_text(method: str) -> str:
    """Return `name_in_figures` without its marks of mathematics: ``EI^0.1``."""
    return name_in_figures(method).translate(str.maketrans("", "", "${}"))


def require(runs: pd.DataFrame, name: str, what: str) -> None:
    """Raise BadInput, naming the asker `what`, unless the method `name` is among the runs."""
    present = ordered(runs)
    if name not in present:
        raise BadInput(f"{what} needs the method {name}: the records hold {', '.join(present) or 'no run'}")

"""Names of methods and their place on the alpha and lambda axes.

`ei` is EI^alpha with alpha = 0 and `eipu` with alpha = 1 (STUDY: "Acquisitions"), whichever way a run
was asked for; both names are used everywhere, so that a method is never counted twice.
"""

import re

import numpy as np
import pandas as pd

from datasets.errors import BadInput

EI, EIPU, EICOOL = "ei", "eipu", "eicool"
STEADY = "steady"
PREFIX_FAMILIES = ("ei", "eialpha", "eipu", "cei", STEADY)
"""Families whose choices do not depend on the planned length: a longer run begins with the shorter one.

`STEADY` are all rules of users' own that say so (`plans_ahead = False`); others may plan, as EI-cool does.
"""

MYOPIC = ("ei", "ei_gpyopt", "logei", "kg", "es", "pes", "mes", "gibbon", "pbgi", "pbgi_d")
"""Utilities whose choices do not depend on the planned length or deadline. All others may, as mcms and bmsei do."""


def plans(acq: pd.Series, utility: pd.Series | str) -> pd.Series:
    """Return which runs' choices depend on the length or the budget that they were planned for; acq: of `families`."""
    myopic = utility in MYOPIC if isinstance(utility, str) else utility.isin(MYOPIC)
    return ~acq.isin(PREFIX_FAMILIES) | ~pd.Series(myopic, index=acq.index)


def families(acq: pd.Series, plans_ahead: pd.Series) -> pd.Series:
    """Return each run's family: its acquisition, or `STEADY` for one of a user's own that does not plan ahead."""
    return acq.astype(str).mask(~plans_ahead.astype(bool), STEADY)


def alpha_axis(acq: pd.Series, alpha: pd.Series) -> pd.Series:
    """Return each row's alpha: 0 for `ei`, 1 for `eipu`, alpha for `eialpha`, NaN for other families."""
    acq = acq.astype(str)
    own = np.where(acq == "eialpha", alpha.astype(float), np.nan)
    fixed = np.select([acq == "ei", acq == "eipu"], [0.0, 1.0], default=own)
    return pd.Series(fixed, index=acq.index, name="alpha")


def lambda_axis(acq: pd.Series, lam: pd.Series) -> pd.Series:
    """Return each row's lambda for `cei`, NaN for other families."""
    return lam.astype(float).where(acq.astype(str) == "cei").rename("lam")


def labels(runs: pd.DataFrame) -> pd.Series:
    """Return the one label of each run's method, from its canonical `alpha` and its recorded `method`."""
    label = runs["method"].astype(str)
    inner = runs["alpha"].map(lambda a: f"eialpha(alpha={a:g})", na_action="ignore").astype(object)
    inner = inner.mask(runs["alpha"] == 0, EI).mask(runs["alpha"] == 1, EIPU)
    return inner.where(runs["alpha"].notna(), label).astype(str).rename("method")


def ordered(runs: pd.DataFrame) -> list[str]:
    """List the methods present: EI^alpha by alpha (ei first, eipu last), then CEI by lambda, then others."""
    seen = runs[["method", "alpha", "lam"]].drop_duplicates("method")
    return [str(m) for m in seen.sort_values(["alpha", "lam", "method"], na_position="last")["method"]]


def short(method: str) -> str:
    """Return a method's name for a crowded axis: ``EI^0.1``, ``CEI 0.3``, ``EI-cool``; others as they are."""
    found = re.fullmatch(r"(eialpha|cei)\((?:alpha|lam)=([^,)]*)\)", method)
    if found:
        return f"EI$^{{{found[2]}}}$" if found[1] == "eialpha" else f"CEI {found[2]}"
    return {EI: "EI", EIPU: "EIpu", EICOOL: "EI-cool"}.get(method, method)


def require(runs: pd.DataFrame, name: str, what: str) -> None:
    """Raise BadInput, naming the asker `what`, unless the method `name` is among the runs."""
    present = ordered(runs)
    if name not in present:
        raise BadInput(f"{what} needs the method {name}: the records hold {', '.join(present) or 'no run'}")

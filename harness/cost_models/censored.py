"""Costs of which only a lower bound is known, such as those of trainings stopped at their time limit.

    imputed   what a truncated normal distribution says of them (the default)
    bound     the bound is taken as the cost
    dropped   they are left out

What a model has a way of its own for (`CensoredCostModel`) it does itself; for any other, costs are imputed once,
from its fit to the costs that are known.
"""

import numpy as np
from jaxtyping import Bool, Float

from harness.cost_models import CensoredCostModel, CostModel, log_costs
from harness.errors import BadInput
from harness.normal import exp, truncated_moments
from harness.surrogates.gp import GaussianProcess
from harness.surrogates.posterior import GaussianPosterior

IMPUTED, BOUND, DROPPED = "imputed", "bound", "dropped"
TREATMENTS = (IMPUTED, BOUND, DROPPED)
SMALLEST_SD = 1e-9  # of log cost: a model that is certain imputes its prediction, or the bound
_SWEEPS, _TOLERANCE = 5, 0.01  # of the imputations of a Gaussian process; the tolerance in sds of log cost


def check_treatment(name: object) -> str:
    """Return `name` if it is one of TREATMENTS; raises BadInput otherwise."""
    if name not in TREATMENTS:
        raise BadInput(f"censored_costs must be one of {', '.join(TREATMENTS)}, got {name!r}")
    return str(name)


def fit_with_bounds(
    model: CostModel,
    X: Float[np.ndarray, "n d"],
    cost_s: Float[np.ndarray, " n"],
    censored: Bool[np.ndarray, " n"],
    treatment: str = IMPUTED,
) -> None:
    """Fit `model` to costs in seconds, lower bounds where censored; where all are, bounds are taken as costs."""
    if not censored.any() or censored.all() or treatment == BOUND:
        model.fit(X, cost_s)
    elif treatment == DROPPED:
        log_costs(cost_s)
        model.fit(X[~censored], cost_s[~censored])
    elif isinstance(model, CensoredCostModel):
        model.fit_censored(X, cost_s, censored)
    else:
        _impute_once(model, X, cost_s, censored)


def _impute_once(
    model: CostModel, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"], censored: Bool[np.ndarray, " n"]
) -> None:
    """Fit to the known costs, put the mean of the truncated prediction in place of each bound, and fit to all."""
    bound = log_costs(cost_s)[censored]
    model.fit(X[~censored], cost_s[~censored])
    mean, sd = model.predict(X[censored])
    filled = np.array(cost_s, dtype=np.float64)
    filled[censored] = exp(truncated_moments(mean, np.maximum(sd, SMALLEST_SD), bound)[0])
    model.fit(X, filled)


def fit_process(
    process: GaussianProcess,
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    censored: Bool[np.ndarray, " n"],
) -> GaussianPosterior:
    """Fit a Gaussian process to y, lower bounds where censored (some, not all).

    First imputations: the means of the truncated predictions, noise included, of the process fitted to what is known.
    Then, until they change by less than 0.01 sd or five times, each is the mean of its truncated leave-one-out
    prediction given all others (Rasmussen and Williams 2006, equation 5.12): given itself as well, it would confirm
    itself. What is imputed counts as observed in the posterior, whose sd is therefore, at these points, too low.
    """
    bound, filled = y[censored], y.copy()
    mean, sd = process.fit(X[~censored], y[~censored]).mean_sd(X[censored])
    for _ in range(_SWEEPS):
        new = truncated_moments(mean, np.maximum(sd, SMALLEST_SD), bound)[0]
        change = np.abs(new - filled[censored]).max()
        filled[censored] = new
        posterior = process.fit(X, filled)
        if change <= _TOLERANCE * filled.std():
            break
        every_mean, every_sd = posterior.leave_one_out(filled)
        mean, sd = every_mean[censored], every_sd[censored]
    return posterior

"""Samples of the lowest value that the objective may have, f* = min f over candidates and observed points."""

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import latent_log_ei, leaders, prior
from harness.errors import BadInput

SAMPLERS = ("gumbel", "joint")
_QUARTILES = np.array([0.25, 0.5, 0.75])
_HALVINGS = 45
_SURE = 7.0  # sd above the range of the minimum's quartiles: such a point is the lowest with probability below 2e-12


def known_sampler(name: str) -> str:
    """Return `name` if it is one of SAMPLERS; raises BadInput otherwise."""
    if name not in SAMPLERS:
        raise BadInput(f"utility.sampler must be one of {', '.join(SAMPLERS)}, got {name}")
    return name


def minima(belief: Belief, sampler: str, samples: int, points: int) -> Float[np.ndarray, " k"]:
    """Return `samples` samples of f*: by the Gumbel approximation, or by joint draws at up to `points` candidates."""
    posterior, X, C = prior(belief)
    rng = belief.rng(f"minima {sampler}")
    if sampler == "gumbel":
        mean, variance = posterior.moments(np.vstack([X, C]))
        return gumbel(mean, np.sqrt(variance), rng.random(samples))
    support = np.vstack([X, C[leaders(latent_log_ei(belief), belief.log_cost, points, (0.0,))]])
    return posterior.joint(support).draw(rng.standard_normal((samples, len(support)))).min(axis=1)


def gumbel(
    mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], uniform: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Return samples of min_i f_i, f_i ~ N(mean_i, sd_i^2) taken as independent, from a Gumbel fitted to its quartiles.

    P(min > y) = prod Phi((mean_i - y) / sd_i). With r its value at a sample, -min ~ Gumbel(a, b):
    y = -a + b log(-log r); (a, b) match the quartiles 1 and 3 in spread and the median in place.
    Source: Wang and Jegelka 2017, "Max-value entropy search", section 3.1 and appendix B.
    """
    sd = np.maximum(sd, 1e-12 * max(float(sd.max()), 1e-300))
    highest = float((mean + 0.675 * sd).min())  # P(min > highest) <= 1/4
    possible = mean - _SURE * sd <= highest
    mean, sd = mean[possible], sd[possible]
    low, high = np.full(3, float((mean - 9.0 * sd).min())), np.full(3, highest)
    wanted = np.log(_QUARTILES)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = log_ndtr((mean[:, None] - middle) / sd[:, None]).sum(axis=0)  # log P(min > middle), which falls
        low, high = np.where(above > wanted, middle, low), np.where(above > wanted, high, middle)
    q1, q2, q3 = 0.5 * (low + high)
    inner = np.log(-np.log(_QUARTILES))
    b = max(float((q1 - q3) / (inner[0] - inner[2])), 0.0)
    return q2 + b * (np.log(-np.log(uniform)) - inner[1])

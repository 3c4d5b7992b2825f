"""Samples of the lowest value that the objective may have, f* = min f over candidates and observed points."""

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import observed_and_leading, prior
from harness.acquisitions.tails import log_survival
from harness.elementary import log

SAMPLERS = ("gumbel", "joint")
_QUARTILES = np.array([0.25, 0.5, 0.75])
_FEW, _NEWTON, _EXACT = 64, 100, 1e-13  # points of the first round; iterations at most, about five are needed
_SURE = 7.0  # sd above the range of the minimum's quartiles: such a point is the lowest with probability below 2e-12


def known_sampler(name: str) -> str:
    """Return `name` if it is one of SAMPLERS; raises BadInput otherwise."""
    if name not in SAMPLERS:
        raise BadInput(f"utility.sampler must be one of {', '.join(SAMPLERS)}, got {name}")
    return name


def minima(belief: Belief, sampler: str, samples: int, points: int) -> Float[np.ndarray, " k"]:
    """Return `samples` samples of f*: by the Gumbel approximation, or by joint draws at up to `points` candidates.

    The Gumbel has a tail above the lowest known value, where MES, with f* above f, would grow without bound at points
    that are known; samples there are put one sd below the lowest posterior mean of an observed point.
    """
    posterior, X, _ = prior(belief)
    rng = belief.rng(f"minima {sampler}")
    if sampler == "gumbel":
        known, offered = posterior.moments(X), belief.latent
        mean, variance = (np.concatenate([a, b]) for a, b in zip(known, offered, strict=True))
        best = int(known[0].argmin())
        highest = known[0][best] - np.sqrt(known[1][best])  # f* is no higher than what is known of the best point
        return np.minimum(gumbel(mean, np.sqrt(variance), rng.random(samples)), highest)
    support = observed_and_leading(belief, points)
    return posterior.joint(support).draw(rng.standard_normal((samples, len(support)))).min(axis=1)


def gumbel(
    mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], uniform: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Return samples of min_i f_i, f_i ~ N(mean_i, sd_i^2) taken as independent, from a Gumbel fitted to its quartiles.

    P(min > y) = prod Phi((mean_i - y) / sd_i). With r its value at a sample, -min ~ Gumbel(a, b):
    y = -a + b log(-log r); (a, b) match the quartiles 1 and 3 in spread and the median in place.
    Source: Wang and Jegelka 2017, "Max-value entropy search for efficient Bayesian optimization", Gumbel sampling.
    """
    sd = np.maximum(sd, 1e-12 * max(float(sd.max()), 1e-300))
    highest = float((mean + 0.675 * sd).min())  # P(min > highest) <= 1/4
    possible = mean - _SURE * sd <= highest
    mean, sd = mean[possible], sd[possible]
    first = np.argsort(mean - sd, kind="stable")[:_FEW]  # of fewer points the minimum is higher: a start from above
    q1, q2, q3 = _quartiles(mean, sd, _quartiles(mean[first], sd[first], np.full(3, highest)))
    inner = log(-log(_QUARTILES))
    b = max(float((q1 - q3) / (inner[0] - inner[2])), 0.0)
    return q2 + b * (log(-log(uniform)) - inner[1])


def _quartiles(
    mean: Float[np.ndarray, " m"], sd: Float[np.ndarray, " m"], start: Float[np.ndarray, " 3"]
) -> Float[np.ndarray, " 3"]:
    """Return the y with log P(min > y) = log 1/4, 1/2, 3/4 by Newton's method; `start` is no lower than they are.

    log P(min > y) = sum log Phi((mean_i - y) / sd_i) falls and is concave, so that from above every step stays above.
    """
    wanted, y = log(_QUARTILES), start
    for _ in range(_NEWTON):
        log_cdf, slope = np.array([log_survival(mean, sd, value) for value in y]).T
        step = np.maximum((wanted - log_cdf) / slope, 0.0)
        y = y - step
        if (step <= _EXACT * np.abs(y - mean.min()) + _EXACT * sd.min()).all():
            break
    return y

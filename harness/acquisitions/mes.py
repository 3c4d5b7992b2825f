"""Max-value entropy search, for minimisation: what an observation tells about the lowest value f*."""

import math
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr

from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import LookAhead, prior
from harness.acquisitions.minima import known_sampler, minima
from harness.acquisitions.tails import ROWS, sums, tails
from harness.checks import whole
from harness.compiler import njit
from harness.elementary import exp, log, logsumexp

_SMALL = 6.0  # above it both terms are computed in logs
_FAR = 30.0  # above it all terms are: their sum would soon underflow


class MaxValueEntropySearch(LookAhead):
    """MES(x) = mean_k [g psi(g) / (2 Psi(g)) - log Psi(g)], g = (mu(x) - f*_k) / sd(x), psi, Psi the normal pdf, cdf.

    This is the mutual information of f(x) and f* in nats, given `samples` samples f*_k of the minimum: by a ``gumbel``
    fitted to the marginals, or ``joint`` draws at the observed points and the `points` best candidates by EI.
    Source: Wang and Jegelka 2017, "Max-value entropy search for efficient Bayesian optimization" (the closed form of
    MES), with signs for a minimum.
    """

    name: ClassVar[str] = "mes"

    def __init__(self, sampler: str = "gumbel", samples: int = 32, points: int = 200) -> None:
        self.sampler = known_sampler(sampler)
        self.samples, self.points = whole("utility.samples", samples, 1), whole("utility.points", points, 1)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log MES of each candidate."""
        lowest = minima(belief, self.sampler, self.samples, self.points)
        return self.given(*belief.latent, prior(belief)[0].noise, lowest)

    def given(
        self,
        mean: Float[np.ndarray, " m"],
        variance: Float[np.ndarray, " m"],
        noise: float,
        lowest: Float[np.ndarray, " k"],
    ) -> Float[np.ndarray, " m"]:
        """Return the log value given the samples `lowest` of f*; variance > 0: of the latent function."""
        sd, signal = np.sqrt(variance), variance / (variance + noise)
        out = log(self.totals(mean, sd, signal, lowest))
        far = mean - lowest.max() > _FAR * sd
        if far.any():
            gap = (mean[far, None] - lowest) / sd[far, None]
            out[far] = logsumexp(self.log_term(gap, signal[far, None]), axis=1)
        return out - math.log(len(lowest))

    def totals(self, *parts: Float[np.ndarray, "_"]) -> Float[np.ndarray, " m"]:
        """Return the sums over k of the terms themselves (`tails.sums`), much faster than logs; they may underflow."""
        return _totals(*parts)  # type: ignore[no-any-return]

    def log_term(self, gap: Float[np.ndarray, "m k"], signal: Float[np.ndarray, "m 1"]) -> Float[np.ndarray, "m k"]:
        """Return log(g psi / (2 Psi) - log Psi); signal (the share of the variance that is not noise) is not used."""
        return log_information(gap)


@njit(inline="always")
@no_type_check
def _information(g, signal, work):  # type: ignore[no-untyped-def]
    """Return the sum of g psi / (2 Psi) - log Psi, `log_information` without the logs."""
    n, total = len(g), 0.0
    term, ratio = work[ROWS + 1, :n], work[ROWS + 2, :n]
    tails(g, work, term, ratio)
    for k in range(n):
        term[k] = max(term[k] + 0.5 * g[k] * ratio[k], 0.0)
    for k in range(n):
        total += term[k]
    return total


@njit(cache=True, error_model="numpy")
@no_type_check
def _totals(mean, sd, signal, lowest):  # type: ignore[no-untyped-def]
    return sums(_information, mean, sd, signal, lowest)


def log_information(g: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """Return log(g psi(g) / (2 Psi(g)) - log Psi(g)) without underflow for large g, nor cancellation for low."""
    out, far = np.empty(g.shape), g > _SMALL
    low, high = g[~far], g[far]
    log_cdf = log_ndtr(low)
    plain = 0.5 * low * density_ratio(low) - log_cdf
    out[~far] = log(np.maximum(plain, 0.0))
    tail = math.sqrt(0.5 * math.pi) * erfcx(high * math.sqrt(0.5))  # (1 - Psi) / psi
    upper = exp(log_pdf(high)) * tail
    # -log Psi = u + u^2 / 2, u = 1 - Psi < 1e-9; and 1 / Psi = 1 + u
    out[far] = log_pdf(high) + log(0.5 * high * (1.0 + upper) + tail * (1.0 + 0.5 * upper))
    return out


def density_ratio(g: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return psi(g) / Psi(g); below 0 not by their logs, which are large there and cancel."""
    ratio, below = exp(log_pdf(g) - log_ndtr(g)), g < 0.0
    ratio[below] = 1.0 / (math.sqrt(0.5 * math.pi) * erfcx(-g[below] * math.sqrt(0.5)))
    return ratio


def log_pdf(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return the log of the standard normal density."""
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)

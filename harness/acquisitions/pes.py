"""Predictive entropy search: how much knowing where the minimum lies would narrow down the observation."""

from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import LookAhead, observed_and_leading, prior
from harness.acquisitions.mes import log_pdf
from harness.acquisitions.tails import BLOCK, ROWS, ratios
from harness.checks import whole
from harness.compiler import njit
from harness.elementary import exp, log, log1p

_NOTHING = 1e-12  # of the variance: below, f(x) - f(x*) is 0


class PredictiveEntropySearch(LookAhead):
    """PES(x) = 1/2 log(var(x) + noise) - mean_k 1/2 log(var(x | x*_k) + noise), x*_k samples of the minimiser.

    x*_k: the argmin of a joint draw at the observed points and the `points` best candidates by EI. The approximation
    of var(x | x*_k), the latent variance if x*_k is the minimiser, is assumed density filtering with two factors:
    f(x*) <= lowest observation, softened by the noise; then f(x*) <= f(x). Each truncated Gaussian is replaced by the
    Gaussian of its first two moments. Left out of the paper's method: the gradient and Hessian at x* (candidates are
    finitely many, some dimensions integer), and expectation propagation's iterations over all observations.
    Source: Hernandez-Lobato, Hoffman and Ghahramani 2014, "Predictive entropy search for efficient global optimization
    of black-box functions": its objective, and of its conditions on the minimiser those on values.
    """

    name: ClassVar[str] = "pes"

    def __init__(self, samples: int = 32, points: int = 200) -> None:
        self.samples, self.points = whole("utility.samples", samples, 1), whole("utility.points", points, 1)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log PES; -inf where x* tells nothing about x."""
        posterior, _, C = prior(belief)
        support = observed_and_leading(belief, self.points)
        normals = belief.rng("pes").standard_normal((self.samples, len(support)))
        where = posterior.joint(support).draw(normals).argmin(axis=1)
        places, count = np.unique(where, return_counts=True)
        star = support[places]
        mean, variance = belief.latent
        fallen = variance_reduction(
            mean, variance, *posterior.moments(star), posterior.covariance(C, star), belief.incumbent, posterior.noise
        )
        gain = -log1p(-fallen / (variance + posterior.noise)[:, None])
        return log(np.maximum(0.5 * (gain * (count / count.sum())).sum(axis=1), 0.0))


def variance_reduction(
    mean: Float[np.ndarray, " m"],
    variance: Float[np.ndarray, " m"],
    star_mean: Float[np.ndarray, " k"],
    star_variance: Float[np.ndarray, " k"],
    covariance: Float[np.ndarray, "m k"],
    incumbent: float,
    noise: float,
) -> Float[np.ndarray, "m k"]:
    """Return var f(x) - var(f(x) | f(x*) <= incumbent + noise, f(x*) <= f(x)) by two moment matchings, below var f(x).

    The difference itself, since next to the variance a small one would be lost.
    """
    scale = np.sqrt(star_variance + noise)
    lam, shrink = _truncated((incumbent - star_mean) / scale)
    own_pull = star_variance / scale  # of f(x*) by the first factor
    star = np.stack([scale, lam, shrink, own_pull, star_mean - own_pull * lam, star_variance - own_pull**2 * shrink])
    return _fallen(mean, variance, star, np.ascontiguousarray(covariance))  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy")
@no_type_check
def _fallen(mean, variance, star, covariance):  # type: ignore[no-untyped-def]
    """Return the reductions; star: scale, lam, shrink and pull of the first factor, and mean and variance after it."""
    out, work = np.empty(covariance.shape), np.empty((ROWS + 4, BLOCK))
    for i in range(len(mean)):
        nothing, most = _NOTHING * variance[i], (1.0 - _NOTHING) * variance[i]
        for start in range(0, covariance.shape[1], BLOCK):
            end = min(start + BLOCK, covariance.shape[1])
            n = end - start
            scale, lam, shrink = star[0, start:end], star[1, start:end], star[2, start:end]
            own_pull, star_mean, star_variance = star[3, start:end], star[4, start:end], star[5, start:end]
            c, fallen = covariance[i, start:end], out[i, start:end]
            a, first, second = work[ROWS, :n], work[ROWS + 1, :n], work[ROWS + 2, :n]
            ratio = work[ROWS + 3, :n]
            for k in range(n):
                pull = c[k] / scale[k]  # of f(x) by the first factor
                first[k] = pull * pull * shrink[k]
                v, both = variance[i] - first[k], c[k] - pull * own_pull[k] * shrink[k]
                spread = v + star_variance[k] - 2.0 * both  # variance of f(x) - f(x*)
                tied = spread <= nothing
                sd = np.sqrt(1.0 if tied else spread)
                a[k] = 0.0 if tied else (mean[i] - pull * lam[k] - star_mean[k]) / sd
                second[k] = 0.0 if tied else ((v - both) / sd) ** 2
            ratios(a, work, ratio)
            for k in range(n):
                share = min(max(ratio[k] * (ratio[k] + a[k]), 0.0), 1.0)
                fallen[k] = min(max(first[k] + second[k] * share, 0.0), most)
    return out


def _truncated(a: Float[np.ndarray, "*s"]) -> tuple[Float[np.ndarray, "*s"], Float[np.ndarray, "*s"]]:
    """Return E[u] and 1 - var[u] of u ~ N(0, 1) given u >= -a: r = phi(a) / Phi(a), and r (r + a)."""
    r = exp(log_pdf(a) - log_ndtr(a))
    return r, np.clip(r * (r + a), 0.0, 1.0)

"""The knowledge gradient: by how much the lowest posterior mean will fall."""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from harness.acquisitions.belief import Belief
from harness.acquisitions.envelope import log_expected_gain
from harness.acquisitions.lookahead import LookAhead, leaders_by_value, prior
from harness.checks import whole
from harness.elementary import log


class KnowledgeGradient(LookAhead):
    """KG(x) = min_A mu - E[min_{A, x} (mu + sigma~(., x) Z)], Z ~ N(0, 1), over a finite set A, and x itself after it.

    sigma~(a, x) = cov(a, x) / sqrt(var(x) + noise). A: the observed points, and of the candidates the `points` best
    ones, half by EI and half by posterior mean (all of them where they are no more). Exact on A by the upper envelope
    of the lines -mu_a - sigma~_a Z. With points = 0 and no noise it is EI. draws > 0: the mean over so many draws of Z
    instead, which is its check.
    Source: Frazier, Powell and Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs" (the exact
    form); Frazier 2018, "A tutorial on Bayesian optimization", the section on the knowledge gradient;
    Bischl et al., AutoML lecture, "Computationally expensive acquisition functions" (the form with draws).
    """

    name: ClassVar[str] = "kg"

    def __init__(self, points: int = 100, draws: int = 0) -> None:
        self.points, self.draws = whole("utility.points", points, 0), whole("utility.draws", draws, 0)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log KG in units of y; -inf where no observation can move the minimum."""
        posterior, X, C = prior(belief)
        mean, variance = belief.latent
        A = np.vstack([X, C[self._leaders(belief, mean)]])
        sd = np.sqrt(variance + posterior.noise)
        level = posterior.moments(A)[0]
        order = np.argsort(level, kind="stable")  # as the envelope wants the lines
        level, slope = level[order], posterior.covariance(C, A[order])
        slope /= sd[:, None]
        if self.draws == 0:
            gain = log_expected_gain(-level, np.negative(slope, out=slope), -mean, -variance / sd)
        else:
            z = belief.rng("kg").standard_normal(self.draws)
            gain = log_gain_by_sampling(level, slope, mean, variance / sd, z)
        # the gain is over the lowest mean with x, which counts from now on
        return np.logaddexp(gain, log(np.maximum(level.min() - mean, 0.0)))

    def _leaders(self, belief: Belief, mean: Float[np.ndarray, " m"]) -> np.ndarray:
        if self.points == 0:
            return np.empty(0, np.intp)
        if self.points >= len(mean):
            return np.arange(len(mean))
        by_value = leaders_by_value(belief, (self.points + 1) // 2)
        order = np.argsort(mean, kind="stable")
        return np.union1d(by_value, order[~np.isin(order, by_value)][: self.points - len(by_value)])


def log_gain_by_sampling(
    level: Float[np.ndarray, " a"],
    slope: Float[np.ndarray, "m a"],
    own_level: Float[np.ndarray, " m"],
    own_slope: Float[np.ndarray, " m"],
    z: Float[np.ndarray, " s"],
) -> Float[np.ndarray, " m"]:
    """Return the log of min mu - mean_s min (mu + slope z_s) over the a points and the own one, as in the lecture."""
    out = np.empty(len(slope))
    for j in range(len(slope)):
        means, slopes = np.append(level, own_level[j]), np.append(slope[j], own_slope[j])
        out[j] = means.min() - (means[:, None] + slopes[:, None] * z).min(axis=0).mean()
    return log(np.maximum(out, 0.0))

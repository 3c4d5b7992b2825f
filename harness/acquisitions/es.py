"""Entropy search: how much an observation is expected to narrow down where the minimum lies."""

from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr

from harness.acquisitions.belief import Belief
from harness.acquisitions.lookahead import MOST_NODES, LookAhead, latent_log_ei, leaders, prior, spread
from harness.checks import whole
from harness.compiler import njit
from harness.elementary import gauss_hermite, log
from harness.surrogates.joint import root
from harness.surrogates.matrices import dot, product, solve_lower, transposed_product
from harness.surrogates.protocol import JointPosterior

_ROUNDING = 1e-14  # nats: a difference of entropies no larger is that of their last digits


class EntropySearch(LookAhead):
    """ES(x) = H[p_min] - E_y H[p_min | y at x] in nats, p_min the distribution of argmin f over representer points.

    Representer points: the observed point of lowest posterior mean, the candidate of lowest mean, and others drawn
    from the candidates with probability proportional to EI, without replacement. p_min: relative frequencies of
    the argmin of `draws` joint draws, the same normal numbers for every candidate and outcome. The expectation over y
    is a Gauss-Hermite rule of `outcomes` nodes; H[p_min] is that of the mixture of its outcomes, so that ES >= 0.
    Only the `shortlist` best candidates by EI and EI per cost are scored, the others count as 0.
    Source: Bischl et al., AutoML lecture, "Computationally expensive acquisition functions", entropy search by
    sampling; Hennig and Schuler 2012, "Entropy search for information-efficient global optimization".
    """

    name: ClassVar[str] = "es"

    def __init__(self, representers: int = 50, draws: int = 512, outcomes: int = 7, shortlist: int = 100) -> None:
        self.representers = whole("utility.representers", representers, 1)
        self.draws, self.outcomes = whole("utility.draws", draws, 1), whole("utility.outcomes", outcomes, 2, MOST_NODES)
        self.shortlist = whole("utility.shortlist", shortlist, 1)

    def log_value(self, belief: Belief) -> Float[np.ndarray, " m"]:
        """Return log ES; -inf where nothing is learned of the minimum's place, and off the shortlist."""
        posterior, _, C = prior(belief)
        chosen = leaders(latent_log_ei(belief), belief.log_cost, self.shortlist)
        support = self._support(belief, posterior)
        normals = belief.rng("es draws").standard_normal((self.draws, len(support) + 1))
        value = information(posterior, support, C[chosen], normals, self.outcomes)
        return spread(chosen, log(np.maximum(value, 0.0)), len(C))

    def _support(self, belief: Belief, posterior: JointPosterior) -> Float[np.ndarray, "r d"]:
        _, X, C = prior(belief)
        best = X[posterior.moments(X)[0].argmin()][None]
        lowest = int(belief.latent[0].argmin())
        if self.representers == 1:
            return best
        log_weight = np.maximum(latent_log_ei(belief), -1e300)
        gumbel = belief.rng("es representers").gumbel(size=len(C))
        order = np.argsort(-(log_weight + gumbel), kind="stable")  # Gumbel top-k: draws without replacement
        others = order[order != lowest][: max(0, self.representers - 2)]
        return np.vstack([best, C[np.append(lowest, others)]])


def information(
    posterior: JointPosterior,
    support: Float[np.ndarray, "r d"],
    C: Float[np.ndarray, "m d"],
    normals: Float[np.ndarray, "s q"],
    outcomes: int,
) -> Float[np.ndarray, " m"]:
    """Return the mutual information of argmin f over `support` and an observation at each of `C`, in nats.

    Given the outcome z sd above its mean, f at the support is f_s + sigma~ (z - z_s) for draws f_s = mu + L n_s and
    what these make of the outcome, z_s = (L^-1 sigma~)^T n_s + e_s sqrt(1 - |L^-1 sigma~|^2): Matheron's rule, so that
    all candidates share the draws. normals: n_s, and e_s in the last of their q = r + 1 columns.
    """
    joint = posterior.joint(support)
    factor = root(joint.covariance)
    variance = posterior.moments(C)[1]
    sd = np.sqrt(variance + posterior.noise)
    influence = posterior.covariance(C, support) / sd[:, None]
    own = solve_lower(factor, influence.T)  # L^-1 sigma~
    square, most = np.square(own).sum(axis=0), variance / np.square(sd)
    own *= np.sqrt(np.minimum(1.0, most / np.maximum(square, np.finfo(float).tiny)))  # f cannot explain more than f(x)
    rest = np.sqrt(1.0 - np.minimum(square, most))
    drawn = product(factor, normals[:, :-1].T)
    outcome = transposed_product(own, normals[:, :-1].T) + np.outer(rest, normals[:, -1])
    z, weight = gauss_hermite(outcomes)
    out = np.empty(len(C))
    for i in range(len(C)):
        shares = _wins(drawn, joint.mean, influence[i], outcome[i], z) / len(normals)
        out[i] = entr((weight[:, None] * shares).sum(axis=0)).sum() - dot(weight, entr(shares).sum(axis=1))
    return np.where(out > _ROUNDING, out, 0.0)


@njit(cache=True, error_model="numpy")
@no_type_check
def _wins(
    draws: Float[np.ndarray, "r s"],
    mean: Float[np.ndarray, " r"],
    influence: Float[np.ndarray, " r"],
    outcome: Float[np.ndarray, " s"],
    z: Float[np.ndarray, " j"],
) -> Int[np.ndarray, "j r"]:
    """Return in how many of the s draws each of r points, mean + draw + influence (z_j - outcome), is lowest.

    Of several the first. Point by point over all draws at once, which the compiler turns into wide instructions.
    """
    points, size = draws.shape
    wins = np.zeros((len(z), points), np.int64)
    lowest, place = np.empty(size), np.empty(size)  # place is a float: as wide as lowest
    moved = np.empty(draws.shape)
    for r in range(points):
        for s in range(size):
            moved[r, s] = draws[r, s] - influence[r] * outcome[s]
    for j in range(len(z)):
        first, shift = moved[0], mean[0] + influence[0] * z[j]
        for s in range(size):
            lowest[s], place[s] = first[s] + shift, 0.0
        for r in range(1, points):
            row, shift, here = moved[r], mean[r] + influence[r] * z[j], float(r)
            for s in range(size):
                value = row[s] + shift
                less = value < lowest[s]
                lowest[s] = value if less else lowest[s]
                place[s] = here if less else place[s]
        for s in range(size):
            wins[j, int(place[s])] += 1
    return wins


def p_min(draws: Float[np.ndarray, "s r"]) -> Float[np.ndarray, " r"]:
    """Return how often each of r points has the lowest of its draw's values."""
    return np.bincount(draws.argmin(axis=1), minlength=draws.shape[1]) / len(draws)

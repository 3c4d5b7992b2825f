"""Utilities from information theory: how much an observation is expected to say of the minimum.

Entropy search (ES) and predictive entropy search (PES) ask where the minimum lies, max-value entropy search (MES) and
GIBBON how low it is; the latter two draw samples of the lowest value.
"""

import math
from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float
from scipy.special import entr, erfcx, log_ndtr

from harness.acquisitions import StepContext
from harness.acquisitions.lookahead import (
    MOST_NODES,
    LookAhead,
    joint_posterior,
    latent_log_ei,
    leaders,
    observed_and_leading,
    spread,
)
from harness.arrays import CandidatePoints, PerCandidate
from harness.compile_cache import njit
from harness.errors import one_of, whole
from harness.normal import (
    BLOCK,
    ROWS,
    exp,
    gauss_hermite,
    log,
    log1p,
    log_survival,
    logsumexp,
    minus_log1m,
    ratios,
    sums,
    tails,
)
from harness.surrogates import Posterior, root
from harness.surrogates.likelihood import dot, product, solve_lower, transposed_product

# Entropy search: how much an observation is expected to narrow down where the minimum lies.

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

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log ES; -inf where nothing is learned of the minimum's place, and off the shortlist."""
        posterior, _, C = joint_posterior(context)
        chosen = leaders(latent_log_ei(context), context.log_cost, self.shortlist)
        support = self._support(context, posterior)
        normals = context.rng("es draws").standard_normal((self.draws, len(support) + 1))
        value = information(posterior, support, C[chosen], normals, self.outcomes)
        return spread(chosen, log(np.maximum(value, 0.0)), len(C))

    def _support(self, context: StepContext, posterior: Posterior) -> Float[np.ndarray, "r d"]:
        _, X, C = joint_posterior(context)
        best = X[posterior.moments(X)[0].argmin()][None]
        lowest = int(context.latent[0].argmin())
        if self.representers == 1:
            return best
        log_weight = np.maximum(latent_log_ei(context), -1e300)
        gumbel = context.rng("es representers").gumbel(size=len(C))
        order = np.argsort(-(log_weight + gumbel), kind="stable")  # Gumbel top-k: draws without replacement
        others = order[order != lowest][: max(0, self.representers - 2)]
        return np.vstack([best, C[np.append(lowest, others)]])


def information(
    posterior: Posterior,
    support: Float[np.ndarray, "r d"],
    C: CandidatePoints,
    normals: Float[np.ndarray, "s q"],
    outcomes: int,
) -> PerCandidate:
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
    drawn = product(factor, normals[:, :-1].T, triangular=True)
    outcome = transposed_product(own, normals[:, :-1].T) + np.outer(rest, normals[:, -1])
    z, weight = gauss_hermite(outcomes)
    out = np.empty(len(C))
    for i in range(len(C)):
        shares = _wins(drawn, joint.mean, influence[i], outcome[i], z) / len(normals)
        out[i] = entr((weight[:, None] * shares).sum(axis=0)).sum() - dot(weight, entr(shares).sum(axis=1))
    return np.where(out > _ROUNDING, out, 0.0)


@njit(cache=True, error_model="numpy")
@no_type_check
def _wins(draws, mean, influence, outcome, z):  # type: ignore[no-untyped-def]
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


# Samples of the lowest value that the objective may have, f* = min f over candidates and observed points.

SAMPLERS = ("gumbel", "joint")
_QUARTILES = np.array([0.25, 0.5, 0.75])
_FEW, _NEWTON, _EXACT = 64, 100, 1e-13  # points of the first round; iterations at most, about five are needed
_SURE = 7.0  # sd above the range of the minimum's quartiles: such a point is the lowest with probability below 2e-12


def lowest_values(context: StepContext, sampler: str, samples: int, points: int) -> Float[np.ndarray, " k"]:
    """Return `samples` samples of f*: by the Gumbel approximation, or by joint draws at up to `points` candidates.

    The Gumbel has a tail above the lowest known value, where MES, with f* above f, would grow without bound at points
    that are known; samples there are put one sd below the lowest posterior mean of an observed point.
    """
    posterior, X, _ = joint_posterior(context)
    rng = context.rng(f"minima {sampler}")
    if sampler == "gumbel":
        known, offered = posterior.moments(X), context.latent
        mean, variance = (np.concatenate([a, b]) for a, b in zip(known, offered, strict=True))
        best = int(known[0].argmin())
        highest = known[0][best] - np.sqrt(known[1][best])  # f* is no higher than what is known of the best point
        return np.minimum(gumbel(mean, np.sqrt(variance), rng.random(samples)), highest)
    support = observed_and_leading(context, points)
    return posterior.joint(support).draw(rng.standard_normal((samples, len(support)))).min(axis=1)


def gumbel(mean: PerCandidate, sd: PerCandidate, uniform: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
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


def _quartiles(mean: PerCandidate, sd: PerCandidate, start: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " 3"]:
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


# Max-value entropy search, for minimisation: what an observation says of the lowest value f*.

_SMALL = 6.0  # above it both terms are computed in logs
_MES_FAR = 30.0  # above it all terms are: their sum would soon underflow


class MaxValueEntropySearch(LookAhead):
    """MES(x) = mean_k [g psi(g) / (2 Psi(g)) - log Psi(g)], g = (mu(x) - f*_k) / sd(x), psi, Psi the normal pdf, cdf.

    This is the mutual information of f(x) and f* in nats, given `samples` samples f*_k of the minimum: by a ``gumbel``
    fitted to the marginals, or ``joint`` draws at the observed points and the `points` best candidates by EI.
    Source: Wang and Jegelka 2017, "Max-value entropy search for efficient Bayesian optimization" (the closed form of
    MES), with signs for a minimum.
    """

    name: ClassVar[str] = "mes"

    def __init__(self, sampler: str = "gumbel", samples: int = 32, points: int = 200) -> None:
        self.sampler = one_of("utility.sampler", sampler, SAMPLERS)
        self.samples, self.points = whole("utility.samples", samples, 1), whole("utility.points", points, 1)

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log MES of each candidate."""
        lowest = lowest_values(context, self.sampler, self.samples, self.points)
        return self.given(*context.latent, joint_posterior(context)[0].noise, lowest)

    def given(
        self, mean: PerCandidate, variance: PerCandidate, noise: float, lowest: Float[np.ndarray, " k"]
    ) -> PerCandidate:
        """Return the log value given the samples `lowest` of f*; variance > 0: of the latent function."""
        sd, signal = np.sqrt(variance), variance / (variance + noise)
        out = log(self.totals(mean, sd, signal, lowest))
        far = mean - lowest.max() > _MES_FAR * sd
        if far.any():
            gap = (mean[far, None] - lowest) / sd[far, None]
            out[far] = logsumexp(self.log_term(gap, signal[far, None]), axis=1)
        return out - math.log(len(lowest))

    def totals(self, *parts: Float[np.ndarray, "_"]) -> PerCandidate:
        """Return the sums over k of the terms themselves (`normal.sums`), much faster than logs; they may underflow."""
        return _mes_totals(*parts)  # type: ignore[no-any-return]

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
def _mes_totals(mean, sd, signal, lowest):  # type: ignore[no-untyped-def]
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


# GIBBON for one evaluation at a time: a lower bound of what a noisy observation says of the lowest value.

_GIBBON_FAR = 25.0  # above it the reduction is so small that log1p(-x) = -x to rounding, and it would soon underflow
_MOST = 1.0 - 2.0**-53  # share of the variance that f* can take away


class Gibbon(MaxValueEntropySearch):
    """GIBBON(x) = -1/2 mean_k log(1 - rho^2 r (g + r)), r = psi(g) / Psi(g), g = (mu(x) - f*_k) / sd(x).

    rho^2 = sd^2 / (sd^2 + noise). The variance of the observation given f* is that of a truncated Gaussian plus noise;
    the entropy of a Gaussian of that variance bounds its entropy from above, so this bounds MES with noise from below.
    Source: Moss, Leslie, Gonzalez and Rayson 2021, "GIBBON: general-purpose information-based Bayesian optimisation",
    with batch size 1.
    """

    name: ClassVar[str] = "gibbon"

    def log_term(self, gap: Float[np.ndarray, "m k"], signal: Float[np.ndarray, "m 1"]) -> Float[np.ndarray, "m k"]:
        """Return log(-log(1 - rho^2 r (g + r)) / 2), rho^2 = `signal`."""
        near = np.minimum(gap, _GIBBON_FAR)
        r = density_ratio(gap)
        share = np.clip(signal * r * (near + r), 0.0, _MOST)
        exact = log(-0.5 * log1p(-share))
        if not (gap > _GIBBON_FAR).any():
            return exact
        log_r = log_pdf(gap) - log_ndtr(gap)
        far = log(0.5 * signal) + log_r + log(np.maximum(gap, _GIBBON_FAR))
        return np.where(gap > _GIBBON_FAR, far, exact)

    def totals(self, *parts: Float[np.ndarray, "_"]) -> PerCandidate:
        """Return the sums over k of the terms themselves (`normal.sums`)."""
        return _gibbon_totals(*parts)  # type: ignore[no-any-return]


@njit(inline="always")
@no_type_check
def _reduction(g, signal, work):  # type: ignore[no-untyped-def]
    """Return the sum of -log(1 - rho^2 r (g + r)) / 2, rho^2 = `signal`."""
    n, largest, total = len(g), 0.0, 0.0
    share, ratio = work[ROWS + 1, :n], work[ROWS + 2, :n]
    ratios(g, work, ratio)
    for k in range(n):
        share[k] = min(max(signal * ratio[k] * (g[k] + ratio[k]), 0.0), _MOST)
        ratio[k] = minus_log1m(share[k])
    for k in range(n):
        largest = max(largest, share[k])
    if largest > 0.5:
        for k in range(n):
            if share[k] > 0.5:
                ratio[k] = -math.log1p(-share[k])
    for k in range(n):
        total += 0.5 * ratio[k]
    return total


@njit(cache=True, error_model="numpy")
@no_type_check
def _gibbon_totals(mean, sd, signal, lowest):  # type: ignore[no-untyped-def]
    return sums(_reduction, mean, sd, signal, lowest)


# Predictive entropy search: how much knowing where the minimum lies would narrow down the observation.

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

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log PES; -inf where x* says nothing of x."""
        posterior, _, C = joint_posterior(context)
        support = observed_and_leading(context, self.points)
        normals = context.rng("pes").standard_normal((self.samples, len(support)))
        where = posterior.joint(support).draw(normals).argmin(axis=1)
        places, count = np.unique(where, return_counts=True)
        star = support[places]
        mean, variance = context.latent
        fallen = variance_reduction(
            mean, variance, *posterior.moments(star), posterior.covariance(C, star), context.incumbent, posterior.noise
        )
        gain = -log1p(-fallen / (variance + posterior.noise)[:, None])
        return log(np.maximum(0.5 * (gain * (count / count.sum())).sum(axis=1), 0.0))


def variance_reduction(
    mean: PerCandidate,
    variance: PerCandidate,
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

"""Utilities that look ahead against independent truths: every function returns the largest deviation that it measures.

The tests hold these against tolerances, and `python tests/bench truth` prints them.
"""

import mpmath
import numpy as np
from lookahead_cases import data, grid, make_context, posterior
from scipy.integrate import quad
from scipy.special import entr, ndtr, ndtri
from scipy.stats import norm, qmc

from harness.acquisitions.ei import gittins, log_ei
from harness.acquisitions.entropy import EntropySearch, Gibbon, MaxValueEntropySearch, information, p_min
from harness.acquisitions.kg import KnowledgeGradient
from harness.acquisitions.lookahead import latent_log_ei
from harness.acquisitions.rollouts import BudgetedMultiStepEI, MonteCarloMultiStep
from harness.surrogates import Joint


def kg_by_quasi_monte_carlo(noise: float, m: int = 15) -> float:
    """KG against conditioning the posterior itself on 2^m quasi-random observations; no formula of the envelope's."""
    X, y = data(8)
    C = np.random.default_rng(1).random((40, 2))
    context = make_context(C, X, y, posterior(X, y, noise=noise))
    z = ndtri(qmc.Sobol(1, rng=np.random.default_rng(0)).random_base2(m)[:, 0])
    A, expected = np.vstack([X, C]), []
    for c in C:
        joint = context.history.posterior.joint(np.vstack([A, c]))
        last = len(A)
        sd = np.sqrt(joint.covariance[-1, -1] + joint.noise)
        low, high = joint.condition(last, joint.mean[-1]), joint.condition(last, joint.mean[-1] + sd)
        means = low.mean[:, None] + (high.mean - low.mean)[:, None] * z
        expected.append(joint.mean.min() - means.min(axis=0).mean())
    exact = np.exp(KnowledgeGradient(points=40).log_value(context))
    assert exact.max() > 0.02
    return float(np.abs(exact - expected).max())


def kg_noiseless_observed_only_is_ei() -> float:
    """Log KG with no candidates in its set and hardly any noise against log EI, where EI > 1e-6."""
    X, y = data(7)
    C = np.random.default_rng(2).random((60, 2))
    context = make_context(C, X, y, posterior(X, y, noise=1e-14))
    expected = log_ei(y.min() - context.mean, context.sd)
    likely = expected > np.log(1e-6)
    assert likely.sum() > 20
    return float(np.abs(KnowledgeGradient(points=0).log_value(context) - expected)[likely].max())


def mes_term_by_formula(g: float) -> float:
    """The log of one term of MES against 60 digits, relative (absolute below 1)."""
    with mpmath.workdps(60):
        x = mpmath.mpf(g)
        log_cdf = mpmath.log1p(-mpmath.ncdf(-x)) if g > 0 else mpmath.log(mpmath.ncdf(x))
        exact = float(mpmath.log(x * mpmath.npdf(x) / (2 * mpmath.exp(log_cdf)) - log_cdf))
    return float(abs(_term(MaxValueEntropySearch(), g) - exact) / max(1.0, abs(exact)))


def mes_term_by_integration(g: float) -> float:
    """One term of MES against H[N(0, 1)] - H[N(0, 1) | f >= -g] by integration, relative: f* is g sd below the mean."""
    entropy, _ = quad(lambda x: float(entr(norm.pdf(x) / norm.sf(-g))), -g, 12.0, epsabs=1e-13, epsrel=1e-12)
    difference = 0.5 * np.log(2 * np.pi * np.e) - entropy
    return float(abs(np.exp(_term(MaxValueEntropySearch(), g)) / difference - 1.0))


def _term(utility: MaxValueEntropySearch, g: float, noise: float = 1.0) -> float:
    """The utility of a candidate g sd above the only sample of the minimum: one term of its mean."""
    return float(utility.given(np.array([g]), np.array([1.0]), noise, np.array([0.0]))[0])


def gibbon_term_by_formula(g: float, signal: float = 0.5) -> float:
    """The log of one term of GIBBON against 60 digits, relative."""
    with mpmath.workdps(60):
        r = mpmath.npdf(g) / mpmath.ncdf(g)
        exact = float(mpmath.log(-mpmath.log1p(-mpmath.mpf(signal) * r * (mpmath.mpf(g) + r)) / 2))
    return float(abs(_term(Gibbon(), g, 1.0 / signal - 1.0) / exact - 1.0))


def pbgi_residual() -> float:
    """EI(x; g) / (lambda c) - 1 at the index g, over means, sds and prices of many sizes."""
    rng = np.random.default_rng(0)
    mean, sd, price = rng.normal(0, 2, 300), 10.0 ** rng.uniform(-3, 1, 300), 10.0 ** rng.uniform(-8, 1, 300)
    index = gittins(mean, sd, np.log(price))
    return float(np.abs(np.exp(log_ei(index - mean, sd)) / price - 1.0).max())


def information_by_brute_force(model, points: np.ndarray, c: np.ndarray) -> float:
    """I(argmin f; y at c) on a grid: y integrated finely, p_min by many draws of its own for every y."""
    joint, rng = model.joint(np.vstack([points, c])), np.random.default_rng(5)
    sd, r = np.sqrt(joint.covariance[-1, -1] + joint.noise), len(points)
    shares = []
    for z in grid(24):
        after = joint.condition(r, float(joint.mean[-1] + sd * z))
        values, vectors = np.linalg.eigh(after.covariance[:r, :r])
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        shares.append(p_min(after.mean[:r] + rng.standard_normal((6000, r)) @ half.T))
    return float(entr(np.mean(shares, axis=0)).sum() - np.mean([entr(s).sum() for s in shares]))


def es_on_a_line() -> float:
    """ES against brute force on a grid of a line, in nats."""
    X, y = np.array([[0.1], [0.45], [0.9]]), np.array([0.3, -0.2, 0.4])
    model, points = posterior(X, y, length=0.25), np.linspace(0, 1, 12)[:, None]
    C = np.linspace(0.02, 0.98, 9)[:, None]
    expected = np.array([information_by_brute_force(model, points, c) for c in C])
    found = information(model, points, C, np.random.default_rng(0).standard_normal((6000, 13)), 15)
    assert expected.max() > 0.3
    assert np.corrcoef(found, expected)[0, 1] > 0.99
    return float(np.abs(found - expected).max())


def es_at_its_defaults() -> float:
    """ES as a run uses it, against brute force on the points of the line and the best one observed, in nats."""
    X, y = np.array([[0.1], [0.45], [0.9]]), np.array([0.3, -0.2, 0.4])
    model, points = posterior(X, y, length=0.25), np.linspace(0, 1, 12)[:, None]
    found = np.exp(EntropySearch(representers=13).log_value(make_context(points, X, y, model)))
    expected = np.array([information_by_brute_force(model, np.vstack([points, X[1:2]]), c) for c in points])
    return float(np.abs(found - expected).max())


def ei(gap, variance):
    """E[max(0, g)], g ~ N(gap, variance)."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    return gap * ndtr(gap / sd) + sd * np.exp(-0.5 * (gap / sd) ** 2) / np.sqrt(2 * np.pi)


def given(mean, covariance, noise: float, i: int, y):
    """The Gaussian after observing y at i, by the textbook formula; of several y, the means are rows."""
    gain = covariance[:, i] / (covariance[i, i] + noise)
    return mean + np.multiply.outer(y - mean[i], gain), covariance - np.outer(gain, covariance[i])


def enumerate_myopic(mean, covariance, cost, i: int, best: float, left: float, free: list[int], n: int = 120):
    """The expected fall of the incumbent if i is evaluated and myopic EI goes on: every outcome in turn, noiseless."""
    if cost[i] > left + 1e-9:
        return 0.0
    total = float(ei(best - mean[i], covariance[i, i]))
    left, free = left - cost[i], [j for j in free if j != i]
    fits = [j for j in free if cost[j] <= left + 1e-9]
    if not fits:
        return total
    values = mean[i] + np.sqrt(covariance[i, i]) * grid(n)
    means, c = given(mean, covariance, 0.0, i, values)
    lowest = np.minimum(best, values)
    gains = ei(lowest[:, None] - means[:, fits], c.diagonal()[fits])
    ends = {j: all(cost[k] > left - cost[j] + 1e-9 for k in free if k != j) for j in fits}  # nothing fits after j
    later = [
        float(gain.max())
        if ends[following := fits[int(gain.argmax())]]
        else enumerate_myopic(m, c, cost, following, low, left, free, n // 4)
        for gain, m, low in zip(gains, means, lowest, strict=True)
    ]
    return total + float(np.mean(later))


def mcms_by_enumeration(cost: list[float]) -> float:
    """MCMS with 4 candidates of these seconds and 3 seconds left against full enumeration, relative."""
    X, y = np.array([[0.2, 0.2], [0.9, 0.4], [0.5, 0.95]]), np.array([1.0, 0.4, 0.8])
    C = np.array([[0.6, 0.3], [0.1, 0.8], [0.8, 0.75], [0.35, 0.5]])
    seconds, model = np.array(cost), posterior(X, y, noise=1e-10)
    context = make_context(C, X, y, model, tau=7.0, spent=4.0, log_cost=np.log(seconds))
    found = np.exp(MonteCarloMultiStep(paths=40_000, marginal=False).log_value(context))
    joint, every = model.joint(C), [0, 1, 2, 3]
    expected = [
        enumerate_myopic(joint.mean, joint.covariance, seconds, i, context.incumbent, 3.0, every) for i in every
    ]
    assert (found > np.exp(latent_log_ei(context)) * (1.02 if max(cost) == 1.0 else 1.0 - 1e-12)).all()
    return float(np.abs(found / expected - 1.0).max())


def mcms_without_the_candidate() -> float:
    """What MCMS subtracts, 4 candidates of 1 second and 3 left, against enumerated myopic EI in 2 seconds, relative."""
    X, y = np.array([[0.2, 0.2], [0.9, 0.4], [0.5, 0.95]]), np.array([1.0, 0.4, 0.8])
    C = np.array([[0.6, 0.3], [0.1, 0.8], [0.8, 0.75], [0.35, 0.5]])
    model = posterior(X, y, noise=1e-10)
    context = make_context(C, X, y, model, tau=7.0, spent=4.0)
    whole, worth = (np.exp(MonteCarloMultiStep(paths=40_000, marginal=m).log_value(context)) for m in (False, True))
    joint, first = model.joint(C), int(latent_log_ei(context).argmax())
    expected = enumerate_myopic(joint.mean, joint.covariance, np.ones(4), first, context.incumbent, 2.0, [0, 1, 2, 3])
    return float(abs((whole - worth)[worth.argmax()] / expected - 1.0))


def mcms_with_one_evaluation_left_is_ei() -> float:
    """Log MCMS in a run's last iteration, and with time for one evaluation, against log EI."""
    X, y = data(8)
    C = np.random.default_rng(1).random((50, 2))
    contexts = make_context(C, X, y, iterations=len(y) + 1), make_context(C, X, y, tau=5.9, spent=4.0)
    return max(float(np.abs(MonteCarloMultiStep(shortlist=50).log_value(b) - latent_log_ei(b)).max()) for b in contexts)


def two_steps(joint: Joint, chance, best: float, i: int, costs: np.ndarray, left: float) -> float:
    """Q_2 by a fine grid of observations and of the values behind each, and of costs; the choice knows the former."""
    variance, rest = joint.covariance[i, i], [j for j in range(len(joint.mean)) if j != i]
    fit = [c for c in costs if c <= left]
    chances = np.array([chance(left - c)[rest] for c in fit]).reshape(len(fit), len(rest))
    y = joint.mean[i] + np.sqrt(variance + joint.noise) * grid(100)
    means, covariance = given(joint.mean, joint.covariance, joint.noise, i, y)
    later = []
    for mean in means:
        f = mean[i] + np.sqrt(max(covariance[i, i], 0.0)) * grid(40)
        m, c = given(joint.mean, joint.covariance, 1e-12, i, f)  # the noise says nothing more of f elsewhere
        found = ei(np.minimum(best, f)[:, None] - m[:, rest], c.diagonal()[rest]).mean(axis=0)
        later.append((found * chances).max(axis=1).sum() / len(costs))
    return float(ei(best - joint.mean[i], joint.covariance[i, i]) * chance(left)[i] + np.mean(later))


def bmsei_by_its_recursion(uncertain: bool, **settings: int) -> float:
    """Two-step B-MS-EI against its recursion on a fine grid, relative; uncertain: costs with a log sd of 0.5."""
    X, y = data(6)
    C = np.random.default_rng(3).random((7, 2))
    mean, sd = np.log(np.array([1.0, 0.5, 2.0, 0.7, 1.5, 0.9, 1.2])), np.full(7, 0.5 if uncertain else 0.0)
    context = make_context(C, X, y, tau=6.2, spent=4.0, log_cost=mean, log_cost_sd=sd)

    def chance(left: float) -> np.ndarray:
        if left <= 0:
            return np.zeros(7)
        return ndtr((np.log(left) - mean) / 0.5) if uncertain else (np.exp(mean) <= left + 1e-9).astype(float)

    joint, expected = context.history.posterior.joint(C), []
    for i in range(7):
        costs = np.exp(mean[i] + 0.5 * grid(200)) if uncertain else np.exp(mean[i : i + 1])
        expected.append(two_steps(joint, chance, context.incumbent, i, costs, 2.2))
    found = np.exp(BudgetedMultiStepEI(planned=False, marginal=False, **settings).log_value(context))
    return float(np.abs(found / expected - 1.0).max())


def mcms_and_bmsei_of_two_steps(noise: float) -> float:
    """MCMS and B-MS-EI, two evaluations ahead, equal costs and no deadline; relative.

    With little noise both are EI + E[max EI]; with much, B-MS-EI's second choice is the best one, MCMS's is EI's.
    """
    X, y = data(8)
    context = make_context(np.random.default_rng(1).random((12, 2)), X, y, posterior(X, y, noise=noise))
    paths = MonteCarloMultiStep(paths=40_000, steps=2, marginal=False).log_value(context)
    both = BudgetedMultiStepEI(steps=2, outcomes=24, marginal=False)
    return float(np.abs(np.expm1(both.log_value(context) - paths)).max())

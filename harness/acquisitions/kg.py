"""The knowledge gradient: by how much the lowest posterior mean will fall."""

from typing import ClassVar, no_type_check

import numpy as np
from jaxtyping import Float

from harness.acquisitions import StepContext
from harness.acquisitions.ei import log_h
from harness.acquisitions.lookahead import LookAhead, joint_posterior, leaders_by_value
from harness.arrays import PerCandidate
from harness.compile_cache import njit
from harness.errors import whole
from harness.normal import exp, log

# E[max_k (a_k + b_k Z)] - max_k a_k, Z ~ N(0, 1), exactly: the upper envelope of finitely many lines.
#
# Source: Frazier, Powell and Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs" (their
# algorithm 1 finds the same lines): with the envelope's lines in the order of their slopes, consecutive ones crossing
# at c_i, the expectation is sum_i (b_{i+1} - b_i) h(-|c_i|), h(u) = phi(u) + u Phi(u).


def log_expected_gain(
    intercept: Float[np.ndarray, " a"],
    slope: Float[np.ndarray, "m a"],
    own_intercept: PerCandidate,
    own_slope: PerCandidate,
) -> PerCandidate:
    """Return the log of the expected gain in each of m problems; -inf where a single line is highest everywhere.

    Problem j has the a lines (intercept, slope[j]) and one more, (own_intercept[j], own_slope[j]). Intercepts that fall
    already need not be sorted.
    """
    if (intercept[1:] > intercept[:-1]).any():
        order = np.argsort(-intercept, kind="stable")
        intercept, slope = intercept[order], slope[:, order]
    widths, cuts, first = _envelopes(intercept, slope, own_intercept, own_slope)
    out = np.full(len(slope), -np.inf)
    some = first[1:] > first[:-1]
    if some.any():
        terms = log(widths) + log_h(-np.abs(cuts))
        starts = first[:-1][some]
        peak = np.maximum.reduceat(terms, starts)
        shift = np.where(np.isfinite(peak), peak, 0.0)
        sizes = (first[1:] - first[:-1])[some]
        out[some] = shift + log(np.add.reduceat(exp(terms - np.repeat(shift, sizes)), starts))
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _envelopes(intercept, slope, own_intercept, own_slope):  # type: ignore[no-untyped-def]
    """Return slope differences and crossings of consecutive lines, all problems in turn, and where each begins.

    Intercepts fall. By rising slopes, each line hides those before it that it crosses no later than they
    crossed the ones before them.
    """
    m, lines = len(slope), len(intercept) + 1
    widths, cuts, first = np.empty(m * (lines - 1)), np.empty(m * (lines - 1)), np.zeros(m + 1, np.intp)
    a, b, crossing = np.empty(2 * lines), np.empty(2 * lines), np.empty(2 * lines)
    total = 0
    for j in range(m):
        start, end = _uncovered(intercept, slope[j], own_intercept[j], own_slope[j], a, b)
        top = start  # a, b, crossing from start to top: the envelope so far
        for k in range(start + 1, end):
            level, rise = a[k], b[k]
            at = (a[top] - level) / (rise - b[top])
            while top > start and at <= crossing[top]:
                top -= 1
                at = (a[top] - level) / (rise - b[top])
            top += 1
            a[top], b[top], crossing[top] = level, rise, at
        for k in range(start + 1, top + 1):
            widths[total], cuts[total] = b[k] - b[k - 1], crossing[k]
            total += 1
        first[j + 1] = total
    return widths[:total], cuts[:total], first


@njit(inline="always")
@no_type_check
def _uncovered(intercept, slope, own_intercept, own_slope, a, b):  # type: ignore[no-untyped-def]
    """Put the lines that may be highest somewhere into a, b, by rising slopes; return where they begin and end.

    A line below another one at 0 can be above it only to the side to which it is the steeper: intercepts fall, so that
    these are the lines steeper than all before to either side.
    """
    last, at, own = len(intercept), 0, True
    start, end = last + 1, last + 1
    for _ in range(last + 1):
        if own and (at == last or own_intercept > intercept[at]):
            level, rise, own = own_intercept, own_slope, False
        else:
            level, rise, at = intercept[at], slope[at], at + 1
        if start == end or rise > b[end - 1]:
            a[end], b[end] = level, rise
            end += 1
        elif rise < b[start]:
            start -= 1
            a[start], b[start] = level, rise
    return start, end


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

    def log_value(self, context: StepContext) -> PerCandidate:
        """Return log KG in units of y; -inf where no observation can move the minimum."""
        posterior, X, C = joint_posterior(context)
        mean, variance = context.latent
        A = np.vstack([X, C[self._leaders(context, mean)]])
        sd = np.sqrt(variance + posterior.noise)
        level = posterior.moments(A)[0]
        order = np.argsort(level, kind="stable")  # as the envelope wants the lines
        level, slope = level[order], posterior.covariance(C, A[order])
        slope /= sd[:, None]
        if self.draws == 0:
            gain = log_expected_gain(-level, np.negative(slope, out=slope), -mean, -variance / sd)
        else:
            z = context.rng("kg").standard_normal(self.draws)
            gain = log_gain_by_sampling(level, slope, mean, variance / sd, z)
        # the gain is over the lowest mean with x, which counts from now on
        return np.logaddexp(gain, log(np.maximum(level.min() - mean, 0.0)))

    def _leaders(self, context: StepContext, mean: PerCandidate) -> np.ndarray:
        if self.points == 0:
            return np.empty(0, np.intp)
        if self.points >= len(mean):
            return np.arange(len(mean))
        by_value = leaders_by_value(context, (self.points + 1) // 2)
        order = np.argsort(mean, kind="stable")
        return np.union1d(by_value, order[~np.isin(order, by_value)][: self.points - len(by_value)])


def log_gain_by_sampling(
    level: Float[np.ndarray, " a"],
    slope: Float[np.ndarray, "m a"],
    own_level: PerCandidate,
    own_slope: PerCandidate,
    z: Float[np.ndarray, " s"],
) -> PerCandidate:
    """Return the log of min mu - mean_s min (mu + slope z_s) over the a points and the own one, as in the lecture."""
    out = np.empty(len(slope))
    for j in range(len(slope)):
        means, slopes = np.append(level, own_level[j]), np.append(slope[j], own_slope[j])
        out[j] = means.min() - (means[:, None] + slopes[:, None] * z).min(axis=0).mean()
    return log(np.maximum(out, 0.0))

"""Simulated futures: what myopic EI would find until the deadline, path by path, compiled.

Notation: P points of a pool; f at the pool ~ N(mean, covariance). A path observes points one by one; after t of them
its covariance is covariance - V^T V, V (t, P), each row one rank-1 update.
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int
from numba import njit

from harness.acquisitions.ei import log_h
from harness.acquisitions.lookahead import Clock
from harness.surrogates.joint import Joint

_ROOT2, _ROOT2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
_FAR, _PER_UNIT, _ROUNDING = 38.0, 64, 1e-9  # of the bound's table: EI is 0 below -_FAR, and gap above _FAR
_KNOTS = np.exp(log_h(np.linspace(-_FAR, _FAR, 2 * int(_FAR) * _PER_UNIT + 1)))


def path_values(
    joint: Joint,
    clock: Clock,
    starts: Int[np.ndarray, " s"],
    incumbent: float,
    normals: Float[np.ndarray, "p t 3"],
) -> Float[np.ndarray, "s p"]:
    """Return the expected improvement gathered after the start on each of p paths, at most t evaluations in all.

    By the clock, an evaluation of point i takes exp(log_cost_i + log_cost_sd_i z); one that ends after the deadline
    counts for nothing and ends the path. After one in time, f(i) and its noisy observation are drawn, the posterior is
    updated, and the next point is the unvisited one of highest EI among those whose predicted cost, exp(log_cost),
    still fits (ties: the first in the pool); none ends the path. It adds EI under the path's posterior: since
    E[max(0, best - f)] = EI, the mean over paths is the expected fall of the incumbent, with less variance than the
    falls drawn. `normals`: of f, noise and cost, the same for all starts.
    """
    values = np.zeros((len(starts), len(normals)))
    _paths(
        joint.mean, np.ascontiguousarray(joint.covariance), joint.noise, np.exp(clock.log_cost), clock.log_cost_sd,
        starts, incumbent, math.exp(clock.log_left()), normals, values,
    )  # fmt: skip
    return values


@njit(cache=True, error_model="numpy")
@no_type_check
def _paths(mean, covariance, noise, cost, cost_sd, starts, incumbent, left, normals, values):  # type: ignore[no-untyped-def]
    """Fill `values`, (starts, paths)."""
    pool, steps = len(mean), normals.shape[1]
    mu, var, V = np.empty(pool), np.empty(pool), np.empty((steps, pool))
    free = np.empty(pool, np.bool_)
    for s in range(len(starts)):
        for p in range(len(normals)):
            for j in range(pool):
                mu[j], var[j], free[j] = mean[j], max(covariance[j, j], 0.0), True
            best, time, i = incumbent, left, starts[s]
            for t in range(steps):
                time -= cost[i] * math.exp(cost_sd[i] * normals[p, t, 2])
                if time < 0.0:
                    break
                if t > 0:
                    values[s, p] += expected_improvement(best - mu[i], math.sqrt(var[i]))
                if t + 1 == steps:
                    break
                free[i] = False
                best = min(best, mu[i] + math.sqrt(var[i]) * normals[p, t, 0])
                _observe(mu, var, V, t, covariance, i, noise, normals[p, t, 0], normals[p, t, 1])
                i = _next(mu, var, best, cost, time, free)
                if i < 0:
                    break


@njit(cache=True, error_model="numpy")
@no_type_check
def _observe(mu, var, V, t, covariance, i, noise, z, e):  # type: ignore[no-untyped-def]
    """Condition on f(i) = mu_i + sd_i z observed with an error of sqrt(noise) e: row t of V, mu and var."""
    total = var[i] + noise
    if not total > 0.0:
        V[t] = 0.0
        return
    sd = math.sqrt(total)
    surprise = (math.sqrt(var[i]) * z + math.sqrt(noise) * e) / sd
    row = V[t]
    for j in range(len(mu)):
        row[j] = covariance[i, j]
    for k in range(t):
        factor, other = V[k, i], V[k]
        for j in range(len(mu)):
            row[j] -= factor * other[j]
    for j in range(len(mu)):
        row[j] /= sd
        mu[j] += row[j] * surprise
        var[j] = max(var[j] - row[j] * row[j], 0.0)


@njit(cache=True, error_model="numpy")
@no_type_check
def _next(mu, var, best, cost, time, free):  # type: ignore[no-untyped-def]
    """Return the free point of highest EI whose cost fits into `time`, the first of several, -1 if none does.

    EI is calculated only where a bound of it reaches the EI of the point of the highest bound, which few do.
    """
    bound, top = np.empty(len(mu)), -1
    for j in range(len(mu)):
        bound[j] = _above(best - mu[j], math.sqrt(var[j])) if free[j] and cost[j] <= time else -1.0
        if bound[j] >= 0.0 and (top < 0 or bound[j] > bound[top]):
            top = j
    if top < 0:
        return -1
    found, highest = -1, -1.0
    least = expected_improvement(best - mu[top], math.sqrt(var[top]))
    for j in range(len(mu)):
        if bound[j] >= least:
            value = expected_improvement(best - mu[j], math.sqrt(var[j]))
            if value > highest:
                found, highest = j, value
    return found


@njit(cache=True, error_model="numpy", inline="always")
@no_type_check
def _above(gap, sd):  # type: ignore[no-untyped-def]
    """Return no less than `expected_improvement`, >= 0, without exp or erf: h is convex, so its chords are above it."""
    if sd <= 0.0:
        return max(gap, 0.0)
    u = gap / sd
    if u < -_FAR:
        return 0.0
    if u >= _FAR:
        return gap * (1.0 + _ROUNDING)
    position = (u + _FAR) * _PER_UNIT
    k = int(position)
    return sd * (_KNOTS[k] + (position - k) * (_KNOTS[k + 1] - _KNOTS[k])) * (1.0 + _ROUNDING)


@njit(cache=True, error_model="numpy")
@no_type_check
def expected_improvement(gap, sd):  # type: ignore[no-untyped-def]
    """Return E[max(0, g)], g ~ N(gap, sd^2): gap Phi(u) + sd phi(u), u = gap / sd; max(0, gap) where sd = 0."""
    if sd <= 0.0:
        return max(gap, 0.0)
    u = gap / sd
    if u < -_FAR:
        return 0.0
    return max(gap * 0.5 * math.erfc(-u / _ROOT2) + sd * math.exp(-0.5 * u * u) / _ROOT2PI, 0.0)

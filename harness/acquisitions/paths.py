"""Simulated futures: what myopic EI would find until the deadline, path by path, compiled.

Notation: P points of a pool; f at the pool ~ N(mean, covariance). A path observes points one by one; after t of them
its covariance is covariance - V^T V, V (t, P), each row one rank-1 update. The same with names ending in `_f` is what
the values found tell themselves, without their noise.
"""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from harness.acquisitions.compiled_ei import expected_improvement, improvement_bound
from harness.acquisitions.time_left import Clock
from harness.compiler import njit
from harness.elementary import exp
from harness.surrogates.joint import Joint

_RARE = 8.0  # sds by which no draw is off its mean, but for the jitter that draws of nearly dependent points need


def path_values(
    joint: Joint,
    clock: Clock,
    starts: Int[np.ndarray, " s"],
    incumbent: float,
    normals: Float[np.ndarray, "p m 3"],
    steps: int,
) -> Float[np.ndarray, "s p"]:
    """Return the expected improvement gathered after the start on each of p paths, at most `steps` evaluations in all.

    A path is one draw of f at the pool's m points, of the noise and the cost of each: all starts walk through the same
    worlds, so that the noise of their difference is small.

    By the clock, an evaluation of point i takes exp(log_cost_i + log_cost_sd_i z); one that ends after the deadline
    counts for nothing and ends the path. After one in time, f(i) and its noisy observation are seen, the posterior is
    updated, and the next point is the unvisited one of highest EI among those whose predicted cost, exp(log_cost),
    still fits (ties: the first in the pool); none ends the path. It adds E[max(0, best - f)] given the values of f
    found so far, of which best is the lowest: their noise says nothing more of f. The mean over paths is the expected
    fall of the incumbent, with less variance than the falls drawn. (EI given the noisy observations would take f there
    for independent of best, and pay twice for one minimum.) A start of -1 is none: the first point is chosen as the
    next ones are, and counts as they do.
    normals: behind f, noise and cost.
    """
    values = np.zeros((len(starts), len(normals)))
    _paths(
        joint.mean, np.ascontiguousarray(joint.covariance), joint.noise, exp(clock.log_cost), clock.log_cost_sd,
        starts, incumbent, math.exp(clock.log_left()), joint.draw(normals[:, :, 0]), normals, steps, values,
    )  # fmt: skip
    return values


@njit(cache=True, error_model="numpy")
@no_type_check
def _paths(mean, covariance, noise, cost, cost_sd, starts, incumbent, left, f, normals, steps, values):  # type: ignore[no-untyped-def]
    """Fill `values`, (starts, paths)."""
    pool = len(mean)
    mu, var, V = np.empty(pool), np.empty(pool), np.empty((steps, pool))
    mu_f, var_f, V_f = np.empty(pool), np.empty(pool), np.empty((steps, pool))
    free = np.empty(pool, np.bool_)
    for s in range(len(starts)):
        for p in range(len(normals)):
            for j in range(pool):
                mu[j], var[j], free[j] = mean[j], max(covariance[j, j], 0.0), True
                mu_f[j], var_f[j] = mu[j], var[j]
            best, time, i = incumbent, left, starts[s]
            if i < 0:
                i = _next(mu, var, best, cost, time, free)
                if i < 0:
                    break
            for t in range(steps):
                time -= cost[i] * math.exp(cost_sd[i] * normals[p, i, 2])
                if time < 0.0:
                    break
                if t > 0 or starts[s] < 0:
                    values[s, p] += expected_improvement(best - mu_f[i], math.sqrt(var_f[i]))
                if t + 1 == steps:
                    break
                free[i] = False
                best = min(best, f[p, i])
                _observe(mu, var, V, t, covariance, i, noise, f[p, i] + math.sqrt(noise) * normals[p, i, 1])
                _observe(mu_f, var_f, V_f, t, covariance, i, 0.0, f[p, i])
                i = _next(mu, var, best, cost, time, free)
                if i < 0:
                    break


@njit(cache=True, error_model="numpy")
@no_type_check
def _observe(mu, var, V, t, covariance, i, noise, y):  # type: ignore[no-untyped-def]
    """Condition on the observation y of point i: row t of V, mu and var."""
    total = var[i] + noise
    if not total > 0.0:
        V[t] = 0.0
        return
    sd = math.sqrt(total)
    surprise = min(max((y - mu[i]) / sd, -_RARE), _RARE)
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
        bound[j] = improvement_bound(best - mu[j], math.sqrt(var[j])) if free[j] and cost[j] <= time else -1.0
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

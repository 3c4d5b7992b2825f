"""The scale on which the surrogate sees errors, and so on which utilities are computed; records keep the errors.

    raw          y (the default: the paper's)
    log          log y; a 0 counts as half of the run's smallest positive error
    winsorized   min(y, Q3 + 1.5 (Q3 - Q1)), Q1 and Q3 the quartiles of the run's errors

None changes which of two errors is the lower one, save that winsorized makes those above its limit equal. All follow
from the errors observed so far in the run, and are computed again at every step.
"""

import math

import numpy as np
from jaxtyping import Float

from harness.arrays import Vector
from harness.errors import BadInput, one_of
from harness.normal import log

RAW, LOG, WINSORIZED = "raw", "log", "winsorized"
SCALES = (RAW, LOG, WINSORIZED)
_FENCE = 1.5  # interquartile ranges above the upper quartile: Tukey's inner fence


def check_scale(name: object) -> str:
    """Return `name` if it is one of SCALES; raises BadInput otherwise."""
    return one_of("error_scale", name, SCALES)


def rescale(name: str, error: Vector) -> Vector:
    """Return errors on the scale `name`; NaN (failed evaluations) stays NaN. Raises BadInput for the log of < 0."""
    seen = error[~np.isnan(error)]
    if name == RAW or not len(seen):
        return error
    return _log(error, seen) if name == LOG else np.minimum(error, upper_limit(seen))


def _log(error: Vector, seen: Float[np.ndarray, " k"]) -> Vector:
    """Return log y, and for y = 0 log(s / 2), s the smallest positive error seen; all 0 while none is positive.

    A share misclassified of 0 out of n rows says that the true one is below what n rows resolve, 1 / n <= s: a value
    below a detection limit, for which half of that limit is put (Hornung and Reed 1990). It stays the lowest of all.
    EI on this scale is E[(log f_min - log f)+]: improvements count as ratios, which have no unit. (It is not the
    E[(f_min - f)+] of a log-normal f, for which see Hutter, Hoos, Leyton-Brown and Murphy 2009.)
    """
    if seen.min() < 0:
        raise BadInput(f"error_scale=log needs errors >= 0, got {seen.min():g}: take raw or winsorized")
    above = seen[seen > 0]
    if not len(above):
        return np.where(np.isnan(error), np.nan, 0.0)
    zero = error == 0
    return np.where(zero, log(above).min() - math.log(2.0), log(np.where(zero, 1.0, error)))


def upper_limit(seen: Float[np.ndarray, " k"]) -> float:
    """Return Q3 + 1.5 (Q3 - Q1) of the errors, quartiles interpolated linearly; inf if all would then be equal.

    They would where Q3 is the lowest error, of three values in four; a surrogate learns nothing from a constant. The
    limit is never below Q3, so that the incumbent stays what it is.
    Source: Tukey 1977, "Exploratory Data Analysis" (the inner fence); to pull what a Gaussian process is to learn from
    down to it is also what Ax's `Winsorize` does, whose quartiles are observations.
    """
    q1, q3 = (float(q) for q in np.quantile(seen, [0.25, 0.75]))
    limit = q3 + _FENCE * (q3 - q1)
    return limit if limit > seen.min() else np.inf

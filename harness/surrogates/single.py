"""A Gaussian process prediction in single precision, widened by what rounding may have done to it.

It serves to find the few candidates that are worth a prediction in double precision.
"""

import numpy as np
from jaxtyping import Float

from harness.surrogates.predict import Predictor
from harness.surrogates.workspace import Workspace

_UNIT = 2.0**-24  # rounding unit of single precision
_SAFETY = 4.0


class SinglePrecision:
    """Bounds of mean and variance, in units of standardised y.

    A: (n, d) observed points, centred and divided by the length-scales over sqrt(5). rows: s2 [L^-1; K^-1 z],
    (n + 1, n). Every kernel entry is off by a few units u = 2^-24, the more so the shorter the length-scales,
    and so is V = s2 L^-1 k, in units of the sums of |L^-1|; where n such errors add up at random rather than all
    one way, the explained variance |V|^2 / s2 is off by 2 u |sums| sqrt(s2) and the mean by 2 u sum |K^-1 z|. The
    bounds allow for four times that: four to thirty times what is seen on the study's runs, which a test
    repeats, but no proof.
    """

    def __init__(
        self,
        A: Float[np.ndarray, "n d"],
        weight: Float[np.ndarray, " d"],
        rows: Float[np.ndarray, "w n"],
        signal: float,
        space: Workspace,
    ) -> None:
        n, self._signal = len(A), signal
        self._predict = Predictor(A, weight, rows, space, np.float32)
        sums = np.abs(rows).sum(axis=1)
        root = float(np.sqrt(sums[:n] @ sums[:n] * signal))
        unit = _SAFETY * _UNIT * (2.0 + 0.1 * float(weight.max()))
        self._variance_error = unit * (root + signal)
        self._mean_error = unit * float(sums[n])

    def bounds(
        self, C: Float[np.ndarray, "m d"], rough: bool
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a lower bound of the mean and an upper bound > 0 of the latent variance.

        rough: the variance given only the first half of the points, faster and never less.
        """
        mean, explained = self._predict(C, rough)
        return (
            mean.astype(np.float64) - self._mean_error,
            np.maximum(self._signal - explained.astype(np.float64), 0.0) + self._variance_error,
        )

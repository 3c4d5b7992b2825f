"""A Gaussian process prediction in single precision, widened by what rounding may have done to it.

It serves to find the few candidates that are worth a prediction in double precision.
"""

import numpy as np
from jaxtyping import Float

from harness.surrogates.kernels import matern_single
from harness.surrogates.workspace import Workspace

_BLOCK = 1 << 15  # kernel entries per block: its work space stays in the processor's cache
_WIDEST = 2048  # candidates per block at most
_UNIT = 2.0**-24  # rounding unit of single precision
_SAFETY = 4.0


class SinglePrecision:
    """Bounds of mean and variance, in units of standardised y.

    left: (n, d + 2), with the candidates' matrix on the right gives r^2. rows: s2 [L^-1; K^-1 z], (n + 1, n).
    Every kernel entry is off by a few units u = 2^-24, and so is V = s2 L^-1 k, in units of the sums of
    |L^-1|; where n such errors add up at random rather than all one way, the explained variance |V|^2 / s2 is
    off by 2 u |sums| sqrt(s2) and the mean by 2 u sum |K^-1 z|. The bounds allow for four times that: four to
    thirty times what is seen on the study's runs, which a test repeats, but no proof.
    """

    def __init__(
        self, left: Float[np.ndarray, "n e"], rows: Float[np.ndarray, "w n"], signal: float, space: Workspace
    ) -> None:
        n = len(left)
        self._left, self._signal, self._space = left, signal, space
        self._rows = rows.astype(np.float32)
        sums = np.abs(rows).sum(axis=1)
        root = float(np.sqrt(sums[:n] @ sums[:n] * signal))
        self._variance_error = _SAFETY * _UNIT * (2.0 * root + 2.0 * signal)
        self._mean_error = _SAFETY * _UNIT * 2.0 * float(sums[n])

    def bounds(self, right: Float[np.ndarray, "e m"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return a lower bound of the mean and an upper bound > 0 of the latent variance."""
        n, m = len(self._left), right.shape[1]
        mean, explained = np.empty(m, np.float32), np.empty(m, np.float32)
        width, half = min(m, max(64, min(_WIDEST, _BLOCK // n))), n // 2
        r, s = self._space.take("r", (width,), np.float32), self._space.take("s", (width,), np.float32)
        bits = self._space.take("bits", (width,), np.int32)
        power = bits.view(np.float32)
        for start in range(0, m, width):
            block = slice(start, min(start + width, m))
            b = block.stop - start
            q = self._space.take("squares", (n, b))
            kb, Vb = self._space.take("k32", (n, b), np.float32), self._space.take("V32", (n + 1, b), np.float32)
            np.matmul(self._left, right[:, block], out=q)
            matern_single(q, kb, r, s, bits, power)
            np.matmul(self._rows[:half, :half], kb[:half], out=Vb[:half])
            np.matmul(self._rows[half:], kb, out=Vb[half:])
            mean[block] = Vb[n]
            np.einsum("ij,ij->j", Vb[:n], Vb[:n], out=explained[block])
        variance = np.maximum(self._signal - explained.astype(np.float64), 0.0) + self._variance_error
        return mean.astype(np.float64) - self._mean_error, variance

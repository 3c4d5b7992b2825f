"""Regressors whose last digits do not depend on BLAS: a linear one, and a network fitted by Adam.

scikit-learn's give other weights under another BLAS kernel, and after some passes over the data a network's differ not
in the last digit only, so that one seed would mean another emulator on every kind of processor.
"""

import itertools
import math
from collections.abc import Sequence
from typing import no_type_check

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin

from harness.compile_cache import njit
from harness.surrogates.likelihood import _transposed_product, factor, inverse_factor, product, transposed_product

Layers = list[tuple[np.ndarray, np.ndarray]]

_RIDGE = (
    1e-9  # per row, beside columns of variance 1: the weight of a column that is constant, or repeated, stays small
)
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # of Adam


class LinearRegressor(RegressorMixin, BaseEstimator):
    """y = b + w x, (b, w) minimising sum (y_i - b - w x_i)^2 + 1e-9 n |w|^2; columns of x should be standardised."""

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> "LinearRegressor":
        """Fit to y at X, by the normal equations."""
        self.center_, level = X.mean(axis=0), float(np.mean(y))
        centred = X - self.center_
        gram = transposed_product(centred, centred) + _RIDGE * len(X) * np.eye(X.shape[1])
        L = factor(gram)
        if L is None:
            raise ValueError("a linear model was given inputs that are not finite")
        root = inverse_factor(L)
        weights = transposed_product(root, product(root, transposed_product(centred, (y - level)[:, None])))
        self.weights_, self.intercept_ = weights[:, 0], level
        return self

    def predict(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return b + w x."""
        return self.intercept_ + product(X - self.center_, self.weights_[:, None])[:, 0]


class NetworkRegressor(RegressorMixin, BaseEstimator):
    """A network of rectified linear units, fitted by Adam to squared error / 2 + alpha |W|^2 / 2, per row of a batch.

    hidden: units of each layer. passes over the rows in a new random order, in batches of at most `batch` rows; rate:
    of Adam's steps, falling to zero along a cosine from pass to pass if `cosine`. random_state: a whole number; None
    is 0. Weights begin uniform within sqrt(6 / (in + out)) (Glorot and Bengio 2010).
    Source: Kingma and Ba 2015, algorithm 1.
    """

    def __init__(
        self,
        hidden: int | Sequence[int] = 32,
        alpha: float = 1e-4,
        batch: int = 256,
        rate: float = 1e-3,
        passes: int = 100,
        cosine: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.hidden, self.alpha, self.batch, self.rate, self.passes = hidden, alpha, batch, rate, passes
        self.cosine, self.random_state = cosine, random_state

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n *k"]) -> "NetworkRegressor":
        """Fit to y, one or several outputs, at X."""
        X, targets = np.asarray(X, np.float64), np.asarray(y, np.float64)
        self.single_ = targets.ndim == 1
        targets = targets[:, None] if self.single_ else targets
        hidden = [self.hidden] if isinstance(self.hidden, int) else list(self.hidden)
        rng = np.random.default_rng(0 if self.random_state is None else self.random_state)
        sizes = [X.shape[1], *hidden, targets.shape[1]]
        self.layers_ = [_begun(rng, *pair) for pair in itertools.pairwise(sizes)]
        state = [tuple(np.zeros_like(array) for array in layer for _ in range(2)) for layer in self.layers_]
        step = 0
        for k in range(self.passes):
            rate = self.rate * (0.5 * (1.0 + math.cos(math.pi * k / self.passes)) if self.cosine else 1.0)
            order = rng.permutation(len(X))
            for start in range(0, len(X), self.batch):
                rows = order[start : start + self.batch]
                step += 1
                self._step(X[rows].T.copy(), targets[rows].T.copy(), state, rate, step)
        return self

    def _step(self, x: np.ndarray, y: np.ndarray, state: list[tuple[np.ndarray, ...]], rate: float, step: int) -> None:
        """Take one step of Adam by a batch, whose rows are columns here."""
        seen = [x]
        for k, (weights, biases) in enumerate(self.layers_):
            seen.append(_forward(weights, biases, seen[-1], k + 1 < len(self.layers_)))
        delta, n = (seen[-1] - y) / x.shape[1], x.shape[1]
        length = rate * math.sqrt(1.0 - _BETA2**step) / (1.0 - _BETA1**step)
        for k in range(len(self.layers_) - 1, -1, -1):
            weights, biases = self.layers_[k]
            below, decay = delta, self.alpha / n
            if k > 0:
                delta = _backward(weights, delta, seen[k])
            _adam(weights, biases, seen[k], below, decay, *state[k], length)

    def predict(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n *k"]:
        """Return the outputs at X."""
        out = outputs(self.layers_, np.asarray(X, np.float64))
        return out[:, 0] if self.single_ else out


def outputs(layers: Layers, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
    """Return what a network of these layers (weights, biases) says at X."""
    x = np.ascontiguousarray(X.T)
    for k, (weights, biases) in enumerate(layers):
        x = _forward(weights, biases, x, k + 1 < len(layers))
    return np.ascontiguousarray(x.T)


def _begun(rng: np.random.Generator, ins: int, outs: int) -> tuple[np.ndarray, np.ndarray]:
    bound = math.sqrt(6.0 / (ins + outs))
    return rng.uniform(-bound, bound, (ins, outs)), rng.uniform(-bound, bound, outs)


@njit(cache=True, error_model="numpy")
@no_type_check
def _forward(weights, biases, x, rectified):  # type: ignore[no-untyped-def]
    """Return W^T x + b, not below 0 where `rectified`; a column for each row of the batch."""
    out = np.empty((weights.shape[1], x.shape[1]))
    _transposed_product(weights, x, out, False)
    for i in range(len(out)):
        for j in range(out.shape[1]):
            value = out[i, j] + biases[i]
            out[i, j] = max(value, 0.0) if rectified else value
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _backward(weights, delta, seen):  # type: ignore[no-untyped-def]
    """Return the slopes by the outputs `seen` of the layer below, from those by this one's."""
    out = np.empty(seen.shape)
    _transposed_product(np.ascontiguousarray(weights.T), delta, out, False)
    for i in range(len(out)):
        for j in range(out.shape[1]):
            if seen[i, j] <= 0.0:
                out[i, j] = 0.0
    return out


@njit(cache=True, error_model="numpy")
@no_type_check
def _adam(weights, biases, x, delta, decay, m, v, m_b, v_b, length):  # type: ignore[no-untyped-def]
    """Move weights and biases by Adam, given the layer's inputs and the slopes by its outputs."""
    slopes = np.empty(weights.shape)
    _transposed_product(np.ascontiguousarray(x.T), np.ascontiguousarray(delta.T), slopes, False)
    for i in range(len(weights)):
        for j in range(weights.shape[1]):
            g = slopes[i, j] + decay * weights[i, j]
            m[i, j] = _BETA1 * m[i, j] + (1.0 - _BETA1) * g
            v[i, j] = _BETA2 * v[i, j] + (1.0 - _BETA2) * g * g
            weights[i, j] -= length * m[i, j] / (np.sqrt(v[i, j]) + _EPSILON)
    for j in range(len(biases)):
        g = 0.0
        for i in range(delta.shape[1]):
            g += delta[j, i]
        m_b[j] = _BETA1 * m_b[j] + (1.0 - _BETA1) * g
        v_b[j] = _BETA2 * v_b[j] + (1.0 - _BETA2) * g * g
        biases[j] -= length * m_b[j] / (np.sqrt(v_b[j]) + _EPSILON)

"""The paper's problems: Branin-Hoo with one half more expensive, a kernel machine and a network on small data sets."""

import math
import time
import warnings
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.neural_network import BernoulliRBM, MLPClassifier
from sklearn.svm import SVC

from datasets import load
from datasets.catalogue import names
from datasets.errors import BadInput
from harness.problem import ContinuousProblem, Evaluation
from harness.space import Parameter, SearchSpace
from harness.streams import stream

# Branin-Hoo with one half of the space ten times as expensive as the other; costs are known.
#
# f(x) = (x1 - 5.1 x2^2 / (4 pi^2) + 5 x2 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos(x2) + 10 on 0 <= x1 <= 15,
# -5 <= x2 <= 10: the usual function with its two variables swapped, as the paper has them. Minimum 0.397887, three
# times, one of them in the expensive half, x2 < 2.5, where an evaluation takes 10 s against 1 s.

CANDIDATES = 512  # of a step
MINIMUM = 0.39788735772973816
DEADLINE_S = 50.0
_CHEAP_S, _DEAR_S, _DEAR_BELOW = 1.0, 10.0, 2.5


def branin(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return f(x) of the formula above."""
    x1, x2 = np.asarray(x, dtype=np.float64).T
    bowl = x1 - 5.1 / (4 * math.pi**2) * x2**2 + 5 / math.pi * x2 - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x2) + 10


def seconds(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Return what evaluating each of `x` takes."""
    return np.where(x[:, 1] < _DEAR_BELOW, _DEAR_S, _CHEAP_S)


class Branin(ContinuousProblem):
    """The problem of one run."""

    space = SearchSpace((Parameter("x1", 0.0, 15.0), Parameter("x2", -5.0, 10.0)))
    costs_known = True

    def __init__(self, seed: int, n_candidates: int = CANDIDATES) -> None:
        super().__init__("branin", seed, n_candidates)

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the value and the seconds at `x`."""
        value, cost = float(branin(x[None])[0]), float(seconds(x[None])[0])
        return Evaluation(value, cost, value, cost)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the seconds that each unit-cube point of `C` will take."""
        return seconds(self.space.from_unit(C))


# The data of the paper's learners: ionosphere, w1a, australian, sonar, and scikit-learn's digits.

DIGITS = "digits"


@dataclass(frozen=True)
class Rows:
    """A data set: columns in [0, 1], classes as numbers."""

    name: str
    X: Float[np.ndarray, "n q"]
    y: Int[np.ndarray, " n"]

    def order(self, seed: int) -> Int[np.ndarray, " n"]:
        """Return a random order of the rows, from which halves and folds are cut."""
        return stream(seed, "opportunity", self.name).permutation(len(self.y))


def rows(name: str) -> Rows:
    """Return the data set `name`, which is downloaded if it is not at hand.

    Raises BadInput if it is unknown, or can be had nowhere.
    """
    if name == DIGITS:
        X, y = load_digits(return_X_y=True)
    elif name in names("opportunity"):
        data = load(name)
        X, y = data.X.to_numpy(dtype=np.float64), data.y
    else:
        raise BadInput(f"unknown data set {name!r}; allowed: {', '.join((*names('opportunity'), DIGITS))}")
    span = X.max(axis=0) - X.min(axis=0)
    return Rows(name, (X - X.min(axis=0)) / np.where(span > 0, span, 1.0), y)


# The paper's learners with scikit-learn: a two-kernel SVM, and a network pretrained by a restricted Boltzmann machine.
#
# Costs are CPU seconds on this machine of all that an evaluation computes, so runs of the same seed differ a little.

TRAININGS = 3  # raise it when the same hyperparameters are trained otherwise than before: kept runs are then made again
FOLDS = 5  # of the SVM's cross-validation; the paper names no number
BATCH = 20  # rows of a mini-batch of stochastic gradient descent
_STILL = 1e-15  # a learning rate by which no weight moves
_LONGEST = 200_000  # iterations of an SVM's solver


class Learner(ContinuousProblem):
    """Train on some rows, count the errors in percent on others; per seed others."""

    def __init__(self, data: Rows, seed: int, n_candidates: int = CANDIDATES) -> None:
        super().__init__(data.name, seed, n_candidates)
        self._data, self._order = data, data.order(seed)

    @abstractmethod
    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " k"]:
        """Train with the native hyperparameters `x` and return which rows held out are misclassified."""

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the percentage of errors and the CPU seconds of all that was computed for it."""
        began, wall = time.thread_time(), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            error = 100.0 * float(self.wrong(x).mean())
        return Evaluation(error, max(time.thread_time() - began, 1e-6), error, time.perf_counter() - wall)


class MultipleKernelSvm(Learner):
    """Cross-validated SVM with the kernel a exp(-|x - x'|^2 / (2 w^2)) + b x^T x' / d (Snoek et al. 2011).

    Every evaluation computes the kernel of all rows, distances and products included, and trains once a fold.
    """

    space = SearchSpace(
        (
            Parameter("rbf_scale", 1e-3, 1e1, log=True),
            Parameter("linear_scale", 1e-3, 1e1, log=True),
            Parameter("width", 1e-1, 1e2, log=True),
            Parameter("C", 1e-2, 1e3, log=True),
            Parameter("tolerance", 1e-4, 1e-1, log=True),
        )
    )

    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " k"]:
        """Return 1 for every row misclassified by the machine trained without its fold."""
        rbf, linear, width, C, tolerance = x.tolist()
        X, y = self._data.X, self._data.y
        kernel = rbf * np.exp(pairwise_distances(X, metric="sqeuclidean") / (-2.0 * width**2))
        kernel += linear * (X @ X.T / X.shape[1])
        out = np.empty(len(y))
        for fold in range(FOLDS):
            test = self._order[fold::FOLDS]
            train = np.setdiff1d(self._order, test, assume_unique=True)
            machine = SVC(C=C, kernel="precomputed", tol=tolerance, max_iter=_LONGEST)
            machine.fit(kernel[np.ix_(train, train)], y[train])
            out[test] = machine.predict(kernel[np.ix_(test, train)]) != y[test]
        return out


class DecayedRbm(BernoulliRBM):
    """scikit-learn's restricted Boltzmann machine with weight decay after every mini-batch."""

    def __init__(self, decay: float = 0.0, n_components: int = 64, learning_rate: float = 0.1, n_iter: int = 10,
                 random_state: int = 0) -> None:  # fmt: skip
        super().__init__(n_components, learning_rate=learning_rate, n_iter=n_iter, random_state=random_state)
        self.decay = decay

    def _fit(self, v_pos: np.ndarray, rng: np.random.RandomState) -> None:
        super()._fit(v_pos, rng)
        self.components_ *= 1.0 - self.learning_rate * self.decay


class PretrainedNetwork(Learner):
    """One hidden layer, pretrained as a restricted Boltzmann machine, then stochastic gradient descent.

    Half of the rows to train on, the others to validate. Source: Snoek et al. 2011.
    """

    space = SearchSpace(
        (
            Parameter("hidden_units", 8, 256, log=True, integer=True),
            Parameter("pretraining_epochs", 1, 30, log=True, integer=True),
            Parameter("rbm_decay", 1e-5, 1e-1, log=True),
            Parameter("learning_rate", 1e-3, 1e0, log=True),
            Parameter("epochs", 1, 60, log=True, integer=True),
            Parameter("weight_decay", 1e-6, 1e1, log=True),
        )
    )

    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " k"]:
        """Return 1 for the misclassified validation rows."""
        hidden, first, decay, rate, epochs, alpha = x.tolist()
        train, held_out = np.array_split(self._order, 2)
        X, y = self._data.X[train], self._data.y[train]
        rbm = DecayedRbm(decay, int(hidden), 0.05, int(first), self._seed).fit(X)
        network = MLPClassifier(
            (int(hidden),), "logistic", solver="sgd", momentum=0.0, batch_size=min(BATCH, len(X)), alpha=alpha,
            learning_rate_init=_STILL, random_state=self._seed, max_iter=1, warm_start=True,
        )  # fmt: skip
        # makes the weights, without moving them; further epochs are a hyperparameter
        network.fit(X, y)
        network.coefs_[0][...] = rbm.components_.T
        network.intercepts_[0][...] = rbm.intercept_hidden_
        # goes on from these weights; n_iter_no_change: through all epochs
        network.set_params(learning_rate_init=rate, max_iter=int(epochs), n_iter_no_change=int(epochs) + 1)
        network.fit(X, y)
        predicted = network.predict(self._data.X[held_out])
        return (predicted != self._data.y[held_out]).astype(float)


def deadline_s(problem: Learner, evaluations: int, n: int = 12) -> float:
    """Return a deadline for so many evaluations, each taking the mean seconds of `n` random configurations."""
    typical = float(np.mean([problem.evaluate(int(i)).cost_s for i in problem.initial(n).ids]))
    return math.ceil(1e4 * evaluations * typical) / 1e4

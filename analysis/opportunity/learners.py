"""The paper's learners with scikit-learn: a two-kernel SVM, and a network pretrained by a restricted Boltzmann machine.

Costs are CPU seconds of the training on this machine, so runs of the same seed differ a little.
"""

import math
import time
import warnings
from abc import abstractmethod

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.neural_network import BernoulliRBM, MLPClassifier
from sklearn.svm import SVC

from analysis.opportunity import CANDIDATES
from analysis.opportunity.sources import Split
from harness.problem import ContinuousProblem, Evaluation
from harness.space import Parameter, SearchSpace

TRAININGS = 2  # raise it when the same hyperparameters are trained otherwise than before: kept runs are then made anew
_STILL = 1e-15  # a learning rate by which no weight moves
_LONGEST = 200_000  # iterations of an SVM's solver


class Learner(ContinuousProblem):
    """Train on one half, count the errors in percent on the other half, per seed another split."""

    def __init__(self, split: Split, seed: int, n_candidates: int = CANDIDATES) -> None:
        super().__init__(split.name, seed, n_candidates)
        self._split = split

    @abstractmethod
    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
        """Train with the native hyperparameters `x` and return which test rows are misclassified."""

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return the percentage of test errors and the CPU seconds of training and predicting."""
        began, wall = time.thread_time(), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            error = 100.0 * float(self.wrong(x).mean())
        return Evaluation(error, max(time.thread_time() - began, 1e-6), error, time.perf_counter() - wall)


class MultipleKernelSvm(Learner):
    """SVM with the kernel a exp(-|x - x'|^2 / (2 w^2)) + b x^T x' / d (Snoek et al. 2011)."""

    space = SearchSpace(
        (
            Parameter("rbf_scale", 1e-3, 1e1, log=True),
            Parameter("linear_scale", 1e-3, 1e1, log=True),
            Parameter("width", 1e-1, 1e2, log=True),
            Parameter("C", 1e-2, 1e3, log=True),
            Parameter("tolerance", 1e-4, 1e-1, log=True),
        )
    )

    def __init__(self, split: Split, seed: int, n_candidates: int = CANDIDATES) -> None:
        super().__init__(split, seed, n_candidates)
        train, test = split.X_train, split.X_test
        # what no hyperparameter changes is no part of a training's cost
        self._square = [pairwise_distances(A, train, metric="sqeuclidean") for A in (train, test)]
        self._linear = [A @ train.T / train.shape[1] for A in (train, test)]

    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
        """Return 1 for the misclassified test rows."""
        rbf, linear, width, C, tolerance = (float(v) for v in x)
        train, test = (
            rbf * np.exp(square / (-2.0 * width**2)) + linear * product
            for square, product in zip(self._square, self._linear, strict=True)
        )
        machine = SVC(C=C, kernel="precomputed", tol=tolerance, max_iter=_LONGEST).fit(train, self._split.y_train)
        return (machine.predict(test) != self._split.y_test).astype(float)


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
    """One hidden layer, started from a restricted Boltzmann machine, then trained by Adam (Snoek et al. 2011)."""

    space = SearchSpace(
        (
            Parameter("hidden_units", 8, 256, log=True, integer=True),
            Parameter("pretraining_epochs", 1, 30, log=True, integer=True),
            Parameter("rbm_decay", 1e-5, 1e-1, log=True),
            Parameter("learning_rate", 1e-4, 1e-1, log=True),
            Parameter("epochs", 1, 60, log=True, integer=True),
            Parameter("weight_decay", 1e-6, 1e1, log=True),
        )
    )

    def wrong(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
        """Return 1 for the misclassified test rows."""
        hidden, first, decay, rate, epochs, alpha = (float(v) for v in x)
        s = self._split
        rbm = DecayedRbm(decay, int(hidden), 0.05, int(first), self._seed).fit(s.X_train)
        network = MLPClassifier(
            (int(hidden),), "logistic", alpha=alpha, learning_rate_init=_STILL, random_state=self._seed, max_iter=1,
            warm_start=True,
        )  # fmt: skip
        each = np.unique(s.y_train, return_index=True)[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is a hyperparameter here
            network.fit(s.X_train[each], s.y_train[each])  # makes the weights, on a row of each class
            network.coefs_[0][...] = rbm.components_.T
            network.intercepts_[0][...] = rbm.intercept_hidden_
            # goes on from these weights with an optimizer of its own; n_iter_no_change: through all epochs
            network.set_params(learning_rate_init=rate, max_iter=int(epochs), n_iter_no_change=int(epochs) + 1)
            network.fit(s.X_train, s.y_train)
        predicted = network.predict(s.X_test)
        return (predicted != s.y_test).astype(float)


def typical_seconds(problem: Learner, n: int = 12) -> float:
    """Return the median seconds of `n` random configurations."""
    offered = problem.initial(n)
    return float(np.median([problem.evaluate(int(i)).cost_s for i in offered.ids]))


def deadline_s(problem: Learner, evaluations: int) -> float:
    """Return a deadline within which about so many random configurations can be trained; ValueError for none."""
    if evaluations < 1:
        raise ValueError(f"a deadline allows at least one evaluation, got {evaluations}")
    return math.ceil(1e4 * evaluations * typical_seconds(problem)) / 1e4

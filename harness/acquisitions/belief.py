"""What utilities and cost rules may know when they score the candidates of one step."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from harness.streams import stream
from harness.surrogates.protocol import JointPosterior, Posterior


@dataclass(frozen=True)
class History:
    """What the surrogate was fitted to: n points of the unit cube, their y, and the fitted posterior."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    posterior: Posterior


@dataclass(frozen=True)
class Belief:
    """The models' predictions on m candidates and the state of the run.

    mean, sd: the surrogate's prediction of y, the error on the scale that it sees (`harness.error_scales`).
    incumbent: lowest y observed so far, f_min.
    log_cost, log_cost_sd: the cost model's prediction of log c, c in seconds.
    step: number of evaluations made so far (the 0-based index of the one to choose now).
    iterations, n_initial: length of the run and, within it, of the initial design.
    spent, initial_cost: seconds used so far and by the initial design; tau: the run's budget or None.
    history: the data behind the prediction, for utilities that need more than it; None if not given.
    points: the candidates' unit-cube coordinates, for the same; None if not given.
    mean_log_cost: of log c, where log_cost is another statistic of the cost; None: log_cost is the mean.
    seed, problem: the run's, which name its random streams.
    """

    mean: Float[np.ndarray, " m"]
    sd: Float[np.ndarray, " m"]
    incumbent: float
    log_cost: Float[np.ndarray, " m"]
    log_cost_sd: Float[np.ndarray, " m"]
    step: int
    iterations: int
    n_initial: int
    spent: float
    initial_cost: float
    tau: float | None
    history: History | None = None
    points: Float[np.ndarray, "m d"] | None = None
    mean_log_cost: Float[np.ndarray, " m"] | None = None
    seed: int = 0
    problem: str = ""

    @cached_property
    def latent(self) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of the latent function at the candidates, whether or not `sd` has the noise in it.

        Calculated once per belief. Raises ValueError if the belief lacks the points or a joint posterior.
        """
        if self.history is None or self.points is None:
            raise ValueError("a utility that looks ahead needs a belief with a history and points")
        if not isinstance(self.history.posterior, JointPosterior):
            raise ValueError(f"{type(self.history.posterior).__name__} makes no joint predictions")
        return self.history.posterior.moments(self.points)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return a fresh generator for `purpose` at this step: asked twice, it draws the same again."""
        return stream(self.seed, "utility", purpose, self.problem, str(self.step))

"""The known cost: the bound that no learned cost model can beat."""

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness.cost_models.features import log_costs
from harness.problem import KnownCosts, Problem


class Oracle:
    """log c(x) as the problem itself will charge it, sd 0. Needs a problem that knows its costs beforehand."""

    def __init__(self) -> None:
        self._problem: KnownCosts | None = None

    def start(self, problem: Problem) -> None:
        """Take the problem whose costs to tell; raises BadInput for one that does not know them."""
        if not isinstance(problem, KnownCosts):
            raise BadInput("cost_model=oracle needs costs known beforehand: evaluator=replay or evaluator=surface")
        self._problem = problem

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Check the costs, and learn nothing; raises BadInput naming the first that is not finite and positive."""
        log_costs(cost_s, len(X))

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the log of the true cost at `C`, points that the problem has offered, and zeros."""
        if self._problem is None:
            raise ValueError("predict was called before start")
        return log_costs(self._problem.true_cost_s(C)), np.zeros(len(C))

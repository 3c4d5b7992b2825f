"""When a run ends before its length or budget: `Price`, `stopping=price`."""

import math

import numpy as np

from harness.acquisitions import StepContext, Utility
from harness.acquisitions.cost_rules import per_cost
from harness.acquisitions.ei import ExpectedImprovement, log_ei
from harness.errors import flag, positive
from harness.surrogates.gp import standardise


class Price:
    """Stop where max_x (log EI(x) - log c(x)) < log price: no candidate is expected to be worth what it costs.

    price: error per second; relative: in units of sd(y) / c_0, y the errors so far on the surrogate's scale and c_0 the
    mean cost of the initial design, so that neither unit matters (as for `PandorasBoxGittinsIndex`). EI is about the
    lowest error observed, whatever the utility.
    Source: Xie, Cai, Terenin, Frazier and Scully 2025, "Cost-aware stopping for Bayesian optimization".
    """

    def __init__(self, price: float = 1e-3, relative: bool = True) -> None:
        self._price, self._relative = positive("stopping.price", price), flag("stopping.relative", relative)

    def asks_front_of(self, utility: Utility) -> bool:
        """Return whether the highest EI per cost is on the utility's front, which it is of EI without a jitter.

        Else all candidates have to be looked at.
        """
        return type(utility) is ExpectedImprovement and utility.incumbent == "observed" and utility.jitter == 0.0

    def stops(self, context: StepContext) -> bool:
        """Return whether the run is to end; raises ValueError for a context without a history."""
        if context.history is None:
            raise ValueError("stopping needs a context with a history")
        value = log_ei(context.incumbent - context.mean, context.sd)
        price = math.log(self._price)
        if self._relative:
            start = context.initial_cost / min(context.n_initial, context.step)
            price += math.log(standardise(context.history.y)[1][1]) - math.log(start)
        return bool(np.max(per_cost(value, context.log_cost, 1.0)) < price)

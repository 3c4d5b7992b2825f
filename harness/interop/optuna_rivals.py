"""Any sampler of Optuna as an optimizer of this benchmark: TPE, Gaussian processes, CMA-ES, and ours through it."""

import inspect
import pkgutil
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from harness.errors import BadInput
from harness.interop.rivals import Rival, Run, same

_SOURCES = ("optuna", "optuna_integration", "harness")  # a setting must not run what `allow_targets` is not asked about


class OptunaRival(Rival):
    """A study of Optuna whose trials are what was evaluated, with its cost as the user attribute `cost`.

    sampler: a class of `optuna.samplers`, or ``package.module:Class``; arguments: its own. Its seed is the run's.
    needs: distributions that it needs besides Optuna.
    as_asked: tell the outcome under the point that was asked for, and not under the row that stood for it: for a
    sampler that knows its own trials again, such as CMA-ES.
    """

    packages = ("optuna",)
    extra = "optuna"

    def __init__(
        self,
        sampler: str,
        arguments: Mapping[str, Any] | None = None,
        as_asked: bool = False,
        needs: Sequence[str] = (),
    ) -> None:
        self._arguments, self._as_asked = dict(arguments or {}), as_asked
        if ":" in sampler and sampler.split(":")[0].split(".")[0] not in _SOURCES:
            raise BadInput(
                f"sampler must be one of Optuna's or of the packages {', '.join(_SOURCES)}, got {sampler}: one of your "
                "own is a class with ask and tell, in an optimizer file of its own"
            )
        try:
            self._sampler = pkgutil.resolve_name(sampler if ":" in sampler else f"optuna.samplers:{sampler}")
            self._make(0)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise BadInput(f"sampler: {sampler} cannot be made: {' '.join(str(error).split())}") from None

    def _make(self, seed: int) -> Any:
        import optuna

        own = {"seed": seed} if "seed" in inspect.signature(self._sampler).parameters else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return self._sampler(**{**own, **self._arguments})

    def start(self, run: Run) -> None:
        """Begin the study."""
        import optuna
        from optuna.distributions import FloatDistribution, IntDistribution

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._run = run
        self._asked: Any = None
        self._study = optuna.create_study(sampler=self._make(run.seed % 2**31))
        self._space: dict[str, Any] = {
            p.name: IntDistribution(int(p.low), int(p.high), log=p.log)
            if p.integer
            else FloatDistribution(p.low, p.high, log=p.log)
            for p in run.space.parameters
        }

    def ask(self) -> Float[np.ndarray, " d"]:
        """Return the point of a new trial."""
        from optuna.trial import TrialState

        if self._asked is not None:  # it failed, and waits for an error that stands for it: then it is added
            self._study.tell(self._asked, state=TrialState.FAIL)
        self._asked = self._study.ask(self._space)
        return self._run.unit(self._asked.params)

    def tell(self, x: Float[np.ndarray, " d"], error: float, cost_s: float) -> None:
        """End the trial that was asked for, or forget it and add one where the evaluation was."""
        from optuna.trial import TrialState, create_trial

        asked, self._asked = self._asked, None
        values = self._run.values(x)
        if asked is not None and (self._as_asked or same(asked.params, values)):
            asked.set_user_attr("cost", cost_s)
            self._study.tell(asked, error)
            return
        if asked is not None:
            self._study.tell(asked, state=TrialState.FAIL)
        attrs = {"cost": cost_s}
        self._study.add_trial(create_trial(params=values, distributions=self._space, value=error, user_attrs=attrs))

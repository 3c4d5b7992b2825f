"""FLAML's cost-frugal optimizers: CFO, a local search from cheap points, and BlendSearch, which adds a global one."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from harness.errors import BadInput, number, one_of
from harness.interop.rivals import Rival, Run


class Flaml(Rival):
    """A searcher of FLAML. It starts where training is cheap: `cheap`, values of parameters by name.

    It gets the outcome under the configuration that it asked for, and nothing of the run's initial design: given points
    evaluated before, a searcher begins at the best of them, at a cost of its own making, and not at `cheap`.
    needs: distributions that it needs besides FLAML.
    Sources: Wu, Wang and Huang 2021, "Frugal optimization for cost-related hyperparameters" (CFO); Wang, Wu, Huang and
    Saied 2021, "Economical hyperparameter optimization with blended search strategy" (BlendSearch).
    """

    packages = ("flaml",)
    searchers = ("CFO", "BlendSearch")

    def __init__(self, searcher: str, cheap: Mapping[str, float] | None = None, needs: Sequence[str] = ()) -> None:
        self._name, self._cheap = one_of("searcher", searcher, self.searchers), dict(cheap or {})

    def start(self, run: Run) -> None:
        """Take the run; the searcher is made at the first question."""
        unknown = [name for name in self._cheap if name not in run.space.names]
        if unknown:
            raise BadInput(f"cheap must name parameters among {', '.join(run.space.names)}, got {unknown[0]}")
        for p in run.space.parameters:
            number(f"cheap: {p.name}", self._cheap.get(p.name, p.low), f"from {p.low:g} to {p.high:g}", p.low, p.high)
        self._run, self._count = run, 0
        self._searcher: Any = None
        self._asked: tuple[str, dict[str, Any]] | None = None

    def _make(self) -> Any:
        import logging

        from flaml import tune
        from flaml.tune import searcher

        for library in ("flaml", "optuna"):  # BlendSearch's global search is a study of Optuna
            logging.getLogger(library).setLevel(logging.ERROR)
        space: dict[str, Any] = {}
        for p in self._run.space.parameters:
            if p.integer:
                space[p.name] = (tune.lograndint if p.log else tune.randint)(int(p.low), int(p.high) + 1)
            else:
                space[p.name] = (tune.loguniform if p.log else tune.uniform)(p.low, p.high)
        return getattr(searcher, self._name)(
            metric="error",
            mode="min",
            space=space,
            low_cost_partial_config=self._cheap,
            cost_attr="cost",
            seed=self._run.seed % 2**31,
        )

    def ask(self) -> Float[ndarray, " d"]:
        """Return the searcher's next configuration."""
        if self._searcher is None:
            self._searcher = self._make()
        if self._asked is not None:  # it failed, and no error stands for it yet
            self._searcher.on_trial_complete(self._asked[0], error=True)
            self._asked = None
        for _ in range(100):  # it may say that a thread has nothing to suggest yet
            self._count += 1
            config = self._searcher.suggest(str(self._count))
            if config is not None:
                self._asked = str(self._count), config
                return self._run.unit({name: config[name] for name in self._run.space.names})
        raise RuntimeError(f"{self._name} suggests nothing any more")

    def tell(self, x: Float[ndarray, " d"], error: float, cost_s: float) -> None:
        """End the trial that was asked for; what nobody asked for is left out."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        trial, config = asked
        # BlendSearch takes a gain to have cost 1 at least, a thousandth of the budget where it knows one: milliseconds
        result = {"error": error, "cost": 1e3 * cost_s, **{f"config/{name}": value for name, value in config.items()}}
        self._searcher.on_trial_complete(trial, result)

"""SMAC3 as an optimizer of this benchmark: its facade for hyperparameters (a random forest and log EI)."""

import tempfile
from pathlib import Path
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from harness.errors import number
from harness.interop.rivals import Rival, Run, same


class Smac(Rival):
    """SMAC's `HyperparameterOptimizationFacade`, asked and told; the run's initial design instead of its own.

    It is told the outcome where the evaluation was, with its cost as the trial's time; a trial that it asked for, and
    for which the nearest row of a table stood in, stays open, and its model does not see it. random: the
    probability of a configuration at random in between, the facade's own default.
    Source: Lindauer et al. 2022, "SMAC3: A versatile Bayesian optimization package".
    """

    packages = ("smac", "ConfigSpace")

    def __init__(self, random: float = 0.2) -> None:
        self._random = number("random", random, "a probability, from 0 to 1", 0.0, 1.0)

    def start(self, run: Run) -> None:
        """Take the run; SMAC itself is made at the first question, when the initial design is known."""
        self._run = run
        self._smac: Any = None
        self._told: list[tuple[dict[str, Any], float, float]] = []
        self._asked: Any = None

    def _make(self) -> Any:
        from ConfigSpace import Configuration, ConfigurationSpace, Float, Integer
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario

        space = ConfigurationSpace(seed=self._run.seed % 2**31)
        for p in self._run.space.parameters:
            if p.integer:
                space.add(Integer(p.name, (int(p.low), int(p.high)), log=p.log))
            else:
                space.add(Float(p.name, (p.low, p.high), log=p.log))
        design = [Configuration(space, values=values) for values, _, _ in self._told]  # none of SMAC's own besides
        self._folder = tempfile.TemporaryDirectory(prefix="smac-")
        folder, seed = Path(self._folder.name), self._run.seed % 2**31
        scenario = Scenario(space, deterministic=True, n_trials=10**6, seed=seed, output_directory=folder)
        smac = Facade(
            scenario,
            lambda config, seed: 0.0,  # never called: trials are asked for and told
            model=self._forest(scenario),
            initial_design=Facade.get_initial_design(scenario, n_configs=0, additional_configs=design),
            random_design=Facade.get_random_design(scenario, probability=self._random),
            logging_level=False,
            overwrite=True,
        )
        self._space = space
        return smac

    def _forest(self, scenario: Any) -> Any:
        """Return the facade's forest, for one thread and with no more room for leaves than a run can fill.

        Room is taken and cleared for every tree: for the million leaves of SMAC's default, half of a suggestion's time.
        """
        from smac.model.random_forest import RandomForest

        return RandomForest(
            scenario.configspace, log_y=True, n_trees=10, ratio_features=1.0, min_samples_split=2, min_samples_leaf=1,
            max_leaf_nodes=max(1024, 2 * self._run.iterations), seed=scenario.seed, n_jobs=1,
        )  # fmt: skip

    def ask(self) -> Float[ndarray, " d"]:
        """Return the configuration of SMAC's next trial."""
        if self._smac is None:
            self._smac = self._make()
            for values, error, cost_s in self._told:
                self._report(values, error, cost_s)
        self._asked = self._smac.ask()
        return self._run.unit(dict(self._asked.config))

    def tell(self, x: Float[ndarray, " d"], error: float, cost_s: float) -> None:
        """End the trial that was asked for, or add one where the evaluation was."""
        asked, self._asked = self._asked, None
        values = self._run.values(x)
        if self._smac is None:
            self._told.append((values, error, cost_s))
        elif asked is None or not same(dict(asked.config), values):
            self._report(values, error, cost_s)
        else:
            from smac.runhistory import TrialValue

            self._smac.tell(asked, TrialValue(cost=error, time=cost_s), save=False)

    def _report(self, values: dict[str, Any], error: float, cost_s: float) -> None:
        from ConfigSpace import Configuration
        from smac.runhistory import TrialInfo, TrialValue

        info = TrialInfo(Configuration(self._space, values=values), seed=0)  # that of a deterministic scenario
        self._smac.tell(info, TrialValue(cost=error, time=cost_s), save=False)

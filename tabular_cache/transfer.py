"""Transferred cost models: log cost as other data sets' tables teach it, whatever this run observes."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness.cost_models import log_costs
from harness.problem import About, Described, Problem
from harness.space import XGBOOST_SPACE
from tabular_cache.learned import learn
from tabular_cache.lesson import Lesson, inputs, lesson
from tabular_cache.sampled import Source, kin, sources
from tabular_cache.table import TABLES

META = ("sizes", "work", None)
_MOST_REMEMBERED = 1 << 16  # predictions; beyond that, candidates do not come again, and remembering is in vain


class Transfer:
    """log c(x) = g(h(x), meta-features), g a regressor fitted to the tables of other data sets.

    h: all hyperparameters on the scales of `Features`; both are standardised over the rows learned from. Never seen:
    any table of the problem's own data set, nor of one made of the same raw file (`kin`). sd: root mean square of
    g's errors on data sets left out of its fit (5 groups), the same everywhere. Costs are the tables' `scaled_s`.
    Source: Guinet et al. 2020 (transferred cost models).

    regressor: scikit-learn style, unfitted; meta: the meta-features, see `inputs`; related: learn from problems of the
    same kind of task (regression or classification) behind the same pipeline only, or behind any while fewer than two
    other data sets have that; rows: drawn from each table; tables: their folder, None for the shipped ones.
    An object serves one run. Raises BadInput for wrong settings.
    """

    def __init__(
        self,
        regressor: Any,
        meta: str | None = "sizes",
        related: bool = False,
        rows: int = 256,
        tables: str | None = None,
        seed: int = 0,
    ) -> None:
        if not all(hasattr(regressor, name) for name in ("fit", "predict", "get_params", "set_params")):
            raise BadInput(f"regressor must be a scikit-learn style regressor, got {regressor!r}")
        if meta not in META:
            raise BadInput(f"meta must be sizes, work or null, got {meta!r}")
        if not isinstance(related, bool):
            raise BadInput(f"related must be true or false, got {related!r}")
        for name, value, least in (("rows", rows, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(f"{name} must be a whole number >= {least}, got {value!r}")
        self._regressor, self._meta, self._related, self._rows, self._seed = regressor, meta, related, rows, seed
        self._folder = TABLES if tables is None else Path(tables)
        self._about: About | None = None
        self.trained_on = 0

    def start(self, problem: Problem) -> None:
        """Learn for this problem; raises BadInput for one that does not say what it is, or without tables for it."""
        about = _described(problem)
        task = self.lesson(about)
        self._learned, self._about, self._known = learn(task), about, dict[bytes, float]()
        self.trained_on = task.rows * len(task.sources)

    def fingerprint(self, problem: Problem) -> str:
        """Return the digest of what is to be learned for this problem, without learning it; raises as `start`."""
        return self.lesson(_described(problem)).digest

    def lesson(self, about: About) -> Lesson:
        """Return what is to be learned for a problem; its digest tells what predictions are made of."""
        others = {p: s for p, s in sources(self._folder).items() if s.about.dataset not in kin(about.dataset)}
        if self._related:
            others = {p: s for p, s in others.items() if _kind(s.about) == _kind(about)}
            closer = {p: s for p, s in others.items() if s.about.pipeline == about.pipeline}
            others = closer if _groups(closer) > 1 else others
        if _groups(others) < 2:
            which = f" {_kind(about)}" if self._related else ""
            raise BadInput(
                f"a transferred cost model needs tables of two{which} data sets other than {about.dataset}; "
                f"{self._folder} has {_groups(others)}"
            )
        return lesson(self._regressor, self._meta, others, self._folder, self._rows, self._seed)

    def fit(self, X: Float[np.ndarray, "n d"], cost_s: Float[np.ndarray, " n"]) -> None:
        """Check the costs, and learn nothing; raises BadInput naming the first that is not finite and positive."""
        log_costs(cost_s, len(X))

    def predict(self, C: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and sd of log cost at `C`; what was asked before in this run is remembered."""
        if self._about is None:
            raise ValueError("predict was called before start")
        C = np.ascontiguousarray(C, dtype=np.float64)
        keys = C.view(f"V{C.itemsize * C.shape[1]}").ravel().tolist()
        found = list(map(self._known.get, keys))
        if None in found:
            if len(self._known) + len(keys) > _MOST_REMEMBERED:
                self._known.clear()
            new = [i for i, key in enumerate(keys) if key not in self._known]
            mean = self._learned.model.predict(inputs(C[new], self._about, self._meta))
            self._known.update(zip([keys[i] for i in new], np.asarray(mean, dtype=np.float64).tolist(), strict=True))
            found = [self._known[key] for key in keys]
        return np.array(found, dtype=np.float64), np.full(len(C), self._learned.sd)


def _described(problem: Problem) -> About:
    if not isinstance(problem, Described) or problem.space != XGBOOST_SPACE:
        raise BadInput(
            f"a transferred cost model needs a problem that says what it is (`about`) in XGBoost's "
            f"search space; {problem.name} does not"
        )
    return problem.about


def _kind(about: About) -> str:
    return "regression" if about.task == "regression" else "classification"


def _groups(found: dict[str, Source]) -> int:
    return len({min(kin(source.about.dataset)) for source in found.values()})

"""The archived GPyOpt library's own Gaussian process, as the reference surrogate (optional extra ``gpyopt``).

GPyOpt's defaults are kept: Matern-5/2, one shared length-scale, 5 starts of its optimizer, predictive sd with
the noise, y normalised to mean 0 and sd 1. Source: GPyOpt 1.2.6, models/gpmodel.py.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.arrays import CandidatePoints, MeanSd, Points, Vector
from harness.errors import BadInput, whole
from harness.streams import seed_sequence
from harness.surrogates import Posterior, Surrogate
from harness.surrogates.gp import standardise


class GPyOptPosterior(Posterior):
    """The prediction of a GPyOpt model fitted to standardised y; `location` is the mean and sd of y."""

    def __init__(self, model: Any, location: tuple[float, float]) -> None:
        self._model, self._location = model, location

    def mean_sd(self, C: CandidatePoints) -> MeanSd:
        """Return mean and sd at `C`, the sd including the noise, in units of y."""
        mean, sd = self._model.predict(np.asarray(C, dtype=np.float64))
        mu, scale = self._location
        return mu + scale * mean[:, 0], scale * sd[:, 0]


class GPyOptProcess(Surrogate):
    """GPyOpt's GPModel, one per run: as in GPyOpt, the first of the starts is the previous optimum.

    seed: of the other starts, which GPyOpt draws from NumPy's global state; that state is set for the fit and
    then restored. Raises BadInput where GPyOpt is not installed.
    """

    def __init__(self, seed: int = 0, restarts: int = 5) -> None:
        self._new_model = _gpmodel()
        self._seed, self._restarts = whole("seed", seed, 0), whole("restarts", restarts, 1)
        self._model: Any = None
        self._run: tuple[str, ...] = ()

    def draw_for(self, seed: int, problem: str) -> None:
        """Draw the other starts from streams of this run from now on."""
        self._run = (str(seed), problem)

    def fit(self, X: Points, y: Vector) -> GPyOptPosterior:
        """Fit to `y` at `X`; where y is constant, hyperparameters are GPy's initial ones."""
        X = np.asarray(X, dtype=np.float64)
        z, location = standardise(np.asarray(y, dtype=np.float64))
        model = self._model
        if not z.any():
            model = self._new_model(noise_var=0.01, max_iters=0, verbose=False)
        elif model is None:
            model = self._model = self._new_model(optimize_restarts=self._restarts, verbose=False)
        with _quiet(), _global_seed(seed_sequence(self._seed, "gpyopt", *self._run, str(len(y)))):
            model.updateModel(X, z[:, None], None, None)
        return GPyOptPosterior(model, location)


def _gpmodel() -> Any:
    """Import GPyOpt's model class, undoing what the import does to Python's warnings."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            from GPyOpt.models import GPModel
    except ImportError as error:
        raise BadInput(
            f"surrogate=gpyopt needs the extra packages: pip install -c constraints.txt -e '.[gpyopt]' ({error})"
        ) from error
    return GPModel


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _global_seed(seed: np.random.SeedSequence) -> Iterator[None]:
    state = np.random.get_state()  # noqa: NPY002 - GPyOpt knows no other source of randomness
    np.random.seed(seed.generate_state(4))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002

"""What a user's earlier studies say of a new one: the prior mean of `CostAwareSampler(earlier=...)`.

Source: averages of the models of earlier tasks as in Wistuba, Schilling and Schmidt-Thieme 2016, "Two-stage transfer
surrogate model for automatic hyperparameter optimization", with equal weights; how far they are trusted is learned from
the new study's own trials (`PriorGaussianProcess`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from harness.arrays import CandidatePoints, PerCandidate
from harness.error_scale import WINSORIZED, rescale
from harness.errors import BadInput
from harness.interop.encoding import Encoding, covering
from harness.interop.reports import as_trained
from harness.surrogates import Posterior
from harness.surrogates.gp import GaussianProcess, standardise
from harness.surrogates.prior import PriorMean

_FEWEST = 3  # trials of a study from which something can be learned


@dataclass(frozen=True)
class Earlier:
    """The complete trials of one study, and the sign that makes their values errors."""

    trials: Sequence[FrozenTrial]
    sign: float

    @classmethod
    def of(cls, study: object) -> "Earlier":
        """Return a study's trials as they are now; raises BadInput for what is no study, or has several objectives."""
        if not isinstance(study, Study):
            raise BadInput(f"earlier must be a list of Optuna studies, [study, ...], got {study!r} in it")
        if len(study.directions) > 1:
            raise BadInput(f"earlier studies must have one value each, {study.study_name} has {len(study.directions)}")
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        return cls([as_trained(one, sign) for one in study.get_trials(states=(TrialState.COMPLETE,))], sign)


class EarlierStudies(PriorMean):
    """m(x) = mean over earlier studies of E[z_s(x)], z_s a Gaussian process fitted to the standardised errors of one.

    Errors are winsorized first (`harness.error_scale`). A study counts if at least three of its complete, finite trials
    have a value within the new one's space for each of its parameters. models: how many do.
    """

    def __init__(self, encoding: Encoding, studies: Sequence[Earlier]) -> None:
        self._posteriors: list[Posterior] = []
        for study in studies:
            trials = [t for t in covering(study.trials, encoding.distributions) if np.isfinite(t.values[0])]
            if len(trials) >= _FEWEST:
                error: Float[np.ndarray, " n"] = np.array([study.sign * float(t.values[0]) for t in trials])
                X = encoding.unit(encoding.internal([t.params for t in trials]))
                z, _ = standardise(rescale(WINSORIZED, error))
                self._posteriors.append(GaussianProcess().fit(X, z))

    @property
    def models(self) -> int:
        """How many studies something was learned from."""
        return len(self._posteriors)

    def predict(self, C: CandidatePoints) -> PerCandidate:
        """Return the mean of the studies' expected standardised errors; zeros where there is none to learn from."""
        total = np.zeros(len(C))
        for posterior in self._posteriors:
            total += posterior.mean_sd(C)[0]
        return total / max(1, self.models)

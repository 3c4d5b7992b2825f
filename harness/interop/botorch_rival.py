"""BoTorch's logarithmic EI, divided by the predicted cost: both from its own Gaussian processes."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from harness.errors import number, whole
from harness.interop.rivals import Rival, Run


class CostWeightedLogEI(Rival):
    """argmax of qLogEI(x) - exponent * E[log c(x)], q = 1: `SingleTaskGP`s of the error and of log cost.

    Found by `optimize_acqf`, with `restarts` starts among `raw` points. exponent 0 is plain EI, 1 its weight by the
    inverse cost. Sources: Ament et al. 2023, "Unexpected improvements to expected improvement"; Snoek et al. 2012.
    """

    packages = ("botorch", "gpytorch", "linear-operator", "torch")

    def __init__(self, exponent: float = 1.0, restarts: int = 4, raw: int = 128, samples: int = 128) -> None:
        self._exponent = number("exponent", exponent, "a number >= 0", 0.0)
        self._restarts, self._raw = whole("restarts", restarts, 1), whole("raw", raw, 1)
        self._samples = whole("samples", samples, 1)

    def start(self, run: Run) -> None:
        """Take the run."""
        self._run, self._X, self._y = run, list[Any](), list[tuple[float, float]]()

    def tell(self, x: Float[np.ndarray, " d"], error: float, cost_s: float) -> None:
        """Keep the evaluation."""
        self._X.append(x)
        self._y.append((error, np.log(cost_s)))

    def ask(self) -> Float[np.ndarray, " d"]:
        """Return the maximiser in the unit cube."""
        import torch
        from botorch.acquisition import qLogExpectedImprovement
        from botorch.acquisition.acquisition import AcquisitionFunction
        from botorch.optim import optimize_acqf
        from botorch.sampling import SobolQMCNormalSampler

        torch.set_num_threads(1)
        seed = (self._run.seed + len(self._X)) % 2**31
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            torch.manual_seed(seed)
            warnings.simplefilter("ignore")
            X, Y = torch.tensor(np.array(self._X)), torch.tensor(np.array(self._y)) * torch.tensor([-1.0, 1.0])
            error, cost = self._fitted(X, Y)
            sampler = SobolQMCNormalSampler(torch.Size([self._samples]), seed=seed)
            value, exponent = qLogExpectedImprovement(error, best_f=Y[:, 0].max(), sampler=sampler), self._exponent

            class Weighted(AcquisitionFunction):
                def forward(self, X: Any) -> Any:
                    return value(X) - exponent * cost.posterior(X).mean.squeeze(-1).squeeze(-1)

            d = X.shape[1]
            bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
            options: dict[str, bool | float | int | str] = {"maxiter": 50}
            found, _ = optimize_acqf(
                Weighted(error), bounds, q=1, num_restarts=self._restarts, raw_samples=self._raw, options=options
            )
        return np.clip(found[0].numpy(), 0.0, 1.0)

    @staticmethod
    def _fitted(X: Any, Y: Any) -> tuple[Any, Any]:
        """Return the processes of the two columns: each has its own hyperparameters, and one search finds them all.

        The likelihood is a sum, so its maximum is that of two searches, for a fourth less time.
        """
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        both = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(both.likelihood, both))
        return both.subset_output([0]), both.subset_output([1])

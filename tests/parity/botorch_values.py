"""What BoTorch says of one posterior: kept in tests/golden, so that tests compare with it where torch is not installed.

`python tests/parity/botorch_values.py` makes the file again; it needs the extra `parity`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]
from lookahead_cases import data  # noqa: E402

from datasets.files import write_atomically  # noqa: E402
from harness.surrogates.gp import standardise  # noqa: E402

GOLDEN = TESTS / "golden" / "botorch.json"
X, Y = data(8)
C = np.random.default_rng(1).random((25, 2))
NOISE = 0.01
QUIET = 1e-4  # the least that BoTorch allows: with hardly any noise, its noisy MES is MES
BELOW = (0.01, 0.2, 0.5, 1.3)  # by which the samples of the minimum are below the lowest mean, standardised


def model(noise: float = NOISE) -> Any:
    """The Matern-5/2 process of `lookahead_cases.posterior`, same hyperparameters, of -z, since BoTorch maximises."""
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ZeroMean

    double = {"dtype": torch.float64}
    kernel, likelihood = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)), GaussianLikelihood()
    kernel.double().base_kernel.lengthscale = torch.full((1, 2), 0.4, **double)
    kernel.outputscale = torch.tensor(1.3, **double)
    likelihood.double().noise = torch.tensor([noise], **double)
    target = -torch.tensor(standardise(Y)[0])[:, None]
    made = SingleTaskGP(torch.tensor(X), target, likelihood=likelihood, covar_module=kernel, mean_module=ZeroMean(),
                        outcome_transform=None)  # fmt: skip
    return made.double().eval()


def values() -> dict[str, Any]:
    """Return BoTorch's posterior, KG by fantasies, GIBBON and noisy MES at the candidates `C`, as lists."""
    import botorch
    import torch

    torch.manual_seed(0)
    points = torch.tensor(C)[:, None]
    with torch.no_grad():
        found = model().posterior(torch.tensor(C))
        out = {"mean": -found.mean[:, 0], "covariance": found.mvn.covariance_matrix, "kg": _kg()}
        samples = float(out["mean"].min()) - np.array(BELOW)
        gibbon = _given(samples, NOISE)[0]
        moments = gibbon.model.posterior(points)
        out |= {"gibbon": gibbon(points), "gibbon_mean": -moments.mean[:, 0, 0]}
        out |= {"gibbon_variance": moments.variance[:, 0, 0]}
        quiet = model(QUIET).posterior(points)
        out |= {"quiet_mean": -quiet.mean[:, 0, 0], "quiet_variance": quiet.variance[:, 0, 0]}
        lowest = float(out["quiet_mean"].min()) - np.array(BELOW)
        out |= {"mes": _given(lowest, QUIET)[1](points)}
    numbers = {name: value.numpy().tolist() for name, value in out.items()}
    versions = {"botorch": botorch.__version__, "torch": torch.__version__.split("+")[0]}
    return {"versions": versions, "samples": samples.tolist(), "quiet_samples": lowest.tolist(), **numbers}


def _kg() -> Any:
    """E[max over the set of the fantasy model's mean] - max of the mean, from 4,096 quasi-random fantasies."""
    import torch
    from botorch.sampling import SobolQMCNormalSampler

    ours, A = model(), np.vstack([X, C])
    sampler = SobolQMCNormalSampler(torch.Size([4096]), seed=0)
    fantasies = ours.fantasize(torch.tensor(C)[:, None], sampler, observation_noise=None)
    means = fantasies.posterior(torch.tensor(A).expand(len(C), -1, -1)).mean[..., 0]  # (fantasy, candidate, point)
    return means.max(dim=-1).values.mean(dim=0) - ours.posterior(torch.tensor(A)).mean.max()


def _given(samples: np.ndarray, noise: float) -> tuple[Any, Any]:
    """BoTorch's GIBBON and noisy MES with these samples of the maximum of -z."""
    import torch
    from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy, qMaxValueEntropy

    made, count = [], {"num_mv_samples": len(samples), "use_gumbel": True}
    for kind, more in ((qLowerBoundMaxValueEntropy, {}), (qMaxValueEntropy, {"num_y_samples": 2048})):
        acquisition = kind(model(noise), torch.tensor(C), **count, **more)
        acquisition.posterior_max_values = torch.tensor(-samples)[:, None]
        made.append(acquisition)
    return made[0], made[1]


if __name__ == "__main__":
    write_atomically(GOLDEN, f"{json.dumps(values(), indent=0)}\n".encode())
    print(GOLDEN)

"""KG, MES and GIBBON against BoTorch, on the same posterior; deviations are printed by `pytest -s`."""

from typing import Any

import numpy as np
import pytest
from lookahead_cases import believe, data, posterior

from harness.acquisitions.gibbon import Gibbon
from harness.acquisitions.kg import KnowledgeGradient
from harness.acquisitions.mes import MaxValueEntropySearch
from harness.surrogates.gp import standardise

torch: Any = pytest.importorskip("torch", reason="the optional extra parity (torch) is not installed")
pytest.importorskip("botorch", reason="the optional extra parity (botorch) is not installed")
DOUBLE = {"dtype": torch.float64}
X, Y = data(8)
C = np.random.default_rng(1).random((25, 2))
NOISE = 0.01


def their_model() -> Any:
    """The same Matern-5/2 process, with the same hyperparameters, of -z, since BoTorch maximises."""
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ZeroMean

    kernel, likelihood = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)), GaussianLikelihood()
    kernel.double().base_kernel.lengthscale = torch.full((1, 2), 0.4, **DOUBLE)
    kernel.outputscale = torch.tensor(1.3, **DOUBLE)
    likelihood.double().noise = torch.tensor([NOISE], **DOUBLE)
    target = -torch.tensor(standardise(Y)[0])[:, None]
    model = SingleTaskGP(torch.tensor(X), target, likelihood=likelihood, covar_module=kernel, mean_module=ZeroMean(),
                         outcome_transform=None)  # fmt: skip
    return model.double().eval()


def report(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    deviation = float(np.abs(found - expected).max())
    print(f"{name}: largest deviation {deviation:.2e} of values up to {np.abs(expected).max():.3g}")
    return deviation


def test_the_posteriors_are_the_same() -> None:
    theirs = their_model().posterior(torch.tensor(C))
    scale = Y.std()
    joint = posterior(X, Y, noise=NOISE).joint(C)
    assert report("mean", (Y.mean() - joint.mean) / scale, theirs.mean.detach().numpy()[:, 0]) < 1e-10
    covariance = theirs.mvn.covariance_matrix.detach().numpy()
    assert report("covariance", joint.covariance / scale**2, covariance) < 1e-10


def test_exact_kg_agrees_with_fantasies() -> None:
    """E[max over the set of the fantasy model's mean] - max of the mean, from 4,096 quasi-random fantasies."""
    from botorch.sampling import SobolQMCNormalSampler

    model, A = their_model(), np.vstack([X, C])
    sampler = SobolQMCNormalSampler(torch.Size([4096]), seed=0)
    with torch.no_grad():
        fantasies = model.fantasize(torch.tensor(C)[:, None], sampler, observation_noise=None)
        means = fantasies.posterior(torch.tensor(A).expand(len(C), -1, -1)).mean[..., 0]  # (fantasy, candidate, point)
        before = model.posterior(torch.tensor(A)).mean.max()
        expected = (means.max(dim=-1).values.mean(dim=0) - before).numpy()
    belief = believe(C, X, Y, posterior(X, Y, noise=NOISE))
    found = np.exp(KnowledgeGradient(points=len(C)).log_value(belief)) / Y.std()
    assert report("KG against fantasies", found, expected) < 3e-3
    assert expected.max() > 0.02


def given(samples: np.ndarray) -> tuple[Any, Any]:
    """BoTorch's two acquisitions with these samples of the maximum of -z."""
    from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy, qMaxValueEntropy

    made = []
    for kind in (qLowerBoundMaxValueEntropy, qMaxValueEntropy):
        acquisition = kind(their_model(), torch.tensor(C), num_mv_samples=len(samples), use_gumbel=True)
        acquisition.posterior_max_values = torch.tensor(-samples)[:, None]
        made.append(acquisition)
    return made[0], made[1]


def test_gibbon_is_botorchs_lower_bound() -> None:
    model, scale = posterior(X, Y, noise=NOISE), Y.std()
    mean, variance = model.moments(C)
    lowest = (mean.min() - Y.mean()) / scale - np.array([0.01, 0.2, 0.5, 1.3])
    theirs = given(lowest)[0]
    with torch.no_grad():
        expected = theirs(torch.tensor(C)[:, None]).numpy()
        moments = theirs.model.posterior(torch.tensor(C)[:, None])
        own_mean, own_variance = -moments.mean.numpy()[:, 0, 0], moments.variance.numpy()[:, 0, 0]
    found = np.exp(Gibbon().given(own_mean, own_variance, NOISE, lowest))
    assert report("GIBBON, from BoTorch's own mean and variance", found, expected) < 1e-14
    ours = np.exp(Gibbon().given((mean - Y.mean()) / scale, variance / scale**2, NOISE, lowest))
    assert report("GIBBON, from our mean and variance", ours, expected) < 1e-10


def test_mes_is_near_botorchs_noisy_one_where_there_is_little_noise() -> None:
    """Theirs is the information of a noisy observation, by Monte Carlo; it differs by the noise's share."""
    model, scale = posterior(X, Y, noise=NOISE), Y.std()
    mean, variance = ((v - m) / s for v, m, s in zip(model.moments(C), (Y.mean(), 0.0), (scale, scale**2), strict=True))
    lowest = mean.min() - np.array([0.01, 0.2, 0.5, 1.3])
    clear = variance > 20 * NOISE
    with torch.no_grad():
        expected = given(lowest)[1](torch.tensor(C)[:, None]).numpy()
    found = np.exp(MaxValueEntropySearch().given(mean, variance, NOISE, lowest))
    assert clear.sum() > 5
    assert report("MES where the noise is small", found[clear], expected[clear]) < 0.12

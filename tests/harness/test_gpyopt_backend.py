"""The GPyOpt backend against GPyOpt used directly, and the traces it must not leave behind."""

import builtins
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from datasets.errors import BadInput
from harness.surrogates.gp import standardise
from harness.surrogates.gpyopt import GPyOptProcess

RNG = np.random.default_rng(0)
X, C = RNG.random((40, 7)), RNG.random((30, 7))
Y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(40)


@pytest.fixture(scope="module")
def process() -> GPyOptProcess:
    pytest.importorskip("GPyOpt", reason="the optional extra gpyopt is not installed")
    made = GPyOptProcess(seed=3)
    made.fit(X, Y)
    return made


def test_it_is_gpyopts_own_model_on_normalised_y(process: GPyOptProcess) -> None:
    from GPyOpt.models import GPModel

    mean, sd = process.fit(X, Y).mean_sd(C)
    z, (mu, scale) = standardise(Y)
    model = GPModel(max_iters=0, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.updateModel(X, z[:, None], None, None)
    model.model[:] = process._model.model[:]
    expected_mean, expected_sd = model.predict(C)
    np.testing.assert_allclose(mean, mu + scale * expected_mean[:, 0], rtol=1e-8)
    np.testing.assert_allclose(sd, scale * expected_sd[:, 0], rtol=1e-8)
    assert model.model.kern.name == "Mat52" and not model.model.kern.ARD


def test_fits_are_deterministic_and_leave_numpys_global_state_alone(process: GPyOptProcess) -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first, second = (GPyOptProcess(seed=5).fit(X[:15], Y[:15]).mean_sd(C)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # type: ignore[index]  # noqa: NPY002


def test_the_other_starts_are_those_of_the_run(process: GPyOptProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    monkeypatch.setattr("harness.surrogates.gpyopt._global_seed", lambda seed: seeds.append(seed) or nullcontext())
    for run in ((0, "a/p"), (1, "a/p"), (0, "b/p"), (0, "a/p")):
        made = GPyOptProcess(restarts=1)
        made.draw_for(*run)
        made.fit(X[:6], Y[:6])
    states = [tuple(seed.generate_state(4)) for seed in seeds]
    assert states[0] == states[3] and len(set(states)) == 3


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("GPyOpt"):
            raise ImportError("No module named 'GPyOpt'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(BadInput, match=r"surrogate=gpyopt needs the extra packages: .* -e '\.\[gpyopt\]'"):
        GPyOptProcess(seed=0)

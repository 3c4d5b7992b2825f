"""The experiments of Snoek et al. 2011: their problems by their definitions, and whole runs on a small scale."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from lookahead_cases import grid
from scipy.optimize import minimize
from sklearn.neural_network import BernoulliRBM
from sklearn.neural_network._stochastic_optimizers import AdamOptimizer
from sklearn.svm import SVC

from analysis.papers.lecture import ASKED, draw_pictures, look_ahead
from analysis.papers.snoek2011 import __main__ as command
from analysis.papers.snoek2011 import problems
from analysis.papers.snoek2011.__main__ import Experiment, Timed, curves, summary
from analysis.papers.snoek2011.problems import (
    MINIMUM,
    Branin,
    DecayedRbm,
    Learner,
    MultipleKernelSvm,
    PretrainedNetwork,
    Split,
    branin,
    split,
)
from datasets.errors import BadInput
from harness.cost_models import Oracle


def test_branin_has_its_three_minima_inside_the_box() -> None:
    for x in ([12.275, -np.pi], [2.275, np.pi], [2.475, 9.42478]):
        found = minimize(lambda v: float(branin(v[None])[0]), x, bounds=[(0, 15), (-5, 10)])
        assert found.fun == pytest.approx(MINIMUM, abs=1e-9)
        np.testing.assert_allclose(found.x, x, atol=1e-2)
    grid = np.stack(np.meshgrid(np.linspace(0, 15, 200), np.linspace(-5, 10, 200)), -1).reshape(-1, 2)
    assert branin(grid).min() >= MINIMUM


def test_one_half_of_the_space_is_ten_times_dearer_and_that_is_known() -> None:
    problem = Branin(0)
    assert problem.costs_known
    offered = problem.candidates(5)
    cost = problem.true_cost_s(offered.unit)
    assert set(cost.tolist()) == {1.0, 10.0}
    assert abs((cost == 10.0).mean() - 0.5) < 0.02
    assert [problem.evaluate(int(i)).cost_s for i in offered.ids[:20]] == cost[:20].tolist()


def experiment(deadline_s: float = 8.0, n_initial: int = 2, candidates: int = 64) -> Experiment:
    about = {"candidates": candidates}
    return Experiment(lambda seed: Branin(seed, candidates), Oracle, deadline_s, n_initial, about)


def test_runs_end_at_the_deadline_and_what_ends_later_does_not_count(tmp_path: Path) -> None:
    found = experiment().sequences([1], tmp_path)
    assert set(found) == {"EI", "EI/s", "MCMS"}
    for runs in found.values():
        for one in runs:
            assert one.cost_s[: one.done].sum() <= 8.0
            assert one.done == len(one.cost_s) or one.cost_s[: one.done + 1].sum() > 8.0
            assert one.best == one.errors[: one.done].min()
    first = {tuple(runs[0].errors[:2]) for runs in found.values()}
    assert len(first) == 1  # the same initial design for all


def timed(errors: list[float], cost_s: list[float], done: int) -> Timed:
    return Timed(np.array(errors), np.array(cost_s), done, np.zeros((len(errors), 2)))


def test_summaries_are_means_with_standard_errors() -> None:
    runs = [timed([2.0, 1.0], [1.0, 3.0], 2), timed([4.0, 1.0], [2.0, 9.0], 1)]
    assert summary(runs) == {"evaluations": "1.5 ± 0.5", "seconds each": "2 ± 0", "best": "2.5 ± 1.5"}
    assert summary(runs[:1]) == {"evaluations": "2", "seconds each": "2", "best": "1"}
    assert summary([*runs, timed([1.0], [9.0], 0)]) == {
        "evaluations": "1 ± 0.58", "seconds each": "2 ± 0 (1 of 3 runs had none in time)",
        "best": "2.5 ± 1.5 (1 of 3 runs had none in time)",
    }  # fmt: skip
    assert summary([timed([1.0], [9.0], 0)])["best"] == "none in time"
    none = timed([1.0], [9.0], 0)
    assert np.isnan(none.best) and np.isnan(none.seconds)


def test_curves_are_means_of_step_functions_of_time() -> None:
    found = curves({"EI": [timed([2.0, 1.0], [1.0, 3.0], 2), timed([4.0, 1.0], [2.0, 9.0], 1)]}, 12.0)
    assert found["seconds"].min() == pytest.approx(2.0)  # before, one run has nothing
    at = [np.abs(found["seconds"] - t).argmin() for t in (2.0, 3.95, 4.05, 10.95, 11.05)]
    assert found["value"].iloc[at].tolist() == [3.0, 3.0, 2.5, 2.5, 1.0]
    assert found["error"].iloc[at[2]] == pytest.approx(1.5)


def test_what_is_kept_is_not_made_again_and_other_settings_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = experiment().sequences([0], tmp_path)
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {"EI-0.csv", "EI_per_s-0.csv", "MCMS-0.csv", "spec.json"}
    assert "planned" in (folder / "spec.json").read_text()
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(Experiment, "run", lambda self, *which: asked.append(which) or pd.read_csv(folder / "EI-0.csv"))
    again = experiment().sequences([0], tmp_path)
    assert not asked
    for name, (one,) in whole.items():
        np.testing.assert_array_equal(one.errors, again[name][0].errors)
        np.testing.assert_array_equal(one.X, again[name][0].X)
    experiment().sequences([0, 1], tmp_path)
    assert asked == [("EI", 1), ("EI/s", 1), ("MCMS", 1)]
    for n, changes in enumerate(({"deadline_s": 4.0}, {"n_initial": 3}, {"candidates": 65}), 2):
        experiment(**changes).sequences([0], tmp_path)
        assert len([*tmp_path.iterdir()]) == n and len(asked) == 3 * n
    monkeypatch.setattr(command, "LOOK_AHEAD", -1)
    experiment().sequences([0], tmp_path)
    assert len([*tmp_path.iterdir()]) == 5


@pytest.mark.usefixtures("laid_out")
def test_the_command_writes_tables_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SVM_SETS", ("made",))
    monkeypatch.setattr(problems, "split", lambda name, seed: small(seed))
    monkeypatch.setattr(command, "DEADLINE_S", 4.0)
    assert command.main(["branin", "svm", "seeds=1", "evaluations=3", f"out_dir={tmp_path}"]) == 0
    page = (tmp_path / "opportunity_svm.md").read_text()
    assert "| made |" in page and "published (%)" in page and "1 split, 3 random points first" in page
    for name in ("branin", "svm"):
        assert (tmp_path / f"opportunity_{name}.png").stat().st_size > 0
    assert len([*tmp_path.glob("opportunity/svm-made-3-*/*/MCMS-0.csv")]) == 1
    assert "1 seed, 2 random points first" in (tmp_path / "opportunity_branin.md").read_text()


def small(seed: int = 0) -> Split:
    rng = np.random.default_rng(seed)
    X = rng.random((120, 5))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.9).astype(int)
    return Split("small", X[:60], X[60:], y[:60], y[60:])


def test_the_two_kernels_are_those_of_scikit_learn() -> None:
    s, problem = small(), MultipleKernelSvm(small(), 0, 16)
    for rbf, linear, kernel in ((1.0, 0.0, "rbf"), (0.0, 5.0, "linear")):
        width, C = 0.6, 10.0
        expected = SVC(C=C, kernel=kernel, gamma=1 / (2 * width**2), tol=1e-4).fit(s.X_train, s.y_train)
        wrong = problem.wrong(np.array([rbf, linear, width, C, 1e-4]))
        np.testing.assert_array_equal(wrong, expected.predict(s.X_test) != s.y_test)


def test_weight_decay_shrinks_the_machine_and_without_it_nothing_changes() -> None:
    X = np.random.default_rng(0).random((40, 6))
    plain = BernoulliRBM(4, learning_rate=0.1, n_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(DecayedRbm(0.0, 4, 0.1, 3, 0).fit(X).components_, plain.components_)
    assert np.abs(DecayedRbm(2.0, 4, 0.1, 3, 0).fit(X).components_).sum() < 0.8 * np.abs(plain.components_).sum()


@pytest.mark.parametrize("kind", [MultipleKernelSvm, PretrainedNetwork])
def test_learners_learn_and_tell_their_cost(kind: type[Learner]) -> None:
    problem = kind(small(), 0, 16)
    outcomes = [problem.evaluate(int(i)) for i in problem.initial(8).ids]
    assert min(o.error for o in outcomes) < 30.0
    assert all(o.cost_s > 0 for o in outcomes)


@pytest.mark.parametrize("epochs", [1, 30])
def test_the_network_starts_from_the_machine_and_trains_as_many_epochs_as_it_should(
    epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each epoch is one pass of Adam over the 60 rows, a batch, with an optimizer that has seen nothing before."""
    begun: list[tuple[np.ndarray, float, int]] = []
    trained: list[int] = []
    update = AdamOptimizer.update_params

    def watched(self: AdamOptimizer, params: list[np.ndarray], grads: list[np.ndarray]) -> None:
        if self.learning_rate_init > 1e-10:
            if self.t == 0:
                begun.append((params[0].copy(), float(sum(np.abs(m).sum() for m in self.ms)), len(params)))
            trained.append(self.t)
        update(self, params, grads)

    monkeypatch.setattr(AdamOptimizer, "update_params", watched)
    problem, s = PretrainedNetwork(small(), 0, 16), small()
    problem.wrong(np.array([8, 5, 1e-4, 1e-2, epochs, 1e-4]))
    assert trained == list(range(epochs))
    machine = DecayedRbm(1e-4, 8, 0.05, 5, 0).fit(s.X_train)
    assert len(begun) == 1 and begun[0][1] == 0.0
    np.testing.assert_allclose(begun[0][0], machine.components_.T, rtol=1e-12)


@needs_data
@pytest.mark.parametrize(("name", "rows", "columns"), [("ionosphere", 351, 34), ("sonar", 208, 60)])
def test_the_data_sets_have_their_known_sizes(name: str, rows: int, columns: int) -> None:
    s = split(name, 0)
    assert len(s.y_train) + len(s.y_test) == rows
    assert s.X_train.shape[1] == columns
    assert set(np.unique(s.y_train)) == {0, 1}
    assert s.X_train.min() >= 0.0 and s.X_test.max() <= 1.0
    assert (split(name, 0).y_test == s.y_test).all()


@pytest.mark.usefixtures("undrawn")
def test_the_pictures_show_what_the_utilities_compute(tmp_path: Path) -> None:
    joint, numbers = look_ahead()
    assert numbers["p_min"].sum() == pytest.approx(1.0)
    i = ASKED[0]
    sd = np.sqrt(joint.covariance[i, i] + joint.noise)
    fall = [joint.condition(i, float(joint.mean[i] + sd * z)).mean.min() for z in grid(400)]
    assert numbers["kg"][i] == pytest.approx(joint.mean.min() - np.mean(fall), abs=2e-4)
    drawn = draw_pictures(tmp_path)
    assert all(path.stat().st_size > 0 for path in drawn.paths)


def test_wrong_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, message in (
        (["brain"], "cannot read 'brain'; allowed: branin, svm, network, pictures"),
        (["branin", "seeds=0"], "seeds must be a whole number >= 1, got 0"),
    ):
        with pytest.raises(BadInput, match=message):
            command.main([*arguments, f"out_dir={tmp_path}"])
    with pytest.raises(BadInput, match="unknown data set 'iris'; allowed: australian, ionosphere, sonar, w1a, digits"):
        split("iris", 0)
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path))
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATASETS_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(BadInput, match=r"data set sonar: not found in DATASETS_HOME .* python -m datasets fetch sonar"):
        split("sonar", 0)

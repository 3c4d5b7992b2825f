"""The experiments of Snoek et al. 2011: their problems by their definitions, and whole runs on a small scale."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lookahead_cases import grid
from raw_data import needs_data
from scipy.optimize import minimize
from scipy.special import entr
from scipy.stats import norm
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neural_network import BernoulliRBM
from sklearn.neural_network._stochastic_optimizers import SGDOptimizer
from sklearn.svm import SVC

from analysis.papers.lecture import ASKED, GRID, X, draw_pictures, look_ahead, objective
from analysis.papers.snoek2011 import __main__ as command
from analysis.papers.snoek2011 import problems
from analysis.papers.snoek2011.__main__ import Experiment, Timed, curves, summary, table
from analysis.papers.snoek2011.problems import (
    MINIMUM,
    Branin,
    DecayedRbm,
    Learner,
    MultipleKernelSvm,
    PretrainedNetwork,
    Rows,
    branin,
    rows,
)
from datasets.errors import BadInput
from harness.acquisitions.entropy import p_min
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
    np.testing.assert_array_equal(cost == 10.0, problem.space.from_unit(offered.unit)[:, 1] < 2.5)
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
            assert one.best == one.errors[: one.done].min() and one.best_begun == one.errors.min()
    first = {tuple(runs[0].errors[:2]) for runs in found.values()}
    assert len(first) == 1  # the same initial design for all


def timed(errors: list[float], cost_s: list[float], done: int) -> Timed:
    return Timed(np.array(errors), np.array(cost_s), done, np.zeros((len(errors), 2)))


def test_summaries_are_means_with_standard_errors() -> None:
    runs = [timed([2.0, 1.0], [1.0, 3.0], 2), timed([4.0, 1.0], [2.0, 9.0], 1)]
    assert summary(runs) == {"evaluations": "1.5 ± 0.5", "seconds each": "2 ± 0", "best": "2.5 ± 1.5",
                             "best, the last counted": "1 ± 0"}  # fmt: skip
    assert list(summary(runs[:1]).values()) == ["2", "2", "1", "1"]
    assert summary([*runs, timed([1.0], [9.0], 0)]) == {
        "evaluations": "1 ± 0.58", "seconds each": "2 ± 0 (1 of 3 runs had none in time)",
        "best": "2.5 ± 1.5 (1 of 3 runs had none in time)", "best, the last counted": "1 ± 0",
    }  # fmt: skip
    assert summary([timed([1.0], [9.0], 0)])["best"] == "none in time"
    none = timed([1.0], [9.0], 0)
    assert np.isnan(none.best) and np.isnan(none.seconds)


def test_differences_are_paired_by_seed() -> None:
    runs = {name: [timed([e], [1.0], 1) for e in errors] for name, errors in (("A", (1.0, 5.0)), ("B", (2.0, 6.0)))}
    assert [row["minus A"] for row in table(runs, "A")] == ["", "+1 [1, 1]"]


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
    monkeypatch.setattr(command, "PUBLISHED", {"made": {"EI": 1.0, "EI/s": 2.0, "MCMS": 3.0}})
    monkeypatch.setattr(problems, "rows", lambda name: small())
    monkeypatch.setattr(command, "DEADLINE_S", 6.0)
    assert command.main(["branin", "shortcuts", "svm", "seeds=1", "evaluations=3", f"out_dir={tmp_path}"]) == 0
    page = (tmp_path / "opportunity_svm.md").read_text()
    assert "| made |" in page and "published (%)" in page and "1 seed, 3 random points first" in page
    assert all(f"| {name} |" in (tmp_path / "opportunity_shortcuts.md").read_text() for name in command.WITH_SHORTCUT)
    for name in ("branin", "svm"):
        assert (tmp_path / f"opportunity_{name}.png").stat().st_size > 0
    assert len([*tmp_path.glob("opportunity/svm-made-3-*/*/MCMS-0.csv")]) == 1
    assert "1 seed, 5 random points first" in (tmp_path / "opportunity_branin.md").read_text()


def small() -> Rows:
    X = np.random.default_rng(0).random((120, 5))
    return Rows("small", X, (X[:, 0] + X[:, 1] ** 2 > 0.9).astype(int))


def test_the_two_kernels_are_those_of_scikit_learn_in_cross_validation() -> None:
    data, problem = small(), MultipleKernelSvm(small(), 0, 16)
    fold = np.empty(120, int)
    fold[data.order(0)] = np.arange(120) % 5
    for rbf, linear, kernel in ((1.0, 0.0, "rbf"), (0.0, 5.0, "linear")):
        width, C = 0.6, 10.0
        machine = SVC(C=C, kernel=kernel, gamma=1 / (2 * width**2), tol=1e-4)
        predicted = cross_val_predict(machine, data.X, data.y, cv=PredefinedSplit(fold))
        wrong = problem.wrong(np.array([rbf, linear, width, C, 1e-4]))
        np.testing.assert_array_equal(wrong, predicted != data.y)


def test_the_kernels_distances_are_part_of_every_evaluations_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, spent = MultipleKernelSvm(small(), 0, 16), []
    distances = problems.pairwise_distances

    def slow(*args: object, **kwargs: object) -> np.ndarray:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        spent.append(0.05)
        return distances(*args, **kwargs)

    monkeypatch.setattr(problems, "pairwise_distances", slow)
    cost = [problem.evaluate(int(i)).cost_s for i in problem.initial(2).ids]
    assert len(spent) == 2 and min(cost) > 0.05


def test_weight_decay_shrinks_the_machine_and_without_it_nothing_changes() -> None:
    X = np.random.default_rng(0).random((40, 6))
    plain = BernoulliRBM(4, learning_rate=0.1, n_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(DecayedRbm(0.0, 4, 0.1, 3, 0).fit(X).components_, plain.components_)
    assert np.abs(DecayedRbm(2.0, 4, 0.1, 3, 0).fit(X).components_).sum() < 0.8 * np.abs(plain.components_).sum()


@pytest.mark.parametrize(
    ("kind", "x"),
    [(MultipleKernelSvm, [1.0, 1.0, 1.0, 10.0, 1e-3]), (PretrainedNetwork, [32.0, 5.0, 1e-5, 1.0, 60.0, 1e-6])],
)
@pytest.mark.filterwarnings("error")
def test_learners_learn_and_tell_their_cost(kind: type[Learner], x: list[float]) -> None:
    outcome = kind(small(), 0, 16).measure(np.array(x))
    assert outcome.error < 25.0 and outcome.cost_s > 1e-3


@pytest.mark.parametrize("epochs", [1, 30])
def test_the_network_is_pretrained_and_descends_for_as_many_epochs_as_it_should(
    epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each epoch is three steps, weight -= rate x gradient, on 20 of the 60 rows, from the weights of the machine."""
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    update = SGDOptimizer.update_params

    def watched(self: SGDOptimizer, params: list[np.ndarray], grads: list[np.ndarray]) -> None:
        before = params[0].copy()
        update(self, params, grads)
        if self.learning_rate_init > 1e-10:
            steps.append((before, grads[0].copy(), params[0].copy()))

    monkeypatch.setattr(SGDOptimizer, "update_params", watched)
    problem, data = PretrainedNetwork(small(), 0, 16), small()
    problem.measure(np.array([8, 5, 1e-4, 1e-1, epochs, 1e-4]))
    assert len(steps) == 3 * epochs
    for before, gradient, after in steps:
        np.testing.assert_allclose(after, before - 1e-1 * gradient, rtol=1e-12)
    machine = DecayedRbm(1e-4, 8, 0.05, 5, 0).fit(data.X[data.order(0)[:60]])
    np.testing.assert_allclose(steps[0][0], machine.components_.T, rtol=1e-12)


@needs_data
@pytest.mark.parametrize(("name", "n", "columns"), [("ionosphere", 351, 34), ("sonar", 208, 60)])
def test_the_data_sets_have_their_known_sizes(name: str, n: int, columns: int) -> None:
    data = rows(name)
    assert data.X.shape == (n, columns) and data.y.shape == (n,)
    assert set(np.unique(data.y)) == {0, 1}
    assert data.X.min() == 0.0 and data.X.max() == 1.0
    assert sorted(data.order(0)) == [*range(n)] and (data.order(0) != data.order(1)).any()


@pytest.mark.usefixtures("undrawn")
def test_the_pictures_show_what_the_utilities_compute(tmp_path: Path) -> None:
    joint, numbers = look_ahead()
    assert numbers["p_min"].sum() == pytest.approx(1.0)
    i = ASKED[0]
    sd = np.sqrt(joint.covariance[i, i] + joint.noise)
    fall = [joint.condition(i, float(joint.mean[i] + sd * z)).mean.min() for z in grid(400)]
    assert numbers["kg"][i] == pytest.approx(joint.mean.min() - np.mean(fall), abs=2e-4)
    normals, (z, weight) = (
        np.random.default_rng(1).standard_normal((4000, len(GRID))),
        np.polynomial.hermite_e.hermegauss(9),
    )
    after = [joint.condition(i, float(joint.mean[i] + sd * one)).draw(normals) for one in z]
    left = np.dot(weight / weight.sum(), [entr(p_min(draws)).sum() for draws in after])
    assert numbers["es"][i] == pytest.approx(entr(numbers["p_min"]).sum() - left, abs=0.02)
    gap, spread = objective(X).min() - numbers["mean"], numbers["sd"]
    ei = gap * norm.cdf(gap / spread) + spread * norm.pdf(gap / spread)
    np.testing.assert_allclose(numbers["ei"], ei, atol=1e-9)
    drawn = draw_pictures(tmp_path)
    assert all(path.stat().st_size > 0 for path in drawn.paths)


def test_wrong_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, message in (
        (["brain"], "cannot read 'brain'; allowed: branin, shortcuts, svm, network, pictures"),
        (["branin", "seeds=0"], "seeds must be a whole number >= 1, got 0"),
    ):
        with pytest.raises(BadInput, match=message):
            command.main([*arguments, f"out_dir={tmp_path}"])
    with pytest.raises(BadInput, match="unknown data set 'iris'; allowed: australian, ionosphere, sonar, w1a, digits"):
        rows("iris")
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path))
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATASETS_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(BadInput, match=r"data set sonar: not found in DATASETS_HOME .* python -m datasets fetch sonar"):
        rows("sonar")

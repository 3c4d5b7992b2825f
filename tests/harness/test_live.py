from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import prepared

from datasets.errors import BadInput
from harness.live import Live, LiveProblem
from harness.problem import OK, Evaluation
from harness.training import train
from tabular_cache.live_truth import PacedLive


def problem(seed: int = 0) -> LiveProblem:
    return LiveProblem(prepared(), seed, 64, "exact", None)


def test_the_initial_design_depends_on_problem_and_seed_only() -> None:
    a, b = problem().initial(5), problem().initial(5)
    assert np.array_equal(a.unit, b.unit)
    assert not np.array_equal(a.unit, problem(seed=1).initial(5).unit)


def test_each_step_offers_a_fresh_set_whose_ids_are_new() -> None:
    live = problem()
    offers = [live.initial(5), live.candidates(5), live.candidates(6)]
    ids = np.concatenate([offer.ids for offer in offers])
    assert ids.tolist() == list(range(5 + 64 + 64))
    assert not np.array_equal(offers[1].unit, offers[2].unit)


def test_evaluating_trains_the_offered_point() -> None:
    live = problem()
    offer = live.candidates(5)
    outcome = live.evaluate(int(offer.ids[3]))
    expected = train(prepared(), live.space.from_unit(offer.unit[3:4])[0], ())
    assert outcome.status == OK
    assert outcome.error == expected.val_error[-1]
    assert outcome.test_error == expected.test_error[-1]
    assert outcome.cost_s > 0
    assert outcome.wall_s > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tree_method": "gpu"}, "tree_method must be one of exact, hist, approx, got 'gpu'"),
        ({"n_candidates": 0}, "n_candidates must be a whole number >= 1, got 0"),
        ({"time_limit_s": -1}, "time_limit_s must be seconds > 0 or null, got -1"),
    ],
)
def test_wrong_settings_are_reported(settings: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Live(**settings)


@pytest.mark.parametrize("cost", [0.0, float("nan")])
def test_a_missing_cost_is_an_error(cost: float) -> None:
    with pytest.raises(ValueError, match="cost_s must be finite and positive"):
        Evaluation(error=0.1, cost_s=cost, test_error=0.1, wall_s=1.0)


def test_a_missing_error_needs_a_status() -> None:
    with pytest.raises(ValueError, match="needs a finite error"):
        Evaluation(error=float("nan"), cost_s=1.0, test_error=0.1, wall_s=1.0)
    with pytest.raises(ValueError, match="status must be one of ok, failed, timeout, out_of_memory"):
        Evaluation(error=0.1, cost_s=1.0, test_error=0.1, wall_s=1.0, status="fine")


def test_a_data_set_of_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_data.py").write_text(
        "import numpy as np, pandas as pd\n"
        "from datasets import Dataset\n"
        "def load(name, n):\n"
        "    x = np.linspace(0, 1, n)\n"
        "    X = pd.DataFrame({'a': x, 'b': x[::-1] ** 2})\n"
        "    return Dataset(name=name, X=X, y=np.sin(6 * x), task='regression', classes=(), mark='', note='',\n"
        "                   sha256=str(n))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = {"_target_": "my_data.load", "name": "mine", "n": 100}
    live = Live(n_candidates=16).open(config, {"name": "clean"}, seed=0)
    assert live.name == "mine/clean"
    assert live.evaluate(int(live.initial(5).ids[0])).status == OK
    assert Live().fingerprint(config, {"name": "clean"}) != Live().fingerprint({**config, "n": 90}, {"name": "clean"})


def test_paced_costs_are_those_of_the_reference_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is always twice as slow, a training has cost half of its CPU seconds; errors stay."""
    spent: list[float] = []
    real = train

    def watched(*given: Any, **named: Any) -> Any:
        result = real(*given, **named)
        spent.append(float(result.cpu_s[-1]))
        return result

    monkeypatch.setattr("harness.live.train", watched)
    plain, paced = problem(), LiveProblem(prepared(), 0, 64, "exact", None, None, lambda: 2.0)
    i = int(plain.candidates(5).ids[3])
    assert paced.candidates(5).ids[3] == i
    first, second = plain.evaluate(i), paced.evaluate(i)
    assert first.error == second.error
    assert (first.cost_s, second.cost_s) == (pytest.approx(spent[0]), pytest.approx(spent[1] / 2))
    assert isinstance(PacedLive(n_candidates=8), Live)
    with pytest.raises(BadInput, match="evaluator=live_paced takes no limits"):
        PacedLive(time_limit_s=1.0)

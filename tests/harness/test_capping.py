"""Caps: thresholds, and capped evaluations of live problems."""

import numpy as np
import pytest
from fakes import prepared

from harness.errors import BadInput
from harness.live import LiveProblem
from harness.problem import OK, SLACKS, TIMEOUT, slack_factor, threshold


def test_the_threshold_is_slack_times_the_best() -> None:
    assert all(slack_factor(slack) == slack for slack in SLACKS)
    assert threshold(1.3, 2.0) == 2.6
    assert threshold(1.3, 2.0, 2.5) == 2.5
    assert threshold(None, 2.0, 9.0) == threshold(1.1, None, 9.0) == 9.0
    for bad in (0.9, True, "2", float("nan")):
        with pytest.raises(BadInput, match="slack must be a number >= 1, or null"):
            slack_factor(bad)


def test_a_live_training_is_capped_or_the_same_as_ever() -> None:
    data = prepared(n=2000, d=10)
    live = LiveProblem(data, 0, 64, "exact", None)
    offer = live.candidates(5)
    longest = int(offer.ids[np.argmax(offer.unit[:, 0] + offer.unit[:, 6])])
    capped = live.evaluate_capped(longest, 0.02)
    assert capped.status == TIMEOUT and capped.censored
    assert capped.cost_s >= 0.02 and np.isnan(capped.error)
    quick = int(offer.ids[np.argmin(offer.unit[:, 0] + offer.unit[:, 6])])
    whole, plain = live.evaluate_capped(quick, 60.0), live.evaluate(quick)
    assert (whole.status, whole.error, whole.test_error) == (OK, plain.error, plain.test_error)
    assert not whole.censored
    assert live.evaluate_capped(quick, threshold(1.3, None)).error == plain.error  # no best yet: no cap
    for bad in (0.0, -3.0, float("nan")):
        with pytest.raises(BadInput, match="cap_s must be a number of seconds > 0, or inf"):
            live.evaluate_capped(quick, bad)


def test_a_live_training_whose_last_round_goes_past_the_cap_is_censored(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveProblem(prepared(n=300), 0, 64, "exact", None)
    whole = live.evaluate(int(live.candidates(5).ids[0]))
    monkeypatch.setattr(live, "_measure", lambda x, limits: whole)
    i, below = int(live.candidates(6).ids[0]), whole.cost_s * 0.9
    capped = live.evaluate_capped(i, below)
    assert (capped.status, capped.cost_s, capped.censored) == (TIMEOUT, whole.cost_s, True)
    assert np.isnan(capped.error) and np.isnan(capped.test_error)
    assert live.evaluate_capped(i, whole.cost_s) == whole

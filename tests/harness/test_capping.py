"""Caps: thresholds, children that the kernel ends at their limit, and capped evaluations of live problems."""

import os
import sys

import numpy as np
import pytest
from fakes import prepared
from loads import busy, in_compiled_code, wrong

from harness.errors import BadInput
from harness.execution import sandbox
from harness.live import LiveProblem
from harness.problem import OK, SLACKS, TIMEOUT, slack_factor, threshold


def test_the_threshold_is_slack_times_the_best() -> None:
    assert SLACKS == (1.0, 1.1, 1.3, 1.5, 2.0, None)
    assert threshold(1.3, 2.0) == 2.6
    assert threshold(1.3, 2.0, 2.5) == 2.5
    assert threshold(None, 2.0, 9.0) == threshold(1.1, None, 9.0) == 9.0
    assert slack_factor(None) is None
    for bad in (0.9, True, "2", float("nan")):
        with pytest.raises(BadInput, match="slack must be a number >= 1, or null"):
            slack_factor(bad)


def test_a_child_is_ended_at_its_limit_and_not_before() -> None:
    done = sandbox.call(busy, (0.05,), 5.0)
    assert (done.status, done.value) == (sandbox.DONE, 0.05)
    assert 0.05 <= done.cpu_s < 5.0
    for function, args in ((busy, (60.0,)), (in_compiled_code, ())):
        capped = sandbox.call(function, args, 0.1)
        assert (capped.status, capped.cpu_s) == (sandbox.CAPPED, 0.1)


def test_a_child_that_breaks_says_why() -> None:
    assert sandbox.call(wrong, (), 5.0).note == "ValueError: wrong"
    ended = sandbox.call(os._exit, (7,), 5.0)
    assert (ended.status, ended.note) == (sandbox.BROKEN, "ended with exit code 7")
    assert ended.cpu_s <= ended.wall_s < 5.0  # not the whole limit
    with pytest.raises(ValueError, match="cap_s must be a finite number of seconds > 0"):
        sandbox.call(busy, (1.0,), 0.0)


def test_a_program_is_ended_at_its_limit() -> None:
    capped = sandbox.program([sys.executable, "-c", "while True: pass"], 0.3)
    assert (capped.status, capped.cpu_s) == (sandbox.CAPPED, 0.3)
    done = sandbox.program([sys.executable, "-c", "raise SystemExit(20)"], 30.0)
    assert (done.status, done.value) == (sandbox.DONE, 20)
    assert 0 < done.cpu_s < 30.0
    aborted = sandbox.program([sys.executable, "-c", "import os; os.abort()"], 30.0)
    assert (aborted.status, aborted.note) == (sandbox.BROKEN, "ended by signal 6")
    with pytest.raises(BadInput, match="cannot run no-such-program"):
        sandbox.program(["no-such-program"], 1.0)


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

import numpy as np
import pytest
from fakes import journal_line
from hypothesis import given
from hypothesis import strategies as st

from harness.problem import TIMEOUT
from tabular_cache.build import MeasurementBudget, uncut_costs
from tabular_cache.rows import merge_rows
from tabular_cache.table import to_table


def test_cheap_problems_need_no_limit() -> None:
    assert MeasurementBudget(limit_for=100, longest_s=50).limit(np.full(32, 0.5)) is None


@given(st.lists(st.floats(0.01, 1e4), min_size=2, max_size=40), st.floats(0.1, 100))
def test_the_limit_is_the_longest_that_fits(costs: list[float], mean: float) -> None:
    uncut = np.array(costs)
    allowance = MeasurementBudget(limit_for=10, longest_s=10 * mean, floor_s=1e-6)
    limit, mean = allowance.limit(uncut), allowance.longest_s / 10  # 10 mean / 10 need not be mean
    if uncut.mean() <= mean:
        assert limit is None
    else:
        assert limit is not None
        assert np.minimum(uncut, limit).mean() == pytest.approx(mean, rel=0.06)  # two digits


def test_the_limit_never_falls_below_its_floor() -> None:
    assert MeasurementBudget(limit_for=100, longest_s=100, floor_s=5).limit(np.full(32, 80.0)) == 5


def test_costs_that_were_cut_short_go_on_along_their_prefixes() -> None:
    whole, cut = journal_line(8), journal_line(9, status=TIMEOUT)
    table = to_table("a/p", merge_rows(None, [whole, cut]), {})
    costs = uncut_costs(table)
    assert costs[0] == pytest.approx(whole["cpu_s"][-1])
    own = table.native[table["config"] == 9, 0].max()
    expected = max(cut["spent_cpu_s"], cut["cpu_s"][-1] / cut["rounds"][-1] * own)
    assert costs[1] == pytest.approx(expected)


def test_without_one_finished_round_the_cost_is_counted_per_round() -> None:
    line = journal_line(9, status=TIMEOUT) | {"rounds": [], "spent_cpu_s": 6.0}
    line |= {name: [] for name in line if name.endswith(("_error", "_loss")) or name in ("cpu_s", "wall_s", "scaled_s")}
    table = to_table("a/p", merge_rows(None, [line]), {})
    assert uncut_costs(table) == pytest.approx([6.0 * table.native[0, 0]])

"""Which features and ridge a linear cost model should have, on tables whose cost is known."""

import numpy as np
import pandas as pd
import pytest
from fakes import make_tables

from tabular_cache.cost_study import explained, left_out, print_significance
from tabular_cache.table import Table, load_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    names = ["a/p", "b/p", "c/p"]
    folder = make_tables(tmp_path_factory.mktemp("tables"), names, 60)
    return [load_table(name, folder) for name in names]


def test_the_features_that_cost_depends_on_are_found(tables: list[Table]) -> None:
    scores = explained(tables, 2)  # the made-up cost is 0.002 + 1e-4 rounds x depth, and noise
    assert scores.shape == (3, 21)
    chosen, held = left_out(scores, "max")
    assert chosen == {("n_estimators", "max_depth"): 3}
    np.testing.assert_allclose(held, scores["n_estimators", "max_depth"], rtol=1e-12)
    assert set(explained(tables, 3, ("max_depth",)).columns) == {c for c in explained(tables, 3) if "max_depth" in c}


def test_the_data_set_left_out_has_no_say() -> None:
    scores = pd.DataFrame({"x": [0.9, 0.9, 0.1, 0.1], "y": [0.5, 0.5, 0.6, 0.6]}, index=["a/p", "a/q", "b/p", "c/p"])
    chosen, held = left_out(scores, "max")
    assert chosen == {"y": 1, "x": 2}  # without a: y; without b or c: x
    assert held.tolist() == [0.5, 0.5, 0.1, 0.1]
    assert left_out(scores, "min")[0] == {"x": 1, "y": 2}


def test_the_report_says_what_was_chosen(tables: list[Table]) -> None:
    text = print_significance(tables, ("n_estimators", "max_depth", "subsample"))
    assert "| two | n_estimators, max_depth: 3 |" in text
    assert "| n | 0.0001 | 0.001 | 0.01 | 0.03 |" in text and "| 32 | nan" not in text
    assert "Ridge chosen (mean over n): " in text

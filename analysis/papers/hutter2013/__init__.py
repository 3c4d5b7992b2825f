"""Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response data": its experiments' results.

Numbers, a one-dimensional example (C1), the figures C2 and C3, and tables. Read are the records of `python -m
tabular_cache censored` and of `python -m harness.configurator`.
"""

from analysis.papers.hutter2013.example import draw, steps
from analysis.papers.hutter2013.figures import (
    c2,
    c3,
    configured_table,
    gain,
    model_table,
    published_table,
    slack_table,
    solver_table,
    write,
)
from analysis.papers.hutter2013.records import (
    by_model,
    by_slack,
    medians,
    read_censored,
    read_runs,
    solver_slack_rows,
    test_times,
)

__all__ = [
    "by_model",
    "by_slack",
    "c2",
    "c3",
    "configured_table",
    "draw",
    "gain",
    "medians",
    "model_table",
    "published_table",
    "read_censored",
    "read_runs",
    "slack_table",
    "solver_slack_rows",
    "solver_table",
    "steps",
    "test_times",
    "write",
]

"""Analyses of recorded runs: incumbents, relative cost and error, ranks, intervals, claims, figures, the report."""

from datasets import pin_blas

pin_blas()

REFERENCE = {
    "evaluator": "replay",
    "utility": "ei",
    "surrogate": "gp",
    "cost_model": "lv3",
    "cost_statistic": "exp_mean",
}
"""The components of the study's own runs, by kind."""

"""Analyses of recorded runs: incumbents, relative cost and error, ranks, bootstrap, figures, summary."""

from datasets import pin_blas

pin_blas()

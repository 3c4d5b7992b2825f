"""Analyses of recorded runs: incumbents, relative cost and error, ranks, bootstrap, figures, summary."""

from datasets.threads import pin_blas

pin_blas()

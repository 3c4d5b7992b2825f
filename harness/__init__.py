"""Cost-aware Bayesian optimization: search space, problems, optimizer, runs, studies, records."""

from datasets.threads import pin_blas

pin_blas()

"""Measured trainings as tables: build them, check them, and replay them as problems."""

import harness  # noqa: F401 - limits BLAS to one thread before numpy is imported

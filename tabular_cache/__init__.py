"""Measured trainings as tables: build them, check them, and replay them as problems."""

from datasets import pin_blas

pin_blas()

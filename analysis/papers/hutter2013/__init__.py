"""Hutter, Hoos and Leyton-Brown 2013, "Bayesian optimization with censored response data": its experiments' results.

Numbers, a one-dimensional example (C1), the figures C2 and C3, and tables. Read are the records of `python -m
tabular_cache censored` and of `python -m harness.configurator`.
"""

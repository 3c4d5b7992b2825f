"""Surrogates: probabilistic models of the validation error."""

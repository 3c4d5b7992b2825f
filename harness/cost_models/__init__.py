"""Cost models: predictors of the logarithm of an evaluation's cost."""

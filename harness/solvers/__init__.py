"""Real solvers as functions whose runtime is to be minimised, and generators of the instances they solve."""

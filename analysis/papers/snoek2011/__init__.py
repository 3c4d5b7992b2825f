"""The experiments of Snoek, Larochelle and Adams 2011, "Opportunity cost in Bayesian optimization", run again.

Unlike the rest of the analysis they run optimizers themselves, on small problems of their own.
"""

"""Cost-aware Bayesian optimization as a sampler; the code is that of the package `cost-aware-bo`."""

from harness.interop import CostAwarePruner, CostAwareSampler

__all__ = ["CostAwarePruner", "CostAwareSampler"]

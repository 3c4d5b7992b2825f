"""Other people's tools: our optimizer as an Optuna sampler, and their optimizers on this benchmark's problems.

Nothing here is needed by the rest of the package, and each module needs an optional extra of `pyproject.toml`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.interop.sampler import CostAwarePruner, CostAwareSampler

__all__ = ["CostAwarePruner", "CostAwareSampler"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.interop import sampler

    return getattr(sampler, name)

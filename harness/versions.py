"""What a trace's bytes may depend on besides its spec: the versions of what computes it, and the compiler's target."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = ("numba", "numpy", "pyarrow", "scikit-learn", "scipy", "xgboost-cpu")
TARGET = "compiler target"


@cache
def _libraries() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for library in _LIBRARIES:
        try:
            found.append((library, version(library)))
        except PackageNotFoundError:  # another build of it, or none: what needs it will say so
            found.append((library, "none"))
    return tuple(found)


def libraries() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute a trace, by name."""
    return dict(_libraries())


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries, and under TARGET what the inner loops are compiled for."""
    from harness.compiler import target

    return {**libraries(), TARGET: target()}

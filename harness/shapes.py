"""What goes into the optimizer and comes from a user's own parts: of the right shape, or one line says what is not.

Without these, NumPy would broadcast three scores over five thousand candidates and go on.
"""

from typing import Any

import numpy as np

from datasets.errors import BadInput

_LOOKED_AT = 128  # candidates whose values are checked


def one_each(source: object, method: str, values: Any, m: int) -> Any:
    """Return `values` if they are one number for each of `m` candidates; raises BadInput naming whose they are."""
    if isinstance(values, np.ndarray) and values.shape == (m,) and values.dtype.kind in "fiub":
        return values
    what = f"shape {values.shape} of {values.dtype}" if isinstance(values, np.ndarray) else repr(values)[:60]
    raise BadInput(f"{type(source).__name__}.{method} returned {what}, needed ({m},): one {method} per candidate")


def check_point(x: Any, d: int | None) -> None:
    """Raise ValueError unless `x` is a point of the unit cube, of `d` dimensions where that is known."""
    if np.ndim(x) != 1 or (d is not None and len(x) != d):
        raise ValueError(f"the point must have the shape ({'d' if d is None else d},), got {np.shape(x)}")
    if not ((x >= 0) & (x <= 1)).all():
        raise ValueError(f"the point must lie in the unit cube (SearchSpace.to_unit maps native values), got {x}")


def check_candidates(C: Any, d: int) -> None:
    """Raise ValueError unless `C` are points of `d` dimensions, at least one, in the unit cube.

    Native values show in any row, so the first rows are looked at: all of them would take 3 % of a step.
    """
    if len(C) == 0:
        raise ValueError("there is no candidate to choose")
    if np.ndim(C) != 2 or np.shape(C)[1] != d:
        raise ValueError(f"candidates must have the shape (m, {d}), got {np.shape(C)}")
    if not (np.min(C[:_LOOKED_AT]) >= 0 and np.max(C[:_LOOKED_AT]) <= 1):
        raise ValueError("candidates must lie in the unit cube: SearchSpace.to_unit maps native values there")

"""Sizes of made-up instances: each has its own, around those of its set."""

from collections.abc import Sequence

import numpy as np


def draw_sizes(rng: np.random.Generator, around: Sequence[int], spread: float, least: int = 4) -> list[int]:
    """Return `around` times one factor, uniform in [1 - spread, 1 + spread], as whole numbers of at least `least`."""
    factor = rng.uniform(1.0 - spread, 1.0 + spread)
    return [max(least, round(size * factor)) for size in around]

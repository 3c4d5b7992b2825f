"""Work space kept from call to call, since memory fresh from the operating system costs a fault per page."""

import math

import numpy as np
from jaxtyping import Shaped


class Workspace:
    """Named arrays without content; one caller at a time."""

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type = np.float64) -> Shaped[np.ndarray, "..."]:
        """Return an array of `shape` under this name; its content is what the last user left there."""
        size = math.prod(shape)
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            memory = self._memory[name] = np.empty(size, dtype)
        return memory[:size].reshape(shape)

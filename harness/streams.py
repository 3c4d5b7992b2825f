"""Named random streams: every random draw of a run comes from one of these, never from global state."""

import hashlib

import numpy as np


def seed_sequence(seed: int, *names: str) -> np.random.SeedSequence:
    """Return the seed sequence of the purpose `names` under `seed`.

    The entropy is `seed` followed by 128 bits of SHA-256 for each name, so streams of different purposes
    (``"initial"``, ``"candidates"``...) are independent and adding one never shifts another.
    """
    words = [seed]
    for name in names:
        digest = hashlib.sha256(name.encode()).digest()
        words += [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.SeedSequence(words)


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return a generator on `seed_sequence(seed, *names)`."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, *names)))

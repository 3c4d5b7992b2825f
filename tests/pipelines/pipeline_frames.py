"""Small synthetic frames and data sets for the tests of the pipelines."""

import numpy as np
import pandas as pd

from datasets.catalogue import Dataset

WORDS = ("call", "free", "home", "late", "love", "meet", "now", "prize", "send", "stop", "text", "win")


def mixed_frame(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Return a frame with every kind of column, with gaps, infinities, a constant and an empty column."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "normal": rng.normal(size=n),
            "scaled": 1e3 * rng.normal(size=n) + 50,
            "heavy": np.where(rng.random(n) < 0.03, 1e3, 0) + rng.random(n),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "infinite": np.where(rng.random(n) < 0.05, np.inf, rng.normal(size=n)),
            "few": rng.integers(0, 6, n),
            "constant": np.full(n, 3.0),
            "empty": np.full(n, np.nan),
            "level": rng.choice(["a", "b", "c"], n),
            "flag": rng.random(n) < 0.3,
            "code": pd.Categorical(rng.choice([1, 2, 3, 4], n)),
            "text": [" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
        }
    )
    frame.loc[:3, "level"] = "rare"
    frame["gappy_level"] = frame["level"].where(rng.random(n) > 0.3)
    return frame


def targets(frame: pd.DataFrame, seed: int = 1) -> np.ndarray:
    """Return real targets that depend on the frame."""
    noise = np.random.default_rng(seed).normal(size=len(frame))
    return frame["normal"].to_numpy() * frame["few"].to_numpy() + 0.1 * noise


def dataset_of(frame: pd.DataFrame, y: np.ndarray, task: str = "regression", sha: str = "a" * 64) -> Dataset:
    classes = () if task == "regression" else tuple(map(str, range(int(y.max()) + 1)))
    return Dataset("synthetic", frame, y, task, classes, "", "", sha)

"""The README's ask-and-tell example, run as it stands."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from harness.optimizer import Optimizer
from harness.space import XGBOOST_SPACE

ROOT = Path(__file__).resolve().parents[1]


def example() -> str:
    section = (ROOT / "README.md").read_text().split("## Ask and tell\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]


def test_the_example_tunes_with_its_own_acquisition() -> None:
    seen: list[dict[str, float]] = []

    def train(**x: float) -> tuple[float, float]:
        """A made-up training, best at many rounds and a learning rate of 0.1; rounds and depth cost."""
        seen.append(x)
        error = abs(np.log10(x["learning_rate"]) + 1) + 1 / np.sqrt(x["n_estimators"])
        return error, 0.001 * x["n_estimators"] * x["max_depth"]

    names: dict[str, Any] = {"train": train}
    exec(compile(example(), "README.md", "exec"), names)
    assert len(seen) == 30 and all(set(x) == set(XGBOOST_SPACE.names) for x in seen)
    cost = np.array([0.001 * x["n_estimators"] * x["max_depth"] for x in seen])
    points = XGBOOST_SPACE.from_unit(XGBOOST_SPACE.sobol(1000, seed=0))
    median = np.median(0.001 * points[:, 0] * points[:, 6])
    assert isinstance(names["optimizer"], Optimizer)
    assert np.median(cost[15:]) <= 2.5 * median, "the rule of one's own decides"
    errors = [abs(np.log10(x["learning_rate"]) + 1) + 1 / np.sqrt(x["n_estimators"]) for x in seen]
    assert min(errors[5:]) < min(errors[:5])


def test_the_example_is_short() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 12

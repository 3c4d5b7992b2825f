"""Wrong shapes and values are named, in processes of their own: the type checker of the tests would come first."""

import subprocess
import sys
from pathlib import Path

from command_lines import ENVIRONMENT

SCRIPT = """
import numpy as np
from harness import XGBOOST_SPACE as SPACE, Evaluation, ExpectedImprovement, GaussianProcess, LowVariance, Optimizer
from harness.acquisitions.cost_rules import Ignore

class Short:
    def score(self, log_value, log_cost, context):
        return log_value[:3]

class Worthless:
    def log_value(self, context):
        return np.zeros((len(context.mean), 1))

def reported(utility, rule):
    optimizer = Optimizer(GaussianProcess(), LowVariance(["max_depth"]), utility, rule, iterations=30)
    for x in SPACE.sobol(5, 0):
        optimizer.tell(x, Evaluation(float(x.sum()), 1.0 + x[0], float("nan"), 1.0))
    return optimizer

points = SPACE.sobol(400, 1)
for call in (
    lambda: reported(ExpectedImprovement(), Short()).ask(points),
    lambda: reported(Worthless(), Ignore()).ask(points),
    lambda: reported(Short(), Ignore()),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(SPACE.from_unit(points)),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points[:, :3]),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points[0]),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points, np.array([3, 400])),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points, np.array([3, -1])),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points, np.array([0.5])),
    lambda: reported(ExpectedImprovement(), Ignore()).ask(points, np.arange(0)),
    lambda: reported(ExpectedImprovement(), Ignore()).tell(points[0, :3], Evaluation(1.0, 1.0, 1.0, 1.0)),
    lambda: reported(ExpectedImprovement(), Ignore()).tell(points[:1], Evaluation(1.0, 1.0, 1.0, 1.0)),
):
    try:
        print("no error:", call())
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_ask_and_tell_name_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [
        "BadInput Short.score returned shape (3,) of float64, needed (400,): one score per candidate",
        "BadInput Worthless.log_value returned shape (400, 1) of float64, needed (400,): one log_value per candidate",
        "BadInput Short needs a method `log_value`, as harness.acquisitions.Utility has it",
        (
            "BadInput candidates must lie in the unit cube (SearchSpace.to_unit maps native values there), "
            "got 5 in column 0 of candidate 0"
        ),
        "BadInput candidates must have the shape (m, 7), got (400, 3)",
        "BadInput candidates must have the shape (m, 7), got (7,)",
        "BadInput rows must be some of the 400 candidates', 0 to 399, got 3 to 400",
        "BadInput rows must be some of the 400 candidates', 0 to 399, got -1 to 3",
        "BadInput rows must be a one-dimensional array of whole numbers, got array([0.5])",
        "BadInput there is no candidate to choose",
        "BadInput the point must have the shape (7,), got (3,)",
        "BadInput the point must have the shape (7,), got (1, 7)",
    ], done.stderr

"""HiGHS, the mixed-integer solver, with its options on search, presolve, cuts, heuristics and the simplex method."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from harness import child
from harness.solvers.options import Option, OptionSpace
from harness.solvers.protocol import Run, ended

_OFF_ON, _FLAGS = ("off", "on"), (False, True)
OPTIONS = (
    Option("presolve", "on", _OFF_ON),
    Option("mip_detect_symmetry", True, _FLAGS),
    Option("mip_allow_restart", True, _FLAGS),
    Option("mip_root_presolve_only", False, _FLAGS),
    Option("mip_lifting_for_probing", -1, (-1, 0, 1)),
    Option("mip_lp_age_limit", 10, low=1, high=100, log=True, integer=True),
    Option("mip_pool_age_limit", 30, low=1, high=300, log=True, integer=True),
    Option("mip_pool_soft_limit", 10000, low=100, high=100000, log=True, integer=True),
    Option("mip_pscost_minreliable", 8, low=1, high=64, log=True, integer=True),
    Option("mip_heuristic_effort", 0.05, low=0.001, high=0.5, log=True),
    Option("mip_heuristic_run_feasibility_jump", True, _FLAGS),
    Option("mip_heuristic_run_rins", True, _FLAGS),
    Option("mip_heuristic_run_rens", True, _FLAGS),
    Option("mip_heuristic_run_root_reduced_cost", True, _FLAGS),
    Option("mip_heuristic_run_zi_round", False, _FLAGS),
    Option("mip_heuristic_run_shifting", False, _FLAGS),
    Option("mip_allow_cut_separation_at_nodes", True, _FLAGS),
    Option("simplex_strategy", 1, (1, 4)),  # dual, primal: the parallel ones need threads
    Option("simplex_scale_strategy", 2, (0, 1, 2, 3, 4)),
    Option("simplex_dual_edge_weight_strategy", -1, (-1, 0, 1, 2)),
    Option("simplex_update_limit", 5000, low=50, high=5000, log=True, integer=True),
)


class Highs:
    """`highspy`, one thread, to proven optimality (relative gap 1e-4); raises BadInput where it is not installed."""

    def __init__(self) -> None:
        self.space = OptionSpace(OPTIONS)
        try:
            import highspy  # noqa: F401

            self.release = f"highspy {version('highspy')}"
        except ImportError as error:
            raise BadInput(
                f"HiGHS needs the extra packages: pip install -c constraints.txt -e '.[solvers]' ({error})"
            ) from error

    def run(self, row: Float[np.ndarray, " d"], instance: Path, seed: int, cap_s: float) -> Run:
        """Solve the model at `instance` (MPS) in a child process; reading it counts."""
        settings = {**self.space.settings(row), "random_seed": seed}
        outcome = child.call(solve, (str(instance), settings), cap_s, ["harness.solvers.highs", "highspy"])
        return ended(outcome, outcome.value == "Optimal", f"ended as {outcome.value}")


def solve(path: str, settings: dict[str, Any]) -> str:
    """Solve a model with these options and return the name of its status; raises ValueError for a bad option."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for name, value in {"threads": 1, "parallel": "off", **settings}.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise ValueError(f"HiGHS refuses {name} = {value!r}")
    if highs.readModel(path) != highspy.HighsStatus.kOk:
        raise ValueError(f"HiGHS cannot read {path}")
    highs.run()
    return str(highs.modelStatusToString(highs.getModelStatus()))

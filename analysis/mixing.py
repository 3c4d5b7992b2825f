"""Records that may be compared: of one table per problem, and of one engine."""

import pandas as pd

from harness.errors import BadInput

PROBLEM = ["dataset", "pipeline"]
TOLD = "mixed=true"


def check_same_origin(frame: pd.DataFrame) -> None:
    """Raise BadInput where an evaluator's runs of a problem come from two tables, or runs from two engines.

    The frame is `harness.records.read_traces`'s; one without the columns `data` and `engine` says nothing of either.
    """
    if not {"data", "engine"} <= set(frame.columns):
        return
    engines = sorted(set(frame["engine"].astype(str)))
    if len(engines) > 1:
        raise BadInput(
            f"the records are of engines {', '.join(engines)}, which choose differently: keep one results_dir per "
            f"engine, or say {TOLD}"
        )
    where = ["evaluator", *PROBLEM]
    tables = frame[[*where, "data"]].drop_duplicates().astype(str)
    twice = tables[tables.duplicated(where, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        same = twice[(twice[where] == first[where]).all(axis=1)]
        problem = "/".join(str(first[name]) for name in PROBLEM)
        raise BadInput(
            f"the records of {problem} are of different tables ({', '.join(h[:12] for h in sorted(same['data']))}): "
            f"keep one results_dir per set of tables, or say {TOLD}"
        )

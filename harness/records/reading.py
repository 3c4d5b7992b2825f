"""Reading records as frames: traces with the description of their block, and the optimizer's milliseconds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from datasets.errors import BadInput
from harness.records.checks import checked_header, damage_named, read_header
from harness.records.layout import TIMINGS, TIMINGS_SUFFIX, TRACE, spec_hash, trace_files
from harness.sealing import read_parquet

if TYPE_CHECKING:
    import pandas as pd

_TEXT = ("dataset", "pipeline", "acq", "method", "evaluator", "utility", "surrogate", "cost_model", "cost_statistic")
_MADE_OF = ("data", "engine")  # what records must share to be compared: a problem's table, the way of choosing
_BEFORE = {"cost_statistic": "exp_mean"}  # what records from before a setting was written down were made with
_NUMBERS = ("lam", "alpha", "tau")


def specs(results_dir: Path) -> list[dict[str, Any]]:
    """Return the spec of every block on disk, in the order of the files. Raises BadInput for a damaged file."""
    return [read_header(path)["spec"] for path in trace_files(results_dir)]


def read_traces(results_dir: str | Path) -> "pd.DataFrame":
    """Return every evaluation on disk with its block's description; see `TRACE` and the module's columns.

    Adds dataset, pipeline, acq, lam, alpha, tau (NaN where they do not apply), method, evaluator, data (the hash of
    the problem's content), engine, iterations (as planned) and plans_ahead (False where a rule of the user's own
    says that its choices do not depend on that). Raises BadInput when there is nothing, or a file is damaged or lies
    where its spec does not belong.
    """
    import numpy as np
    import pandas as pd

    files = trace_files(Path(results_dir))
    if not files:
        raise BadInput(f"no records in {results_dir}: run `python -m harness` first, or give results_dir=...")
    parts, sizes, headers = [], [], []
    for path in files:
        with damage_named(path):
            content = path.read_bytes()
            headers.append(checked_header(path, content)["spec"])
            table = read_parquet(content)
            parts.append(table.select(TRACE.names).cast(TRACE))
        sizes.append(len(table))
    frame = pa.concat_tables(parts).to_pandas()
    for name in _TEXT:
        values = pd.Categorical([str({**_BEFORE, **spec}[name]) for spec in headers])
        frame[name] = values.take(np.repeat(np.arange(len(headers)), sizes))
    for name in _MADE_OF:
        values = pd.Categorical([str(spec.get(name, "")) for spec in headers])
        frame[name] = values.take(np.repeat(np.arange(len(headers)), sizes))
    for name in _NUMBERS:
        numbers = [np.nan if spec[name] is None else spec[name] for spec in headers]
        frame[name] = np.repeat(np.array(numbers, dtype=np.float64), sizes)
    frame["plans_ahead"] = np.repeat([spec.get("plans_ahead", True) for spec in headers], sizes)
    frame["iterations"] = np.repeat([spec["iterations"] for spec in headers], sizes)
    frame["spec"] = np.repeat([spec_hash(spec) for spec in headers], sizes)
    return frame.drop_duplicates(["dataset", "pipeline", "spec", "seed", "step"], ignore_index=True)


def read_timings(results_dir: Path) -> "pd.DataFrame":
    """Return the optimizer's own milliseconds: spec, seed, step, fit_ms, propose_ms. Raises BadInput for damage."""
    import pandas as pd

    parts = [pd.DataFrame({"spec": pd.Series(dtype=str), **{name: [] for name in TIMINGS.names}})]
    for path in trace_files(results_dir):
        path = path.with_suffix(TIMINGS_SUFFIX)
        with damage_named(path):
            content = path.read_bytes()
            spec = checked_header(path, content)["spec"]
            table = read_parquet(content)
            parts.append(table.select(TIMINGS.names).to_pandas().assign(spec=spec_hash(spec)))
    return pd.concat(parts, ignore_index=True).drop_duplicates(["spec", "seed", "step"], ignore_index=True)

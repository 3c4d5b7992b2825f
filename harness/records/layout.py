"""What lies where in a folder of results, and the columns of the files.

results/<dataset>/<pipeline>/<method>-<spec hash>/seeds-0-9.parquet             traces
                                                  seeds-0-9.timings.parquet     the optimizer's own milliseconds
                                                  seeds-0-9.fronts.parquet      EI-cost fronts, where asked for
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.space import XGBOOST_SPACE

LARGEST_SEED = 2**31 - 1  # what the column holds
TIMINGS_SUFFIX, FRONTS_SUFFIX = ".timings.parquet", ".fronts.parquet"

RECORDED_AS: dict[str, str] = {}
_NAMED_NOW = {recorded: now for now, recorded in RECORDED_AS.items()}
_TARGET = re.compile(r'("_target_": ")([^"]+)"')

TRACE = pa.schema(
    [
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("candidate", pa.int64()),
        ("error", pa.float64()),
        ("test_error", pa.float64()),
        ("cost_s", pa.float64()),
        ("wall_s", pa.float64()),
        ("status", pa.string()),
        ("predicted_cost_s", pa.float64()),
        ("log_ei", pa.float64()),
        ("effective_alpha", pa.float64()),
        *((name, pa.float32()) for name in XGBOOST_SPACE.names),
    ]
)
TIMINGS = pa.schema(
    [("seed", pa.int32()), ("step", pa.int32()), ("fit_ms", pa.float32()), ("propose_ms", pa.float32())]
)
FRONTS = pa.schema(
    [
        ("seed", pa.int32()),
        ("step", pa.int32()),
        ("candidate", pa.int64()),
        ("log_ei", pa.float64()),
        ("log_cost", pa.float64()),
        ("chosen", pa.bool_()),
        ("then_log_ei", pa.float64()),
        ("then_log_cost", pa.float64()),
        ("stays", pa.bool_()),
    ]
)


def spec_hash(spec: dict[str, Any]) -> str:
    """Return the hash that names a spec: SHA-256 of its canonical JSON, classes as first recorded, 16 hex digits."""
    text = _TARGET.sub(
        lambda found: f'{found[1]}{RECORDED_AS.get(found[2], found[2])}"', json.dumps(spec, sort_keys=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_spec(text: str | bytes) -> Any:
    """Return the JSON values of a spec, or what holds one; classes by the names that they have now."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(_TARGET.sub(lambda found: f'{found[1]}{_NAMED_NOW.get(found[2], found[2])}"', decoded))


def block_folder(results: Path, spec: dict[str, Any]) -> Path:
    """Return the folder of all files of a spec, whatever their seeds."""
    label = re.sub(r"[^A-Za-z0-9.=,+-]+", "_", spec["method"]).strip("_")
    return results / spec["dataset"] / spec["pipeline"] / f"{label}-{spec_hash(spec)}"


def trace_files(folder: Path) -> list[Path]:
    """Return the files of traces under `folder`, sorted."""
    return sorted(p for p in folder.rglob("seeds-*.parquet") if not p.name.endswith((TIMINGS_SUFFIX, FRONTS_SUFFIX)))


def front_files(folder: Path) -> list[Path]:
    """Return the files of fronts under `folder`, sorted."""
    return sorted(folder.rglob(f"seeds-*{FRONTS_SUFFIX}"))


def is_front(path: Path) -> bool:
    """Say whether a file of a block is one of fronts, which may come after the trace."""
    return path.name.endswith(FRONTS_SUFFIX)


def record_files(folder: Path) -> list[Path]:
    """Return the files under `folder` that say what is done, traces and fronts."""
    return sorted([*trace_files(folder), *front_files(folder)])

"""What a table's file holds, a row per measured (configuration, number of rounds), and checks of tables when read."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from datasets.catalogue import TASKS
from harness.problem import OK, STATUSES
from harness.space import XGBOOST_SPACE
from pipelines.identity import Identity

SCHEMA_VERSION = 2
SOBOL_SEED = 20201  # of the one sequence that all tables take their configurations from
MOST_CONFIGS = 1 << 14  # its length
TIMES = ("cpu_s", "wall_s", "scaled_s")
ERRORS = ("val_error", "test_error", "val_loss", "test_loss")
METRICS = (*ERRORS, *TIMES)


def _field(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc})


SCHEMA = pa.schema(
    [
        _field("config", pa.int32(), "index in the shared Sobol sequence"),
        _field("own", pa.bool_(), "the configuration's own number of rounds, not a prefix"),
        *(pa.field(name, pa.float32()) for name in XGBOOST_SPACE.names),
        *(pa.field(name, pa.float32()) for name in METRICS),
        pa.field("status", pa.dictionary(pa.int8(), pa.string())),
        _field("busy", pa.float32(), "mean number of busy processes per core during the training"),
        _field("load", pa.float32(), "1-minute load average when the training began"),
        _field("repeats", pa.int8(), "how often the training was repeated because it had been disturbed"),
        _field(
            "started", pa.float64(), "Unix seconds when the training was last measured, whichever measurement was kept"
        ),
    ]
)

NOISE_SCHEMA = pa.schema(
    [
        pa.field("problem", pa.string()),
        pa.field("config", pa.int32()),
        *(pa.field(name, pa.float32()) for name in (*TIMES, "busy")),
        pa.field("started", pa.float64()),
    ]
)


def problem_name(dataset: str, pipeline: str) -> str:
    """Return the name of a problem as the manifest and the records spell it."""
    return f"{dataset}/{pipeline}"


def file_stem(problem: str) -> str:
    """Return the stem of a problem's files."""
    return problem.replace("/", "--")


# Checks of tables as they are read: does the manifest's entry make sense, do the rows, do both agree?
#
# A checksum says that bytes are those that were written, not that they ever made sense: files are repaired, merged and
# edited by hand, and checksums computed anew. A seal over each entry tells whether it is as the builder wrote it.

SEAL = "seal"
_HEAD = ("schema", "sobol_seed", "tree_method")
_RATES = ("val_error", "test_error")  # of classification


def _whole(least: int) -> tuple[Callable[[Any], bool], str]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least, f"a whole number >= {least}"


def _seconds(v: Any) -> bool:
    return isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) and v >= 0


def _text(v: Any) -> bool:
    return isinstance(v, str)


_SECONDS = (_seconds, "seconds >= 0")
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sha256": (lambda v: _text(v) and len(v) == 64, "64 hexadecimal digits"),
    **{name: _whole(1) for name in ("bytes", "configs", "rows", "n_train", "n_valid", "n_test")},
    **{name: _whole(1) for name in ("width_before", "width_after")},
    **dict.fromkeys(("core_s", "pipeline_fit_s"), _SECONDS),
    "data_hash": (lambda v: _text(v) and v != "", "a hash"),
    "task": (lambda v: v in TASKS, f"one of {', '.join(TASKS)}"),
    "n_classes": _whole(0),
    "mark": (_text, "text"),
}
_CLASSES: dict[str, Callable[[int], bool]] = {
    "regression": lambda n: n == 0,
    "binary": lambda n: n == 2,
    "multiclass": lambda n: n > 2,
}


def seal_of(manifest: Mapping[str, Any], problem: str) -> str:
    """Return the seal of a problem's entry: over all of it, its name and the head of the manifest."""
    entry = {key: value for key, value in manifest["tables"][problem].items() if key != SEAL}
    return digest_of([*(manifest.get(key) for key in _HEAD), problem, entry])


def digest_of(plain: Any) -> str:
    """Return the SHA-256 of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def check_entry(manifest: Mapping[str, Any], problem: str) -> None:
    """Raise ValueError, saying which field is wrong, for an entry that no builder has written.

    Entries without a seal are of tables from before there were any; those had no identity of their data either.
    """
    entry = manifest["tables"][problem]
    check_fields(entry)
    if entry.get(SEAL) != seal_of(manifest, problem) and (SEAL in entry or "identity" in entry):
        raise ValueError("it is not as it was written: its seal is that of other values; restore it")


def check_fields(entry: Mapping[str, Any]) -> None:
    """Raise ValueError, saying which field is missing or impossible, for what is said of a table."""
    for name, (good, allowed) in _FIELDS.items():
        if name not in entry:
            raise ValueError(f"it has no {name}")
        if not good(entry[name]):
            raise ValueError(f"{name} must be {allowed}, it is {entry[name]!r}")
    if not _CLASSES[entry["task"]](entry["n_classes"]):
        raise ValueError(f"n_classes={entry['n_classes']} contradicts task={entry['task']}")
    limit = entry.get("time_limit_s")
    if limit is not None and not (_seconds(limit) and limit > 0):
        raise ValueError(f"time_limit_s must be seconds > 0 or null, it is {limit!r}")
    if "identity" in entry:
        Identity.from_json(entry["identity"])
        if not entry.get("identity_confirmed") or not _text(entry["identity_confirmed"]):
            raise ValueError("it does not say how its identity is known (identity_confirmed)")


def check_rows(
    entry: Mapping[str, Any], columns: Mapping[str, np.ndarray], status: np.ndarray, statuses: Sequence[Any]
) -> None:
    """Raise ValueError for rows that no builder has written, or of which the entry says something else.

    columns: of n rows, by name; status: of each row, its place in `statuses`.
    """
    n = len(status)
    if not n:
        raise ValueError("no rows")
    for name in METRICS:
        if not np.issubdtype(columns[name].dtype, np.floating):
            raise ValueError(f"{name} must be numbers")
    if not np.issubdtype(columns["config"].dtype, np.integer):
        raise ValueError("config must be whole numbers")
    if not np.issubdtype(status.dtype, np.integer) or not set(statuses) <= set(STATUSES):
        raise ValueError(
            f"status must be one of {', '.join(STATUSES)} in every row, got {', '.join(map(str, statuses))}"
        )
    for name in TIMES:
        _refuse(~(np.isfinite(columns[name]) & (columns[name] > 0)), name, "finite and > 0 in every row", columns[name])
    ok = np.array([value == OK for value in statuses])[status]
    for name in ERRORS:
        values = columns[name]
        _refuse(ok & ~(np.isfinite(values) & (values >= 0)), name, f"finite and >= 0 in rows marked {OK}", values)
        _refuse(~ok & ~np.isnan(values), name, f"missing in rows not marked {OK}", values)
        if name in _RATES and entry["task"] != "regression":
            _refuse(ok & (values > 1), name, "a rate, at most 1, of a classification", values)
    configs = check_order(columns["config"], columns["n_estimators"])
    for name, found in (("rows", n), ("configs", configs)):
        if entry[name] != found:
            raise ValueError(f"it has {found} {name}, the manifest says {entry[name]}")


def check_order(config: Int[np.ndarray, " n"], rounds: np.ndarray) -> int:
    """Return how many configurations there are; raises ValueError for rows in another order, or twice the same."""
    step, more = np.diff(config), np.diff(rounds) > 0
    _refuse(
        np.concatenate([[False], (step < 0) | ((step == 0) & ~more)]),
        "config and n_estimators",
        "ascending from row to row, none twice",
        config,
    )
    if config[0] < 0 or config[-1] >= MOST_CONFIGS:
        raise ValueError(f"config must be from 0 to {MOST_CONFIGS - 1}, got {config[0]} to {config[-1]}")
    return int((step > 0).sum()) + 1


def _refuse(bad: Bool[np.ndarray, " n"], name: str, what: str, values: np.ndarray) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{name} must be {what}, row {row} has {values[row]}")

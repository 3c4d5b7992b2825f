"""What a table's file holds: one row per measured (configuration, number of rounds)."""

import pyarrow as pa

from harness.space import XGBOOST_SPACE

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

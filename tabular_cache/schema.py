"""What a table's file holds: one row per measured (configuration, number of rounds)."""

import pyarrow as pa

from harness.space import XGBOOST_SPACE

SCHEMA_VERSION = 1
SOBOL_SEED = 20201  # of the one sequence that all tables take their configurations from
METRICS = ("val_error", "test_error", "val_loss", "test_loss", "cpu_s", "wall_s")

SCHEMA = pa.schema(
    [
        pa.field("config", pa.int32(), metadata={"doc": "index in the shared Sobol sequence"}),
        pa.field("own", pa.bool_(), metadata={"doc": "the configuration's own number of rounds, not a prefix"}),
        *(pa.field(name, pa.float32()) for name in XGBOOST_SPACE.names),
        *(pa.field(name, pa.float32()) for name in METRICS),
        pa.field("status", pa.dictionary(pa.int8(), pa.string())),
        pa.field("load", pa.float32(), metadata={"doc": "1-minute load average when the training began"}),
        pa.field("started", pa.int64(), metadata={"doc": "Unix seconds when the training began"}),
    ]
)


def problem_name(dataset: str, pipeline: str) -> str:
    """Return the name of a problem as the manifest and the records spell it."""
    return f"{dataset}/{pipeline}"


def file_stem(problem: str) -> str:
    """Return the stem of a problem's files."""
    return problem.replace("/", "--")

"""Records: one parquet file per block, written once and never touched again.

A block is one problem x one method x some seeds. Its file carries its spec; what a spec's seeds have on disk is
complete, since a file appears under its name only when the whole block is done, and sealed, so that a changed byte
is found (`harness.sealing`). The optimizer's own milliseconds, which no two runs share, lie in a `.timings.parquet`
beside it, with the seconds that the block took, and where they were asked for, the EI-cost fronts of every step
(`harness.fronts`) in a `.fronts.parquet`.

`layout` says what lies where, `checks` whether it is whole, `writing` and `reading` do what they say; experiments
beside the study keep their records as `experiments` says.
"""

from harness.records.checks import (
    DamagedRecord,
    OtherSchema,
    check_place,
    checked_header,
    damage_named,
    read_header,
    seeds_done,
    set_aside,
)
from harness.records.layout import (
    FRONTS,
    LARGEST_SEED,
    TIMINGS,
    TRACE,
    block_folder,
    front_files,
    is_front,
    record_files,
    spec_hash,
    trace_files,
)
from harness.records.reading import read_timings, read_traces, specs
from harness.records.writing import block_files, write_block

__all__ = [
    "FRONTS",
    "LARGEST_SEED",
    "TIMINGS",
    "TRACE",
    "DamagedRecord",
    "OtherSchema",
    "block_files",
    "block_folder",
    "check_place",
    "checked_header",
    "damage_named",
    "front_files",
    "is_front",
    "read_header",
    "read_timings",
    "read_traces",
    "record_files",
    "seeds_done",
    "set_aside",
    "spec_hash",
    "specs",
    "trace_files",
    "write_block",
]

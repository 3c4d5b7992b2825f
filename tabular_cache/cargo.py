"""One problem's table with its own small manifest: what a worker without the table is sent."""

import json
from pathlib import Path

from harness.errors import BadInput
from tabular_cache.schema import file_stem
from tabular_cache.table import load_table, read_manifest


def cargo(problem: str, folder: Path) -> dict[str, bytes]:
    """Return the files of a folder of tables that holds this problem only; raises BadInput as `load_table` does."""
    entry = load_table(problem, folder).meta
    manifest = {k: v for k, v in read_manifest(folder).items() if k not in ("tables", "campaigns")}
    manifest |= {"tables": {problem: entry}, "campaigns": []}
    name = f"{file_stem(problem)}.parquet"
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the table of {problem}, {folder / name}: {error.strerror}") from None
    return {name: content, "manifest.json": json.dumps(manifest).encode()}

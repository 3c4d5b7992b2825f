"""One problem's table with its own small manifest: what a worker without the table is sent, and by which evaluators."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from datasets.errors import BadInput
from harness.errors import folder
from tabular_cache.schema import file_stem, problem_name
from tabular_cache.table import TABLES, Table, load_table, read_manifest, read_table, table_rows


def cargo(problem: str, where: Path) -> dict[str, bytes]:
    """Return the files of a folder of tables that holds this problem only; raises BadInput as `load_table` does.

    A table with parts goes as one file, under the identity (`sha256`) that it has here.
    """
    entry = load_table(problem, where).meta
    path = where / f"{file_stem(problem)}.parquet"
    if "parts" in entry:
        from tabular_cache.rows import parquet_bytes  # imports XGBoost, which replay does not need

        content = parquet_bytes(table_rows(problem, where))
        entry = {k: v for k, v in entry.items() if k != "parts"}
        entry |= {"file_sha256": hashlib.sha256(content).hexdigest(), "file_bytes": len(content)}
    else:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read the table of {problem}, {path}: {error.strerror}") from None
    manifest = {k: v for k, v in read_manifest(where).items() if k not in ("tables", "campaigns")}
    manifest |= {"tables": {problem: entry}, "campaigns": []}
    return {path.name: content, "manifest.json": json.dumps(manifest).encode()}


def configurations(table: Table) -> int:
    """Return how many configurations a table has."""
    return int(table["config"].max()) + 1


def first(table: Table, n_configs: int | None) -> Bool[np.ndarray, " m"]:
    """Return which rows are of the first `n_configs` configurations (None: all); BadInput where there are fewer."""
    config: np.ndarray = table["config"]
    if n_configs is None:
        return np.ones(len(config), dtype=bool)
    there = configurations(table)
    if n_configs > there:
        raise BadInput(f"the table of {table.problem} has {there} configurations, evaluator.n_configs={n_configs}")
    return config < n_configs


class OnTables:
    """What evaluators on a folder of tables share: where it lies, and how a problem's part of it goes elsewhere.

    tables: the folder, None for the shipped one; n_configs: use the first so many configurations of a table only,
    None for all. Raises BadInput for less than one, and for more than the table of a problem has (`first`).
    at_most_configs: the same where a table may have fewer; a folder of tables, which every worker needs, stands for as
    many as the problem's table there has, so that two folders are replayed with equally many. Not both.
    """

    tables: str | None
    n_configs: int | None
    at_most_configs: int | str | None

    def __post_init__(self) -> None:
        if self.tables is not None:
            folder("evaluator.tables", self.tables)
        if self.n_configs is not None and (not isinstance(self.n_configs, int) or self.n_configs < 1):
            raise BadInput(f"evaluator.n_configs must be a whole number >= 1 or null, got {self.n_configs!r}")
        most = self.at_most_configs
        number = isinstance(most, int) and not isinstance(most, bool) and most >= 1
        if not (most is None or number or (isinstance(most, str) and most)):
            allowed = "a whole number >= 1, a folder of tables, or null"
            raise BadInput(f"evaluator.at_most_configs must be {allowed}, got {most!r}")
        if most is not None and self.n_configs is not None:
            raise BadInput("evaluator.n_configs and evaluator.at_most_configs exclude each other")

    def _configs(self, problem: str) -> int | None:
        """Return how many of the first configurations of a problem's table are used, None for all."""
        most = self.at_most_configs
        if most is None:
            return self.n_configs
        if isinstance(most, str):
            most = configurations(read_table(problem, Path(most)))
        return min(most, configurations(read_table(problem, self._folder)))

    @property
    def _folder(self) -> Path:
        return TABLES if self.tables is None else folder("evaluator.tables", self.tables)

    def cargo(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the files of the problem's table, for workers that do not have it."""
        return cargo(problem_name(str(dataset["name"]), str(pipeline["name"])), self._folder)

    def settings_at(self, folder: Path) -> dict[str, Any]:
        """Return the settings that find tables in `folder`."""
        return {"tables": str(folder)}

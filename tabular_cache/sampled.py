"""What the tables of other data sets have to teach: which problems there are, and some measured rows of each."""

import hashlib
import io
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from datasets.catalogue import entries
from datasets.errors import BadInput
from datasets.files import cache_folder, read_sealed, write_sealed
from harness.cost_models import log_costs
from harness.problem import About
from harness.space import XGBOOST_SPACE
from harness.streams import stream
from tabular_cache.table import about, load_table, read_manifest, table_entry

VERSION = 1  # raise it when the same table gives other rows


@dataclass(frozen=True)
class Source:
    """One problem's table: what the manifest says of the problem, and the table's sha256."""

    about: About
    sha256: str


def sources(folder: Path) -> dict[str, Source]:
    """Return every table of `folder` by its problem's name, sorted; raises BadInput as `table_entry` does."""
    tables = {problem: table_entry(problem, folder) for problem in sorted(read_manifest(folder)["tables"])}
    return {problem: Source(about(problem, entry), entry["sha256"]) for problem, entry in tables.items()}


@cache
def kin(dataset: str) -> frozenset[str]:
    """Return the data sets made of a raw file that `dataset` is made of, those that share rows, and itself.

    `satimage_code` is `satellite` with another target: the same rows and columns. A data set that is not in the
    catalogue has no kin but itself.
    """
    files = {
        name: {file.sha256 for source in entry.sources for file in source.files if file.sha256}
        for name, entry in entries().items()
    }
    mine, told = files.get(dataset, set()), {name: set(entry.kin) for name, entry in entries().items()}
    same_file = {name for name, theirs in files.items() if mine & theirs}
    return frozenset({dataset, *same_file, *told.get(dataset, ()), *(name for name in told if dataset in told[name])})


def sampled(problem: str, sha256: str, folder: Path, rows: int, seed: int) -> Float[np.ndarray, "rows 8"]:
    """Return unit-cube coordinates and log cost (`scaled_s`) of `rows` measured rows, drawn from (problem, seed).

    Drawn without replacement; a table of fewer rows gives all of them, then again from the first one drawn, so that
    every problem weighs the same. Kept in the cache, since reading all tables takes seconds. Raises BadInput for a
    table that is damaged or is not that of `sha256`, and for one with a cost that is not finite and positive.
    """
    key = json.dumps([VERSION, problem, sha256, rows, seed])
    path = cache_folder("transfer") / f"{hashlib.sha256(key.encode()).hexdigest()}.rows"
    content = read_sealed(path)
    if content is None:
        sink = io.BytesIO()
        np.save(sink, _draw(problem, sha256, folder, rows, seed), allow_pickle=False)
        content = sink.getvalue()
        write_sealed(path, content)
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))


def _draw(problem: str, sha256: str, folder: Path, rows: int, seed: int) -> Float[np.ndarray, "rows 8"]:
    table = load_table(problem, folder)
    if table.meta["sha256"] != sha256:  # the cache must not keep one table's rows as another's
        raise BadInput(f"the table of {problem} in {folder} was changed meanwhile: run the command again")
    measured = np.flatnonzero(table.measured)
    try:
        log_cost = log_costs(table["scaled_s"][measured])
    except BadInput as error:
        raise BadInput(f"the table of {problem}: {error} of those measured") from None
    drawn = np.resize(stream(seed, "transfer", problem).permutation(len(measured)), rows)
    out = np.empty((rows, len(XGBOOST_SPACE) + 1))
    out[:, :-1], out[:, -1] = table.unit[measured[drawn]], log_cost[drawn]
    return out

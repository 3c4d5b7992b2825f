"""Surface: a table made continuous again. Candidates are fresh Sobol points; evaluating one asks the emulator."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from datasets.errors import BadInput
from datasets.files import cache_folder, write_atomically
from harness.problem import ContinuousProblem, Evaluation, cap, stopped
from tabular_cache.cargo import OnTables, first
from tabular_cache.emulator import VERSION, Emulator, fit
from tabular_cache.schema import problem_name
from tabular_cache.table import TABLES, about, load_table, table_entry


class SurfaceProblem(ContinuousProblem):
    """One emulated problem for one run; it offers the points that a live problem of this name and seed offers."""

    def __init__(self, name: str, emulator: Emulator, seed: int, n_candidates: int, entry: Mapping[str, Any]) -> None:
        super().__init__(name, seed, n_candidates)
        self._emulator, self.about = emulator, about(name, entry)

    def true_cost_s(self, C: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Return the emulator's costs in seconds."""
        return self._emulator.predict(C)[:, 2]

    def measure(self, x: Float[np.ndarray, " d"]) -> Evaluation:
        """Return what the emulator says of the native hyperparameters `x`; its cost stands for wall time too."""
        error, test_error, cost = self._emulator.predict(self.space.to_unit(x[None, :]))[0]
        return Evaluation(error=float(error), cost_s=float(cost), test_error=float(test_error), wall_s=float(cost))

    def evaluate_capped(self, candidate: int, cap_s: float) -> Evaluation:
        """Look the surface up, as a training stopped at `cap_s` seconds would have ended."""
        return stopped(self.evaluate(candidate), cap(cap_s))


@dataclass(frozen=True)
class Surface(OnTables):
    """The evaluator `surface`: opens emulated tables as problems.

    tables: folder of the tables, null for the shipped one; n_candidates: points offered per step; n_configs: learn
    from the first so many configurations of a table only, null for all; at_most_configs: the same where tables may have
    fewer (`OnTables`). The emulator of a table is fitted when it is first asked for (about a minute) and kept in the
    cache under the table's content.
    """

    tables: str | None = None
    n_candidates: int = 4096
    n_configs: int | None = None
    seeds_per_block: int | None = 10
    at_most_configs: int | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_candidates, int) or self.n_candidates < 1:
            raise BadInput(f"evaluator.n_candidates must be a whole number >= 1, got {self.n_candidates!r}")
        super().__post_init__()

    def fingerprint(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> str:
        """Return the digest of the fitted emulator; raises BadInput when its table is missing or damaged."""
        return self._emulator(dataset, pipeline).digest

    def open(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any], seed: int) -> SurfaceProblem:
        """Return the problem of one run."""
        name = problem_name(str(dataset["name"]), str(pipeline["name"]))
        entry = table_entry(name, self._folder)
        return SurfaceProblem(name, self._emulator(dataset, pipeline), seed, self.n_candidates, entry)

    def _emulator(self, dataset: Mapping[str, Any], pipeline: Mapping[str, Any]) -> Emulator:
        name = problem_name(str(dataset["name"]), str(pipeline["name"]))
        return emulator_of(name, self._folder, self._configs(name))


@lru_cache(maxsize=8)
def emulator_of(problem: str, folder: Path = TABLES, n_configs: int | None = None) -> Emulator:
    """Return the emulator of a problem's table (of its first configurations), from the cache or fitted now."""
    sha = table_entry(problem, folder)["sha256"]
    path = _kept_at(sha, n_configs)
    if path.exists():
        try:
            return load(path.read_bytes())
        except (ValueError, KeyError, OSError, EOFError):
            pass  # a damaged copy is only a copy: fit again
    table = load_table(problem, folder)  # afresh: the one remembered may be of before a build
    emulator = fit(table, first(table, n_configs))
    write_atomically(_kept_at(table.meta["sha256"], n_configs), dump(emulator))
    return emulator


def _kept_at(sha256: str, n_configs: int | None) -> Path:
    return cache_folder("emulators") / f"v{VERSION}-{sha256}-{n_configs or 'all'}.npz"


def dump(emulator: Emulator) -> bytes:
    """Return an emulator as the bytes of an .npz file."""
    arrays = {"mean": emulator.mean, "sd": emulator.sd}
    for m, layers in enumerate(emulator.members):
        for k, (weights, biases) in enumerate(layers):
            arrays |= {f"w-{m}-{k}": weights, f"b-{m}-{k}": biases}
    sink = io.BytesIO()
    np.savez(sink, **arrays)  # type: ignore[arg-type]
    return sink.getvalue()


def load(content: bytes) -> Emulator:
    """Return the emulator of `dump`; raises ValueError or KeyError for anything else. Nothing is unpickled."""
    import zipfile

    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            names = sorted((int(m), int(k)) for w, m, k in (n.split("-") for n in arrays if "-" in n) if w == "w")
            members = [
                [(arrays[f"w-{m}-{k}"], arrays[f"b-{m}-{k}"]) for mm, k in names if mm == m]
                for m in sorted({m for m, _ in names})
            ]
            return Emulator(members, arrays["mean"], arrays["sd"])
    except zipfile.BadZipFile as error:
        raise ValueError(f"no emulator: {error}") from None

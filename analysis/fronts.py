"""Reading the EI-cost fronts that `python -m harness fronts=true` keeps: the numbers of F1 and F7."""

from pathlib import Path

import pandas as pd

from analysis import REFERENCE
from analysis.methods import EI
from analysis.mixing import check_same_origin
from analysis.traces import CELL
from datasets.errors import BadInput
from harness.records import FRONTS, damage_named, front_files, read_header, read_parquet, spec_hash

_WORDS = ("dataset", "pipeline", "acq", "method", *REFERENCE, "iterations")
_ORIGIN = ("data", "engine")


def read_fronts(results_dir: Path) -> pd.DataFrame:
    """Return every point of every front on disk, with its run's description; empty where there is none.

    Columns: those of `harness.records.FRONTS` (see `harness.loop.FrontRecorder`), and the run's dataset, pipeline, acq,
    method, components (`components.REFERENCE`), iterations, data, engine and spec. Raises BadInput for a damaged file.
    """
    parts = []
    for path in front_files(results_dir):
        with damage_named(path):
            spec = read_header(path)["spec"]
            rows = read_parquet(path).select(FRONTS.names).cast(FRONTS).to_pandas()
            words = {name: spec.get(name, REFERENCE.get(name)) for name in _WORDS}
            words |= {name: str(spec.get(name, "")) for name in _ORIGIN}
            parts.append(rows.assign(**words, spec=spec_hash(spec)))
    if not parts:
        return pd.DataFrame(columns=[*FRONTS.names, *_WORDS, *_ORIGIN, "spec"])
    return pd.concat(parts, ignore_index=True)


def reference(fronts: pd.DataFrame) -> pd.DataFrame:
    """Return the fronts of EI's runs under one choice of components, the longest run of each.

    Component by component the study's own (`components.REFERENCE`), or what there is. Raises BadInput where EI has
    none, and where one problem and seed has fronts under several settings, or they are of different tables or engines:
    what lies on a front depends on that.
    """
    own = fronts[fronts["acq"] == EI]
    if own.empty:
        found = ", ".join(sorted(set(fronts["method"]))) or "none"
        raise BadInput(f"no fronts of ei; there are: {found} (python -m harness +acq=ei fronts=true)")
    for component, usual in REFERENCE.items():
        there = set(own[component])
        own = own[own[component] == (usual if usual in there else min(there))]
    longest = own.groupby(CELL)["iterations"].transform("max")
    own = own[own["iterations"] == longest]
    check_same_origin(own, told="")
    if (own.groupby(CELL)["spec"].nunique() > 1).any():
        raise BadInput(
            "the fronts of a problem and seed were made under several settings: keep one results_dir for each"
        )
    return own.drop_duplicates([*CELL, "step", "candidate"]).sort_values([*CELL, "step", "log_cost"], ignore_index=True)


def persistence(fronts: pd.DataFrame) -> pd.Series:
    """Return, per (dataset, pipeline, seed), the mean over steps of the share of a front's points that stay on it.

    The point evaluated since, and the last front, have no next step and do not count. Raises BadInput where nothing
    is left.
    """
    known = fronts[fronts["stays"].notna()]
    if known.empty:
        raise BadInput("no front has a next step: run two iterations or more past the initial design")
    per_step = known.assign(stays=known["stays"].astype(float)).groupby([*CELL, "step"])["stays"].mean()
    return per_step.groupby(level=CELL).mean().rename("stays")


def all_fronts(results_dir: Path) -> pd.DataFrame:
    """Return the fronts in the folder and in the one that `make fronts` keeps beside it, ``<results_dir>-fronts``."""
    beside = Path(f"{results_dir}-fronts")
    found = [read_fronts(folder) for folder in (results_dir, beside) if folder.is_dir()]
    held = [fronts for fronts in found if len(fronts)]
    return pd.concat(held, ignore_index=True) if held else found[0]

"""Verdicts on some claims by `analysis.claims`, without the time that the others take."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pandas as pd
import pytest
from synthetic_records import DATASETS, Way, records

from analysis import statistics
from analysis.claims import evaluate, evidence
from analysis.claims.verdicts import Verdict

MODULE: Any = import_module("analysis.claims")  # the package names its function so


@contextmanager
def enough(datasets: int, seeds: int) -> Iterator[None]:
    """Let so few data sets and seeds suffice for a verdict, so that records made by hand stay small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "FEWEST_DATASETS", datasets)
        patch.setattr(evidence, "FEWEST_SEEDS", seeds)
        patch.setattr(statistics, "FEWEST_FOR_MEDIAN", min(datasets, statistics.FEWEST_FOR_MEDIAN))
        yield


@contextmanager
def only(numbers: Collection[int]) -> Iterator[None]:
    """Let the claims of these numbers be all there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "CLAIMS", tuple(claim for claim in MODULE.CLAIMS if claim.number in numbers))
        yield


def verdicts_on(numbers: Collection[int], traces: pd.DataFrame, *more: Any, **settings: Any) -> dict[int, Verdict]:
    """Evaluate the claims of these numbers alone; the rest of the arguments are those of `evaluate`."""
    with only(numbers):
        found = {verdict.number: verdict for verdict in evaluate(traces, *more, **settings)}
    assert found.keys() == set(numbers)
    return found


def verdict_on(number: int, traces: pd.DataFrame, *more: Any, **settings: Any) -> Verdict:
    """Evaluate one claim."""
    return verdicts_on([number], traces, *more, **settings)[number]


def under(model: str, error: float, datasets: tuple[str, ...] = DATASETS, steps: int = 100) -> pd.DataFrame:
    """EI^alpha at 0.5 and 1 under a cost model, and EI."""
    ways = {Way("ei"): (100.0, 100.0), Way("eialpha", alpha=0.5): (50.0, error), Way("eipu"): (20.0, error + 5)}
    return records(ways, datasets, steps).assign(cost_model=model, spec=model)

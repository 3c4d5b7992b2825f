"""Hypervolumes by hand, by brute force, and the scale that EI's run fixes."""

import itertools

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame

from analysis.hypervolumes import hypervolume, hypervolumes, scaled
from analysis.traces import collect
from analysis.tradeoffs import finals
from datasets.errors import BadInput

ONE = np.ones(2)


def test_by_hand() -> None:
    assert hypervolume(np.array([[0.5, 0.5]]), ONE) == pytest.approx(0.25)
    assert hypervolume(np.array([[0.2, 0.8], [0.5, 0.5], [0.6, 0.6]]), ONE) == pytest.approx(0.8 * 0.2 + 0.5 * 0.3)
    assert hypervolume(np.array([[1.0, 0.0], [2.0, -1.0]]), ONE) == 0.0, "not better than the reference in both"
    assert hypervolume(np.empty((0, 2)), ONE) == 0.0
    with pytest.raises(ValueError, match="NaN"):
        hypervolume(np.array([[np.nan, 0.0]]), ONE)


def test_by_inclusion_and_exclusion() -> None:
    """The union of boxes [point, reference]: alternating sums of the intersections' areas."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 8):
        points = np.concatenate([rng.normal(0.5, 0.5, size=(n, 2)), rng.uniform(size=(1, 2))])
        area = 0.0
        for size in range(1, len(points) + 1):
            for chosen in itertools.combinations(points, size):
                area -= (-1) ** size * np.prod(np.maximum(ONE - np.max(chosen, axis=0), 0.0))
        assert hypervolume(points, ONE) == pytest.approx(area)


def test_the_scale_by_plain_loops_over_runs() -> None:
    ways = [Way("ei"), Way("eialpha", alpha=0.3), Way("cei", lam=0.5)]
    rows = frame([("wind", "clean"), ("wine", "clean")], ways, (0, 1), 30)
    found, flat, incomplete = scaled(finals(collect(rows)))
    assert (flat, incomplete) == (0, 0) and len(found) == 12
    for (dataset, seed), cell in rows.groupby(["dataset", "seed"]):
        best = cell["error"].min()
        initial = cell.loc[cell["step"] < 5, "error"].min()
        ei = cell.loc[cell["method"] == "ei", "cost_s"].sum()
        for method, run in cell.groupby("method"):
            mine = found[(found.dataset == dataset) & (found.seed == seed) & (found.method == method)].iloc[0]
            assert mine["cost"] == pytest.approx(run["cost_s"].sum() / ei)
            assert mine["loss"] == pytest.approx((run["error"].min() - best) / (initial - best))
    assert found["loss"].between(0, 1).all() and (found.loc[found["method"] == "ei", "cost"] == 1).all()


def test_families_are_compared_on_means_over_seeds() -> None:
    ways = [Way("ei"), Way("eialpha", alpha=0.3), Way("cei", lam=0.5)]
    traces = collect(frame([("wind", "clean")], ways, (0, 1, 2), 30))
    found = hypervolumes(finals(traces), {"a": ["ei", "eialpha(alpha=0.3)"], "b": ["ei"]})
    means = scaled(finals(traces))[0].groupby("method")[["cost", "loss"]].mean().loc["eialpha(alpha=0.3)"]
    expected = max(0.0, 1 - means["cost"]) * max(0.0, 1 - means["loss"])
    assert found.per_problem.loc[("wind", "clean"), "a"] == pytest.approx(expected)
    assert found.per_problem.loc[("wind", "clean"), "b"] == 0.0, "EI's own cost is the reference"


def test_what_has_no_scale_is_counted() -> None:
    rows = frame([("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eipu")], [0], 12)
    level = rows["dataset"] == "wind"
    rows.loc[level, "error"] = 0.5
    found, flat, incomplete = scaled(finals(collect(rows)))
    assert set(found["dataset"]) == {"wine"} and (flat, incomplete) == (1, 0)
    lacking = rows[~((rows["dataset"] == "wine") & (rows["method"] == "eipu"))]
    with pytest.raises(BadInput, match="no problem and seed in which every method ran"):
        scaled(finals(collect(lacking)))
    more = pd.concat([lacking, frame([("spam", "clean")], [Way("ei"), Way("eipu")], [0], 12)])
    assert scaled(finals(collect(more)))[1:] == (1, 1)

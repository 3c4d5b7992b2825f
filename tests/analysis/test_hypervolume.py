"""Hypervolumes by hand, by brute force, and the scale that EI's run fixes."""

import itertools

import numpy as np
import pandas as pd
import pytest
from synthetic_records import Way, frame

from analysis.hypervolumes import hypervolume, hypervolumes, scaled, volumes
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
    found = scaled(finals(collect(rows)))
    assert (found.flat, found.incomplete, len(found.cells)) == (0, 0, 4) and len(found.points) == 6
    for dataset, runs in rows.groupby("dataset"):
        best = runs.groupby("seed")["error"].min().sum()
        initial = runs[runs["step"] < 5].groupby("seed")["error"].min().sum()
        ei = runs.loc[runs["method"] == "ei", "cost_s"].sum()
        for method, own in runs.groupby("method"):
            mine = found.points.loc[(dataset, "clean", method)]
            assert mine["cost"] == pytest.approx(own["cost_s"].sum() / ei)
            assert mine["loss"] == pytest.approx((own.groupby("seed")["error"].min().sum() - best) / (initial - best))
    assert found.points["loss"].between(0, 1).all() and np.allclose(found.points["cost"].xs("ei", level="method"), 1)


def test_families_are_compared_on_means_over_seeds() -> None:
    ways = [Way("ei"), Way("eialpha", alpha=0.3), Way("cei", lam=0.5)]
    traces = collect(frame([("wind", "clean")], ways, (0, 1, 2), 30))
    found = hypervolumes(
        scaled(finals(traces)), ["ei", "eialpha(alpha=0.3)"], {"a": ["ei", "eialpha(alpha=0.3)"], "b": ["ei"]}
    )
    means = scaled(finals(traces)).points.loc[("wind", "clean", "eialpha(alpha=0.3)")]
    expected = max(0.0, 1 - means["cost"]) * max(0.0, 1 - means["loss"])
    for areas in (found.own, found.others):
        assert areas.loc[("wind", "clean"), "a"] == pytest.approx(expected)
        assert areas.loc[("wind", "clean"), "b"] == 0.0, "EI's own cost is the reference, and all that both reach"


def test_what_is_gained_below_the_range_of_cost_that_both_reach_does_not_count() -> None:
    """EI ends at (1, 0.5) on its own scale, A at (0.4, 0.5), B at (0.6, 0.25) and (0.2, 0.75); the best is C's."""
    ends = {"ei": (1.0, 0.5), "a": (0.4, 0.5), "b1": (0.6, 0.25), "b2": (0.2, 0.75), "c": (2.0, 0.0)}
    columns = ["dataset", "pipeline", "seed", "method", "total_cost_s", "final_error", "initial_error"]
    table = pd.DataFrame([("wind", "clean", 0, name, *at, 1.0) for name, at in ends.items()], columns=columns)
    found = hypervolumes(
        scaled(table), ["ei", "a"], {"b": ["ei", "b1", "b2"], "c": ["ei", "c"], "none": ["ei", "random"]}
    )
    assert found.own.loc[("wind", "clean"), "b"] == pytest.approx(0.6 * 0.5)
    assert found.others.loc[("wind", "clean"), "b"] == pytest.approx(0.4 * 0.75 + 0.2 * 0.25), "b2 counts from 0.4 on"
    assert found.own.loc[("wind", "clean"), "c"] == 0.0 == found.others.loc[("wind", "clean"), "c"]
    assert found.own["none"].isna().all() and found.others["none"].isna().all()
    nudged = table.assign(total_cost_s=table["total_cost_s"].where(table["method"] != "a", 0.2 + 1e-9))
    assert hypervolumes(scaled(nudged), ["ei", "a"], {"b": ["ei", "b1", "b2"]}).others["b"].iloc[0] == pytest.approx(
        0.4 * 0.75 + 0.4 * 0.25
    ), "by a hair within the range or without it: the same"


def test_a_rival_on_some_of_the_seeds_is_held_against_ei_on_these() -> None:
    traces = collect(frame([("wind", "clean")], [Way("ei"), Way("eipu")], (0, 1, 2), 30))
    table = finals(traces)
    some = table[(table["method"] == "ei") & (table["seed"] > 0)].assign(method="copy")
    missing = table[table["method"] == "ei"].assign(method="missing")
    missing["final_error"] = missing["final_error"].where(missing["seed"] != 1)
    found = scaled(table, pd.concat([some, missing]))
    points = found.points.droplevel([0, 1])
    assert points.loc["copy", "cost"] == points.loc["missing", "cost"] == 1.0
    two = table[table["seed"] > 0]
    assert points.loc["copy", "loss"] == pytest.approx(scaled(two).points.droplevel([0, 1]).loc["ei", "loss"])
    assert found.costs(["copy"]) == {"copy": 1.0} and set(found.costs(["ei", "eipu", "none"])) == {"ei", "eipu"}


def test_what_has_no_scale_is_counted() -> None:
    rows = frame([("wind", "clean"), ("wine", "clean")], [Way("ei"), Way("eipu")], [0], 12)
    level = rows["dataset"] == "wind"
    rows.loc[level, "error"] = 0.5
    found = scaled(finals(collect(rows)))
    assert set(found.cells["dataset"]) == {"wine"} and (found.flat, found.incomplete) == (1, 0)
    lacking = rows[~((rows["dataset"] == "wine") & (rows["method"] == "eipu"))]
    with pytest.raises(BadInput, match="no problem and seed in which every method ran"):
        scaled(finals(collect(lacking)))
    more = pd.concat([lacking, frame([("spam", "clean")], [Way("ei"), Way("eipu")], [0], 12)])
    found = scaled(finals(collect(more)))
    assert (found.flat, found.incomplete) == (1, 1)


def test_without_ei_there_are_no_hypervolumes() -> None:
    with pytest.raises(BadInput, match="needs the method ei: the records hold eipu"):
        volumes(collect(frame([("wind", "clean")], [Way("eipu")], [0], 12)))

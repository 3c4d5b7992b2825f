"""Intervals over data sets and their coverage; the bootstraps against resamples written out, nested loops, scipy."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.captions import intervals
from analysis.evaluations import CELL
from analysis.statistics import (
    Estimate,
    _median_of_groups,
    mean,
    median,
    of_means,
    percent_of_sums,
    ratios_of_sums,
    resample,
    resampling,
    signed_rank,
    weighted,
    widening,
    with_intervals,
)

RNG = np.random.default_rng(7)


def cells(datasets: int, pipelines: int, seeds: int) -> pd.MultiIndex:
    names = [[f"d{i}" for i in range(datasets)], [f"p{i}" for i in range(pipelines)], range(seeds)]
    return pd.MultiIndex.from_product(names, names=CELL)


def uneven() -> pd.MultiIndex:
    """Two data sets, one and three pipelines, one to four seeds."""
    rows = [("a", "p0", 0), ("a", "p0", 1)]
    rows += [("b", f"p{p}", s) for p in range(3) for s in range(p + 2)]
    return pd.MultiIndex.from_tuples(rows, names=CELL)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_weighted_statistics_are_those_of_the_resample_written_out(statistic: str) -> None:
    x = RNG.integers(0, 5, size=(9, 4)).astype(float)  # with ties
    x[RNG.uniform(size=x.shape) < 0.2] = np.nan
    weights = RNG.integers(0, 4, size=(50, 9)).astype(float)
    found = weighted(x, weights, statistic)  # type: ignore[arg-type]
    plain = {"mean": np.nanmean, "median": np.nanmedian}[statistic]
    for b in range(50):
        for k in range(4):
            written = np.repeat(x[:, k], weights[b].astype(int))
            expected = plain(written) if np.isfinite(written).any() else np.nan
            np.testing.assert_allclose(found[b, k], expected, rtol=1e-13)


def test_point_estimates_are_numpys() -> None:
    values = pd.DataFrame(RNG.normal(size=(24, 3)), index=cells(3, 2, 4), columns=["a", "b", "c"])
    values.iloc[3, 1] = np.nan
    for statistic, expected in (("mean", values.mean()), ("median", values.median())):
        found = with_intervals(values, statistic, "hierarchical", resamples=50)  # type: ignore[arg-type]
        np.testing.assert_allclose(found["value"], expected, rtol=1e-13)
    assert found["n"].tolist() == [24, 23, 24]


def test_weights_follow_the_hierarchy() -> None:
    index = uneven()
    frame = index.to_frame(index=False)
    weights = resample(frame, "hierarchical", resamples=500)
    per_pipeline = pd.DataFrame(weights.T, index=index).groupby(CELL[:2]).sum()
    sizes = frame.groupby(CELL[:2]).size()
    picks = per_pipeline.div(sizes, axis=0)
    assert np.array_equal(picks, np.rint(picks)), "a pipeline's weights sum to seeds x picks"
    per_dataset = picks.groupby("dataset").sum().div(sizes.groupby("dataset").size(), axis=0)
    assert np.array_equal(per_dataset, np.rint(per_dataset)), "a data set's picks are pipelines x picks"
    assert (per_dataset.sum() == 2).all(), "two data sets are drawn of two"
    assert set(np.unique(per_dataset)) == {0, 1, 2}


def _nested_loops(values: pd.Series, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw data sets, pipelines, seeds one after the other, as the definition says."""
    tree: dict[str, dict[str, list[float]]] = {}
    for (dataset, pipeline, _), value in values.items():
        tree.setdefault(dataset, {}).setdefault(pipeline, []).append(value)
    means = []
    for _ in range(resamples):
        drawn: list[float] = []
        for d in rng.choice(list(tree), len(tree)):
            for p in rng.choice(list(tree[d]), len(tree[d])):
                drawn += rng.choice(tree[d][p], len(tree[d][p])).tolist()
        means.append(np.mean(drawn))
    return np.array(means)


@pytest.mark.parametrize("index", [cells(4, 3, 3), uneven()], ids=["even", "uneven"])
def test_hierarchical_resamples_have_the_distribution_of_nested_loops(index: pd.MultiIndex) -> None:
    frame = index.to_frame(index=False)
    by_dataset = frame["dataset"].map({d: i for i, d in enumerate(frame["dataset"].unique())})
    x = 3.0 * by_dataset + np.random.default_rng(1).normal(size=len(frame))
    ours = weighted(x.to_numpy()[:, None], resample(frame, "hierarchical", resamples=2000), "mean")[:, 0]
    loops = _nested_loops(pd.Series(x.to_numpy(), index=index), 2000, np.random.default_rng(2))
    assert stats.ks_2samp(ours.round(9), loops.round(9)).pvalue > 0.01  # equal means, whatever the rounding
    assert np.std(ours) == pytest.approx(np.std(loops), rel=0.08)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_plain_intervals_agree_with_scipy(statistic: str) -> None:
    x = np.random.default_rng(3).gamma(2.0, size=101)
    values = pd.DataFrame({"x": x}, index=cells(101, 1, 1))
    ours = with_intervals(values, statistic, "plain", resamples=8000).loc["x"]  # type: ignore[arg-type]
    theirs = stats.bootstrap(
        (x,), {"mean": np.mean, "median": np.median}[statistic], n_resamples=8000, method="percentile",
        rng=np.random.default_rng(4),
    ).confidence_interval  # fmt: skip
    tolerance = {"mean": 0.06, "median": 0.1}[statistic] * (theirs.high - theirs.low)  # medians jump
    assert abs(ours["low"] - theirs.low) < tolerance
    assert abs(ours["high"] - theirs.high) < tolerance


def test_empty_columns_and_single_cells_have_defined_answers() -> None:
    single = pd.DataFrame({"x": [4.0], "none": [np.nan]}, index=cells(1, 1, 1))
    found = with_intervals(single, "median", "plain", resamples=20)
    assert found.loc["x", ["value", "low", "high", "n"]].tolist() == [4.0, 4.0, 4.0, 1]
    assert found.loc["none", ["value", "low", "high"]].isna().all()
    assert with_intervals(single[[]], resamples=20).empty
    for statistic in ("mean", "median"):  # one data set says nothing of others
        found = with_intervals(single, statistic)  # type: ignore[arg-type]
        assert found.loc["x", "value"] == 4.0 and found[["low", "high"]].isna().all(axis=None)


def test_wrong_arguments_are_refused() -> None:
    twice = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples([("d", "p", 0)] * 2, names=CELL))
    with pytest.raises(ValueError, match="unique"):
        with_intervals(twice)
    frame = cells(2, 1, 1).to_frame(index=False)
    with pytest.raises((ValueError, TypeError), match=r"datasets.*hierarchical.*plain"):
        resample(frame, "nested")  # type: ignore[arg-type]
    with pytest.raises((ValueError, TypeError), match=r"mean.*median"):
        weighted(np.ones((2, 1)), np.ones((1, 2)), "mode")  # type: ignore[arg-type]


def test_a_function_of_means_against_nested_draws_written_out() -> None:
    """The place of the lowest mean: draws of data sets, then pipelines, then seeds, one by one."""
    rng = np.random.default_rng(5)
    index = pd.MultiIndex.from_product([["a", "b", "c"], ["p", "q"], [0, 1, 2]], names=CELL)
    values = pd.DataFrame(rng.normal(size=(18, 4)) + np.array([0.6, 0.3, 0.1, 0.4]), index=index)
    with resampling("hierarchical"):
        found = of_means(values, lambda means: means.argmin(axis=1).astype(float))
    assert found.value == values.mean().to_numpy().argmin()
    places = []
    for _ in range(3000):
        rows = []
        for d in rng.integers(0, 3, 3):
            for p in rng.integers(0, 2, 2):
                rows += [6 * d + 3 * p + s for s in rng.integers(0, 3, 3)]
        places.append(values.to_numpy()[rows].mean(axis=0).argmin())
    assert (found.low, found.high) == tuple(np.quantile(places, [0.025, 0.975]))


def test_the_scheme_in_use_is_the_one_named() -> None:
    rng = np.random.default_rng(6)
    index = pd.MultiIndex.from_product([list("abcd"), ["p"], range(5)], names=CELL)
    values = pd.DataFrame({"x": np.repeat(rng.normal(size=4), 5) + 0.01 * rng.normal(size=20)}, index=index)
    named, default = with_intervals(values, scheme="plain"), with_intervals(values, scheme="datasets")
    with resampling("plain"):
        pd.testing.assert_frame_equal(with_intervals(values), named)
        assert "plain paired" in intervals(index.to_frame(index=False))
    pd.testing.assert_frame_equal(with_intervals(values), default)
    assert named["high"].iloc[0] - named["low"].iloc[0] < default["high"].iloc[0] - default["low"].iloc[0]


def test_the_t_interval_over_data_sets_against_scipy() -> None:
    index = uneven().append(pd.MultiIndex.from_tuples([("c", "p0", 0), ("d", "p1", 5)], names=CELL))
    values = pd.DataFrame(np.random.default_rng(8).normal(size=(len(index), 2)), index=index, columns=["x", "y"])
    values.loc["c", "y"] = np.nan
    found = with_intervals(values)
    for name, sets in (("x", "abcd"), ("y", "abd")):
        means = [np.nanmean(values.loc[d, name]) for d in sets]
        theirs = stats.ttest_1samp(means, 0.0)
        expected = [np.mean(means), *theirs.confidence_interval(0.95)]
        np.testing.assert_allclose(found.loc[name, ["value", "low", "high"]].to_numpy(float), expected, rtol=1e-12)
        ours = mean(values[name])
        limit = 0.3
        greater = stats.ttest_1samp(means, limit, alternative="greater").pvalue
        above = ours.value > limit
        assert ours.doubt(limit, above) == pytest.approx(2 * min(greater, 1 - greater))
        assert ours.doubt(limit, not above) == 1.0
    for end in (found.loc["x", "low"], found.loc["x", "high"]):
        assert mean(values["x"]).doubt(float(end), bool(end < found.loc["x", "value"])) == pytest.approx(0.05)
    assert Estimate(3.0, 1.0, 9.0).doubt(1.0, True) == pytest.approx(0.05)  # percentiles: each side by its own end
    assert Estimate(3.0, 1.0, 9.0).doubt(9.0, False) == pytest.approx(0.05)
    assert [Estimate(2.0, 2.0, 2.0).doubt(limit, True) for limit in (1.9, 2.0, 2.1)] == [0.0, 1.0, 1.0]
    for value in (0.1, 0.5):  # outside of its own percentiles
        assert Estimate(value, 0.2, 0.4).doubt(0.19, True) < 0.05 < Estimate(value, 0.2, 0.4).doubt(0.21, True)


def test_the_median_of_few_data_sets_has_no_interval() -> None:
    for sets in (5, 6):
        found = median(pd.Series(np.arange(4.0 * sets), cells(sets, 2, 2)))
        assert np.isfinite([found.low, found.high]).all() == (sets == 6) and found.value == 2.0 * sets - 0.5


def test_a_column_counts_its_own_data_sets() -> None:
    values = pd.DataFrame({"all": np.random.default_rng(3).normal(size=72)}, cells(18, 2, 2))
    dataset = pd.factorize(values.index.get_level_values("dataset"))[0]
    for sets in (4, 9):
        values[sets] = values["all"].where(dataset < sets)
    found = with_intervals(values, "median")
    assert found[["low", "high"]].isna().all(axis=1).tolist() == [False, True, False]
    assert found["n"].tolist() == [72, 16, 36]
    t, z = stats.t.ppf(0.975, np.array([17, 8])), stats.norm.ppf(0.975)
    np.testing.assert_allclose(widening(np.array([18, 9])), np.sqrt([18 / 17, 9 / 8]) * t / z)


def test_draws_of_means_have_the_t_intervals_width() -> None:
    """A linear function of two means, and the median of as many equal columns, against the t interval itself."""
    rng = np.random.default_rng(9)
    values = pd.DataFrame(rng.normal(size=(72, 2)) + rng.normal(size=(18, 1)).repeat(4, axis=0), index=cells(18, 4, 1))
    drawn = of_means(values, lambda means: means[:, 1] - 3 * means[:, 0])
    exact = mean(values[1] - 3 * values[0])
    tolerance = 0.06 * (exact.high - exact.low)
    assert drawn.value == pytest.approx(exact.value)
    assert abs(drawn.low - exact.low) < tolerance and abs(drawn.high - exact.high) < tolerance
    lone = pd.Series(rng.normal(size=201), index=cells(201, 1, 1))
    found, density = median(lone), stats.norm.pdf(0)
    assert found.high - found.low == pytest.approx(2 * 1.96 / (2 * density * np.sqrt(201)), rel=0.35)


@pytest.mark.parametrize("between", [0.0, 1.0], ids=["seed noise only", "data-set effects"])
def test_intervals_over_data_sets_cover_what_they_promise(between: float) -> None:
    """400 studies of 18 data sets x 8 pipelines x 10 seeds whose true mean is 0; 93 to 97 % in the long run.

    Each is a column, so that one call makes all intervals; binomial noise of 400 allows two points more either way.
    """
    rng, studies = np.random.default_rng(10), 400
    noise = rng.normal(size=(18, 8, 10, studies)) + between * rng.normal(size=(18, 1, 1, studies))
    noise += 0.5 * between * rng.normal(size=(18, 8, 1, studies))
    found = with_intervals(pd.DataFrame(noise.reshape(-1, studies), index=cells(18, 8, 10)))
    covered = ((found["low"] < 0) & (found["high"] > 0)).mean()
    assert 0.92 < covered < 0.975, covered
    nested = noise[..., :40].reshape(-1, 40)
    wider = with_intervals(pd.DataFrame(nested, index=cells(18, 8, 10)), "mean", "hierarchical", resamples=300)
    ratio = ((wider["high"] - wider["low"]) / (found["high"] - found["low"]).iloc[:40]).mean()
    assert ratio > 1.25 if between == 0 else ratio < 1.1  # the nested bootstrap counts the seeds' noise twice


@pytest.mark.parametrize("index", [uneven(), cells(5, 2, 3)])
def test_medians_of_data_sets_by_bisection_are_those_of_weighted_cells(index: pd.MultiIndex) -> None:
    rng = np.random.default_rng(3)
    column = np.where(rng.uniform(size=len(index)) < 0.2, np.nan, rng.integers(0, 4, len(index)).astype(float))
    group = pd.factorize(index.get_level_values("dataset"))[0]
    weights = np.vstack([rng.integers(0, 3, (200, group.max() + 1)), np.zeros(group.max() + 1)]).astype(float)
    expected = weighted(column[:, None], weights[:, group], "median")[:, 0]
    np.testing.assert_array_equal(_median_of_groups(column, group, weights), expected)


def test_signed_ranks_against_scipy_and_all_signs() -> None:
    rng = np.random.default_rng(4)
    for n in (1, 2, 7, 18, 30):
        values = rng.normal(0.3, 1, n)
        assert signed_rank(np.append(values, 0.0)) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    for n in (3, 6, 9):
        tied = rng.choice([-2.0, -1.0, 1.0, 2.0], n)
        ranks = stats.rankdata(np.abs(tied))
        sums = np.array([np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=n)])
        own = ranks[tied > 0].sum()
        assert signed_rank(tied) == pytest.approx(min(1.0, 2 * min((sums <= own).mean(), (sums >= own).mean())))
    assert signed_rank(np.zeros(3)) == 1.0


def test_percents_of_sums_leave_out_what_is_missing_on_either_side() -> None:
    index = cells(1, 2, 3)
    values = pd.DataFrame({"a": [1.0, 2, 3, 4, np.nan, 6], "b": [1.0, 1, 1, 1, 1, 1]}, index)
    found = percent_of_sums(values, pd.Series([2.0, 2, np.nan, 8, 8, 8], index)).round(9)
    assert found.isna().sum().tolist() == [2, 1] and found["b"].dropna().tolist() == [50.0] * 2 + [12.5] * 3
    assert found["a"].groupby("pipeline").mean().tolist() == [100 * 3 / 4, 100 * 10 / 16]


def test_ratios_of_sums_have_their_mean_and_the_jackknifes_scatter() -> None:
    rng, group = np.random.default_rng(3), np.repeat([0, 1], [40, 60])
    reference = rng.lognormal(0.0, 0.3, 100)
    values = reference * rng.lognormal(-0.5, 0.1, 100)
    found = ratios_of_sums(values, reference, group)
    for g in (0, 1):
        v, w = values[group == g], reference[group == g]
        assert found[group == g].mean() == pytest.approx(v.sum() / w.sum(), rel=1e-12)
        without = (v.sum() - v) / (w.sum() - w)
        jackknife = (len(v) - 1) * without.var()
        assert found[group == g].var(ddof=1) / len(v) == pytest.approx(jackknife, rel=0.1)
        other = rng.permutation(w)  # the same costs under other seeds: nothing is saved, though ratios say so
        assert ratios_of_sums(other, w, np.zeros(len(w), int)).mean() == pytest.approx(1.0)
        assert (other / w).mean() > 1.04
    np.testing.assert_allclose(ratios_of_sums(reference, reference, group), 1.0)
    assert np.isnan(ratios_of_sums(np.ones(2), np.zeros(2), np.zeros(2, int))).all()
    with pytest.raises(ValueError, match="finite"):
        ratios_of_sums(np.array([np.nan]), np.ones(1), np.zeros(1, int))

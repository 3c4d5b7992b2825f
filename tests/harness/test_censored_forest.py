"""Algorithm 1: what it imputes, what it leaves alone, and that it recovers what censoring hides."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from datasets.errors import BadInput
from harness.streams import stream
from harness.surrogates.forest import BOUND, DROPPED, MEAN, SAMPLED, TREATMENTS, CensoredForest, RandomForest
from harness.surrogates.gp import standardise

RNG = stream(0, "test censored")
N = 60
X = RNG.random((N, 2))
TRUE = 3 * X[:, 0] + np.sin(4 * X[:, 1])
CAP = np.quantile(TRUE, 0.6)
CENSORED = TRUE > CAP
Y = np.where(CENSORED, CAP, TRUE)
C = RNG.random((40, 2))


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_without_a_censored_point_it_is_the_plain_forest_to_the_bit(treatment: str) -> None:
    plain = RandomForest(trees=30).fit(X, TRUE)
    fitted = CensoredForest(RandomForest(trees=30), treatment).fit(X, TRUE, np.zeros(N, bool)).posterior
    for a, b in zip(plain.trees, fitted.trees, strict=True):
        assert a.tobytes() == b.tobytes()
    assert plain.each(C).tobytes() == fitted.each(C).tobytes()


@pytest.mark.parametrize("treatment", [SAMPLED, MEAN])
def test_imputations_are_never_below_their_bound_and_the_sd_there_stays_above_zero(treatment: str) -> None:
    bounds = np.where(CENSORED, RNG.uniform(-1, CAP, N), TRUE)  # different bounds, some far below the truth
    fit = CensoredForest(RandomForest(), treatment).fit(X, bounds, CENSORED)
    assert (fit.imputed[:, CENSORED] >= bounds[CENSORED]).all()
    np.testing.assert_array_equal(fit.imputed[:, ~CENSORED], np.tile(bounds[~CENSORED], (100, 1)))
    assert (fit.posterior.each(X[CENSORED]).std(axis=0) > 1e-6).all()  # of the trees, whatever floor the sd has


def test_the_trees_disagree_about_a_censored_point_as_much_as_the_truncated_normal() -> None:
    """One E-step by hand: quantiles in the order of the trees, without a bootstrap (each tree has each point once)."""
    forest = RandomForest(trees=50, bootstrap=False)
    first = forest.fit_each(
        X, np.tile(Y, (50, 1)), np.tile((~CENSORED).astype(int), (50, 1)), forest.sample(X), standardise(Y)[1]
    )
    mean, sd = first.mean_sd(X[CENSORED])
    fit = CensoredForest(forest, SAMPLED, iterations=1).fit(X, Y, CENSORED)
    q = np.arange(1, 51)[:, None] / 51
    expected = truncnorm((CAP - mean) / sd, np.inf, loc=mean, scale=sd).ppf(q)
    np.testing.assert_allclose(fit.imputed[:, CENSORED], np.maximum(expected, CAP), rtol=1e-8)
    assert (np.diff(fit.imputed[:, CENSORED], axis=0) >= 0).all()
    np.testing.assert_allclose(fit.posterior.each(X)[:, CENSORED], fit.imputed[:, CENSORED])
    one = CensoredForest(forest, MEAN, iterations=1).fit(X, Y, CENSORED).imputed[:, CENSORED]
    np.testing.assert_allclose(one, np.tile(truncnorm((CAP - mean) / sd, np.inf, mean, sd).mean(), (50, 1)), rtol=1e-6)
    assert (
        fit.posterior.mean_sd(X[CENSORED])[1].mean()
        > 3 * CensoredForest(forest, MEAN, iterations=1).fit(X, Y, CENSORED).posterior.mean_sd(X[CENSORED])[1].mean()
    )


@pytest.mark.parametrize("treatment", [SAMPLED, MEAN])
def test_what_a_points_mean_is_above_kappa_max_is_taken_off_each_of_its_imputations(treatment: str) -> None:
    limit = CAP + 0.05
    once = CensoredForest(RandomForest(), treatment, iterations=1)
    free, fit = (once.fit(X, Y, CENSORED, kappa_max) for kappa_max in (np.inf, limit))
    counts = RandomForest().sample(X).counts[:, CENSORED]
    before, after = free.imputed[:, CENSORED], fit.imputed[:, CENSORED]
    mean = (counts * before).sum(axis=0) / counts.sum(axis=0)
    assert 5 < (mean > limit).sum() < len(mean)
    np.testing.assert_allclose(after, before - np.where(mean > limit, mean - limit, 0.0), rtol=1e-12)
    assert (after.max() > limit + 1e-9) == (treatment == SAMPLED)  # the spread stays
    again = CensoredForest(RandomForest(), treatment).fit(X, Y, CENSORED, limit).imputed[:, CENSORED]
    assert ((counts * again).sum(axis=0) / counts.sum(axis=0) <= limit + 1e-12).all()


def test_kappa_max_is_a_number_no_bound_is_above() -> None:
    with pytest.raises(ValueError, match="kappa_max is NaN"):
        CensoredForest(RandomForest()).fit(X, Y, CENSORED, float("nan"))
    with pytest.raises(ValueError, match="above kappa_max"):
        CensoredForest(RandomForest()).fit(X, Y, CENSORED, CAP - 0.1)


def test_imputing_predicts_better_than_dropping_and_that_better_than_bounds_where_all_costly_points_are_cut() -> None:
    far = RNG.random((400, 2))
    truth = 3 * far[:, 0] + np.sin(4 * far[:, 1])
    rmse = {}
    for treatment in TREATMENTS:
        mean = CensoredForest(RandomForest(), treatment).fit(X, Y, CENSORED).posterior.mean_sd(far)[0]
        rmse[treatment] = np.sqrt(np.mean(np.square(mean - truth)))
    assert min(rmse[SAMPLED], rmse[MEAN]) < min(rmse[DROPPED], rmse[BOUND])


def test_bounds_are_all_there_is_where_everything_is_censored_and_bad_settings_are_reported() -> None:
    for treatment in TREATMENTS:
        fit = CensoredForest(RandomForest(trees=20), treatment).fit(X, Y, np.ones(N, bool)).posterior
        assert fit.each(C).tobytes() == RandomForest(trees=20).fit(X, Y).each(C).tobytes()
    with pytest.raises(BadInput, match="treatment must be one of sampled, mean, dropped, bound"):
        CensoredForest(RandomForest(), "guess")

"""The random forest against brute force, scikit-learn and linear interpolation."""

import itertools

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from datasets.errors import BadInput
from harness.streams import stream
from harness.surrogates.forest import ForestPosterior, RandomForest

RNG = stream(0, "test forest")
X = RNG.random((40, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=40)


def sum_of_squares(y: np.ndarray, w: np.ndarray) -> float:
    return float(w @ np.square(y - w @ y / w.sum())) if len(y) else 0.0


def best_loss(points: np.ndarray, y: np.ndarray, w: np.ndarray, categories: tuple[int, ...]) -> float:
    """The lowest sum of squares that any split of any input leaves: all thresholds, all subsets of categories."""
    losses = []
    for j, k in enumerate(categories):
        values = np.unique(points[:, j])
        if k:
            sides = [s for r in range(1, len(values)) for s in itertools.combinations(values, r)]
            splits = [np.isin(points[:, j], side) for side in sides]
        else:
            splits = [points[:, j] <= v for v in values[:-1]]
        losses += [sum_of_squares(y[s], w[s]) + sum_of_squares(y[~s], w[~s]) for s in splits]
    return min(losses)


def goes_left(posterior: ForestPosterior, b: int, node: int, x: np.ndarray, categories: tuple[int, ...]) -> np.ndarray:
    j = posterior.trees.feature[b, node]
    if categories[j]:
        return (posterior.trees.mask[b, node] >> x[:, j].astype(int)) & 1 == 1
    return x[:, j] <= posterior.trees.threshold[b, node]


@pytest.mark.parametrize("categories", [(0, 0, 0), (0, 4, 0), (5, 4, 0)])
def test_every_split_of_every_tree_is_a_best_one(categories: tuple[int, ...]) -> None:
    points = X.copy()
    for j, k in enumerate(categories):
        points[:, j] = np.floor(k * X[:, j]) if k else np.round(X[:, j], 1)  # ties
    forest = RandomForest(trees=8, categories=categories)
    posterior, counts = forest.fit(points, Y), forest.sample(points).counts
    splits = 0
    for b in range(8):
        inside = {0: np.flatnonzero(counts[b])}
        for node in sorted(set(range(posterior.trees.feature.shape[1]))):
            if node not in inside:
                break
            rows = inside[node]
            y, w, x = Y[rows], counts[b][rows].astype(float), points[rows]
            if posterior.trees.feature[b, node] < 0:
                same = len(np.unique(x, axis=0)) == 1
                assert same or len(np.unique(y)) == 1
                value = posterior.each(x[:1])[b, 0]
                assert value == pytest.approx(w @ y / w.sum(), abs=1e-12)
                continue
            left = goes_left(posterior, b, node, x, categories)
            assert left.any() and not left.all()
            loss = sum_of_squares(y[left], w[left]) + sum_of_squares(y[~left], w[~left])
            assert loss == pytest.approx(best_loss(x, y, w, categories), abs=1e-10)
            child = int(posterior.trees.child[b, node])
            inside[child], inside[child + 1] = rows[left], rows[~left]
            splits += 1
    assert splits > 50


@pytest.mark.parametrize("min_split", [2, 7])
def test_midpoint_splits_are_scikit_learns(min_split: int) -> None:
    forest = RandomForest(trees=5, split="midpoint", min_split=min_split)
    posterior, counts = forest.fit(X, Y), forest.sample(X).counts
    for b in range(5):
        rows = np.repeat(np.arange(40), counts[b])
        tree = DecisionTreeRegressor(min_samples_split=min_split, random_state=0).fit(X[rows], Y[rows])
        np.testing.assert_allclose(posterior.each(X[rows])[b], tree.predict(X[rows]), atol=1e-12)
    one = RandomForest(trees=1, bootstrap=False, split="midpoint").fit(X[:, :1], Y)
    C = RNG.random((500, 1))
    np.testing.assert_allclose(
        one.each(C)[0], DecisionTreeRegressor(random_state=0).fit(X[:, :1], Y).predict(C), atol=1e-12
    )


def test_the_mean_becomes_linear_interpolation_and_the_sd_that_of_two_neighbours() -> None:
    x, y = np.array([0.0, 0.1, 0.35, 0.6, 1.0]), np.array([0.0, 2.0, 1.0, -1.0, 3.0])
    C = np.linspace(0, 1, 41)
    line, errors = np.interp(C, x, y), []
    for trees in (100, 2500, 62500):
        mean, sd = RandomForest(trees=trees, bootstrap=False).fit(x[:, None], y).mean_sd(C[:, None])
        errors.append(np.sqrt(np.mean(np.square(mean - line))))
    assert errors[2] < 0.01
    assert errors[0] / errors[2] == pytest.approx(25, rel=0.6)  # as 1 / sqrt(trees)
    k = np.clip(np.searchsorted(x, C, "right") - 1, 0, 3)
    p = (C - x[k]) / (x[k + 1] - x[k])
    np.testing.assert_allclose(sd, np.abs(y[k + 1] - y[k]) * np.sqrt(p * (1 - p)), atol=0.03)


def test_mean_and_sd_are_those_over_trees_and_the_sd_is_never_zero() -> None:
    posterior = RandomForest().fit(X, Y)
    C = RNG.random((50, 3))
    each, (mean, sd) = posterior.each(C), posterior.mean_sd(C)
    np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sd, each.std(axis=0), rtol=1e-12)
    mean, sd = RandomForest().fit(X, np.full(40, 3.0)).mean_sd(C)
    assert (mean == 3.0).all() and (sd > 0).all()
    assert (RandomForest(bootstrap=False).fit(X, Y).mean_sd(X)[1] > 0).all()


def test_an_absent_category_goes_either_way() -> None:
    points = np.array([[0.0], [0.0], [2.0], [2.0]])
    each = (
        RandomForest(trees=200, bootstrap=False, categories=[4])
        .fit(points, np.array([0, 0, 1, 1.0]))
        .each(np.array([[0.0], [1.0], [2.0], [3.0]]))
    )
    assert (each[:, 0] == 0).all() and (each[:, 2] == 1).all()
    for j in (1, 3):
        assert 60 < each[:, j].sum() < 140
    assert abs(np.corrcoef(each[:, 1], each[:, 3])[0, 1]) < 0.3


def test_inputs_are_checked() -> None:
    with pytest.raises(ValueError, match=r"input 1 must be a code 0\.\.1"):
        RandomForest(categories=[0, 2, 0]).fit(X, Y)
    with pytest.raises(ValueError, match="fit needs n >= 1 finite points"):
        RandomForest().fit(X, np.where(np.arange(40) == 3, np.nan, Y))
    with pytest.raises(ValueError, match="the forest has 3 inputs"):
        RandomForest().fit(X, Y).mean_sd(X[:, :2])
    for settings, message in (
        ({"trees": 0}, "trees must be a whole number >= 1"),
        ({"split": "best"}, "split must be one of uniform, midpoint"),
        ({"categories": [99]}, "each of categories must be a whole number from 0 to 50"),
    ):
        with pytest.raises(BadInput, match=message):
            RandomForest(**settings)


@pytest.mark.parametrize("categories", [(0, 0), (4, 4)])
def test_rounding_does_not_decide_between_equal_splits(categories: tuple[int, ...]) -> None:
    """Both inputs part the points alike, but sum y in another order; so do y and y shifted by what does not round."""
    x = np.repeat(np.arange(4.0), 25)
    y = stream(3, "test ties").normal(size=100)
    X = np.stack([x, x], axis=1)
    X[:, 1] = 3.0 - x  # the mirror image: every split of one input is a split of the other
    forest = RandomForest(trees=200, bootstrap=False, min_split=100, categories=categories)
    chosen = forest.fit(X, y).trees.feature[:, 0]
    first = np.where(forest.sample(X).uniforms[:, 0, 1] < 0.5, 1, 0)  # Fisher-Yates of two: the first tried
    np.testing.assert_array_equal(chosen, first)

"""Combinatorial auctions: which bids on bundles of items win the most, if no item is sold twice?

Source: Leyton-Brown, Pearson and Shoham 2000, "Towards a universal test suite for combinatorial auction algorithms"
(distribution `arbitrary`), in a form of our own.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array

from harness.solvers.models import write_binary_program
from harness.solvers.sizes import draw_sizes
from harness.streams import stream

_MORE = 0.65  # probability of one more item in a bundle
_ADDITIVITY = 0.2  # a bundle of k items is worth k^1.2 times a value beyond that of its items
_PRIVATE = 0.1  # spread of a bidder's own values around the common ones, as a share; more of it makes winners obvious
_ALTERNATIVES = 5  # bundles of a bidder at most, of which one may win
_SPREAD = 0.3  # instances differ in size by so much either way


@dataclass(frozen=True)
class Auctions:
    """Auctions of about `items` items and `bids` bids; instance i is drawn from (seed, i)."""

    items: int
    bids: int
    seed: int = 0

    suffix = "mps"
    features = ("log_items", "log_bids", "mean_bundle", "density", "price_variation")

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` and return its features."""
        rng = stream(self.seed, "auctions", str(i))
        items, bids = draw_sizes(rng, (self.items, self.bids), _SPREAD)
        common, related = rng.uniform(1.0, 100.0, items), rng.random((items, items))
        bundles, prices = list[np.ndarray](), list[float]()
        rows = items  # a bidder with alternatives adds a row of his own
        while len(bundles) < bids:
            private = common * (1.0 + _PRIVATE * rng.uniform(-1.0, 1.0, items))
            first, own = int(rng.choice(items, p=private / private.sum())), set[tuple[int, ...]]()
            for _ in range(int(rng.integers(1, _ALTERNATIVES + 1))):
                own.add(tuple(_bundle(rng, first, private, related)))
            for bundle in sorted(own):
                prices.append(
                    float(private[list(bundle)].sum() + len(bundle) ** (1.0 + _ADDITIVITY) * common.mean() / 10)
                )
                bundles.append(np.array([*bundle, rows] if len(own) > 1 else bundle))
            rows += len(own) > 1
        bundles, value = bundles[:bids], np.round(np.array(prices[:bids]), 2)
        start = np.concatenate([[0], np.cumsum([len(bundle) for bundle in bundles])])
        index = np.concatenate(bundles)
        matrix = csc_array((np.ones(len(index)), index, start), shape=(rows, bids))
        write_binary_program(path, value, matrix, np.full(rows, -np.inf), np.ones(rows), maximise=True)
        sold = np.array([(bundle < items).sum() for bundle in bundles])
        each = value / sold
        density = sold.sum() / (items * bids)
        return np.array([np.log(items), np.log(bids), sold.mean(), density, each.std() / each.mean()])


def _bundle(
    rng: np.random.Generator, first: int, private: Float[np.ndarray, " k"], related: Float[np.ndarray, "k k"]
) -> list[int]:
    """Return a bundle that grows from `first` by items that are related to those in it and worth much to the bidder."""
    chosen = [first]
    while len(chosen) < len(private) and rng.random() < _MORE:
        weight = private * related[chosen].sum(axis=0)
        weight[chosen] = 0.0
        chosen.append(int(rng.choice(len(private), p=weight / weight.sum())))
    return sorted(chosen)

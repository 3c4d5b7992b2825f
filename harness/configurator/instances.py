"""Instances that solvers are configured on, made from their numbers: auctions, colourings, set covers, knapsacks.

Integer programs are written as model files, colourings as formulas in conjunctive normal form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array

from datasets.files import write_atomically
from harness.configurator.solvers import INSTALL
from harness.errors import BadInput
from harness.streams import stream

# Integer programs of 0-1 variables as model files.


def write_binary_program(
    path: Path,
    cost: Float[np.ndarray, " n"],
    matrix: csc_array,
    lower: Float[np.ndarray, " m"],
    upper: Float[np.ndarray, " m"],
    maximise: bool,
) -> None:
    """Write min or max cost x, lower <= matrix x <= upper, x in {0, 1}^n, as MPS; raises BadInput without highspy."""
    try:
        import highspy
    except ImportError as error:
        raise BadInput(f"writing models needs the extra packages: {INSTALL} ({error})") from error
    program, (rows, columns) = highspy.HighsLp(), matrix.shape
    program.num_row_, program.num_col_ = rows, columns
    program.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, np.zeros(columns), np.ones(columns)
    program.row_lower_, program.row_upper_ = lower, upper
    entries = program.a_matrix_
    entries.format_ = highspy.MatrixFormat.kColwise
    entries.start_, entries.index_, entries.value_ = matrix.indptr, matrix.indices, matrix.data
    program.integrality_ = [highspy.HighsVarType.kInteger] * columns
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(program)
    highs.writeModel(str(path))


# Sizes of made-up instances: each has its own, around those of its set.


def draw_sizes(rng: np.random.Generator, around: Sequence[int], spread: float, least: int = 4) -> list[int]:
    """Return `around` times one factor, uniform in [1 - spread, 1 + spread], as whole numbers of at least `least`."""
    factor = rng.uniform(1.0 - spread, 1.0 + spread)
    return [max(least, round(size * factor)) for size in around]


# Combinatorial auctions: which bids on bundles of items win the most, if no item is sold twice?
#
# Source: Leyton-Brown, Pearson and Shoham 2000, "Towards a universal test suite for combinatorial auction algorithms"
# (distribution `arbitrary`), in a form of our own.

_MORE = 0.65  # probability of one more item in a bundle
_ADDITIVITY = 0.2  # a bundle of k items is worth k^1.2 times a value beyond that of its items
_PRIVATE = 0.1  # spread of a bidder's own values around the common ones, as a share; more of it makes winners obvious
_ALTERNATIVES = 5  # bundles of a bidder at most, of which one may win
_AUCTION_SPREAD = 0.3  # instances differ in size by so much either way


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
        items, bids = draw_sizes(rng, (self.items, self.bids), _AUCTION_SPREAD)
        common, related = rng.uniform(1.0, 100.0, items), rng.random((items, items))
        bundles, prices = list[np.ndarray](), list[float]()
        rows = items  # a bidder with alternatives adds a row of his own
        while len(bundles) < bids:
            private = common * (1.0 + _PRIVATE * rng.uniform(-1.0, 1.0, items))
            first, own = int(rng.choice(items, p=private / private.sum())), set[tuple[int, ...]]()
            for _ in range(int(rng.integers(1, _ALTERNATIVES + 1))):
                own.add(tuple(_bundle(rng, first, private, related)))
            for bundle in sorted(own):
                more = len(bundle) ** (1.0 + _ADDITIVITY) * common.mean() / 10
                prices.append(float(private[list(bundle)].sum() + more))
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


# Graph colouring of small worlds as satisfiability: can the graph be coloured with so many colours?
#
# Source: Gent, Hoos, Prosser and Walsh 1999, "Morphing: combining structure and randomness"; Watts and Strogatz 1998
# (a ring lattice, a share of whose edges is rewired).

_COLOURING_SPREAD = 0.15  # instances differ in the number of nodes by so much either way


@dataclass(frozen=True)
class Colouring:
    """Rings of about `nodes` nodes, each linked to the next `near` on either side, `rewired` of the edges moved."""

    nodes: int
    near: int
    rewired: float
    colours: int
    seed: int = 0

    suffix = "cnf"
    features = ("log_nodes", "log_edges", "degree_variation", "clustering")

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` (x(v, c): node v has colour c) and return its features."""
        rng = stream(self.seed, "colouring", str(i))
        (nodes,) = draw_sizes(rng, (self.nodes,), _COLOURING_SPREAD, least=2 * self.near + 2)
        linked = self._graph(rng, nodes)
        ends, k = np.argwhere(np.triu(linked)), self.colours
        names = rng.permutation(nodes)  # of the variables, so that their order does not follow the ring
        clauses = [[int(names[v]) * k + c + 1 for c in range(k)] for v in range(nodes)]
        clauses += [[-(int(names[v]) * k + c + 1) for v in pair] for pair in ends for c in range(k)]
        text = "\n".join(f"{' '.join(map(str, clause))} 0" for clause in clauses)
        write_atomically(path, f"p cnf {nodes * k} {len(clauses)}\n{text}\n".encode())
        degree = linked.sum(axis=1).astype(float)
        triangles = np.trace(np.linalg.matrix_power(linked.astype(float), 3))
        clustering = triangles / (degree * (degree - 1.0)).sum()
        return np.array([np.log(nodes), np.log(len(ends)), degree.std() / degree.mean(), clustering])

    def _graph(self, rng: np.random.Generator, nodes: int) -> np.ndarray:
        """Return the symmetric matrix of links, none to itself."""
        linked: np.ndarray = np.zeros((nodes, nodes), bool)
        for v in range(nodes):
            for step in range(1, self.near + 1):
                other = (v + step) % nodes
                if rng.random() < self.rewired:
                    free = np.flatnonzero(~linked[v])
                    other = int(rng.choice(free[free != v]))
                linked[v, other] = linked[other, v] = True
        return linked


# Set cover: the cheapest sets that together have every element.
#
# Source: Balas and Ho 1980, "Set covering algorithms using cutting planes, heuristics, and subgradient optimization":
# costs are whole numbers from 1 to 100, every set has an element, every element is in two sets at least.

_SPREAD = 0.3  # instances differ in size by so much either way


@dataclass(frozen=True)
class SetCover:
    """Instances of about `elements` elements and `sets` sets, of which `density` of all pairs are members."""

    elements: int
    sets: int
    density: float
    seed: int = 0

    suffix = "mps"
    features = ("log_elements", "log_sets", "density", "cost_variation", "membership_variation")

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` and return its features."""
        rng = stream(self.seed, "set cover", str(i))
        elements, sets = draw_sizes(rng, (self.elements, self.sets), _SPREAD)
        member = rng.random((elements, sets)) < self.density
        member[rng.integers(elements, size=sets), np.arange(sets)] = True
        for element in np.flatnonzero(member.sum(axis=1) < 2):
            member[element, rng.choice(sets, size=2, replace=False)] = True
        cost = rng.integers(1, 101, size=sets).astype(np.float64)
        matrix = csc_array(member.astype(np.float64))
        write_binary_program(path, cost, matrix, np.ones(elements), np.full(elements, np.inf), maximise=False)
        covered = member.sum(axis=1)
        variation = covered.std() / covered.mean()
        return np.array([np.log(elements), np.log(sets), member.mean(), cost.std() / cost.mean(), variation])


# Knapsacks with several constraints: which items are worth the most, if there is room for part of them only?
#
# Source: Chu and Beasley 1998, "A genetic algorithm for the multidimensional knapsack problem": weights are whole
# numbers from 1 to 1000, profits their means plus up to 500, so that no item is an obvious choice.

_KNAPSACK_SPREAD = 0.1  # instances differ in the number of items by so much either way


@dataclass(frozen=True)
class Knapsacks:
    """Instances of about `items` items and `constraints` constraints, each with room for `room` of all weight."""

    items: int
    constraints: int
    room: float = 0.5
    seed: int = 0

    suffix = "mps"
    features = ("log_items", "log_constraints", "room", "profit_variation", "worth_variation")

    def write(self, i: int, path: Path) -> Float[np.ndarray, " k"]:
        """Write instance `i` and return its features."""
        rng = stream(self.seed, "knapsacks", str(i))
        (items,) = draw_sizes(rng, (self.items,), _KNAPSACK_SPREAD)
        weight = rng.integers(1, 1001, size=(self.constraints, items)).astype(np.float64)
        profit = np.rint(weight.mean(axis=0) + 500.0 * rng.random(items))
        capacity = np.floor(self.room * weight.sum(axis=1))
        unbounded = np.full(self.constraints, -np.inf)
        write_binary_program(path, profit, csc_array(weight), unbounded, capacity, maximise=True)
        worth = profit / weight.mean(axis=0)
        variation = [values.std() / values.mean() for values in (profit, worth)]
        return np.array([np.log(items), np.log(self.constraints), self.room, *variation])

"""Graph colouring of small worlds as satisfiability: can the graph be coloured with so many colours?

Source: Gent, Hoos, Prosser and Walsh 1999, "Morphing: combining structure and randomness"; Watts and Strogatz 1998
(a ring lattice, a share of whose edges is rewired).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from datasets.files import write_atomically
from harness.solvers.sizes import draw_sizes
from harness.streams import stream

_SPREAD = 0.15  # instances differ in the number of nodes by so much either way


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
        (nodes,) = draw_sizes(rng, (self.nodes,), _SPREAD, least=2 * self.near + 2)
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

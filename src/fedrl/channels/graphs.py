"""Who talks to whom between local steps: undirected connected graphs (Xu et al. 2024, A4) and the mixing of Eq. (23).

`edges` makes a graph from any list of links and checks it; the other functions make special graphs. `mixing` is the
matrix that E local interactions apply to the stack of the agents' directions [m, d].
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.arguments import at_least, checked
from fedrl.trees import Tree

Link = tuple[int, int]


class Graph(NamedTuple):
    """Agents 0..m-1 and their links, each once with the smaller end first. Made by `edges`, which checks."""

    agents: int
    edges: tuple[Link, ...]

    @property
    def links(self) -> int:
        return len(self.edges)

    @property
    def adjacency(self) -> np.ndarray:
        linked: np.ndarray = np.zeros((self.agents, self.agents))
        linked[tuple(np.array(self.edges).T)] = 1.0
        both: np.ndarray = linked + linked.T
        return both

    @property
    def degrees(self) -> np.ndarray:
        """|Omega_i| [m], how many neighbours each agent has."""
        degrees: np.ndarray = self.adjacency.sum(axis=1).astype(int)
        return degrees

    @property
    def max_degree(self) -> int:
        return int(self.degrees.max())

    @property
    def laplacian(self) -> np.ndarray:
        """La [m, m], Eq. (54)."""
        laplacian: np.ndarray = np.diag(self.degrees.astype(float)) - self.adjacency
        return laplacian

    @property
    def mu(self) -> np.ndarray:
        """The eigenvalues of La [m], ascending; the first is zero up to rounding."""
        return np.linalg.eigvalsh(self.laplacian)

    @property
    def mu_2(self) -> float:
        """Algebraic connectivity, the second smallest eigenvalue of La."""
        return float(self.mu[1])


@checked
def edges(pairs: Iterable[Link], agents: int) -> Graph:
    """The graph with these links between agents 0..agents-1; the ends of a pair may come in either order."""
    if agents < 2:
        raise ValueError(
            f"a graph needs at least 2 agents, got {agents}; a single agent has nothing to mix: leave the graph out"
        )
    links: set[Link] = set()
    for one, other in pairs:
        if not (0 <= one < agents and 0 <= other < agents):
            raise ValueError(f"link ({one}, {other}) leaves the agents 0..{agents - 1}; raise `agents` or renumber it")
        if one == other:
            raise ValueError(
                f"link ({one}, {other}) joins an agent to itself; drop it: (23) keeps its own share anyway"
            )
        link = (min(one, other), max(one, other))
        if link in links:
            raise ValueError(f"link {link} comes twice; there is only one between any two agents: drop one")
        links.add(link)
    parts = _parts(agents, links)
    if len(parts) > 1:
        names = ", ".join("{" + ", ".join(map(str, part)) + "}" for part in parts)
        raise ValueError(
            f"the graph falls into {len(parts)} parts, {names}; they never reach a consensus: join them by links such as "
            + ", ".join(str((parts[0][0], part[0])) for part in parts[1:])
        )
    return Graph(agents, tuple(sorted(links)))


@checked
def path(m: int) -> Graph:
    """0 - 1 - ... - m-1, vehicles in a row; with m = 5 the "Merge" of §VII, mu_2 = 2 - 2 cos(pi / 5) = 0.3820."""
    return edges([(i, i + 1) for i in range(m - 1)], m)


@checked
def ring(m: int) -> Graph:
    if m < 3:
        raise ValueError(f"a ring needs at least 3 agents, got {m}; use path({m})")
    return edges([(i, (i + 1) % m) for i in range(m)], m)


@checked
def complete(m: int) -> Graph:
    return edges(combinations(range(m), 2), m)


@checked
def random_graph(m: int, links: int, seed: int) -> Graph:
    """A connected graph with `links` links: all pairs in random order, first those that join two parts, then the rest.

    Every connected graph is possible, but not all are equally likely.
    """
    at_least(0, seed=seed)
    if not m - 1 <= links <= m * (m - 1) // 2:
        raise ValueError(
            f"{m} agents are connected by at least {m - 1} and at most {m * (m - 1) // 2} links, wanted {links}; "
            "change `links` or `m`"
        )
    pairs = list(combinations(range(m), 2))
    order = jax.random.uniform(keys.of(keys.of_seed(seed), "graph"), (len(pairs),), np.float32)
    part = list(range(m))
    tree: list[Link] = []
    rest: list[Link] = []
    for one, other in (pairs[i] for i in np.argsort(np.asarray(order), kind="stable")):
        if part[one] == part[other]:
            rest.append((one, other))
        else:
            tree.append((one, other))
            part = [part[one] if p == part[other] else p for p in part]
    return edges(tree + rest[: links - len(tree)], m)


@checked
def mixing(graph: Graph, epsilon: float, interactions: int) -> np.ndarray:
    """(I - epsilon La)^E [m, m] in float64: E = `interactions` times Eq. (23) on stacked directions.

    It keeps their mean. 0 < epsilon < 1/Delta with Delta = max_i |Omega_i| + 1, as the paper has it.
    """
    _check(graph, epsilon)
    if interactions < 0:
        raise ValueError(f"interactions must be 0 (no mixing) or more, got {interactions}; set E >= 0")
    return np.linalg.matrix_power(np.eye(graph.agents) - epsilon * graph.laplacian, interactions)


def consensus(graph: Graph, epsilon: float, interactions: int) -> Callable[[Tree, Any], Tree]:
    """`mixing` applied to the stacked directions of all agents, for use as the `mix` of a method."""
    matrix = mixing(graph, epsilon, interactions)

    def mix(directions: Tree, cohort: Any) -> Tree:
        if (clients := jax.tree.leaves(directions)[0].shape[0]) != graph.agents:
            raise ValueError(
                f"{clients} clients train and {graph.agents} talk; with a graph, give selection=everyone()"
            )
        return jax.tree.map(lambda x: jnp.tensordot(jnp.asarray(matrix, x.dtype), x, axes=1), directions)

    return mix


@checked
def contraction(graph: Graph, epsilon: float) -> float:
    """The factor by which one interaction at least shrinks deviations from the mean: max_{i >= 2} |1 - epsilon mu_i|.

    Unlike the paper, whose Eq. (62) has 1 - epsilon mu_2: that is the largest only if epsilon (mu_2 + mu_m) <= 2, which
    epsilon < 1/Delta does not give. Three agents each linked to three others have mu_2 = 3 and mu_6 = 6: at epsilon =
    0.24 < 1/4 the factor is 0.44 and not 0.28. It is the only such graph of up to seven agents. epsilon <= 1/m is
    always safe, mu_m being at most m.
    """
    _check(graph, epsilon)
    return float(np.abs(1.0 - epsilon * graph.mu[1:]).max())


def _check(graph: Graph, epsilon: float) -> None:
    limit = 1.0 / (graph.max_degree + 1)
    if not 0.0 < epsilon < limit:
        raise ValueError(
            f"epsilon must lie in (0, 1/Delta) = (0, {limit:.4g}) where an agent has up to {graph.max_degree} neighbours, "
            f"got {epsilon}; choose one inside, or a graph with smaller degrees"
        )


def _parts(agents: int, links: Iterable[Link]) -> list[list[int]]:
    part = list(range(agents))
    for one, other in links:
        part = [part[one] if p == part[other] else p for p in part]
    return [[i for i in range(agents) if part[i] == p] for p in sorted(set(part), key=part.index)]


# Table IV's two graphs of 7 agents. The paper gives mu_2 and, in its W_1 column, the number of links, but not the links.
# These graphs match both numbers, but are not the only ones that do.
THIRTEEN_LINKS = edges(  # mu_2 = 1.4384
    [(0, 2), (0, 4), (0, 5), (1, 2), (1, 3), (1, 4), (1, 6), (2, 3), (2, 4), (2, 5), (2, 6), (3, 6), (4, 5)], 7
)
SIXTEEN_LINKS = edges(  # mu_2 = 2.5188
    [
        *[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (1, 2), (1, 4)],
        *[(1, 6), (2, 4), (2, 6), (3, 4), (3, 5), (4, 5), (4, 6), (5, 6)],
    ],
    7,
)

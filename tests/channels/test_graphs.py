import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedrl.channels import graphs

THREE_BY_THREE = graphs.edges([(i, j) for i in range(3) for j in range(3, 6)], 6)


@st.composite
def connected(draw):
    """Any connected graph of 2 to 8 agents: a random tree and some of the other pairs."""
    m = draw(st.integers(2, 8))
    tree = {(draw(st.integers(0, i - 1)), i) for i in range(1, m)}
    others = [(i, j) for j in range(m) for i in range(j) if (i, j) not in tree]
    return graphs.edges(tree | set(draw(st.lists(st.sampled_from(others), unique=True)) if others else ()), m)


def step_size(share, graph):
    return share / (graph.max_degree + 1)


@pytest.mark.parametrize(
    ("graph", "links", "mu_2"),
    [
        (graphs.path(5), 4, 0.3820),
        (graphs.THIRTEEN_LINKS, 13, 1.4384),
        (graphs.SIXTEEN_LINKS, 16, 2.5188),
        (graphs.ring(6), 6, 1.0),
        (graphs.complete(7), 21, 7.0),
        (THREE_BY_THREE, 9, 3.0),
        (graphs.path(2), 1, 2.0),
    ],
)
def test_known_algebraic_connectivity(graph, links, mu_2):
    assert graph.links == links
    assert round(graph.mu_2, 4) == mu_2
    np.testing.assert_allclose(graph.mu[0], 0.0, atol=1e-12)
    assert graph.degrees.sum() == 2 * links


def test_by_hand():
    graph = graphs.edges([(2, 1), (0, 2), (2, 3)], 4)  # a star around 2
    assert graph.edges == ((0, 2), (1, 2), (2, 3))
    assert graph == graphs.edges([(0, 2), (3, 2), (1, 2)], 4)
    np.testing.assert_array_equal(graph.degrees, [1, 1, 3, 1])
    assert graph.max_degree == 3
    np.testing.assert_array_equal(graph.laplacian, [[1, 0, -1, 0], [0, 1, -1, 0], [-1, -1, 3, -1], [0, 0, -1, 1]])
    np.testing.assert_allclose(graph.mu, [0.0, 1.0, 1.0, 4.0], atol=1e-12)
    directions = np.array([[1.0], [2.0], [4.0], [8.0]])
    np.testing.assert_allclose(graphs.mixing(graph, 0.1, 1) @ directions, [[1.3], [2.2], [3.9], [7.6]])


@settings(max_examples=60, deadline=None)
@given(connected(), st.floats(0.01, 0.99), st.integers(0, 6), st.integers(0, 2**31 - 1))
def test_mixing_is_equation_23(graph, share, interactions, seed):
    epsilon = step_size(share, graph)
    g = mixed = np.random.default_rng(seed).normal(size=(graph.agents, 3))
    for _ in range(interactions):
        told = [sum(mixed[j] - mixed[i] for j in np.flatnonzero(graph.adjacency[i])) for i in range(graph.agents)]
        mixed = mixed + epsilon * np.array(told)
    matrix = graphs.mixing(graph, epsilon, interactions)
    assert matrix.dtype == np.float64
    np.testing.assert_allclose(matrix @ g, mixed, atol=1e-12)
    np.testing.assert_allclose((matrix @ g).mean(axis=0), g.mean(axis=0), atol=1e-12)
    # deviations from the mean shrink at least so much in each interaction
    factor = graphs.contraction(graph, epsilon)
    assert factor < 1.0
    before, after = (np.linalg.norm(x - x.mean(axis=0)) for x in (g, mixed))
    assert after <= factor**interactions * before + 1e-12


@settings(max_examples=60, deadline=None)
@given(connected(), st.floats(0.01, 0.99), st.integers(0, 6))
def test_the_eigenvector_of_mu_2_shrinks_by_exactly_so_much(graph, share, interactions):
    epsilon = step_size(share, graph)
    fiedler = np.linalg.eigh(graph.laplacian)[1][:, 1]
    expected = (1 - epsilon * graph.mu_2) ** interactions * fiedler
    np.testing.assert_allclose(graphs.mixing(graph, epsilon, interactions) @ fiedler, expected, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(connected(), st.floats(0.01, 0.99))
def test_the_factor_is_the_operator_norm(graph, share):
    epsilon = step_size(share, graph)
    centred = np.eye(graph.agents) - 1.0 / graph.agents
    factor = graphs.contraction(graph, epsilon)
    np.testing.assert_allclose(np.linalg.norm(graphs.mixing(graph, epsilon, 3) @ centred, 2), factor**3, atol=1e-12)
    assume(epsilon * (graph.mu[1] + graph.mu[-1]) <= 2.0)
    np.testing.assert_allclose(factor, 1 - epsilon * graph.mu_2, atol=1e-12)  # Eq. (62)


def test_equation_62_needs_more_than_epsilon_below_one_over_delta():
    """Three agents linked to three others, epsilon = 0.24 < 1/4: the deviation between the two sides is what is left."""
    epsilon, sides = 0.24, np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    np.testing.assert_allclose(THREE_BY_THREE.mu, [0, 3, 3, 3, 3, 6], atol=1e-12)
    np.testing.assert_allclose(graphs.mixing(THREE_BY_THREE, epsilon, 1) @ sides, -0.44 * sides)
    np.testing.assert_allclose(graphs.contraction(THREE_BY_THREE, epsilon), 0.44)
    np.testing.assert_allclose(1 - epsilon * THREE_BY_THREE.mu_2, 0.28)
    np.testing.assert_allclose(graphs.contraction(THREE_BY_THREE, 2 / 9), 1 / 3)  # up to here they agree


@pytest.mark.parametrize("graph", [graphs.THIRTEEN_LINKS, graphs.SIXTEEN_LINKS, graphs.path(5)])
def test_the_papers_graphs_obey_equation_62(graph):
    largest = 0.999 / (graph.max_degree + 1)
    for epsilon in (0.1, largest):  # 0.1 is Table III's
        np.testing.assert_allclose(graphs.contraction(graph, epsilon), 1 - epsilon * graph.mu_2, rtol=1e-12)


def test_no_interactions_are_the_identity():
    np.testing.assert_array_equal(graphs.mixing(graphs.THIRTEEN_LINKS, 0.1, 0), np.eye(7))


def test_many_interactions_are_the_mean():
    np.testing.assert_allclose(graphs.mixing(graphs.THIRTEEN_LINKS, 0.1, 400), np.full((7, 7), 1 / 7), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([2, 3, 5, 8]), st.floats(0.0, 1.0), st.integers(0, 2**31 - 1))
def test_random_graphs_have_the_links_wanted(m, fraction, seed):
    links = round(m - 1 + fraction * (m * (m - 1) // 2 - (m - 1)))
    graph = graphs.random_graph(m, links, seed)
    assert (graph.agents, graph.links) == (m, links)
    assert graph.mu_2 > 1e-9
    assert graph == graphs.random_graph(m, links, seed)


def test_random_graphs_differ():
    found = {graphs.random_graph(7, 13, seed) for seed in range(30)}
    assert len(found) > 25
    trees = {tuple(sorted(graphs.random_graph(4, 3, seed).degrees.tolist())) for seed in range(30)}
    assert trees == {(1, 1, 1, 3), (1, 1, 2, 2)}  # stars as well as paths


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: graphs.edges([(0, 1), (2, 3), (3, 4)], 6),
            r"3 parts, \{0, 1\}, \{2, 3, 4\}, \{5\}.*\(0, 2\), \(0, 5\)",
        ),
        (lambda: graphs.edges([(2, 1)], 3), r"2 parts, \{0\}, \{1, 2\}; they never .* such as \(0, 1\)$"),
        (lambda: graphs.edges([(0, 1), (1, 1)], 2), r"link \(1, 1\) joins an agent to itself; drop it"),
        (lambda: graphs.edges([(0, 1), (1, 3)], 3), r"link \(1, 3\) leaves the agents 0..2; raise `agents`"),
        (lambda: graphs.edges([(-1, 1)], 2), r"link \(-1, 1\) leaves the agents 0..1"),
        (lambda: graphs.edges([(0, 1), (1, 0)], 2), r"link \(0, 1\) comes twice"),
        (lambda: graphs.path(1), "at least 2 agents, got 1"),
        (lambda: graphs.ring(2), r"at least 3 agents, got 2; use path\(2\)"),
        (lambda: graphs.random_graph(5, 3, 0), "at least 4 and at most 10 links, wanted 3"),
        (lambda: graphs.random_graph(5, 11, 0), "at least 4 and at most 10 links, wanted 11"),
        (
            lambda: graphs.mixing(graphs.path(3), 0.0, 1),
            r"\(0, 1/Delta\) = \(0, 0.3333\).* 2 neighbours, got 0.0; choose",
        ),
        (lambda: graphs.mixing(graphs.path(3), 1 / 3, 1), r"got 0.333"),
        (lambda: graphs.contraction(graphs.path(3), -0.1), r"got -0.1"),
        (lambda: graphs.mixing(graphs.path(3), float("nan"), 1), r"got nan"),
        (lambda: graphs.mixing(graphs.path(3), 0.1, -1), "0 .no mixing. or more, got -1"),
    ],
)
def test_what_is_not_a_graph_or_a_step_size_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

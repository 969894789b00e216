"""FMARL: what it collapses to, what neighbours do to each other, and what is counted (about 60 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.engine_runs import end_state
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import complete, edges, ring
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import exact_return
from fedrl.learners.decay import exponential
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.local_step_counts import fixed_steps, random_steps, steps_by_time
from fedrl.learners.reinforce import reinforce
from fedrl.selection import participation
from fedrl.selection.selection import Selection

M, TAU, ROUNDS = 5, 3, 3
LEARNER = gradient_learner(reinforce(horizon=10, batch=2), eta=0.3, local_steps=TAU)


def theta_after(method, engine=None, rounds: int = ROUNDS) -> tuple[np.ndarray, dict]:
    """The server's theta and the metrics of the last round, one seed."""
    where = federation(M)
    algorithm = method(where)
    play = (engine or fused("map"))(algorithm, where, exact_return()(algorithm, where), 100)
    state, metrics = play.advance(play.init([3])[0], 0, rounds)
    return np.asarray(state.server.theta[0]), {name: np.asarray(x)[0, -1] for name, x in metrics.items()}


@pytest.fixture(scope="module")
def plain():
    return theta_after(fedavg(LEARNER))[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decay": exponential(1.0)},
        {"pace": fixed_steps([TAU] * M)},
        {"graph": ring(M), "interactions": 0},
    ],
    ids=["plainly", "D = 1", "tau_i = tau (Eq. 11 = Eq. 5)", "E = 0"],
)
def test_collapses_to_fedavg_to_the_bit(options, plain):
    theta, metrics = theta_after(fmarl(LEARNER, tau=TAU, **options))
    np.testing.assert_array_equal(theta, plain)
    assert metrics["train/updates"] == M * TAU
    assert metrics["train/messages"] == 0


@pytest.mark.parametrize(
    "options", [{"decay": exponential(0.5)}, {"pace": fixed_steps([1, 1, 2, 3, 3])}, {"graph": ring(M)}]
)
def test_and_otherwise_not(options, plain):
    assert not np.array_equal(theta_after(fmarl(LEARNER, tau=TAU, **options))[0], plain)


def test_engines_agree_in_lock_step():
    method = fmarl(
        LEARNER, tau=TAU, pace=random_steps(1), decay=exponential(0.9), graph=ring(M), epsilon=0.2, interactions=2
    )
    runs = [end_state(method, engine, federation(M), exact_return(), rounds=3) for engine in (fused(), one_at_a_time())]
    assert runs[0] == runs[1]


def test_neighbours_all_around_move_as_one():
    """A complete graph and epsilon = 1/m: after one interaction all have the mean direction, so m clients are one."""
    method = fmarl(LEARNER, tau=TAU, graph=complete(M), epsilon=1.0 / M - 1e-7, interactions=1)
    where = federation(M)
    train = method(where).exchanges[-1]
    directions = jax.random.normal(jax.random.key(0), (M, 4, 2))
    mixed = np.asarray(train.mix(directions, None))
    np.testing.assert_allclose(mixed, np.broadcast_to(directions.mean(axis=0), mixed.shape), atol=1e-5)


def test_one_step_by_hand():
    """Eqs. 23 to 25 on directions that are known: each client's is its own number, whatever it saw."""
    graph, epsilon, E = edges([(0, 1), (1, 2)], 3), 0.2, 2

    def learner(environment):
        learns = LEARNER(environment)

        def estimate(local, trajectory, client, key):
            number = (client.id + 1).astype(jnp.float32)
            return jax.tree.map(lambda x: jnp.full_like(x, number), local.theta), local

        return learns._replace(local=learns.local._replace(estimate=estimate))

    where = federation(3)
    algorithm = fmarl(learner, tau=2, pace=fixed_steps([2, 1, 2]), graph=graph, epsilon=epsilon, interactions=E)(where)
    play = fused("map")(algorithm, where, exact_return()(algorithm, where), 100)
    state, _ = play.init([0])
    after, metrics = play.advance(state, 0, 1)
    g, moved = np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 3.0]]), np.zeros(3)  # client 1 has no second mini-batch
    for y in range(2):
        now = g[y].copy()
        for _ in range(E):
            now = now + epsilon * np.array([now[1] - now[0], now[0] + now[2] - 2 * now[1], now[1] - now[2]])
        moved += 0.3 * now
    np.testing.assert_allclose(
        after.server.theta[0] - state.server.theta[0], np.full_like(state.server.theta[0], moved.mean()), rtol=1e-5
    )
    assert metrics["train/updates"][0, 0] == 5
    assert metrics["train/messages"][0, 0] == 2 * graph.links * E * 2


def test_the_log_counts_bytes_between_neighbours():
    run = fedrl.train(fmarl(LEARNER, tau=TAU, graph=ring(M)), federation(M), rounds=2, evaluation=exact_return())
    theta = sum(x.nbytes for x in jax.tree.leaves(run.theta))
    assert run.rows[-1]["bytes_peer"] == 2 * theta * 2 * M * TAU
    assert run.rows[-1]["train/messages"] == 2 * M * TAU  # of one round


def test_decay_weighs_later_steps_less():
    """With one direction throughout, tau steps come to eta (1 + lam^(1/2) + lam)."""

    def learner(environment):
        learns = LEARNER(environment)

        def estimate(local, trajectory, client, key):
            return jax.tree.map(jnp.ones_like, local.theta), local

        return learns._replace(local=learns.local._replace(estimate=estimate))

    where, lam = federation(2), 0.6
    algorithm = fmarl(learner, tau=3, decay=exponential(lam))(where)
    play = fused("map")(algorithm, where, exact_return()(algorithm, where), 100)
    state, _ = play.init([0])
    moved = play.advance(state, 0, 1)[0].server.theta - state.server.theta
    np.testing.assert_allclose(moved, 0.3 * (1 + lam**0.5 + lam), rtol=1e-5)


def test_paces():
    times = steps_by_time([1.0, 1.5, 2.0, 4.0])(4, 8)
    from fedrl.types import Client

    steps = [int(times(Client(jnp.int32(i), (), (), ()), jax.random.key(0))) for i in range(4)]
    assert steps == [8, 5, 4, 2]  # Eq. 6
    often = [int(random_steps(2, 4)(1, 6)(Client(jnp.int32(0), (), (), ()), jax.random.key(i))) for i in range(60)]
    assert sorted(set(often)) == [2, 3, 4]
    slow = steps_by_time([1.0, 9.0])(2, 3)
    assert [int(slow(Client(jnp.int32(i), (), (), ()), jax.random.key(0))) for i in range(2)] == [3, 0]
    for wrong in ([1, 4], [1, -1], [0, 0], [1]):
        with pytest.raises(ValueError, match="expected 2 numbers of local updates between 0 and tau=3"):
            fixed_steps(wrong)(2, 3)


def of(*chosen: int):
    """The selection of these clients."""

    def build(federation, learner):
        return Selection(lambda server, key: participation.cohort(federation, jnp.array(chosen, jnp.int32)))

    return build


def test_who_finishes_no_update_is_left_out():
    """m = 3 of N = 5: the same as if the server had asked the three only, also in what is counted."""
    paced = fmarl(LEARNER, tau=TAU, pace=steps_by_time([1.0, 9.0, 1.0, 3.0, 3.1]))
    theta, metrics = theta_after(paced)
    three = fmarl(LEARNER, tau=TAU, pace=fixed_steps([3, 1, 3, 1, 1]), selection=of(0, 2, 3))
    wanted, counted = theta_after(three)
    np.testing.assert_allclose(theta, wanted, rtol=1e-6)
    assert metrics["train/updates"] == counted["train/updates"] == 3 + 3 + 1
    assert metrics["train/answered"] == counted["train/answered"] == 3


def test_neighbours_do_not_wait_for_who_finishes_no_update():
    with pytest.raises(
        ValueError, match=r"clients \[1\] finish no update in a period of tau=3, and neighbours would wait"
    ):
        fmarl(LEARNER, tau=TAU, pace=fixed_steps([3, 0, 3, 3, 3]), graph=ring(M))(federation(M))


def test_bad_graphs_are_named():
    with pytest.raises(ValueError, match="the graph has 4 agents and the federation 5 clients"):
        fmarl(LEARNER, tau=1, graph=ring(4))(federation(M))
    with pytest.raises(ValueError, match="epsilon"):
        fmarl(LEARNER, tau=1, graph=complete(M), epsilon=0.3)(federation(M))
    with pytest.raises(ValueError, match="tau >= 1"):
        fmarl(LEARNER, tau=0)
    with pytest.raises(ValueError, match=r"a decay constant lies in \(0, 1\]"):
        exponential(1.1)

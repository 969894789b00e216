"""Every algorithm takes every part, and any optimiser may be the server's: traced or by hand, little is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.federations import federation
from support.remembering import remembering

from fedrl import keys, trees
from fedrl.aggregation.mean import mean
from fedrl.aggregation.median import median
from fedrl.algorithms.alone import alone
from fedrl.algorithms.fapi import fapi_with_federated_evaluation, fapi_without_federated_evaluation
from fedrl.algorithms.fapi_networks import deep_fapi_with_federated_evaluation, deep_fapi_without_federated_evaluation
from fedrl.algorithms.fed_q_learning import fed_q_learning
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.federated import federated
from fedrl.algorithms.fedhapg_m import fedhapg_m
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.fmarl import fmarl
from fedrl.algorithms.momentum_anchor import momentum_anchor
from fedrl.algorithms.server_rules import ServerState
from fedrl.channels.graphs import ring
from fedrl.core.round import update_server
from fedrl.engines.fused import fused
from fedrl.evaluation import exact_return
from fedrl.learners.filtering import Theta, pooling
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.policies.filtered import Filters, Moments
from fedrl.policies.mlp import mlp
from fedrl.selection.candidates import uniform_of
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.selection.participation import everyone, uniform
from fedrl.types import Channel, Cohort, Learner, LocalUpdate

STEPS = {"eta": 0.1, "local_steps": 4}
SAMPLING = {"horizon": 3, "batch": 2}
LEARNER = gradient_learner(reinforce(**SAMPLING), **STEPS)
PPO = {"policy": mlp(4), "value": (4,), "steps": 8, "num_envs": 2, "minibatch": 8, "critic_minibatch": 8, "warm_up": 8}
ALGORITHMS = {
    "FedAvg": lambda **parts: fedavg(LEARNER, **parts),
    "FedAdam": lambda **parts: fedavg(LEARNER, server=optax.adam(1e-2), **parts),
    "PAvg": lambda **parts: pavg(**STEPS, **SAMPLING, **parts),
    "S-FedPG": lambda **parts: s_fedpg(**STEPS, **SAMPLING, **parts),
    "RS-FedPG": lambda **parts: rs_fedpg(lam=0.1, **STEPS, **SAMPLING, **parts),
    "b-RS-FedPG": lambda **parts: b_rs_fedpg(lam=0.1, **STEPS, **SAMPLING, **parts),
    "FedSVRPG-M": lambda **parts: fedsvrpg_m(beta=0.3, first_batch=2, **STEPS, **SAMPLING, **parts),
    "FedHAPG-M": lambda **parts: fedhapg_m(beta=0.3, first_batch=2, **STEPS, **SAMPLING, **parts),
    "Fed-Q-learning": lambda **parts: fed_q_learning(samples=4, **STEPS, **parts),
    "FAPI, Algorithm 1": fapi_with_federated_evaluation,
    "FAPI, Algorithm 2": fapi_without_federated_evaluation,
    "deep FAPI, Algorithm 1": lambda **parts: deep_fapi_with_federated_evaluation(**PPO, **parts),
    "deep FAPI, Algorithm 2": lambda **parts: deep_fapi_without_federated_evaluation(**PPO, **parts),
    "FMARL": lambda **parts: fmarl(LEARNER, tau=2, **parts),
}
CLIENTS = 4


def went_through(algorithm, where) -> list[str]:
    """The exchanges, each traced from the choice to the next server but for the clients' steps, which learn nothing."""
    server = jax.eval_shape(algorithm.init, keys.of_seed(0))
    shared = where.shared()
    names = []
    for exchange in (*algorithm.opening, *algorithm.exchanges):

        def trip(server, key, exchange=exchange):
            cohort = exchange.choose(server, key)
            rows = where.rows(shared, where.enrol(shared, key, algorithm), cohort.ids)

            def one(client, slot):
                local = exchange.local.start(exchange.send(server, client.id), client, key)
                return exchange.channel.encode(exchange.local.finish(local, client)[0], cohort, slot, key)

            uploads = jax.vmap(one)(rows, jnp.arange(cohort.ids.shape[0], dtype=jnp.int32))
            return exchange.receive(
                server, exchange.channel.decode(exchange.combine(uploads, cohort), cohort, key), cohort, key
            )[0]

        with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to the power of an integer
            after = jax.eval_shape(trip, server, keys.of_seed(1))
        assert jax.tree.structure(after) == jax.tree.structure(server)
        names.append(exchange.name)
    return names


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_takes_every_part(name):
    """Two of four clients, a median, a channel and a projection: each is asked, in openings and evaluations, too."""
    asked: dict[str, int] = {"combine": 0, "encode": 0, "decode": 0, "project": 0}

    def noting(part, function):
        def call(*arguments):
            asked[part] += 1
            return function(*arguments)

        return call

    channel = Channel(noting("encode", lambda upload, *rest: upload), noting("decode", lambda mean, *rest: mean))
    where = federation(CLIENTS)
    algorithm = ALGORITHMS[name](
        selection=uniform(2),
        combine=noting("combine", median),
        channel=channel,
        project=lambda environment, policy: noting("project", lambda theta: theta),
    )(where)
    exchanges = went_through(algorithm, where)
    assert exchanges[-1] == "train"
    assert asked["encode"] == asked["decode"] == len(exchanges)
    assert asked["combine"] >= len(exchanges)
    assert asked["project"] == 1
    assert algorithm.training.choose(algorithm.init(keys.of_seed(0)), keys.of_seed(0)).ids.shape == (2,)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_reports_do_not_go_around_a_channel(name):
    def reporting(federation, learner):
        return everyone()(federation, learner)._replace(report=lambda local, client: client.id)

    channel = Channel(lambda upload, *rest: upload, lambda aggregate, *rest: aggregate)
    assert ALGORITHMS[name](selection=reporting)(federation(CLIENTS)).exchanges
    with pytest.raises(ValueError, match="reports would go around the channel; leave `channel` out"):
        ALGORITHMS[name](selection=reporting, channel=channel)(federation(CLIENTS))


@pytest.mark.parametrize("selection", [everyone(), uniform(2), uniform_of(3, 2)])
def test_going_alone_takes_a_selection_and_sends_nothing(selection):
    where = federation(CLIENTS)
    algorithm = alone(LEARNER, selection=selection)(where)
    assert went_through(algorithm, where) == ["train"]
    server = algorithm.init(keys.of_seed(0))
    assert not jax.tree.leaves((server.theta, algorithm.training.send(server, jnp.int32(0))))


@pytest.mark.parametrize("phases", [1, 2])
def test_fedpohcs_with_the_server_of_fedsvrpg_m(phases):
    """Whose own clients remember nothing by default, which is said; if they do, reports are of theta, not of u."""
    where, choice = federation(CLIENTS), fedpohcs(3, 2, sweeps=5, phases=phases)
    with pytest.raises(ValueError, match="this learner remembers nothing.*remember=1 to fedsvrpg_m, fedhapg_m"):
        fedsvrpg_m(beta=0.3, **STEPS, **SAMPLING, selection=choice)(where)
    rule = momentum_anchor(eta=0.5, local_steps=1, horizon=3, server_step=1.0, first_batch=2)
    algorithm = federated(rule, remembering(horizon=4), selection=choice)(where)
    assert went_through(algorithm, where) == ["opening-0", "first", *["report"] * (phases == 2), "train"]
    server = algorithm.init(keys.of_seed(0))
    sent = {e.name: e.send(server, jnp.int32(0)) for e in algorithm.exchanges}
    assert hasattr(sent["train"], "u")
    assert not any(hasattr(sent[name], "u") for name in sent if name == "report")


def received(algorithm, server, uploads, *, present=(True,) * 3, reports=()) -> tuple:
    """The server after clients of equal weight sent these displacements."""
    asked = Cohort(jnp.arange(3), jnp.full(3, 1 / 3), jnp.asarray(present), jnp.zeros(3, jnp.int32))
    with jax.numpy_dtype_promotion("standard"):
        return update_server(algorithm.training, server, (uploads, reports), asked, keys.of_seed(0))


def everywhere(*numbers: float):
    return jnp.broadcast_to(jnp.asarray(numbers)[:, None, None], (3, 4, 3))


def test_median_with_fedhapg_m():
    """Displacements 1, 2, 30: theta moves by half of 2, and u is 2 / (eta K)."""
    algorithm = fedhapg_m(beta=0.5, server_step=0.5, **STEPS, horizon=2, combine=median)(federation(3))
    first = algorithm.init(keys.of_seed(0))._replace(theta=jnp.ones((4, 3)))
    after, _ = received(algorithm, first, everywhere(1.0, 2.0, 30.0))
    np.testing.assert_allclose(after.theta, np.full((4, 3), 2.0), rtol=1e-6)
    np.testing.assert_allclose(after.kept.u, np.full((4, 3), 2.0 / 0.4), rtol=1e-6)
    np.testing.assert_array_equal(after.kept.theta_prev, first.theta)
    assert int(after.round) == 1


def test_a_clipping_channel_with_fmarl():
    """Displacements of norm 5 leave as 1; how many updates were made goes as it is."""

    def encode(upload, cohort, slot, key):
        return trees.scale(jnp.minimum(1.0, 1.0 / trees.squared_norm(upload) ** 0.5), upload)

    clipped = Channel(encode, lambda aggregate, cohort, key: aggregate)
    algorithm = fmarl(LEARNER, tau=2, graph=ring(3), interactions=2, channel=clipped)(federation(3))
    train, moved = algorithm.training, jnp.zeros((4, 3)).at[0, :2].set(jnp.asarray([3.0, 4.0]))
    wire, _ = train.channel.encode((moved, ()), None, 0, None)
    np.testing.assert_allclose(wire[0, :2], [0.6, 0.8], rtol=1e-6)
    server = algorithm.init(keys.of_seed(0))
    after, _ = received(algorithm, server, jnp.stack([wire] * 3))
    np.testing.assert_allclose(after.theta[0, :2] - server.theta[0, :2], [0.6, 0.8], rtol=1e-6)
    play = fused("map")(algorithm, federation(3), exact_return()(algorithm, federation(3)))
    _, metrics = play.advance(play.init([0])[0], 0, 1)
    trajectory = {name: metrics[f"train/{name}"][0, 0] for name in ("updates", "messages")}
    assert (int(trajectory["updates"]), int(trajectory["messages"])) == (
        6,
        3 * 2 * 2 * 2,
    )  # 2 neighbours, E = 2, 2 steps
    assert "train/episode_return" not in metrics  # what clients report of their learning would go around the channel


def test_neighbours_who_do_not_train_cannot_talk():
    mix = fmarl(LEARNER, tau=2, graph=ring(CLIENTS), selection=uniform(2))(federation(CLIENTS)).training.mix
    with pytest.raises(ValueError, match="2 clients train and 4 talk; with a graph, give selection=everyone"):
        mix(jnp.ones((2, 4, 3)), None)


def moved_by(server: optax.GradientTransformation, *rounds: tuple[float, float, float], **options) -> list[float]:
    """What is added to theta, from zeros, in each round of these displacements."""
    algorithm = fedavg(LEARNER, server=server)(federation(3))
    state, found = algorithm.init(keys.of_seed(0))._replace(theta=jnp.zeros((4, 3))), [0.0]
    for uploads in rounds:
        state, trajectory = received(algorithm, state, everywhere(*uploads), **options)
        found.append(float(state.theta[1, 2]))
    np.testing.assert_allclose(state.theta, np.full((4, 3), found[-1]))
    np.testing.assert_allclose(trajectory["update_norm"], 12**0.5 * abs(np.mean(rounds[-1])), rtol=1e-6)
    return np.diff(found).tolist()


def test_sgd_at_the_server_is_fedavg_to_the_bit():
    uploads = jax.random.normal(keys.of_seed(1), (3, 4, 3))
    first = ServerState(jax.random.normal(keys.of_seed(2), (4, 3)), jnp.int32(0))
    plain, _ = received(fedavg(LEARNER)(federation(3)), first, uploads)
    algorithm = fedavg(LEARNER, server=optax.sgd(1.0))(federation(3))
    ours, _ = received(algorithm, first._replace(kept=algorithm.init(keys.of_seed(0)).kept), uploads)
    np.testing.assert_array_equal(ours.theta, plain.theta)


def test_fedavgm():
    """The mean displacements are 2, then 4: the second is added with 0.9 times the first."""
    moved = moved_by(optax.sgd(0.5, momentum=0.9), (1.0, 2.0, 3.0), (4.0, 4.0, 4.0))
    np.testing.assert_allclose(moved, [0.5 * 2.0, 0.5 * (0.9 * 2.0 + 4.0)], rtol=1e-6)


def test_fedadam():
    """Reddi et al. 2021, by hand: m and v corrected for their start, as optax does. 2 and then -1."""
    first = 2.0 / (2.0 + 1e-3)
    m, v = 0.9 * 0.1 * 2.0 - 0.1, 0.99 * 0.01 * 4.0 + 0.01
    second = (m / (1 - 0.9**2)) / ((v / (1 - 0.99**2)) ** 0.5 + 1e-3)
    moved = moved_by(optax.adam(1e-2, b2=0.99, eps=1e-3), (1.0, 2.0, 3.0), (-1.0, -1.0, -1.0))
    np.testing.assert_allclose(moved, [1e-2 * first, 1e-2 * second], rtol=1e-4)


def test_fedadagrad():
    """The sum of squares starts at 0.1: 0.5 * 2 / sqrt(0.1 + 4), then 0.5 / sqrt(0.1 + 4 + 1)."""
    moved = moved_by(optax.adagrad(0.5), (1.0, 2.0, 3.0), (1.0, 1.0, 1.0))
    np.testing.assert_allclose(moved, [1.0 / 4.1**0.5, 0.5 / 5.1**0.5], rtol=1e-5)


def test_fedyogi():
    """v starts at 1e-6 and goes up by (1 - b2) d^2, for it is below d^2; m is corrected, and v is."""
    v = 1e-6 + (1 - 0.9) * 4.0
    moved = moved_by(optax.yogi(0.1, b1=0.9, b2=0.9, eps=1e-3), (1.0, 2.0, 3.0))
    np.testing.assert_allclose(moved, [0.1 * 2.0 / ((v / (1 - 0.9)) ** 0.5 + 1e-3)], rtol=1e-4)


def test_nobody_answers_the_optimiser():
    algorithm = fedavg(LEARNER, server=optax.adam(1e-2))(federation(3))
    first, _ = received(algorithm, algorithm.init(keys.of_seed(0)), everywhere(1.0, 2.0, 3.0))
    after, _ = received(algorithm, first, everywhere(1.0, 2.0, 3.0), present=(False,) * 3)
    for a, b in zip(*(jax.tree.leaves((state.theta, state.kept)) for state in (after, first)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_filters_are_pooled_and_only_parameters_optimised():
    """As FedAvg pools them, to the bit; actor and critic go 0.1 of the way that Adam makes of their mean."""
    trajectory = Moments(
        jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([[1.0], [2.0], [4.0]]), jnp.asarray([[0.0], [1.0], [2.0]])
    )
    theta = Theta(jnp.zeros(2), jnp.zeros(1), Filters(jax.tree.map(lambda x: x[0], trajectory), ()))
    learner = Learner(None, lambda key: theta, LocalUpdate(*[lambda *rest: None] * 5), pooling=pooling)
    uploads = Theta(jnp.ones((3, 2)), -jnp.ones((3, 1)), Filters(trajectory, ()))
    states = []
    for server in (None, optax.adam(0.1)):
        algorithm = fedavg(lambda environment: learner, server=server)(federation(3))
        states.append(received(algorithm, algorithm.init(keys.of_seed(0)), uploads)[0])
    plain, adam = states
    for a, b in zip(jax.tree.leaves(plain.theta.filters), jax.tree.leaves(adam.theta.filters), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(adam.theta.actor, [0.1, 0.1], rtol=1e-4)
    np.testing.assert_allclose(adam.theta.critic, [-0.1], rtol=1e-4)
    assert not jax.tree.leaves(adam.kept[0].mu.filters)


def test_a_part_of_ones_own():
    """A rule of one line: the server forgets half of what it knows before it adds what came."""
    from fedrl.algorithms.server_rules import ServerRule

    def forgetting(federation, learner):
        return ServerRule(lambda server, moved, cohort, key: (server._replace(theta=0.5 * server.theta + moved), {}))

    algorithm = federated(forgetting, LEARNER, combine=mean)(federation(3))
    after, _ = received(algorithm, ServerState(jnp.full((4, 3), 8.0), jnp.int32(0)), everywhere(1.0, 2.0, 3.0))
    np.testing.assert_allclose(after.theta, np.full((4, 3), 6.0), rtol=1e-6)

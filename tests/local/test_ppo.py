"""PPO's iteration checked by hand on a tiny cart-pole, what a client keeps, the same bits on every engine (about 40 s)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_runs import end_state

from fedrl import keys
from fedrl.algorithms.fedavg import Model, fedavg
from fedrl.engines import processes as workers
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.engines.processes import processes
from fedrl.environments import cart_pole, mountain_car
from fedrl.federation import Federation, Profile
from fedrl.local.ppo import Iterate, ppo
from fedrl.local.steps import constant, decaying, sgd
from fedrl.local.trust import adaptive_kl, clipped
from fedrl.policies.mlp import mlp
from fedrl.records.measure import sampled_return
from fedrl.rollouts.episodes import Trajectory
from fedrl.round import learn, work
from fedrl.types import Client

STEPS, COPIES, GAMMA, LAM = 32, 2, 0.9, 0.8
CART = cart_pole.environment(GAMMA, limit=7)
WORLDS = cart_pole.evenly(3, "force", 60.0, 70.0)  # some poles fall before their seven steps are over
TINY = {
    "policy": mlp(8, last=0.1),
    "value": (8,),
    "steps": STEPS,
    "copies": COPIES,
    "epochs": 2,
    "minibatch": 16,
    "critic_epochs": 2,
    "critic_minibatch": 16,
    "lam": LAM,
}
UNFILTERED = {"filter_observations": False, "filter_rewards": False}


class Bench:
    """One client and its learner, moved on iteration by iteration; every iteration is compiled once."""

    def __init__(self, **settings):
        self.learner = ppo(**TINY | settings)(CART)
        key = jax.random.key(1)
        world = jax.tree.map(lambda x: x[0], WORLDS)
        memory = self.learner.memory(jnp.int32(0), key)
        self.client = Client(jnp.int32(0), world, Profile(jnp.ones(())), memory)
        self.theta = self.learner.init(key)
        self.act = jax.jit(self.learner.local.sample)
        self.learn = jax.jit(lambda local, seen, key: learn(self.learner.local, local, seen, self.client, key))

    def begin(self, round: int = 0) -> Iterate:
        message = Model(self.theta, jnp.int32(round))
        return self.learner.local.start(message, self.client, jax.random.key(2))

    def iterate(self, local: Iterate, number: int = 0) -> tuple[Trajectory, Iterate]:
        key = keys.of(jax.random.key(3), "step", number)
        seen = self.act(local, self.client, key)
        return seen, self.learn(local, seen, key)


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize(
    ("settings", "moves"),
    [
        ({"epochs": 0, "critic_epochs": 0}, [(False, False), (False, False)]),
        ({"rate": lambda round: 0.01 * round.astype(jnp.float32), "critic_rate": 0.0}, [(False, False), (True, False)]),
        ({"epochs": 0}, [(False, True), (False, True)]),
    ],
)
def test_who_moves(settings, moves):
    """Whether actor and critic do, in rounds 0 and 1."""
    bench = Bench(**settings)
    for round, (actor, critic) in enumerate(moves):
        _, after = bench.iterate(bench.begin(round))
        assert same(after.theta.actor, bench.theta.actor) != actor
        assert same(after.theta.critic, bench.theta.critic) != critic
        assert float(after.memory.obs.total) == int(after.env_steps) == STEPS  # it looked about in any case


def forward(layers, x: np.ndarray) -> np.ndarray:
    """A network of one hidden layer in float64."""
    (first, bias), (last, offset) = ([np.asarray(x, np.float64) for x in layer] for layer in layers)
    return np.tanh(x @ first + bias) @ last + offset


def advantages(seen: Trajectory, critic, *, bootstrap: bool) -> np.ndarray:
    """GAE by its definition, step by step, then standardised; [copies * steps]."""
    seen = jax.tree.map(np.asarray, seen)
    value, later = (forward(critic, x.astype(np.float64))[..., 0] / (1 - GAMMA) for x in (seen.obs, seen.after))
    found = np.zeros(seen.reward.shape)
    for row in range(found.shape[0]):
        following = 0.0
        for t in reversed(range(found.shape[1])):
            done, cut = seen.done[row, t], seen.cut[row, t]
            worth = 0.0 if done or (cut and not bootstrap) else later[row, t]
            delta = seen.reward[row, t] + GAMMA * worth - value[row, t]
            following = delta + (0.0 if done or cut else GAMMA * LAM * following)
            found[row, t] = following
    return ((found - found.mean()) / found.std()).ravel()


@pytest.mark.parametrize(("bonus", "bootstrap"), [(0.0, True), (0.3, False)])
def test_one_step_by_hand(bonus, bootstrap):
    """One plain gradient step on the whole batch goes along the gradient of mean(A log pi) + bonus * entropy.

    Its length is the rate of the round: 0.1 halved every round.
    """
    bench = Bench(
        epochs=1, minibatch=STEPS, critic_epochs=0, optimiser=sgd(0.0), trust=clipped(0.2),
        rate=decaying(0.1, decay=0.5), entropy=constant(bonus), bootstrap=bootstrap, **UNFILTERED,
    )  # fmt: skip
    seen, after = bench.iterate(bench.begin())
    assert bool((seen.done & seen.alive).any())
    assert bool(seen.cut[:, :-1].any())
    advantage = jnp.asarray(advantages(seen, bench.theta.critic, bootstrap=bootstrap), jnp.float32)
    obs, choice = seen.obs.reshape(-1, 4), seen.choice.reshape(-1)

    def gain(actor):
        (kernel, bias), (last, offset) = actor
        log_pi = jax.nn.log_softmax(jnp.tanh(obs @ kernel + bias[None, :]) @ last + offset[None, :])
        taken = jnp.where(choice == 1, log_pi[:, 1], log_pi[:, 0])
        return jnp.mean(advantage * taken) - bonus * jnp.mean(jnp.sum(jnp.exp(log_pi) * log_pi, axis=1))

    gradient = jax.grad(gain)(bench.theta.actor)
    third = bench.learn(bench.begin(round=3), seen, keys.of(jax.random.key(3), "step", 0))
    for local, rate in ((after, 0.1), (third, 0.0125)):
        for moved, old, slope in zip(
            *map(jax.tree.leaves, (local.theta.actor, bench.theta.actor, gradient)), strict=True
        ):
            np.testing.assert_allclose(moved - old, rate * slope, rtol=1e-3, atol=2e-7)
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient)) > 0.01
    assert same(after.theta.critic, bench.theta.critic)


def test_what_a_client_keeps():
    """Filters are the moments of all it has seen; of three iterations it remembers the last two, oldest first."""
    bench = Bench(remember=2, warm_up=2 * STEPS)
    local, saw = bench.begin(), []
    for number in range(3):
        seen, local = bench.iterate(local, number)
        saw.append(jax.tree.map(np.asarray, seen))
    for kept, older, newer in zip(local.memory.recent, saw[1], saw[2], strict=True):
        np.testing.assert_array_equal(kept, np.concatenate([older, newer]))
    for moments, x in (
        (local.memory.obs, np.concatenate([seen.obs.reshape(-1, 4) for seen in saw])),
        (local.memory.reward, np.concatenate([seen.reward.reshape(-1, 1) for seen in saw])),
    ):
        assert float(moments.total) == len(x) == 3 * STEPS
        np.testing.assert_allclose(moments.mean, x.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(moments.squares, ((x - x.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-4, atol=1e-5)
    assert int(local.env_steps) == 3 * STEPS


def test_warm_up_fills_the_memory_and_leaves_theta():
    """Seventy steps of warm-up are three iterations of 32, of which two are remembered."""
    bench = Bench(warm_up=70, remember=2)
    (looking,) = bench.learner.opening
    message = Model(bench.theta, jnp.int32(0))
    local = jax.jit(lambda key: work(looking, message, bench.client, key))(jax.random.key(4))
    upload, memory, env_steps = looking.finish(local, bench.client)
    assert upload == ()
    assert same(local.theta, bench.theta)
    assert float(memory.obs.total) == float(memory.reward.total) == int(env_steps) == 96
    assert bool(memory.recent.alive.all())  # both places are taken
    assert same((memory.actor, memory.critic), (bench.client.memory.actor, bench.client.memory.critic))


def test_penalty_coefficient_follows_the_kl():
    """No step, no KL: beta is halved. A step far beyond the target: doubled. It stays in the client's memory."""
    bench = Bench(
        trust=adaptive_kl(1e-4), rate=lambda round: jnp.where(round == 0, 0.0, 0.05), optimiser=sgd(0.0), epochs=1
    )
    _, still = bench.iterate(bench.begin(round=0))
    assert float(still.memory.beta) == 0.5
    _, far = bench.iterate(bench.begin(round=1))
    assert float(far.memory.beta) == 2.0
    _, again = bench.iterate(still, 1)
    assert float(again.memory.beta) == 0.25


@pytest.mark.parametrize("task", ["cart-pole", "mountain car"])
def test_every_engine_gives_the_same_bits(task):
    """On the mountain with a warm-up, and on a worker process too."""
    look = sampled_return(1, horizon=5)
    if task == "cart-pole":
        method, where = fedavg(ppo(**TINY, local_steps=2)), Federation(CART, WORLDS)
    else:
        method = fedavg(ppo(**TINY, remember=1, warm_up=STEPS, trust=adaptive_kl()))
        where = Federation(mountain_car.environment(limit=20), mountain_car.shifts("low", 3))
    alone = end_state(method, one_at_a_time(), where, look, rounds=2)
    assert end_state(method, fused("map"), where, look, rounds=2) == alone
    if task == "mountain car":
        assert end_state(method, processes(1), where, look, rounds=2) == alone
        workers.stop()


def test_uneven_rows_are_refused():
    with pytest.raises(ValueError, match="steps must be a positive multiple of copies, got 31 and 2"):
        ppo(steps=31, copies=2)

"""What the tests of the actor-critics share: one client moved on step by step, its advantages by hand, two whole runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from support.engine_runs import end_state

from fedrl import keys
from fedrl.algorithms.fedavg import fedavg
from fedrl.core.client import learn
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import cart_pole, mountain_car
from fedrl.evaluation import sampled_return
from fedrl.federations.federation import Federation, Profile
from fedrl.learners.iteration import Iterate
from fedrl.learners.optimizers import decaying, sgd
from fedrl.policies.mlp import mlp
from fedrl.training import train
from fedrl.types import BuildLearner, Client, Model, Trajectory

STEPS, COPIES, GAMMA, LAM = 32, 2, 0.9, 0.8
CART = cart_pole.environment(GAMMA, max_episode_steps=7)
POLES = Federation(CART, cart_pole.evenly(3, "force", 60.0, 70.0))  # some fall before their seven steps are over
CARS = Federation(mountain_car.environment(GAMMA, max_episode_steps=20), mountain_car.shifts("low", 3))
LOOK = sampled_return(1, horizon=5)
TINY = {
    "policy": mlp(8, last=0.1),
    "value": (8,),
    "steps": STEPS,
    "num_envs": COPIES,
    "critic_epochs": 2,
    "critic_minibatch": 16,
    "gae_lambda": LAM,
}
PASSES = {"epochs": 2, "minibatch": 16}
UNFILTERED = {"filter_observations": False, "filter_rewards": False}
ONE_STEP = {  # a plain gradient step on the whole batch, 0.1 long and halved every round
    "epochs": 1,
    "minibatch": STEPS,
    "critic_epochs": 0,
    "optimizer": sgd(0.0),
    "learning_rate": decaying(0.1, decay=0.5),
}


class Bench:
    """One client and its learner, moved on iteration by iteration; every iteration is compiled once."""

    def __init__(self, learner: BuildLearner, where: Federation = POLES):
        self.learner = learner(where.environment)
        key = jax.random.key(1)
        env_params = jax.tree.map(lambda x: x[0], where.env_params)
        memory = self.learner.memory(jnp.int32(0), key)
        self.client = Client(jnp.int32(0), env_params, Profile(jnp.ones(())), memory)
        self.theta = self.learner.init(key)
        self.act = jax.jit(self.learner.local.sample)
        self.learn = jax.jit(
            lambda local, trajectory, key: learn(self.learner.local, local, trajectory, self.client, key)
        )

    def begin(self, round: int = 0) -> Iterate:
        message = Model(self.theta, jnp.int32(round))
        return self.learner.local.start(message, self.client, jax.random.key(2))

    def iterate(self, local: Iterate, number: int = 0) -> tuple[Trajectory, Iterate]:
        key = keys.of(jax.random.key(3), "step", number)
        trajectory = self.act(local, self.client, key)
        return trajectory, self.learn(local, trajectory, key)


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def forward(layers, x: np.ndarray) -> np.ndarray:
    """A network of one hidden layer in float64."""
    (first, bias), (last, offset) = ([np.asarray(x, np.float64) for x in layer] for layer in layers)
    return np.tanh(x @ first + bias) @ last + offset


def advantages(trajectory: Trajectory, critic, *, bootstrap: bool = True) -> np.ndarray:
    """GAE by its definition, step by step, then standardised; [copies * steps]."""
    trajectory = jax.tree.map(np.asarray, trajectory)
    value, later = (
        forward(critic, x.astype(np.float64))[..., 0] / (1 - GAMMA) for x in (trajectory.obs, trajectory.after)
    )
    found = np.zeros(trajectory.reward.shape)
    for row in range(found.shape[0]):
        following = 0.0
        for t in reversed(range(found.shape[1])):
            terminated, truncated = trajectory.terminated[row, t], trajectory.truncated[row, t]
            worth = 0.0 if terminated or (truncated and not bootstrap) else later[row, t]
            delta = trajectory.reward[row, t] + GAMMA * worth - value[row, t]
            following = delta + (0.0 if terminated or truncated else GAMMA * LAM * following)
            found[row, t] = following
    return ((found - found.mean()) / found.std()).ravel()


def goes_along_the_gradient(bench: Bench, bonus: Callable, *, bootstrap: bool = True) -> None:
    """With the settings ONE_STEP: of mean(A log pi) + bonus, a function of the log-probabilities [rows, actions]."""
    trajectory, after = bench.iterate(bench.begin())
    assert bool((trajectory.terminated & trajectory.alive).any())
    assert bool(trajectory.truncated[:, :-1].any())
    advantage = jnp.asarray(advantages(trajectory, bench.theta.critic, bootstrap=bootstrap), jnp.float32)
    obs, choice = trajectory.obs.reshape(-1, 4), trajectory.choice.reshape(-1)

    def gain(actor):
        (kernel, bias), (last, offset) = actor
        log_pi = jax.nn.log_softmax(jnp.tanh(obs @ kernel + bias[None, :]) @ last + offset[None, :])
        taken = jnp.where(choice == 1, log_pi[:, 1], log_pi[:, 0])
        return jnp.mean(advantage * taken) + bonus(log_pi)

    gradient = jax.grad(gain)(bench.theta.actor)
    third = bench.learn(bench.begin(round=3), trajectory, keys.of(jax.random.key(3), "step", 0))
    for local, learning_rate in ((after, 0.1), (third, 0.0125)):
        for moved, old, slope in zip(
            *map(jax.tree.leaves, (local.theta.actor, bench.theta.actor, gradient)), strict=True
        ):
            np.testing.assert_allclose(moved - old, learning_rate * slope, rtol=1e-3, atol=2e-7)
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient)) > 0.01
    assert same(after.theta.critic, bench.theta.critic)


def same_bits_fused(learner: BuildLearner, where: Federation) -> list[bytes]:
    """What two rounds end with, the same one at a time and in one program."""
    alone = end_state(fedavg(learner), one_at_a_time(), where, LOOK, rounds=2)
    assert end_state(fedavg(learner), fused("map"), where, LOOK, rounds=2) == alone
    return alone


def return_after(rounds: int, learner: Callable[..., BuildLearner], **settings) -> float:
    """Of two equal cart-poles, on average over two seeds; 200 is the most, a policy that knows nothing has about 20.

    It is the same, and so is theta to the bit, one at a time and in one program.
    """
    where = Federation(cart_pole.environment(max_episode_steps=200), cart_pole.start_ranges(2, 0.05, 0.05))
    builds = learner(policy=mlp(16, last=0.01), value=(16,), steps=512, num_envs=4, filter_rewards=False, **settings)
    alone, together = (
        train(
            fedavg(builds),
            where,
            rounds=rounds,
            seeds=2,
            engine=engine,
            evaluation=sampled_return(5),
            eval_every=rounds,
        )
        for engine in (one_at_a_time(), fused("map"))
    )
    assert same((alone.theta, alone.returns), (together.theta, together.returns))
    return alone.returns.mean()

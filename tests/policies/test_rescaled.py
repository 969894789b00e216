"""`fedrl.gymnasium(rescale=True)`: the saved policy knows every client's bounds (about 30 s)."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.evaluation import sampled_return
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import mlp
from fedrl.policies.saved import SavedPolicy
from fedrl.records import policy_file

LEARNER = ppo(
    policy=mlp(8), value=(8,), steps=64, num_envs=2, epochs=2, minibatch=32, critic_epochs=1, critic_minibatch=32,
    learning_rate=1e-2, filter_observations=False,
)  # fmt: skip
LENGTH = 8


class Hit(gym.Env):
    """The best action is the observation itself, which walks from 0 to `top` in every episode."""

    def __init__(self, top: float):
        self.observation_space, self.action_space, self.top = Box(0, top, (1,)), Box(0, top, (1,)), top

    def seen(self) -> np.ndarray:
        return np.full(1, self.top * self.time / LENGTH, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action):
        reward = -abs(float(action[0] - self.seen()[0]))
        self.time += 1
        return self.seen(), reward, False, self.time >= LENGTH, {}


def earned(act, env: gym.Env) -> float:
    seen, _ = env.reset()
    total, over = 0.0, False
    while not over:
        seen, reward, _, over, _ = env.step(act(seen))
        total += reward
    return total


def trained(make_env, out=None) -> fedrl.Run:
    where = fedrl.gymnasium(make_env, clients=2, rescale=True)
    return fedrl.train(
        fedavg(LEARNER),
        where,
        rounds=1,
        engine=one_at_a_time(),
        evaluation=sampled_return(1, deterministic=True),
        out=out,
    )


def test_clients_with_the_same_bounds(tmp_path):
    run = trained(lambda client: Hit(10.0), tmp_path)
    for policy in (run.policy(), run.policy(client=1), fedrl.load(tmp_path).policy()):
        np.testing.assert_allclose(earned(policy, Hit(10.0)), run.returns[0, 1], rtol=1e-4)
    assert run.saved.header["actions"]["high"] == 10.0


def test_clients_with_bounds_of_their_own_and_new_ones(tmp_path):
    tops = (10.0, 3.0)
    run = trained(lambda client: Hit(tops[client]), tmp_path)
    loaded = fedrl.load(tmp_path)
    for client, top in enumerate(tops):
        np.testing.assert_allclose(earned(loaded.policy(client=client), Hit(top)), run.returns[0, client], rtol=1e-4)
    with pytest.raises(
        ValueError, match=r"the clients' bounds differ here; pass client=0 to 1, or .*observation_space="
    ):
        loaded.policy()
    new = Hit(3.0)
    act = loaded.policy(observation_space=new.observation_space, action_space=new.action_space)
    np.testing.assert_allclose(earned(act, new), run.returns[0, 1], rtol=1e-4)
    with pytest.raises(ValueError, match=r"observation_space is Box\(0.0, 1.0, \(2,\), float32\), expected one like"):
        loaded.policy(observation_space=Box(0, 1, (2,)), action_space=new.action_space)


def test_a_client_that_does_not_open_when_the_policy_is_saved():
    def make_env(client: int) -> gym.Env:
        if client == 1:
            raise RuntimeError("gone")
        return Hit(10.0 + client)

    header = policy_file._spaces(fedrl.gymnasium(make_env, clients=3, rescale=True))
    assert [space and space["high"] for space in header["own_actions"]] == [10.0, None, 12.0]
    file = SavedPolicy({}, header | {"clients": 3})
    assert file._space("actions", 2, None)["high"] == 12.0
    with pytest.raises(
        ValueError, match="client 1's environment could not be opened when the policy was saved, so its bounds are"
    ):
        file._space("actions", 1, None)

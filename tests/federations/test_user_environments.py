"""Environments as users bring them: real ones train, faulty ones are named in a sentence, nothing is lost (about 30 s)."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.evaluation import sampled_return
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import mlp
from fedrl.records import log

TINY = fedavg(
    ppo(policy=mlp(8), value=(8,), steps=32, num_envs=2, epochs=1, minibatch=32, critic_epochs=1, critic_minibatch=32)
)
SHORT = sampled_return(2, horizon=20)


pytestmark = pytest.mark.usefixtures("travelling")


def train(make_env, *, clients: int = 2, engine=None, evaluation=SHORT, rounds: int = 1, **options) -> fedrl.Run:
    where = fedrl.gymnasium(make_env, clients)
    return fedrl.train(TINY, where, rounds=rounds, engine=engine or one_at_a_time(), evaluation=evaluation, **options)


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "FrozenLake-v1"])
def test_real_environments_train(name):
    run = train(lambda client_id: gym.make(name))
    assert [row["round"] for row in run.rows] == [0, 1]
    assert run.rows[-1]["train/update_norm"] > 0
    assert run.rows[-1]["env_steps"] == 2 * 32
    assert run.returns.shape == (1, 2)
    assert np.isfinite(run.returns).all()


class Walk(gym.Env):
    """A walk on a line that ends far out. What one step answers may be changed by `odd(steps so far, answer)`."""

    def __init__(self, odd=None, actions=None, size: int = 1, far: float = 5.0):
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = actions or Discrete(2)
        self.odd, self.far, self.steps = odd, far, 0

    def seen(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self.place, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1.0, 1.0)
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        self.place += 2.0 * float(action) - 1.0
        answer = self.seen(), -abs(self.place), abs(self.place) > self.far, False, {}
        return self.odd(self.steps, answer) if self.odd else answer


def client_1(**fault):
    """Walks of which client 1's has a fault."""
    return lambda client_id: gym.wrappers.TimeLimit(Walk(**fault if client_id == 1 else {}), 15)


def bad_observation(steps, answer):
    return (np.full(1, np.nan, np.float32), *answer[1:]) if steps > 9 else answer


def bad_reward(steps, answer):
    return (answer[0], np.inf, *answer[2:]) if steps > 9 else answer


def stuck(steps, answer):
    if steps > 9:
        raise KeyError("door")
    return answer


def missing(client_id: int) -> gym.Env:
    if client_id == 1:
        raise FileNotFoundError("no map of this town")
    return Walk()


FAULTS = {
    "observations of another size": (client_1(size=3), "client 1: observation space Box.* expected client 0's"),
    "other actions": (client_1(actions=Discrete(3)), r"client 1: action space Discrete\(3\), expected client 0's"),
    "an observation that is no number": (
        client_1(odd=bad_observation),
        r"client 1, copy 0: observation \[nan\] is not",
    ),
    "an infinite reward": (client_1(odd=bad_reward), "client 1, copy 0: reward inf is not finite"),
    "a step that raises": (client_1(odd=stuck), "client 1: step raised KeyError: 'door'"),
    "an observation of another shape": (
        client_1(odd=lambda steps, answer: (np.zeros(2, np.float32), *answer[1:])),
        r"client 1, copy 0: the observation of step is an array of shape \(2,\), expected \(1,\)",
    ),
    "no reward": (
        client_1(odd=lambda steps, answer: (answer[0], None, *answer[2:])),
        "client 1, copy 0: reward is None",
    ),
    "a maker that raises": (missing, "client 1: make_env raised FileNotFoundError: no map of this town"),
}


def is_one_sentence(error: pytest.ExceptionInfo) -> None:
    text = str(error.value)
    assert "\n" not in text
    assert ";" in text  # what came; what to do


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    make_env, said = FAULTS[fault]
    with pytest.raises(EnvironmentFailed, match=said) as error:
        train(make_env)
    is_one_sentence(error)
    assert "exclude this client" in str(error.value)


@pytest.mark.parametrize("fault", ["an infinite reward", "a maker that raises"])
def test_a_fault_on_a_worker_is_named(fault):
    make_env, said = FAULTS[fault]
    with pytest.raises(EnvironmentFailed, match=said) as error:
        train(make_env, engine=processes(1))
    is_one_sentence(error)


def test_unsupported_actions_are_named_at_once():
    with pytest.raises(EnvironmentFailed, match=r"client 0: actions come from Tuple\(.*\), supported are") as error:
        fedrl.gymnasium(lambda client_id: Walk(actions=Tuple((Discrete(2), Discrete(2)))), clients=2)
    is_one_sentence(error)


@pytest.mark.parametrize("engine", [one_at_a_time, lambda: processes(1)], ids=["here", "on a worker"])
def test_an_environment_that_never_ends_is_named(engine):
    """Client 0's ends, client 1's does not, and neither has a time limit."""
    with pytest.raises(
        EnvironmentFailed, match="client 1: an episode has not ended after 10000 steps .* max_episode_steps=1000"
    ) as error:
        train(lambda client_id: Walk(far=np.inf if client_id else 1.5), evaluation=sampled_return(1), engine=engine())
    is_one_sentence(error)


def one_round_a_call(engine):
    """The engine, but each round is a call and may be saved on its own."""
    return lambda *arguments: engine(*arguments)._replace(most=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("policy.safetensors", "returns.safetensors")}


def test_nothing_is_lost(tmp_path):
    """Client 1's environment breaks in round 3; when it is mended the run goes on and ends as if nothing had happened."""
    broken, folder = tmp_path / "broken", tmp_path / "run"

    def breaking(steps, answer):
        if broken.exists():
            raise ConnectionError("the robot does not answer")
        return answer

    def play(out: Path, engine, callback=None) -> fedrl.Run:
        return train(
            client_1(odd=breaking),
            rounds=4,
            out=out,
            engine=one_round_a_call(engine),
            callback=callback,
            warn=pytest.fail,
        )

    undisturbed = play(tmp_path / "undisturbed", one_at_a_time())
    assert len(undisturbed.rows) == 5

    def break_it(row, rounds) -> None:
        if row["round"] == 2:
            broken.touch()

    with pytest.raises(EnvironmentFailed, match="client 1: step raised ConnectionError: the robot does not answer"):
        play(folder, processes(1), break_it)
    assert [row["round"] for row in log.read(folder / "log.jsonl")] == [0, 1, 2]
    assert max(file.name for file in (folder / "checkpoint").glob("*.json")).endswith("2.json")
    assert not (folder / "policy.safetensors").exists()

    broken.unlink()
    seen: list[int] = []
    run = play(folder, processes(1), lambda row, rounds: seen.append(row["round"]))
    assert seen == [3, 4]  # rounds 1 and 2 are not played again
    assert [row["round"] for row in run.rows] == [0, 1, 2, 3, 4]
    assert [row["return"] for row in run.rows] == pytest.approx([row["return"] for row in undisturbed.rows], abs=0)
    assert contents(folder) == contents(tmp_path / "undisturbed")

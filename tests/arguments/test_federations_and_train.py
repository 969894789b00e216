"""Mistakes in federations, in their worlds, and in what `train` is given."""

import gymnasium as gym
import numpy as np
import pytest
from support.federations import environment
from support.mistakes import FED, MDPS, ONE, STEPS, WHERE, Mistakes, answered, method, trained

import fedrl
from fedrl.algorithms import fedavg
from fedrl.algorithms.fedpg import b_rs_fedpg
from fedrl.engines.ray_cluster import ray
from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import finite, random_mdp
from fedrl.environments.tabular.finite import MDP
from fedrl.evaluation import exact_return, sampled_return
from fedrl.federations.federation import Federation
from fedrl.learners import ppo
from fedrl.policies.softmax import softmax_table

PPO, AVG = ppo, fedavg
POLES = cart_pole.evenly(3, "half_length", 0.3, 0.7)

WRONG: Mistakes = {
    "no environment": (
        lambda: Federation(environment=3, env_params=None),
        "environment must be an environment such as .*, got 3",
    ),
    "no worlds": (lambda: Federation(WHERE, None), "env_params must be arrays with a leading client axis.*, got None"),
    "swapped worlds": (
        lambda: Federation(MDPS, WHERE),
        r"environment and env_params are swapped; write Federation\(environment,",
    ),
    "one MDP": (lambda: Federation(WHERE, ONE), r"one MDP, with a kernel of shape \(4, 3, 4\), .* or \[mdp\] \* 3"),
    "ragged": (
        lambda: Federation(WHERE, MDPS._replace(reward=[[1.0], [2.0, 3.0]])),
        "reward must be an array of numbers",
    ),
    "too many states": (
        lambda: Federation(environment(5), MDPS),
        "the environment has 5 states and 3 actions, the MDPs have",
    ),
    "drawn too large": (
        lambda: Federation(environment(5), random_mdp.dense(4, 3, 0.5), clients=2),
        r"the MDPs have \(4, 3\); write finite.environment\(states=4, actions=3, gamma=…\)",
    ),
    "drawn from nothing": (
        lambda: Federation(WHERE, lambda: ONE, clients=2),
        r"called as env_params\(key, client_id\), but",
    ),
    "MDPs differ": (lambda: Federation(WHERE, [ONE, MDP(*(x[:2] for x in ONE))]), "the clients' MDPs differ in size"),
    "half a client": (
        lambda: Federation(WHERE, MDPS, clients=2.5),
        "clients must be a whole number, got 2.5; write clients=20",
    ),
    "states": (lambda: finite.environment(states=2.5, actions=2, gamma=0.9), "states expects a whole number, got 2.5"),
    "an unknown id": (lambda: fedrl.gymnasium("CartPol-v1", clients=2), '"CartPol-v1": .*Did you mean: `CartPole`'),
    "an id alone": (lambda: fedrl.gymnasium("CartPole-v1"), r"missing clients; write gymnasium\(make_env, clients\)"),
    "swapped id": (
        lambda: fedrl.gymnasium(8, "CartPole-v1"),
        r"make_env and clients are swapped; write gymnasium\(make_env",
    ),
    "an environment": (
        lambda: fedrl.gymnasium(gym.make("CartPole-v1"), 2),
        'expects a function or text, got a .*"CartPole-v1"',
    ),
    "plain tuples": (
        lambda: Federation(WHERE, [tuple(ONE)] * 2),
        "of type MDP, got a list of tuple; pass finite MDPs",
    ),
    "kernels": (lambda: Federation(WHERE, MDPS.kernel), r"of type MDP, got an array of shape \(3, 4, 3, 4\)"),
    "poles": (lambda: Federation(WHERE, POLES), "of type MDP, got a CartPole; pass finite MDPs"),
    "MDPs for poles": (
        lambda: Federation(cart_pole.environment(), MDPS),
        "of type CartPole, got a MDP; pass cart_pole.ev",
    ),
    "uncalled worlds": (
        lambda: Federation(WHERE, random_mdp.dense, clients=3),
        "env_params=dense is not called; write env_params=den",
    ),
    "one rank less": (
        lambda: Federation(WHERE, lambda key, i: ONE._replace(kernel=ONE.kernel[0]), clients=3),
        r"must return one MDP with kernel \[S, A, S\].*, got \(3, 4\), \(4, 3\) and \(4,\)",
    ),
    "negative weight": (
        lambda: Federation(WHERE, MDPS, weight=[1, -1, 1]),
        r"3 positive .* got \[1.0, -1.0, 1.0\]",
    ),
    "infinite weight": (
        lambda: Federation(WHERE, MDPS, weight=[1, np.inf, 1]),
        r"positive finite numbers, .* got \[1.0, inf, 1.0\]",
    ),
    "weights": (lambda: Federation(WHERE, MDPS, weights=[1, 1, 1]), r"no argument 'weights'; did you mean weight\?"),
    "num_clients": (
        lambda: Federation(WHERE, MDPS, num_clients=3),
        r"no argument 'num_clients'; did you mean clients\?",
    ),
    "an id of two": (
        lambda: fedrl.pettingzoo("simple_v3", max_episode_steps=10),
        "got the text 'simple_v3'; give a function without arguments that makes one",
    ),
    "a factory of one": (
        lambda: fedrl.pettingzoo(lambda client: 3, max_episode_steps=10),
        "that cannot be called with no argument; give a function without",
    ),
    "no game": (
        lambda: fedrl.pettingzoo(lambda: 3, max_episode_steps=10),
        "must return a PettingZoo parallel environment, .* AttributeError: 'int' .*; call make_env",
    ),
    "a game that fails": (
        lambda: fedrl.pettingzoo(lambda: 1 / 0, max_episode_steps=10),
        "raised ZeroDivisionError: division by zero",
    ),
    # train
    "swapped": (lambda: trained(FED, method()), r"method and federation are swapped; write train\(method, federation"),
    "half a round": (lambda: trained(method(), FED, rounds=2.5), "rounds expects a whole number, got 2.5"),
    "seeds in text": (
        lambda: trained(method(), FED, seeds="3"),
        "seeds expects a whole number.* seeds=3 without quotes",
    ),
    "engine in text": (lambda: trained(method(), FED, engine="ray"), r"write engine=ray\(\) after `from fedrl\.engin"),
    "uncalled engine": (lambda: trained(method(), FED, engine=ray), r"engine=ray is not called; write engine=ray\(\)"),
    "uncalled measure": (
        lambda: trained(method(), FED, evaluation=sampled_return),
        r"write evaluation=sampled_return\(\)",
    ),
    "uncalled method": (lambda: trained(AVG, FED), r"method=fedavg is not called; write method=fedavg\(learner\)"),
    "a learner": (lambda: trained(PPO(), FED), r"expects a method, got a learner, ppo\(…\); write fedavg\(ppo\(…\)\)"),
    "an id": (
        lambda: trained(method(), "CartPole-v1"),
        'expects a Federation.* give fedrl.gymnasium\\("CartPole-v1", clients=8',
    ),
    "num_rounds": (lambda: fedrl.train(method(), FED, num_rounds=2), r"did you mean rounds\?"),
    "no rounds": (lambda: fedrl.train(method(), FED), r"missing rounds; write train\(method, federation, rounds=…\)"),
    "negative rounds": (lambda: trained(method(), FED, rounds=-1), "rounds must be a finite number at least 1, got -1"),
    "measure as engine": (lambda: trained(method(), FED, engine=sampled_return()), "expects an engine.*, got a measur"),
    "a table of bits": (
        lambda: trained(b_rs_fedpg(batch=1, lam=0.1, policy=softmax_table(), **STEPS), FED),
        r"needs a bit-level policy, one decision for each of the 2 bits .* with 1 for 3 actions; use bit_softmax",
    ),
    "a large seed": (lambda: trained(method(), seed=2**32), r"seeds go up to 2\*\*32 - 1, got 1 from 4294967296 on"),
    "too many seeds": (
        lambda: trained(method(), seed=2**32 - 1, seeds=2),
        "got 2 from 4294967295 on; choose a smaller",
    ),
    "half a start": (
        lambda: exact_return(start=np.array([0.5, 0, 0, 0])),
        r"got \[0.5, 0.0, 0.0, 0.0\]; divide it by its sum",
    ),
    "a start too short": (
        lambda: trained(method(), evaluation=exact_return(start=[0.5, 0.5, 0])),
        "start has 3 states, the MDPs 4; give one probability per state",
    ),
    "exact poles": (
        lambda: trained(AVG(PPO()), Federation(cart_pole.environment(), POLES), evaluation=exact_return()),
        r"exact_return solves finite MDPs, .* CartPole; use evaluation=sampled_return\(\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    answered(WRONG[name], monkeypatch)


def test_drawn_worlds_are_looked_at_before_the_first_round(tmp_path):
    halved = Federation(WHERE, lambda key, i: ONE._replace(kernel=0.5 * ONE.kernel), clients=3)
    with pytest.raises(ValueError, match=r"kernel row \(0, 0, 0\) is not a distribution: it sums to 0.5"):
        trained(method(), halved, out=tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_a_start_may_be_a_list():
    lists, arrays = (
        trained(method(), evaluation=exact_return(start=start))
        for start in ([0.5, 0.5, 0, 0], np.float32([0.5, 0.5, 0, 0]))
    )
    np.testing.assert_array_equal(lists.returns, arrays.returns)

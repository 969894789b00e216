"""What builders do with arguments that are right: pass them on, remember them, and take numbers of any library."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mistakes import FED, MDPS, ONE, STEPS, WHERE, trained

import fedrl
from fedrl.algorithms import alone, fapi, fapi_networks, fed_q_learning, fedavg, fedhapg_m, fedsvrpg_m, fmarl
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.arguments import checked
from fedrl.arguments.fits import FACTORIES
from fedrl.core.client import all_steps
from fedrl.environments.tabular.finite import MDP
from fedrl.faults import leave_out
from fedrl.federations.federation import Federation
from fedrl.keys import of_seed
from fedrl.learners import optimizers, ppo, reinforce, tac, trpo
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.decay import exponential
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.optimizers import as_schedule, constant
from fedrl.learners.proximal import proximal
from fedrl.learners.surrogates import clipped
from fedrl.policies.mlp import mlp
from fedrl.selection.fedpohcs import fedpohcs
from fedrl.selection.participation import uniform
from fedrl.types import Client, Model

PPO, TAC, TRPO, AVG = ppo, tac, trpo, fedavg

BUILDERS = [
    *(
        PPO,
        TRPO,
        TAC,
        AVG,
        pavg,
        s_fedpg,
        rs_fedpg,
        b_rs_fedpg,
        alone,
        fmarl,
        gradient_learner,
        fedrl.train,
    ),
    *(fed_q_learning, fedsvrpg_m, fedhapg_m, fedrl.gymnasium, fedrl.pettingzoo),
    *(fapi_networks.deep_fapi_with_federated_evaluation, fapi_networks.deep_fapi_without_federated_evaluation),
    *(fapi.fapi_with_federated_evaluation, fapi.fapi_without_federated_evaluation),
]


def test_every_setting_is_in_the_signature():
    checked_ones = [call for call in FACTORIES if call.__module__.startswith("fedrl.")]
    assert set(BUILDERS) <= set(checked_ones)
    for call in checked_ones:
        kinds = {p.kind for p in inspect.signature(call).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, call


@pytest.mark.parametrize("build", [PPO, TRPO, TAC])
def test_the_settings_of_actor_critics_have_one_place_and_arrive(build, monkeypatch):
    parameters = inspect.signature(build).parameters
    defaults = vars(ActorCritic())
    assert {name: parameters[name].default for name in defaults} == defaults
    other = {
        "policy": mlp(4), "value": (3,), "value_last": 0.5, "steps": 12, "num_envs": 3, "local_steps": 2,
        "critic_optimizer": optimizers.sgd(), "critic_learning_rate": 0.5, "critic_epochs": 7, "critic_minibatch": 5,
        "gae_lambda": 0.5, "filter_observations": False, "filter_rewards": False, "filters": "own", "bootstrap": False,
        "warm_up": 24, "remember": 2,
    }  # fmt: skip
    assert other.keys() == defaults.keys()
    assert not any(other[name] == defaults[name] for name in defaults)
    monkeypatch.setitem(build.__wrapped__.__globals__, "actor_critic", lambda improvement, settings: settings)
    assert vars(build(**other)) == other


@pytest.mark.parametrize(
    "build",
    [fapi_networks.deep_fapi_with_federated_evaluation, fapi_networks.deep_fapi_without_federated_evaluation],
)
def test_deep_fapi_takes_and_passes_on_all_of_ppo(build, monkeypatch):
    defaults = {name: p.default for name, p in inspect.signature(PPO).parameters.items()}
    own = {name: p.default for name, p in inspect.signature(build).parameters.items() if name in defaults}
    assert own.keys() == defaults.keys()
    plain = [name for name, value in defaults.items() if isinstance(value, int | float | str) or name == "value"]
    assert all(own[name] == defaults[name] for name in plain)
    came = []
    monkeypatch.setitem(
        build.__wrapped__.__globals__, "ppo", lambda **settings: came.append(settings) or PPO(**settings)
    )
    other = dict.fromkeys(sorted(defaults))
    other |= {
        "trust": clipped(0.3),
        "optimizer": optimizers.sgd(),
        "learning_rate": 0.5,
        "epochs": 3,
        "minibatch": 5,
        "entropy": 0.25,
    }
    other |= {
        "policy": mlp(4),
        "value": (3,),
        "value_last": 0.5,
        "steps": 12,
        "num_envs": 3,
        "local_steps": 2,
        "critic_optimizer": optimizers.sgd(0.5),
        "critic_learning_rate": 0.5,
    }
    other |= {
        "critic_epochs": 7,
        "critic_minibatch": 5,
        "gae_lambda": 0.5,
        "filter_observations": False,
        "filter_rewards": False,
    }
    other |= {"filters": "own", "bootstrap": False, "warm_up": 24, "remember": 2}
    build(**other)
    for settings in came:
        halves = {name: 0 for name in ("epochs", "critic_epochs") if settings[name] == 0}
        assert settings == other | halves
        assert len(halves) == len(came) - 1


@pytest.mark.parametrize("number", [3e-4, 1, np.float32(0.25)])
def test_a_number_is_a_constant_schedule(number):
    for round in (0, 7):
        left, right = as_schedule("learning_rate", number)(jnp.int32(round)), constant(number)(jnp.int32(round))
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    schedule = constant(0.5)
    assert as_schedule("learning_rate", schedule) is schedule


def program(learner) -> str:
    """All that a client of finite MDPs computes in a round, as JAX sees it."""
    learns, env_params = learner(WHERE), jax.tree.map(jnp.asarray, ONE)
    client = Client(jnp.int32(0), env_params, (), learns.memory(jnp.int32(0), of_seed(0)))
    theta = learns.init(of_seed(0))
    in_a_round = jax.make_jaxpr(lambda round, key: all_steps(learns.local, Model(theta, round), client, key))
    return str(in_a_round(jnp.int32(3), of_seed(1)))


@pytest.mark.parametrize(("build", "bonus"), [(PPO, "entropy"), (TAC, "alpha")])
def test_numbers_and_constant_schedules_are_the_same_program(build, bonus):
    tiny = {
        "steps": 16,
        "num_envs": 2,
        "epochs": 1,
        "minibatch": 8,
        "critic_epochs": 1,
        "policy": mlp(4),
        "value": (4,),
    }
    with_numbers = program(build(learning_rate=1e-2, **{bonus: 0.125}, **tiny))
    assert with_numbers == program(build(learning_rate=constant(1e-2), **{bonus: constant(0.125)}, **tiny))
    assert with_numbers != program(build(learning_rate=1e-2, **{bonus: 0.25}, **tiny))
    assert with_numbers != program(build(learning_rate=2e-2, **{bonus: 0.125}, **tiny))


def test_the_exact_return_of_a_network_is_that_of_its_probabilities():
    """By hand: pi(a|s) from the network's outputs, then (I - gamma P_pi)^-1 r_pi in float64."""
    measured = trained(AVG(PPO(learning_rate=0.0, epochs=0, critic_epochs=0, steps=8, num_envs=2, policy=mlp(4))), FED)
    (first, b), (last, c) = (tuple(np.asarray(x[0], np.float64) for x in layer) for layer in measured.theta.actor)
    logits = np.tanh(np.eye(4) @ first + b) @ last + c
    pi = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for client in range(3):
        kernel, reward, start = (np.asarray(x[client], np.float64) for x in MDPS)
        chain, earned = np.einsum("sa,sat->st", pi, kernel), (pi * reward).sum(-1)
        expected = start @ np.linalg.solve(np.eye(4) - WHERE.gamma * chain, earned)
        np.testing.assert_allclose(measured.returns[0, client], expected, rtol=1e-5)


def test_lists_are_arrays_and_mdps_may_come_one_by_one():
    lists = MDP(*(np.asarray(x).tolist() for x in MDPS))
    one_by_one = [MDP(*(np.asarray(x)[i] for x in MDPS)) for i in range(3)]
    for env_params in (lists, one_by_one, tuple(one_by_one)):
        where = Federation(WHERE, env_params, weight=[1, 2, 3])
        assert where.count == 3
        for left, right in zip(where.shared(), FED.shared(), strict=True):
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype
        np.testing.assert_array_equal(where.weights(jnp.arange(3)), np.float32([1, 2, 3]))


def test_an_id_makes_a_federation():
    poles = fedrl.gymnasium("CartPole-v1", clients=3)
    assert poles.count == 3
    assert poles.environment.max_episode_steps == 500
    simulator = poles.environment.open(2, np.int32(2), 2)
    assert simulator.reset(np.arange(2), np.arange(2, dtype=np.uint64)).shape == (2, 4)
    simulator.close()


def test_what_is_built_remembers_how():
    assert uniform(3).arguments == ("uniform", {"clients": 3})
    name, arguments = pavg(**STEPS).arguments
    assert (name, arguments["eta"], arguments["batch"], arguments["server_step"]) == ("pavg", 0.1, 1, 1.0)
    assert list(arguments) == list(inspect.signature(pavg).parameters)
    direction = reinforce(horizon=3)
    assert proximal(direction, mu=0.0) is direction
    assert direction.arguments[0] == "reinforce"


def test_numpy_and_jax_numbers_are_numbers():
    @checked
    def build(*, whole: int, number: float, some: tuple[int, ...] = ()) -> tuple:
        return whole, number, some

    assert build(whole=np.int64(3), number=np.float32(0.5), some=[1, 2]) == (3, 0.5, [1, 2])
    assert build(whole=jnp.int32(3), number=jnp.float32(0.5)) == (3, 0.5, ())
    assert build(whole=3, number=3) == (3, 3, ())
    with pytest.raises(TypeError, match=r"whole expects a whole number, got a .* of shape \(2,\)"):
        build(whole=np.arange(2), number=1.0)


def test_signatures_and_docs_stay_as_they_were_written():
    assert exponential.__name__ == "exponential"
    assert "Eq. 21" in exponential.__doc__
    assert str(inspect.signature(exponential)).startswith("(lam: float)")


def test_numbers_of_numpy_are_taken_and_kept_as_pythons_own():
    faults = leave_out(quorum=np.int64(2), in_a_row=np.int64(2), deadline=np.float32(60), largest_norm=jnp.float32(2))
    assert faults[1:] == (2, 2, 60.0, 2.0)
    assert [type(value) for value in faults[1:]] == [int, int, float, float]
    assert leave_out(quorum=np.float64(0.5)).required(3) == 2
    assert fedpohcs(3, 2, phases=np.int64(2)).arguments[1]["phases"] == 2

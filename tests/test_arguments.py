"""What anybody would write at first is answered with a sentence, before anything compiles."""

import inspect
import math
import re
import time

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from federations import environment, federation, random_worlds

import fedrl
from fedrl import argument_errors
from fedrl.algorithms import alone, fapi, fapi_networks, fed_q_learning, fedavg, fedhapg_m, fedsvrpg_m, fmarl
from fedrl.algorithms.fedavg import Model, pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.arguments import checked
from fedrl.engines.ray_cluster import ray
from fedrl.environments import finite, random_mdp
from fedrl.environments.finite import MDP
from fedrl.federation import Federation
from fedrl.keys import of_seed
from fedrl.local import hapg, ppo, q_learning, reinforce, steps, svrpg, tac, trpo
from fedrl.local.actor_critic_records import ActorCritic
from fedrl.local.ascent import steps_along
from fedrl.local.decay import exponential
from fedrl.local.proximal import proximal
from fedrl.local.steps import as_rate, constant, dropping
from fedrl.local.trust import clipped
from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.greedy import greedy_table
from fedrl.policies.mlp import mlp
from fedrl.policies.softmax import softmax_table
from fedrl.records.measure import sampled_return
from fedrl.round import work
from fedrl.selection.by_loss import power_of_choice
from fedrl.selection.participation import uniform
from fedrl.theory.bit_level import projection_radius
from fedrl.types import Client

PPO, TAC, TRPO, AVG = ppo.ppo, tac.tac, trpo.trpo, fedavg.fedavg
STEPS = {"eta": 0.1, "local_steps": 2, "horizon": 8}
MDPS = random_worlds(3)
FED = federation(3)
WHERE = environment()
ONE = MDP(*(np.asarray(x)[0] for x in MDPS))


def method():
    return pavg(**STEPS)


def trained(*args, **kwargs):
    return fedrl.train(*args, **{"rounds": 1} | kwargs)


WRONG = {
    # unknown, missing and misplaced
    "typo": (
        lambda: PPO(stepz=2000),
        r"ppo\(\) has no argument 'stepz'; did you mean steps\? It takes trust, optimiser",
    ),
    "learning_rate": (lambda: PPO(learning_rate=1e-3), r"did you mean rate\?.* and remember$"),
    "lr": (lambda: pavg(lr=0.1, local_steps=1, horizon=1), r"pavg\(\) has no argument 'lr'; did you mean eta\?"),
    "num_envs": (lambda: PPO(num_envs=4), r"did you mean copies\?"),
    "gae_lambda": (lambda: TRPO(gae_lambda=0.9), r"did you mean lam\?"),
    "clip": (lambda: PPO(clip_range=0.2), r"did you mean trust=clipped\(0\.2\)\?"),
    "clients_per_round": (lambda: AVG(PPO(), clients_per_round=4), r"did you mean participation=uniform\(4\)\?"),
    "server_stepp": (lambda: AVG(PPO(), server_stepp=1.0), r"did you mean server_step\?"),
    "gamma": (lambda: PPO(gamma=0.9), "it belongs to the environment of the federation. It takes"),
    "nothing like it": (lambda: PPO(xyzzy=1), "no argument 'xyzzy'; leave it out. It takes"),
    "missing": (
        lambda: pavg(eta=0.1),
        r"missing local_steps and horizon; write pavg\(eta=…, local_steps=…, horizon=…\)",
    ),
    "positional": (
        lambda: AVG(PPO(), uniform(3)),
        r"takes only learner by position, got 2; give the others by name: part",
    ),
    "all named": (lambda: PPO(1e-3), r"ppo\(\) takes no argument by position, got 1; give the others by name: trust"),
    "twice": (lambda: uniform(3, clients=3), r"uniform\(\) got clients twice"),
    # types
    "text": (
        lambda: fedsvrpg_m.fedsvrpg_m(beta="0.2", **STEPS),
        "beta wants a number, got the text '0.2'; write beta=0.2 wi",
    ),
    "fraction": (lambda: pavg(**STEPS | {"horizon": 2.5}), "horizon wants a whole number, got 2.5; write horizon=2"),
    "bool for int": (lambda: PPO(steps=True), "steps wants a whole number, got True"),
    "int for bool": (lambda: PPO(bootstrap=1), "bootstrap wants True or False, got 1"),
    "literal": (lambda: PPO(filters="shared"), "filters wants 'pooled' or 'own', got the text 'shared'"),
    "layers": (lambda: PPO(value=64), r"value wants a tuple such as \(64, 64\), got 64"),
    "layers in a tuple": (
        lambda: mlp((64, 64)),
        r"hidden wants a whole number, got \(64, 64\); give the layers one by one",
    ),
    "rate": (
        lambda: PPO(rate="fast"),
        r"rate wants a function or a number, got the text 'fast'; give 0\.001, or decaying",
    ),
    "optimiser": (
        lambda: PPO(optimiser="adam"),
        r"wants a GradientTransformation.* give fedrl.local.steps.adam\(clip=0.5\)",
    ),
    "decay": (
        lambda: fmarl.fmarl(PPO(), tau=2, decay=0.95),
        r"decay wants a function, got 0.95; give .*exponential\(0.95\)",
    ),
    # functions that build
    "uncalled": (
        lambda: AVG(PPO(), participation=uniform),
        r"participation=uniform is not called; write participation=uni",
    ),
    "uncalled trust": (lambda: PPO(trust=clipped), r"trust=clipped is not called; write trust=clipped\(\)"),
    "uncalled learner": (lambda: AVG(PPO), r"fedavg\(\): learner=ppo is not called; write learner=ppo\(\)"),
    "uncalled selection": (
        lambda: AVG(PPO(), selection=power_of_choice),
        r"write selection=power_of_choice\(candidates, cli",
    ),
    "number": (lambda: AVG(PPO(), participation=3), r"a participation, got 3; write participation=uniform\(3\) or"),
    "no learner": (
        lambda: AVG(reinforce.reinforce(horizon=8)),
        r"a learner, got a direction, reinforce\(…\); write steps_al",
    ),
    "method in method": (lambda: AVG(method()), r"a learner, got a method, pavg\(…\); it is a method already"),
    # ranges
    "eta": (lambda: pavg(**STEPS | {"eta": -0.1}), "eta must be a finite number at least 0, got -0.1"),
    "eta nan": (lambda: pavg(**STEPS | {"eta": math.nan}), "eta must be a finite number at least 0, got nan"),
    "anchored eta": (
        lambda: fedhapg_m.fedhapg_m(beta=0.5, **STEPS | {"eta": -1}),
        "eta must be .* larger than 0, got -1",
    ),
    "anchored step": (
        lambda: fedsvrpg_m.fedsvrpg_m(beta=0.5, server_step=-1, **STEPS),
        "server_step must .* 0, got -1",
    ),
    "beta": (lambda: svrpg.svrpg(beta=-0.5, horizon=3), "beta must be a finite number at least 0, got -0.5"),
    "beta of a method": (lambda: fedsvrpg_m.fedsvrpg_m(beta=1.5, **STEPS), r"beta must lie in \(0, 1\], got 1.5"),
    "hapg": (lambda: hapg.hapg(beta=0.5, horizon=0), "horizon must be a finite number at least 1, got 0"),
    "local_steps": (
        lambda: pavg(**STEPS | {"local_steps": 0}),
        "local_steps must be a finite number at least 1, got 0",
    ),
    "horizon": (
        lambda: s_fedpg(batch=1, **STEPS | {"horizon": 0}),
        "horizon must be a finite number at least 1, got 0",
    ),
    "lam": (
        lambda: rs_fedpg(batch=1, lam=-0.1, **STEPS),
        "lam must be a finite number at least 0, got -0.1; 0 does not",
    ),
    "no radius": (
        lambda: b_rs_fedpg(batch=1, lam=0.0, **STEPS),
        "lam must be .* larger than 0, got 0.0; R_b.*radius=math.inf",
    ),
    "mu": (lambda: proximal(reinforce.reinforce(horizon=3), mu=-1.0), "cannot be negative, got -1.0"),
    "server_step": (lambda: AVG(PPO(), server_step=-1), "server_step must be a finite number larger than 0, got -1"),
    "negative rate": (lambda: PPO(rate=-1e-3), "rate must be a finite number at least 0, got -0.001"),
    "negative entropy": (lambda: PPO(entropy=-0.1), "entropy must be a finite number at least 0, got -0.1"),
    "negative alpha": (lambda: TAC(alpha=-0.1), "alpha must be a finite number at least 0, got -0.1"),
    "negative schedule": (lambda: dropping(-0.1, every=3), "start must be a finite number at least 0, got -0.1"),
    "critic_rate": (lambda: TRPO(critic_rate=-1.0), "critic_rate must be a finite number at least 0, got -1.0"),
    "GAE": (lambda: PPO(lam=1.5), "lam of GAE must lie between 0 and 1, got 1.5"),
    "no clients": (lambda: uniform(0), "clients must be a finite number at least 1, got 0"),
    "samples": (lambda: q_learning.q_learning(samples=0), "samples must be a finite number at least 1, got 0"),
    # federations
    "no environment": (
        lambda: Federation(environment=3, worlds=None),
        "environment wants an environment such as .*, got 3",
    ),
    "no worlds": (lambda: Federation(WHERE, None), "worlds wants arrays with a leading client axis.*, got None"),
    "swapped worlds": (
        lambda: Federation(MDPS, WHERE),
        r"environment and worlds are swapped; write Federation\(environment,",
    ),
    "one MDP": (lambda: Federation(WHERE, ONE), r"one MDP, with a kernel of shape \(4, 3, 4\), .* or \[mdp\] \* 3"),
    "ragged": (
        lambda: Federation(WHERE, MDPS._replace(reward=[[1.0], [2.0, 3.0]])),
        "reward wants an array of numbers",
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
        r"called as worlds\(key, client_id\), but",
    ),
    "MDPs differ": (lambda: Federation(WHERE, [ONE, MDP(*(x[:2] for x in ONE))]), "the clients' MDPs differ in size"),
    "half a client": (
        lambda: Federation(WHERE, MDPS, clients=2.5),
        "clients wants a whole number, got 2.5; write clients=20",
    ),
    "states": (lambda: finite.environment(states=2.5, actions=2, gamma=0.9), "states wants a whole number, got 2.5"),
    "an unknown id": (lambda: fedrl.gymnasium("CartPol-v1", clients=2), '"CartPol-v1": .*Did you mean: `CartPole`'),
    "an id alone": (lambda: fedrl.gymnasium("CartPole-v1"), r"missing clients; write gymnasium\(make_env, clients\)"),
    "swapped id": (
        lambda: fedrl.gymnasium(8, "CartPole-v1"),
        r"make_env and clients are swapped; write gymnasium\(make_env",
    ),
    "an environment": (
        lambda: fedrl.gymnasium(gym.make("CartPole-v1"), 2),
        'wants a function or text, got a .*"CartPole-v1"',
    ),
    # train
    "swapped": (lambda: trained(FED, method()), r"method and federation are swapped; write train\(method, federation"),
    "half a round": (lambda: trained(method(), FED, rounds=2.5), "rounds wants a whole number, got 2.5"),
    "seeds in text": (lambda: trained(method(), FED, seeds="3"), "seeds wants a whole number.* seeds=3 without quotes"),
    "engine in text": (lambda: trained(method(), FED, engine="ray"), r"write engine=ray\(\) after `from fedrl\.engin"),
    "uncalled engine": (lambda: trained(method(), FED, engine=ray), r"engine=ray is not called; write engine=ray\(\)"),
    "uncalled measure": (lambda: trained(method(), FED, measure=sampled_return), r"write measure=sampled_return\(\)"),
    "uncalled method": (lambda: trained(AVG, FED), r"method=fedavg is not called; write method=fedavg\(learner\)"),
    "a learner": (lambda: trained(PPO(), FED), r"wants a method, got a learner, ppo\(…\); write fedavg\(ppo\(…\)\)"),
    "an id": (
        lambda: trained(method(), "CartPole-v1"),
        'wants a Federation.* give fedrl.gymnasium\\("CartPole-v1", clients=8',
    ),
    "num_rounds": (lambda: fedrl.train(method(), FED, num_rounds=2), r"did you mean rounds\?"),
    "no rounds": (lambda: fedrl.train(method(), FED), r"missing rounds; write train\(method, federation, rounds=…\)"),
    "negative rounds": (lambda: trained(method(), FED, rounds=-1), "rounds must be a finite number at least 1, got -1"),
    "measure as engine": (lambda: trained(method(), FED, engine=sampled_return()), "wants an engine.*, got a measur"),
    "a table of bits": (
        lambda: trained(b_rs_fedpg(batch=1, lam=0.1, policy=softmax_table(), **STEPS), FED),
        r"wants a bit-level policy, one decision for each of the 2 bits .* with 1 for 3 actions; use bit_softmax",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    def compiles(*args, **kwargs):
        raise AssertionError("this compiles")

    call, words = WRONG[name]
    monkeypatch.setattr(jax, "jit", compiles)
    began = time.monotonic()
    with pytest.raises((TypeError, ValueError)) as told:
        call()
    assert re.search(words, str(told.value)), str(told.value)
    assert time.monotonic() - began < 5.0


BUILDERS = [
    *(PPO, TRPO, TAC, AVG, pavg, s_fedpg, rs_fedpg, b_rs_fedpg, alone.alone, fmarl.fmarl, steps_along, fedrl.train),
    *(fed_q_learning.fed_q_learning, fedsvrpg_m.fedsvrpg_m, fedhapg_m.fedhapg_m, fedrl.gymnasium, fedrl.pettingzoo),
    *(fapi_networks.deep_fapi_with_federated_evaluation, fapi_networks.deep_fapi_without_federated_evaluation),
    *(fapi.fapi_with_federated_evaluation, fapi.fapi_without_federated_evaluation),
]


def test_every_setting_is_in_the_signature():
    checked_ones = [call for call in argument_errors.FACTORIES if call.__module__.startswith("fedrl.")]
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
        "policy": mlp(4), "value": (3,), "steps": 12, "copies": 3, "local_steps": 2, "critic_rate": 0.5, "critic_epochs": 7,
        "critic_minibatch": 5, "lam": 0.5, "filter_observations": False, "filter_rewards": False, "filters": "own",
        "bootstrap": False, "warm_up": 24, "remember": 2,
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
        "optimiser": steps.sgd(),
        "rate": 0.5,
        "epochs": 3,
        "minibatch": 5,
        "entropy": 0.25,
    }
    other |= {"policy": mlp(4), "value": (3,), "steps": 12, "copies": 3, "local_steps": 2, "critic_rate": 0.5}
    other |= {
        "critic_epochs": 7,
        "critic_minibatch": 5,
        "lam": 0.5,
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
        left, right = as_rate("rate", number)(jnp.int32(round)), constant(number)(jnp.int32(round))
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    schedule = constant(0.5)
    assert as_rate("rate", schedule) is schedule


def program(learner) -> str:
    """All that a client of finite MDPs computes in a round, as JAX sees it."""
    learns, world = learner(WHERE), jax.tree.map(jnp.asarray, ONE)
    client = Client(jnp.int32(0), world, (), learns.memory(jnp.int32(0), of_seed(0)))
    theta = learns.init(of_seed(0))
    in_a_round = jax.make_jaxpr(lambda round, key: work(learns.local, Model(theta, round), client, key))
    return str(in_a_round(jnp.int32(3), of_seed(1)))


@pytest.mark.parametrize(("build", "bonus"), [(PPO, "entropy"), (TAC, "alpha")])
def test_numbers_and_constant_schedules_are_the_same_program(build, bonus):
    tiny = {"steps": 16, "copies": 2, "epochs": 1, "minibatch": 8, "critic_epochs": 1, "policy": mlp(4), "value": (4,)}
    with_numbers = program(build(rate=1e-2, **{bonus: 0.125}, **tiny))
    assert with_numbers == program(build(rate=constant(1e-2), **{bonus: constant(0.125)}, **tiny))
    assert with_numbers != program(build(rate=1e-2, **{bonus: 0.25}, **tiny))
    assert with_numbers != program(build(rate=2e-2, **{bonus: 0.125}, **tiny))


def test_the_exact_return_of_a_network_is_that_of_its_probabilities():
    """By hand: pi(a|s) from the network's outputs, then (I - gamma P_pi)^-1 r_pi in float64."""
    measured = trained(AVG(PPO(rate=0.0, epochs=0, critic_epochs=0, steps=8, copies=2, policy=mlp(4))), FED)
    (first, b), (last, c) = (tuple(np.asarray(x[0], np.float64) for x in layer) for layer in measured.theta.actor)
    logits = np.tanh(np.eye(4) @ first + b) @ last + c
    pi = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for client in range(3):
        kernel, reward, start = (np.asarray(x[client], np.float64) for x in MDPS)
        chain, earned = np.einsum("sa,sat->st", pi, kernel), (pi * reward).sum(-1)
        expected = start @ np.linalg.solve(np.eye(4) - WHERE.gamma * chain, earned)
        np.testing.assert_allclose(measured.returns[0, client], expected, rtol=1e-5)


THETA_0 = {
    "s_fedpg": (s_fedpg(batch=1, policy=softmax_table(lambda key, shape: jnp.full(shape, 0.3)), **STEPS), (4, 3)),
    "rs_fedpg": (
        rs_fedpg(batch=1, lam=0.1, policy=softmax_table(lambda key, shape: jnp.full(shape, 0.3)), **STEPS),
        (4, 3),
    ),
    "b_rs_fedpg": (
        b_rs_fedpg(batch=1, lam=0.1, policy=bit_softmax(lambda key, shape: jnp.full(shape, 0.3)), **STEPS),
        (4, 3, 2),
    ),
    "fed_q_learning": (
        fed_q_learning.fed_q_learning(
            eta=0.1, local_steps=2, samples=3, policy=greedy_table(lambda key, shape: jnp.full(shape, 0.3))
        ),
        (4, 3),
    ),
}


@pytest.mark.parametrize("name", THETA_0)
def test_the_first_theta_can_be_given(name):
    build, shape = THETA_0[name]
    algorithm = build(FED)
    theta = algorithm.answer(algorithm.init(of_seed(0)))
    np.testing.assert_array_equal(theta, np.full(shape, 0.3, np.float32))


def test_b_rs_fedpg_projects_a_given_policy_as_its_own():
    """The ball is that of lam, gamma and the policy's bits: R_b(0.1), gamma = 0.8, k = 2."""
    far = bit_softmax(lambda key, shape: jnp.full(shape, 1e6))
    algorithm = b_rs_fedpg(batch=1, lam=0.1, policy=far, **STEPS)(FED)
    (train,), server = algorithm.exchanges, algorithm.init(of_seed(0))
    nothing = jax.tree.map(jnp.zeros_like, server.theta)
    after, _ = train.receive(server, (nothing, ()), train.choose(server, of_seed(0)), of_seed(0))
    np.testing.assert_allclose(after.theta, projection_radius(0.1, 0.8, 2), rtol=1e-6)


def test_lists_are_arrays_and_mdps_may_come_one_by_one():
    lists = MDP(*(np.asarray(x).tolist() for x in MDPS))
    one_by_one = [MDP(*(np.asarray(x)[i] for x in MDPS)) for i in range(3)]
    for worlds in (lists, one_by_one, tuple(one_by_one)):
        where = Federation(WHERE, worlds, weight=[1, 2, 3])
        assert where.count == 3
        for left, right in zip(where.shared(), FED.shared(), strict=True):
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype
        np.testing.assert_array_equal(where.weights(jnp.arange(3)), np.float32([1, 2, 3]))


def test_an_id_makes_a_federation():
    poles = fedrl.gymnasium("CartPole-v1", clients=3)
    assert poles.count == 3
    assert poles.environment.limit == 500
    simulator = poles.environment.open(2, np.int32(2), 2)
    assert simulator.reset(np.arange(2), np.arange(2, dtype=np.uint64)).shape == (2, 4)
    simulator.close()


def test_what_is_built_remembers_how():
    assert uniform(3).arguments == ("uniform", {"clients": 3})
    name, arguments = pavg(**STEPS).arguments
    assert (name, arguments["eta"], arguments["batch"], arguments["server_step"]) == ("pavg", 0.1, 1, 1.0)
    assert list(arguments) == list(inspect.signature(pavg).parameters)
    direction = reinforce.reinforce(horizon=3)
    assert proximal(direction, mu=0.0) is direction
    assert direction.arguments[0] == "reinforce"


def test_numpy_and_jax_numbers_are_numbers():
    @checked
    def build(*, whole: int, number: float, some: tuple[int, ...] = ()) -> tuple:
        return whole, number, some

    assert build(whole=np.int64(3), number=np.float32(0.5), some=[1, 2]) == (3, 0.5, [1, 2])
    assert build(whole=jnp.int32(3), number=jnp.float32(0.5)) == (3, 0.5, ())
    assert build(whole=3, number=3) == (3, 3, ())
    with pytest.raises(TypeError, match=r"whole wants a whole number, got a .* of shape \(2,\)"):
        build(whole=np.arange(2), number=1.0)


def test_signatures_and_docs_stay_as_they_were_written():
    assert exponential.__name__ == "exponential"
    assert "Eq. 21" in exponential.__doc__
    assert str(inspect.signature(exponential)).startswith("(lam: float)")

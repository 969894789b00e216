"""Methods that choose among candidates, in eight small worlds: who is chosen, and that choosing all is FedAvg."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.federations import federation
from support.remembering import remembering

from fedrl import keys
from fedrl.algorithms.fedavg import fedavg
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.control import mountain_car
from fedrl.environments.protocol import Box
from fedrl.evaluation import default_evaluation
from fedrl.federations.federation import Federation
from fedrl.learners.ppo import ppo
from fedrl.policies.mlp import mlp
from fedrl.selection.by_loss import gradient_norm, power_of_choice
from fedrl.selection.candidates import uniform_of
from fedrl.selection.fedpohcs import deltas, fedpohcs, visited
from fedrl.selection.numbering import secret
from fedrl.selection.participation import everyone, uniform
from fedrl.types import Channel

CLIENTS, CANDIDATES, CHOSEN, ROUNDS, GAMMA = 8, 5, 2, 3, 0.9
LEARNER = remembering()
METHODS = {
    "uniform": uniform_of(CANDIDATES, CHOSEN),
    "fedpohcs": fedpohcs(CANDIDATES, CHOSEN, sweeps=20),
    "one phase": fedpohcs(CANDIDATES, CHOSEN, sweeps=20, phases=1),
    "power of choice": power_of_choice(CANDIDATES, CHOSEN),
    "gradient norm": gradient_norm(CANDIDATES, CHOSEN),
}


class Run(NamedTuple):
    start: Any  # states of one seed
    middle: Any  # after the first round
    end: Any
    metrics: dict  # [rounds, ...]


def where() -> Federation:
    return federation(CLIENTS, states=6, gamma=GAMMA, weight=jnp.arange(1.0, CLIENTS + 1))


def play(engine, federation=None, learner=LEARNER, **options) -> Run:
    federation = federation or where()
    algorithm = fedavg(learner, **options)(federation)
    play = engine(algorithm, federation, default_evaluation(federation)(algorithm, federation), 100)
    start, _ = play.init([4])
    middle, first = play.advance(start, 0, 1)
    end, rest = play.advance(middle, 1, ROUNDS - 1)
    metrics = {name: np.concatenate([first[name], rest[name]], axis=1)[0] for name in first}
    return Run(*(jax.tree.map(lambda x: x[0], state) for state in (start, middle, end)), metrics)


RUNS: dict[str, Run] = {}


def run(name: str) -> Run:
    if name not in RUNS:
        RUNS[name] = play(fused("map"), selection=METHODS[name])
    return RUNS[name]


def bits(tree) -> list[bytes]:
    def plain(x):
        return jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return [np.asarray(plain(x)).tobytes() for x in jax.tree.leaves(tree)]


def clients_of(state, ids):
    federation = where()
    return federation.rows(federation.shared(), state.clients, jnp.asarray(ids))


@pytest.mark.parametrize("name", METHODS)
def test_engines_agree_to_the_bit(name):
    alone = play(one_at_a_time(), selection=METHODS[name])
    assert bits(run(name).end) == bits(alone.end)
    for metric, value in run(name).metrics.items():
        np.testing.assert_array_equal(value, alone.metrics[metric], err_msg=metric)


def test_all_draw_the_same_candidates():
    asked = [run(name).metrics["report/asked"] for name in ("fedpohcs", "power of choice", "gradient norm")]
    np.testing.assert_array_equal(asked[0], asked[1])
    np.testing.assert_array_equal(asked[0], asked[2])
    assert np.all(asked[0].sum(axis=1) == CANDIDATES)
    assert len(np.unique(asked[0], axis=0)) > 1
    for name in METHODS:
        chosen = run(name).metrics["train/chosen"]
        assert np.all(chosen.sum(axis=1) == CHOSEN)
        assert np.all(chosen <= asked[0])


@pytest.mark.parametrize("name", ["fedpohcs", "power of choice", "gradient norm"])
def test_the_highest_scores_are_chosen(name):
    metrics = run(name).metrics
    for score, asked, chosen in zip(
        *(metrics[k] for k in ("report/scores", "report/asked", "train/chosen")), strict=True
    ):
        among = np.flatnonzero(asked)
        best = among[np.argsort(score[among])[-CHOSEN:]]
        np.testing.assert_array_equal(np.flatnonzero(chosen), np.sort(best))


def test_scores_are_what_the_candidates_say_at_the_broadcast():
    learner, state = LEARNER(where().environment), run("fedpohcs").start
    ids = np.flatnonzero(run("fedpohcs").metrics["report/asked"][0])
    rows = clients_of(state, ids)
    theta = state.server.theta
    tell = visited(learner, GAMMA, rounding=0.1, sweeps=20)
    words = secret(keys.of(state.server.selection.rng_key, "names", 0))
    reports = jax.jit(jax.vmap(lambda c: tell(theta, c, words)))(rows)
    delta = deltas(reports, rows.profile.weight)
    loss = jax.vmap(lambda c: learner.loss(theta, c))(rows)
    slope = jax.vmap(lambda c: jax.grad(learner.loss)(theta, c))(rows)
    norm = np.sqrt(sum(np.sum(np.square(x).reshape(CANDIDATES, -1), axis=1) for x in jax.tree.leaves(slope)))
    for name, value in (("fedpohcs", delta), ("power of choice", loss), ("gradient norm", norm)):
        np.testing.assert_allclose(
            run(name).metrics["report/scores"][0][ids], value, rtol=1e-4, atol=1e-6, err_msg=name
        )


def test_power_of_choice_takes_the_worst_and_published_code_the_best():
    server = run("power of choice").start.server
    loss = jnp.asarray([3.0, -1.0, 2.0, 5.0, 0.0])
    for lowest, expected in ((False, [0, 3]), (True, [1, 4])):
        build = power_of_choice(CANDIDATES, CHOSEN, lowest=lowest)
        report = build(where(), LEARNER(where().environment)).before[0]
        asked = report.choose(server, None)
        after, _ = report.receive(server, report.combine(loss, asked), asked, None)
        np.testing.assert_array_equal(after.selection.ids, asked.ids[jnp.asarray(expected)])


def test_one_phase_files_reports_and_counts_their_age():
    played = run("one phase")
    chosen = played.metrics["train/chosen"]
    np.testing.assert_array_equal(played.start.server.selection.age, -1)
    age = np.full(CLIENTS, -1)
    for row in chosen:
        age = np.where(row > 0, 0, np.where(age < 0, -1, age + 1))
    np.testing.assert_array_equal(played.end.server.selection.age, age)
    asked = run("fedpohcs").metrics["report/asked"]
    heard = chosen[0] > 0
    for ask, choice in zip(asked[1:], chosen[1:], strict=True):  # candidates never heard come first
        new = (ask > 0) & ~heard
        assert np.sum(choice[new]) == min(CHOSEN, np.sum(new))
        heard |= choice > 0
    learner = LEARNER(where().environment)
    tell = jax.jit(visited(learner, GAMMA, rounding=0.1, sweeps=20))
    for i in np.flatnonzero(chosen[0]):
        one = jax.tree.map(lambda x, i=i: x[i], clients_of(played.middle, np.arange(CLIENTS)))
        filed = jax.tree.map(lambda x, i=i: np.asarray(x)[i], played.middle.server.selection.reports)
        told = tell(played.start.server.theta, one, secret(keys.of(played.start.server.selection.rng_key, "names")))
        np.testing.assert_array_equal(filed.names.high, told.names.high)
        np.testing.assert_allclose(filed.value, told.value, atol=1e-5 * np.abs(filed.value).max())


def test_one_phase_prefers_the_largest_delta_of_what_is_filed():
    """With a report of everyone, the choice is Eq. 23 over the candidates' last reports."""
    build = METHODS["one phase"](where(), LEARNER(where().environment))
    server = run("one phase").end.server
    random = np.random.default_rng(0)
    reports = server.selection.reports._replace(value=jnp.asarray(random.random((CLIENTS, 32)), jnp.float32))
    reports = jax.tree.map(lambda x: x.at[:].set(x[0]) if x.dtype == jnp.uint32 else x, reports)
    filed = server._replace(selection=server.selection._replace(reports=reports, age=jnp.zeros((CLIENTS,), jnp.int32)))
    asked = (
        METHODS["fedpohcs"](where(), LEARNER(where().environment))
        .before[0]
        .choose(server._replace(selection=run("fedpohcs").end.server.selection), None)
    )
    delta = np.asarray(deltas(jax.tree.map(lambda x: x[asked.ids], reports), asked.weight))
    np.testing.assert_array_equal(build.choose(filed, None).ids, np.sort(asked.ids[np.argsort(delta)[-CHOSEN:]]))


def same_as_fedavg(selection, *where) -> None:
    plain = play(fused("map"), *where, selection=everyone())
    chosen = play(fused("map"), *where, selection=selection)
    assert bits(chosen.end.server.theta) == bits(plain.end.server.theta)
    clients = [end.clients._replace(faults=end.clients.faults["train"]) for end in (chosen.end, plain.end)]
    assert bits(clients[0]) == bits(clients[1])  # but for the report, which only one of them has
    assert bits(plain.end.server.theta) != bits(plain.start.server.theta)


@pytest.mark.parametrize("phases", [1, 2])
def test_choosing_everyone_is_fedavg(phases):
    same_as_fedavg(fedpohcs(CLIENTS, CLIENTS, sweeps=20, phases=phases))


def test_choosing_everyone_is_fedavg_of_ppo():
    """The whole of Algorithm 3 with networks, filters and a warm-up; a minute of compilation."""
    learner = ppo(
        policy=mlp(8), value=(8,), steps=32, num_envs=2, epochs=1, critic_epochs=1, minibatch=16, critic_minibatch=16,
        warm_up=64, remember=2,
    )  # fmt: skip
    cars = Federation(mountain_car.environment(max_episode_steps=20), mountain_car.shifts("medium", 3))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to the power of an integer
        same_as_fedavg(fedpohcs(3, 3, sweeps=20), cars, learner)


@pytest.mark.parametrize(("name", "metric"), [("fedpohcs", "report/shared_mass"), ("one phase", "train/shared_mass")])
def test_what_clients_have_in_common_is_logged(name, metric):
    """In six states with the same actions they have nearly everything in common."""
    shared = run(name).metrics[metric]
    assert shared.shape == (ROUNDS,)
    assert np.all((shared > 0.5) & (shared <= 1.0))


def test_every_round_has_a_secret_of_its_own_and_one_phase_one_of_the_run():
    server, learner = run("fedpohcs").start.server, LEARNER(where().environment)
    looking = METHODS["fedpohcs"](where(), learner).before[0]
    words = [looking.send(server._replace(round=jnp.int32(i)), 0).selection for i in (0, 0, 1)]
    assert bits(words[0]) == bits(words[1])
    assert not set(bits(words[0])) & set(bits(words[2]))
    rides, played = METHODS["one phase"](where(), learner), run("one phase")
    of_run = [rides.tells(state.server.selection) for state in (played.start, played.end)]
    assert bits(of_run[0]) == bits(of_run[1])
    assert set(bits(of_run[0])) != set(bits(words[0]))


@pytest.mark.parametrize("name", METHODS)
def test_reports_do_not_go_around_a_channel(name):
    noisy = Channel(encode=lambda upload, *rest: upload, decode=lambda aggregate, *rest: aggregate)
    method = fedavg(LEARNER, selection=METHODS[name], channel=noisy)
    if name == "uniform":
        assert method(where()).exchanges[-1].name == "train"
        assert fedavg(LEARNER, selection=uniform(2), channel=noisy)(where()).exchanges
        return
    with pytest.raises(ValueError, match="reports would go around the channel; leave `channel` out"):
        method(where())


def test_no_table_of_rounded_images():
    image = Box((84, 84, 4), (0.0,) * 28_224, (1.0,) * 28_224)
    federation, learner = where(), LEARNER(where().environment)
    seeing = replace(federation, environment=federation.environment._replace(observations=image))
    with pytest.raises(ValueError, match="is useless in 28224 dimensions.* raise max_dimensions=300 of fedpohcs"):
        METHODS["fedpohcs"](seeing, learner)
    assert fedpohcs(CANDIDATES, CHOSEN, max_dimensions=30_000)(seeing, learner).before


def test_bad_numbers():
    learner = LEARNER(where().environment)
    with pytest.raises(ValueError, match="3 of 2 candidates of 8 clients cannot be chosen; choose 1 <= clients <="):
        uniform_of(2, 3)(where(), learner)
    with pytest.raises(ValueError, match="9 candidates of 8"):
        fedpohcs(9, 3)(where(), learner)
    with pytest.raises(ValueError, match="phases 1 or 2 and advantage 'gae' or 'model', got 0.0, 100, 2 and 'gae'"):
        fedpohcs(5, 2, rounding=0.0)
    with pytest.raises(ValueError, match=r"use ppo\(remember=5, warm_up="):
        power_of_choice(5, 2)(where(), ppo()(where().environment))

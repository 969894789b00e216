"""Clients that fail: the run stops and names them, or goes on without them, the same way in every engine."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.faulty import BAD, SMALL, STEPS, scaled, toward_rewards, without
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import fedavg, pavg
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import ring
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed, TrainingDiverged
from fedrl.faults import leave_out, stop
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.records import log
from fedrl.selection.participation import uniform

ENGINES = {"map": fused("map"), "vmap": fused("vmap"), "one at a time": one_at_a_time()}
FOUR = federation(4)
PATIENT = leave_out(in_a_row=100)


def play(method, engine="map", faults=None, rounds=3, **options):
    return fedrl.train(
        method, FOUR, rounds=rounds, engine=ENGINES[engine], faults=faults, warn=options.pop("warn", lambda _: None),
        **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def lacking():
    """Three rounds without client BAD."""
    return play(without(BAD))


@pytest.mark.parametrize("engine", ENGINES)
def test_not_finite(engine, lacking):
    """Left out, it is as if it were not there: to the bit in the exact engines."""
    said = []
    run = play(scaled(np.nan), engine, PATIENT, warn=said.append)
    if engine == "vmap":
        np.testing.assert_allclose(run.theta, lacking.theta, atol=1e-5)
    else:
        assert run.theta.tobytes() == lacking.theta.tobytes()
    assert run.rows[2]["left_out"] == [
        {"exchange": "train", "seed": 0, "client": BAD, "why": "its upload is not finite"}
    ]
    assert [row.get("faults", 0) for row in run.rows] == [0, 1, 2, 3]
    assert run.rows[3]["env_steps"] == lacking.rows[3]["env_steps"] == 3 * 3 * 2 * STEPS
    assert said[0] == f"round 1, exchange 'train', seed 0: client {BAD} was left out: its upload is not finite"


@pytest.mark.parametrize("engine", ["map", "one at a time"])
def test_by_default_the_run_stops(engine):
    """It names client, exchange, round and seed."""
    with pytest.raises(
        TrainingDiverged,
        match=f"round 1, exchange 'train', seed 7: client {BAD}: its upload is not finite; take smaller",
    ):
        play(scaled(np.inf), engine, seed=7)


def test_nothing_changes_where_nobody_fails():
    assert play(SMALL, faults=PATIENT, rounds=2).theta.tobytes() == play(SMALL, rounds=2).theta.tobytes()


def test_a_client_with_too_many_faults_is_not_asked_again():
    """After two in a row; the log has null for its return, and mean and worst are of the others."""
    run = play(scaled(np.nan), faults=leave_out(in_a_row=2), rounds=4)
    assert ["left_out" in row for row in run.rows] == [False, True, True, False, False]
    assert [row.get("not_asked") for row in run.rows[1:]] == [None, *3 * [[{"seed": 0, "client": BAD}]]]
    assert run.rows[4]["faults"] == 2
    assert np.isnan(run.returns[0, BAD])
    assert np.isfinite(np.delete(run.returns[0], BAD)).all()
    assert run.rows[4]["worst"] == np.delete(run.returns[0], BAD).min()
    np.testing.assert_allclose(run.rows[4]["return"], np.delete(run.returns[0], BAD).mean(), rtol=1e-6)


def test_all_of_them():
    """When nobody is left: Diverged, whatever the quorum says."""
    with pytest.raises(
        TrainingDiverged, match="round 1, .*client 0: its upload is not finite; 0 of 4 clients are left"
    ):
        play(scaled(np.nan, (0, 1, 2, 3)), faults=PATIENT)


def fails_in(rounds, clients=(BAD,)):
    """Uploads of some clients are not finite in these rounds, counted from zero; the server's own counter says when."""

    def method(federation):
        algorithm = SMALL(federation)
        (train,) = algorithm.exchanges
        finish = train.local.finish

        def late(local, client):
            upload, memory, env_steps = finish(local, client)
            bad = jnp.isin(client.id, jnp.array(clients)) & jnp.isin(local.message.round, jnp.array(list(rounds)))
            return jax.tree.map(lambda x: jnp.where(bad, x * jnp.nan, x), upload), memory, env_steps

        return algorithm._replace(exchanges=(train._replace(local=train.local._replace(finish=late)),))

    return method


def test_the_count_starts_again():
    """Every other round is two faults in a row for nobody."""
    run = play(fails_in([0, 2, 4]), faults=leave_out(in_a_row=2), rounds=6)
    assert [row.get("faults", 0) for row in run.rows] == [0, 1, 1, 2, 2, 3, 3]
    assert not any("not_asked" in row for row in run.rows)


@pytest.mark.parametrize("engine", ["map", "one at a time"])
def test_a_round_for_which_only_tired_clients_are_drawn_changes_nothing(engine):
    """Two of four always fail and two are drawn a round: whoever is drawn, the run goes on while others are left."""
    two = fedavg(gradient_learner(toward_rewards, eta=0.3, local_steps=2), selection=uniform(2))
    run = play(scaled(np.nan, (0, 1), two), engine, leave_out(in_a_row=1), rounds=16, seed=3)
    drawn = [{who["client"] for who in row.get("not_asked", [])} for row in run.rows]
    assert {0, 1} in drawn[1:]
    assert np.isfinite(run.theta).all()


def test_too_few_are_left_because_the_others_are_not_asked(tmp_path):
    """The sentence says how to ask them again."""
    play(scaled(np.nan, (0, 1)), faults=leave_out(in_a_row=1), rounds=1, out=tmp_path)
    with pytest.raises(
        EnvironmentFailed, match="ask them again with in_a_row=2 or more or lower the quorum, then resume"
    ):
        play(scaled(np.nan, (0, 1)), faults=leave_out(in_a_row=1, quorum=3), rounds=2, out=tmp_path)


def test_a_report_that_arrives_does_not_excuse_the_training_that_fails():
    """Faults in a row are counted by exchange: a client that reports well and never trains is not asked for long."""

    def method(federation):
        algorithm = scaled(np.nan)(federation)
        (train,) = algorithm.exchanges
        report = SMALL(federation).exchanges[0]._replace(name="report", receive=lambda server, *_: (server, {}))
        return algorithm._replace(exchanges=(report, train))

    run = play(method, faults=leave_out(in_a_row=2), rounds=4)
    assert [len(row.get("left_out", [])) for row in run.rows] == [0, 1, 1, 0, 0]
    assert run.rows[4]["not_asked"] == [{"seed": 0, "client": BAD}]


def test_a_limit_on_the_norm_is_for_what_moves_the_parameters():
    """Not for returns, which are above it here."""
    run = play(SMALL, faults=stop(largest_norm=2.0))
    assert run.returns.max() > 2.0
    with pytest.raises(EnvironmentFailed, match="exchange 'train', .*the norm of its upload is above the limit"):
        play(SMALL, faults=stop(largest_norm=0.01))


def test_stopped_by_the_quorum_and_resumed(tmp_path):
    """Rounds before the fault are kept although it came up in the middle of a block; another rule goes on from there."""
    method, patient = fails_in(range(5, 20)), leave_out(in_a_row=2)
    whole = play(method, faults=patient, rounds=12)
    sentence = (
        f"round 6, exchange 'train', seed 0: client {BAD}: .*3 of 4 clients are left, the quorum is 4; the rounds"
    )
    with pytest.raises(EnvironmentFailed, match=sentence):
        play(method, faults=leave_out(quorum=1.0), rounds=12, out=tmp_path)
    assert [row["round"] for row in log.read(tmp_path / "log.jsonl")] == list(range(6))
    resumed = play(method, faults=patient, rounds=12, out=tmp_path)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    assert resumed.rows[-1]["faults"] == whole.rows[-1]["faults"] == 2
    assert resumed.rows[-1]["not_asked"] == [{"seed": 0, "client": BAD}]


def test_neighbours_do_not_hear_what_is_not_finite():
    """Directions are mixed along a ring before every step; client BAD's second one is infinite."""

    def wild(environment, policy):
        calm = toward_rewards(environment, policy)

        def learn(theta, message, seen, client, key):
            tree, steps = calm.learn(theta, message, seen, client, key)
            moved = jnp.any(theta != message.theta)
            return jnp.where((client.id == BAD) & moved, jnp.inf, tree), steps

        return calm._replace(learn=learn)

    method = fmarl(gradient_learner(wild, eta=0.1, local_steps=1), tau=3, graph=ring(4))
    with pytest.raises(
        TrainingDiverged, match=f"round 1, exchange 'train', seed 0: client {BAD}: its upload is not finite"
    ):
        play(method, rounds=1)
    run, other = (play(method, engine, PATIENT, rounds=2) for engine in ("map", "one at a time"))
    assert run.theta.tobytes() == other.theta.tobytes()
    assert np.isfinite(run.theta).all()
    assert [who["client"] for row in run.rows[1:] for who in row["left_out"]] == [BAD, BAD]


def test_a_return_that_is_not_possible():
    """|J| <= max |r| / (1 - gamma): what client 2 says is ten times that."""

    def boasting(algorithm, federation):
        from fedrl.evaluation import exact_return

        look = exact_return()(algorithm, federation)
        finish = look.local.finish

        def boast(local, client):
            value, memory, env_steps = finish(local, client)
            return (
                jnp.where(client.id == BAD, 10.0 * jnp.max(jnp.abs(client.env_params.reward)) / 0.2, value),
                memory,
                env_steps,
            )

        return look._replace(local=look.local._replace(finish=boast))

    with pytest.raises(
        EnvironmentFailed,
        match=f"exchange 'measure'.* client {BAD}: it reports a return, or statistics, that are not possible",
    ):
        play(SMALL, evaluation=boasting)
    run = play(SMALL, evaluation=boasting, faults=PATIENT)
    assert np.isnan(run.rows[0]["returns"][BAD])
    assert run.theta.tobytes() == play(SMALL).theta.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quorum": 0}, "quorum must be a whole number of clients .* got 0"),
        ({"quorum": 1.5}, "a share of the cohort above 0 and up to 1.0"),
        ({"in_a_row": 0}, "in_a_row must be a whole number of at least 1, got 0"),
        ({"deadline": -1}, "deadline must be a positive finite number, got -1"),
        ({"largest_norm": float("nan")}, "largest_norm must be a positive finite number, got nan"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(ValueError, match=message):
        leave_out(**options)


@pytest.mark.parametrize("engine", ENGINES)
def test_deadlines_want_clients_elsewhere(engine):
    with pytest.raises(ValueError, match="cannot keep a deadline of 5 s.*engine=processes"):
        play(SMALL, engine, stop(deadline=5))


def test_a_run_goes_on_with_an_environment_that_was_fixed(tmp_path):
    """Other code is refused; the sentence says what to do if it is the same experiment, and that works."""
    broken, fixed = lambda client: Lake(True), lambda client: Lake(False)
    method, options = pavg(eta=0.3, local_steps=1, horizon=4), {"engine": one_at_a_time(), "out": tmp_path}
    with pytest.raises(EnvironmentFailed, match="the boat is stuck"):
        fedrl.train(method, fedrl.gymnasium(broken, 2, max_episode_steps=4), rounds=1, **options)
    with pytest.raises(ValueError, match=r"make_env differs\); delete that `code` line from run.toml if you fixed"):
        fedrl.train(method, fedrl.gymnasium(fixed, 2, max_episode_steps=4), rounds=1, **options)
    file = tmp_path / "run.toml"
    file.write_text(
        "".join(line for line in file.read_text().splitlines(keepends=True) if not line.startswith("code = "))
    )
    assert (
        fedrl.train(method, fedrl.gymnasium(fixed, 2, max_episode_steps=4), rounds=1, **options).rows[-1]["round"] == 1
    )


class Lake(gym.Wrapper):
    def __init__(self, fails):
        super().__init__(gym.make("FrozenLake-v1"))
        self.fails = fails

    def step(self, action):
        if self.fails:
            raise OSError("the boat is stuck")
        return super().step(action)

"""What `train` leaves behind: rows, costs, and a run that goes on where it stopped."""

import gymnasium as gym
import jax
import numpy as np
import pytest
from support.federations import environment, federation

import fedrl
from fedrl import Federation, train
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.engines.fused import fused
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.tabular import random_mdp
from fedrl.evaluation import exact_return, sampled_return
from fedrl.records import log, snapshots
from fedrl.selection.participation import uniform

PAVG = pavg(eta=0.1, local_steps=3, horizon=8, batch=2, selection=uniform(2))


def test_costs_are_counted(tmp_path):
    """Two of four clients, 3 steps of 2 episodes of 8: 96 environment steps; theta is 4 x 3 floats each way, and down goes
    the number of the round."""
    run = train(PAVG, federation(4), rounds=5, out=tmp_path / "run", eval_every=2)
    last = run.rows[-1]
    assert (last["round"], last["env_steps"]) == (5, 5 * 2 * 3 * 2 * 8)
    assert (last["bytes_down"], last["bytes_up"], last["bytes_peer"]) == (5 * 2 * 52, 5 * 2 * 48, 0)
    assert [row["round"] for row in run.rows if "return" in row] == [0, 2, 4, 5]
    assert log.read(tmp_path / "run" / "log.jsonl")[-1]["env_steps"] == last["env_steps"]
    np.testing.assert_allclose(run.returns_by_client().mean(), last["return"], rtol=1e-6)


def test_the_opening_and_the_anchor_cost_too():
    """u_0 asks all four for 5 episodes of 8; then theta, theta_prev and u go down, the displacement up."""
    method = fedsvrpg_m(beta=0.5, eta=0.1, local_steps=3, horizon=8, first_batch=5)
    rows = train(method, federation(4), rounds=1).rows
    assert rows[0]["env_steps"] == 4 * 5 * 8
    assert rows[1]["env_steps"] - rows[0]["env_steps"] == 4 * 3 * 8
    assert rows[1]["bytes_down"] - rows[0]["bytes_down"] == 4 * 3 * 48
    assert rows[1]["bytes_up"] - rows[0]["bytes_up"] == 4 * 48


def test_going_on_with_more_rounds(tmp_path):
    """A finished run asked for more rounds goes on: same bytes as one that was asked for them at once."""
    train(PAVG, federation(4), rounds=3, out=tmp_path / "run")
    longer = train(PAVG, federation(4), rounds=7, out=tmp_path / "run")
    at_once = train(PAVG, federation(4), rounds=7, out=tmp_path / "other")
    assert np.asarray(longer.theta).tobytes() == np.asarray(at_once.theta).tobytes()
    assert [row["round"] for row in longer.rows] == list(range(8))
    assert longer.rows[-1]["env_steps"] == at_once.rows[-1]["env_steps"]
    policies = [(tmp_path / name / "policy.safetensors").read_bytes() for name in ("run", "other")]
    assert policies[0] == policies[1]


def test_what_is_kept_of_measured_rounds(tmp_path):
    """A file for each, also the first and the last; keeping changes no number, and the last one is what was learnt."""

    def snapshot(algorithm, state):
        return {"theta": jax.vmap(algorithm.answer)(state.server)}

    plain = train(PAVG, federation(4), rounds=7, seeds=2, eval_every=3)
    run = train(PAVG, federation(4), rounds=7, seeds=2, eval_every=3, out=tmp_path / "run", snapshot=snapshot)
    assert [{**row, "seconds": 0} for row in log.plain("", run.rows)] == [
        {**row, "seconds": 0} for row in log.plain("", plain.rows)
    ]
    found = dict(snapshots.load(tmp_path / "run", {"theta": run.theta}))
    assert list(found) == [0, 3, 6, 7]
    np.testing.assert_array_equal(found[7]["theta"], run.theta)
    assert not np.array_equal(found[3]["theta"], found[6]["theta"])


def test_a_million_clients():
    """Worlds are drawn when a client is asked; nothing is held for the rest."""
    where = Federation(environment(5, 5, 0.9), random_mdp.dense(5, 5, 0.6), clients=1_000_000)
    method = pavg(eta=0.05, local_steps=2, horizon=10, selection=uniform(100))
    run = train(method, where, rounds=2, engine=fused("vmap"), evaluation=exact_return(uniform(50)))
    assert run.returns.shape == (1, 50)
    assert np.isfinite(run.returns).all()


def test_learning_is_learning():
    """Thirty rounds raise the exact return of every seed well above the uniform policy's."""
    run = train(
        pavg(eta=0.3, local_steps=5, horizon=15, batch=8), federation(4), rounds=30, seeds=3, engine=fused("vmap")
    )
    first, last = (np.asarray(run.rows[i]["return_by_seed"]) for i in (0, -1))
    assert np.all(last > first + 0.3)


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"rounds": 1, "seeds": 0}, {"rounds": 1, "eval_every": 0}])
def test_nothing_to_do(bad):
    with pytest.raises(ValueError, match="at least 1"):
        train(PAVG, federation(4), **bad)


def test_a_folder_that_has_played_more_rounds_is_refused(tmp_path):
    train(PAVG, federation(4), rounds=2, seed=1, out=tmp_path / "run")
    with pytest.raises(ValueError, match="already played 2 rounds, 1 were asked for"):
        train(PAVG, federation(4), rounds=1, seed=1, out=tmp_path / "run")


def test_every_state_is_evaluated_once_and_an_opening_is_not_played_again(tmp_path):
    """On the simulator of one client: 6 resets in the opening, 2 in each evaluation, 1 in each round."""
    resets = tmp_path / "resets"

    class Counted(gym.Wrapper):
        def reset(self, **options):
            with open(resets, "a") as file:
                file.write("x")
            return super().reset(**options)

    where = fedrl.gymnasium(lambda client: Counted(gym.make("FrozenLake-v1")), clients=1, max_episode_steps=8)
    method = fedsvrpg_m(beta=0.5, eta=0.1, local_steps=1, horizon=4, batch=1, first_batch=6)
    options = {"seed": 3, "eval_every": 2, "engine": one_at_a_time(), "evaluation": sampled_return(2)}
    train(method, where, rounds=3, out=tmp_path / "run", **options)
    assert len(resets.read_text()) == 6 + 2 * len([0, 2, 3]) + 3
    run = train(method, where, rounds=5, out=tmp_path / "run", **options)
    assert len(resets.read_text()) == 6 + 2 * len([0, 2, 3, 4, 5]) + 5
    at_once = train(method, where, rounds=5, **options)
    assert np.asarray(run.theta).tobytes() == np.asarray(at_once.theta).tobytes()
    assert run.returns.tobytes() == at_once.returns.tobytes()

"""Table IV: its gradient norms, from what its arms keep (about 60 s)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from fedrl import trees
from fedrl.experiments import find, judge, outcomes
from fedrl.recipes.xu2024 import _figure_eight as eight
from fedrl.recipes.xu2024 import _sample_set as samples
from fedrl.recipes.xu2024 import table4
from fedrl.records import snapshots
from fedrl.records.tensors import named_leaves
from fedrl.training import train
from fedrl.types import Client

CONFIG = eight.Config(epochs=10, length=60, minibatch=20, hidden=4, repetitions=1, test_every=5)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The arms tau = 1 and tau = 10, really played with two seeds."""
    folder, found = tmp_path_factory.mktemp("table4"), {}
    for index in (0, 1):
        name = table4.NAMES[index]
        arm = table4.build(CONFIG)[name]
        place = outcomes.arm_folder(folder, name)
        train(arm.method, arm.federation, rounds=arm.rounds, seeds=2, out=place, engine=arm.engine,
              evaluation=arm.evaluation, eval_every=arm.eval_every, snapshot=arm.snapshot)  # fmt: skip
        found[name] = outcomes.of_arm(place)
    return found


def test_every_measured_round_is_kept(played):
    like = samples._like(CONFIG, eight.federation(CONFIG), 2)
    first, second = played.values()
    assert (
        [r for r, _ in snapshots.load(first.folder, like)]
        == [r["round"] for r in first.rows if "return" in r]
        == [0, 15, 30]
    )
    assert [r for r, _ in snapshots.load(second.folder, {"theta": like["theta"]})] == [0, 2, 3]


def test_what_is_kept_is_what_was_learnt(played):
    """The last kept parameters are the final policy, and seeds differ."""
    for outcome in played.values():
        like = {"theta": samples._like(CONFIG, eight.federation(CONFIG), 2)["theta"]}
        if outcome is played[table4.NAMES[0]]:
            like = samples._like(CONFIG, eight.federation(CONFIG), 2)
        *_, (_, last) = snapshots.load(outcome.folder, like)
        policy = load_file(outcome.folder / "policy.safetensors")  # which also has the agents' own filters
        for name, leaf in named_leaves({"theta": last["theta"]}).items():
            np.testing.assert_array_equal(leaf, policy[name])
        assert not np.array_equal(*jax.tree.leaves(last["theta"])[-1])


def test_the_norm_is_that_of_the_mean_gradient(played):
    """Against one plain gradient per agent and test, added up."""
    federation = eight.federation(CONFIG)
    like = samples._like(CONFIG, federation, 2)
    learner = eight.learner(CONFIG, remember=1)(federation.environment)
    rows = list(snapshots.load(played[table4.NAMES[0]].folder, like))
    theta = jax.tree.map(lambda x: x[1], rows[-1][1]["theta"])
    total, count = None, 0
    for _, row in rows:
        for agent in range(eight.AGENTS):
            seen, own = jax.tree.map(lambda x, i=agent: x[i], (row["seen"], row["filters"]))
            memory = samples.Memory(own, (), (), seen)
            gradient = jax.grad(learner.loss)(theta, Client((), (), (), memory)).actor
            total = gradient if total is None else trees.add(total, gradient)
            count += 1
    assert count == 3 * eight.AGENTS
    wanted = trees.squared_norm(trees.scale(1 / count, total))
    found = samples.norms(CONFIG, played, table4.NAMES[0])
    assert found[table4.NAMES[0]].shape == found[table4.NAMES[1]].shape == (3, 2)
    np.testing.assert_allclose(found[table4.NAMES[0]][-1, 1], wanted, rtol=1e-4)
    np.testing.assert_allclose(*(found[name][0] for name in table4.NAMES[:2]), rtol=1e-5)  # the same first parameters


def test_samples_come_from_the_run_as_it_was(played):
    """Where the agents stood in the world: the first mini-batch begins at rest, later ones do not."""
    like = samples._like(CONFIG, eight.federation(CONFIG), 2)
    speeds = [
        float(jnp.mean(row["seen"].obs[:, 0, 0, 1])) for _, row in snapshots.load(played[table4.NAMES[0]].folder, like)
    ]
    assert speeds[0] == pytest.approx(0.0, abs=1e-3)
    assert all(
        row["seen"].reward.shape[-1] == CONFIG.minibatch
        for _, row in snapshots.load(played[table4.NAMES[0]].folder, like)
    )


def test_claims_from_given_norms(monkeypatch):
    """Thirteen arms whose norms are the printed ones: the table orders them as the paper does."""
    apart = np.array([0.99, 1.0, 1.01])
    printed = {
        name: np.stack([np.full(3, 33.534), 2 * row.gradient_norm * apart - 33.534])
        for name, row in zip(table4.NAMES, table4.TABLE_IV, strict=True)
    }
    monkeypatch.setattr(samples, "norms", lambda config, arms, sampled: printed)
    spent = {
        name: table4.utility.overheads(7, 3000, row.tau, row.tau_i, row.links, row.E)
        for name, row in zip(table4.NAMES, table4.TABLE_IV, strict=True)
    }
    monkeypatch.setattr(table4.variants, "spent", lambda name: spent[name])
    found = table4.claims(
        replace(CONFIG, epochs=500, length=1500, minibatch=250), {name: name for name in table4.NAMES}
    )
    assert {claim.verdict for claim in found} == {judge.HOLDS}
    assert len(found) == 1 + 8 + 7


def test_recipe_is_listed():
    assert "xu2024/table4" in find.names()

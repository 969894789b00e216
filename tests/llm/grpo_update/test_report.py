"""What a GRPO learner reports, on made-up episodes by hand and through a whole visit of a tiny model."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from support.tiny_agents import COLOURS_ENVIRONMENT, Tiny

from fedrl import keys
from fedrl.core.client import learn
from fedrl.llm.decoding import Decision
from fedrl.llm.episodes import Episode, Turn
from fedrl.llm.grpo_update.loss import grpo_loss
from fedrl.llm.grpo_update.report import (
    DECISION_METRICS,
    EPISODE_METRICS,
    decision_metrics,
    episode_metrics,
    loss_terms,
)
from fedrl.llm.grpo_update.update import Grpo, reward_of
from fedrl.llm.learner import grpo
from fedrl.llm.tasks import federation
from fedrl.types import Client, Model

torch.set_num_threads(1)
SPEC = Tiny()


def turn(decisions: int, valid: bool = True) -> Turn:
    return Turn("", "", "", valid, 0.0, tuple(Decision(t, None, 0, -1.0) for t in range(decisions)))


EPISODES = [
    Episode(0, "any", [[]], [turn(2), turn(4, valid=False), turn(0)], 0.25, False),
    Episode(0, "any", [[]], [turn(6)], 1.0, True),
]


@pytest.mark.parametrize(("reward", "mean"), [("success", 5.0), ("score", 6.25)])
def test_episodes_by_hand(reward, mean):
    settings = Grpo(reward=reward)
    found = episode_metrics(EPISODES, [reward_of(episode, settings) for episode in EPISODES])
    wanted = {"reward": mean, "success": 0.5, "valid_share": 0.75, "answer_length": 3.0, "episode_length": 2.0}
    assert found == pytest.approx(wanted)
    assert tuple(found) == EPISODE_METRICS


def test_decisions_by_hand():
    """Three decisions in two parts: rho 1, 2 and 0.5, of which the last two are cut."""
    log_prob = torch.tensor([-1.0, -1.0, -2.0])
    old = torch.tensor([-1.0, -1.0 - math.log(2), -2.0 + math.log(2)])
    advantage, reference = torch.tensor([1.0, 1.0, -1.0]), torch.tensor([-1.0, -2.0, -1.0])
    entropy = torch.tensor([0.1, 0.2, 0.6])
    parts = []
    for part in (torch.tensor([0, 1]), torch.tensor([2])):
        log_p, before, a, ref, unsure = (x[part] for x in (log_prob, old, advantage, reference, entropy))
        parts.append((len(part), loss_terms(grpo_loss(log_p, before, a, reference=ref, entropy=unsure))))
    gain = (1.0 + 1.2 - 0.8) / 3
    kl = (0.0 + (math.exp(-1) + 1 - 1) + (math.exp(1) - 1 - 1)) / 3
    wanted = {"policy_loss": -gain, "kl": kl, "clip_share": 2 / 3, "entropy": 0.3}
    assert decision_metrics(parts, reference=True) == pytest.approx(wanted, rel=1e-5)
    without = decision_metrics(parts, reference=False)
    assert math.isnan(without.pop("kl"))
    assert without == pytest.approx({name: value for name, value in wanted.items() if name != "kl"}, rel=1e-5)


def test_where_nothing_was_learnt():
    found = decision_metrics([], reference=True)
    assert tuple(found) == DECISION_METRICS
    assert all(map(math.isnan, found.values()))


def test_a_visit_reports_the_mean_of_its_steps():
    settings = Grpo(reward="score")
    own = iter([np.array([0.25, 0.5])])
    learner = grpo(
        SPEC, settings, tasks=2, group=4, learning_rate=1e-3, local_steps=2, evaluate_own=lambda theta: next(own)
    )
    where = federation(COLOURS_ENVIRONMENT, [np.array([0, 1])])
    update = learner(COLOURS_ENVIRONMENT).local
    client = Client(jnp.int32(0), jax.tree.map(lambda x: x[0], where.env_params), (), ())
    local = update.start(Model(SPEC.init(keys.of_seed(0)), jnp.int32(0)), client, keys.of_seed(1))
    wanted = []
    for y in range(2):
        key = keys.of(keys.of_seed(2), "step", y)
        seen = update.sample(local, client, key)
        wanted.append(episode_metrics(seen, [reward_of(episode, settings) for episode in seen]))
        local = learn(update, local, seen, client, key)
    found = {name: float(value) for name, value in update.metrics(local, client).items()}
    assert set(found) == {*EPISODE_METRICS, *DECISION_METRICS, "own_success", "own_score"}
    for name in EPISODE_METRICS:
        assert found[name] == pytest.approx(np.mean([step[name] for step in wanted]), rel=1e-5)
    assert (found["own_success"], found["own_score"]) == (0.25, 0.5)
    assert found["valid_share"] == 1.0  # commands always are
    assert found["clip_share"] == 0.0  # one pass in one minibatch: every ratio is one
    assert found["kl"] >= 0
    assert found["entropy"] > 0

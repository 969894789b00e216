"""A warm start: adapters that have imitated, kept in the cache, started from and held to (about 15 s of CPU)."""

from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest
import torch
from support.tiny_agents import COLOURS_ENVIRONMENT, TAKING, as_jax, uniform

from fedrl.llm.applications import Application
from fedrl.llm.episodes import play
from fedrl.llm.grpo_update.update import Grpo, improve
from fedrl.llm.imitation import demonstration
from fedrl.llm.learner import grpo
from fedrl.llm.likelihood import likelihood
from fedrl.llm.models import pretrained
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import Lora, load_theta, reference_parameters
from fedrl.llm.models.pretrained import Pretrained, Warm
from fedrl.llm.optimization import adamw
from fedrl.llm.randomness import generator_of
from fedrl.types import Client


@dataclass(frozen=True)
class ColourTasks:
    """Look, then take what is wanted."""

    public: int = 12

    def build(self) -> Application:
        return Application(
            COLOURS_ENVIRONMENT,
            np.arange(6),
            ["any"] * 6,
            np.arange(6, 9),
            np.arange(20, 20 + self.public),
            self.expert,
        )

    def expert(self, task: int) -> list[str]:
        return ["look around", TAKING[task % 3]]


WARM = Warm(ColourTasks(), demonstrations=6, passes=10, learning_rate=1e-2, threads=1)


def warm_spec(folder, warm=WARM, **options) -> Pretrained:
    return Pretrained(str(folder), **({"lora": Lora(rank=4, alpha=8), "threads": 1, "warm": warm} | options))


def likely(spec, theta) -> float:
    model = open_model(spec)
    load_theta(model, theta)
    tasks = ColourTasks()
    samples = [
        sample
        for task in range(3)
        for sample in demonstration(spec.formatter(), COLOURS_ENVIRONMENT.make, task, tasks.expert(task)).samples()
    ]
    with torch.no_grad():
        return float(likelihood(model, samples).log_prob.mean())


@pytest.mark.parametrize("lora", [Lora(rank=4, alpha=8), Lora(rank=4, alpha=8, freeze_a=True), None])
def test_it_starts_where_imitation_ended(saved, lora):
    spec = warm_spec(saved(), lora=lora)
    cold = replace(spec, warm=None)
    key = jax.random.key(0)
    first, start = spec.first(), spec.init(key)
    assert all(np.array_equal(start[name], value) for name, value in first.items())
    assert tuple(sorted(first)) == tuple(sorted(open_model(spec).names))
    assert likely(spec, first) > likely(cold, cold.init(key)) + 0.1


def test_made_once_and_the_same_each_time(saved, tmp_path, monkeypatch):
    spec, files = warm_spec(saved()), []
    for home in ("a", "b"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        pretrained._load_or_warm_up.cache_clear()
        first = spec.first()
        (file,) = (tmp_path / home / "fedrl" / "warm").glob("*/*")
        files.append(file.read_bytes())
        made = file.stat().st_mtime_ns
        pretrained._load_or_warm_up.cache_clear()
        assert all(np.array_equal(value, first[name]) for name, value in spec.first().items())
        assert file.stat().st_mtime_ns == made  # read, not made again
    assert files[0] == files[1]


def test_all_that_matters_is_in_its_name(saved, tmp_path):
    """Other settings, and other weights under the same name, make another; what only estimates memory does not."""
    folder = saved()
    few = replace(WARM, passes=1, demonstrations=2)
    specs = [
        warm_spec(folder, few),
        warm_spec(folder, few, tokens=7),
        warm_spec(folder, few, system="find"),
        warm_spec(folder, few, lora=Lora(rank=2)),
        warm_spec(folder, replace(few, seed=1)),
        warm_spec(folder, replace(few, window=1)),
        warm_spec(folder, replace(few, application=ColourTasks(public=5))),
    ]
    made = []
    for spec in specs:
        spec.first()
        made.append(len(list((tmp_path / "cache" / "fedrl" / "warm").iterdir())))
    assert made == [1, 1, 2, 3, 4, 5, 6]
    saved(seed=1)
    pretrained._load_or_warm_up.cache_clear()
    specs[0].first()
    assert len(list((tmp_path / "cache" / "fedrl" / "warm").iterdir())) == 7


def test_the_reference_is_the_warm_model(saved):
    """Not the model without adapters, which the KL term would pull back to."""
    spec = warm_spec(saved())
    model, first = open_model(spec), spec.first()
    ids = torch.tensor([[4, 9, 7, 8]])

    def logits() -> torch.Tensor:
        return model.net(input_ids=ids).logits.detach()

    with reference_parameters(model, None):
        cold = logits()
    load_theta(model, first)
    warm = logits()
    load_theta(model, {name: value + 0.1 for name, value in first.items()})
    after = logits()
    with reference_parameters(model, first):
        assert torch.equal(logits(), warm)
    assert torch.equal(logits(), after)
    assert not torch.allclose(warm, cold, atol=1e-3)


def test_the_learner_holds_to_it(saved):
    """Its update is the one against the warm model, and not the one against the cold one."""
    spec, settings, key = warm_spec(saved()), Grpo(reward="score", beta=5.0, minibatch=4), jax.random.key(4)
    model = open_model(spec)
    theta = {name: value + 0.02 for name, value in spec.init(key).items()}
    load_theta(model, theta)
    played = play(model, spec.formatter(), COLOURS_ENVIRONMENT.make, [0, 1], 4, uniform(0, 8))
    seen = [episode._replace(score=float(i % 2)) for i, episode in enumerate(played)]
    local = grpo(spec, settings, tasks=2, group=4, learning_rate=1e-2)(COLOURS_ENVIRONMENT).local
    client = Client(np.int32(0), (), (), ())
    message = type("Message", (), {"theta": theta})
    direction, _ = local.estimate(local.start(message, client, key), seen, client, key)
    optimizer = adamw(1e-2)

    def by_hand(first):
        return improve(
            model, theta, optimizer.init(theta), first, seen, [0] * 4 + [1] * 4, settings, optimizer,
            generator_of(key, "shuffle"),
        ).theta  # fmt: skip

    warm, cold = by_hand(spec.first()), by_hand(None)
    assert all(np.allclose(theta[name] + direction[name], warm[name], atol=1e-6) for name in theta)
    assert any(not np.allclose(warm[name], cold[name], atol=1e-4) for name in theta)


def test_it_can_be_made_while_a_program_is_traced(saved):
    spec = warm_spec(saved(), replace(WARM, passes=1, demonstrations=2))
    theta = jax.jit(spec.init)(jax.random.key(0))
    assert all(np.array_equal(theta[name], value) for name, value in as_jax(spec.first()).items())


def test_more_demonstrations_than_there_are(saved):
    with pytest.raises(ValueError, match="13 demonstrations were asked for, of 1 to 12 public tasks there are"):
        warm_spec(saved(), replace(WARM, demonstrations=13)).first()

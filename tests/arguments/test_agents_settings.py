"""Settings of language agents: records of their own, checked as functions are."""

import dataclasses
import math
import pickle

import pytest
from support.mistakes import Mistakes, answered, trained
from support.tiny_agents import COLOURS_ENVIRONMENT, Tiny

from fedrl.algorithms.fedavg import fedavg
from fedrl.learners.optimizers import constant
from fedrl.llm.applications import Household, WebShop
from fedrl.llm.episodes import Acting
from fedrl.llm.evaluation import held_out
from fedrl.llm.grpo_update.update import Grpo
from fedrl.llm.learner import grpo
from fedrl.llm.models.model import Lora
from fedrl.llm.models.pocket import Size
from fedrl.llm.models.pocket_spec import Pocket
from fedrl.llm.models.pretrained import Pretrained, Warm
from fedrl.llm.partitions.coverage import coverage
from fedrl.llm.partitions.hardness import hardness
from fedrl.llm.partitions.preference import preference
from fedrl.llm.tasks import federation

WRONG: Mistakes = {
    "beta": (lambda: Grpo(beta=-1), "beta must be a finite number at least 0, got -1"),
    "entropy_bonus": (
        lambda: Grpo(entropy_bonus=math.nan),
        "entropy_bonus must be a finite number at least 0, got nan",
    ),
    "clip": (lambda: Grpo(clip=-1), "clip must be a finite number larger than 0, got -1; 0.2 is usual"),
    "clip in text": (
        lambda: Grpo(clip="0.2"),
        r"Grpo\(\): clip expects a number, got the text '0.2'; write clip=0.2 without",
    ),
    "gamma": (lambda: Grpo(gamma=2), "gamma must be a finite number at most 1, got 2"),
    "epochs": (lambda: Grpo(epochs=1.5), "epochs expects a whole number, got 1.5; write epochs=2"),
    "scaled": (lambda: Grpo(scaled="no"), "scaled expects True or False, got the text 'no'"),
    "invalid": (lambda: Grpo(invalid=math.inf), "invalid must be a finite number at least 0, got inf"),
    "minibatch": (
        lambda: Grpo(minibatch="16"),
        "minibatch expects a whole number, got the text '16'; write minibatch=16",
    ),
    "lr": (lambda: Grpo(lr=1e-3), r"no argument 'lr'; give it to the learner, such as grpo\(learning_rate=1e-6\)"),
    "entropy": (lambda: Grpo(ent_coef=0.1), r"no argument 'ent_coef'; did you mean entropy_bonus\?"),
    "temperature": (lambda: Acting(temperature=math.nan), "temperature must be a finite number at least 0, got nan"),
    "window": (lambda: Acting(window=1.5), "window expects a whole number or None, got 1.5; write window=2"),
    "products": (lambda: WebShop(products=-5), "products must be a finite number at least 1, got -5"),
    "products in text": (
        lambda: WebShop(products="600"),
        "products expects a whole number, .* write products=600 without",
    ),
    "games": (lambda: Household(games=0), "games must be a finite number at least 1, got 0"),
    "trust": (lambda: Pretrained(trust="yes"), "trust expects True or False, got the text 'yes'"),
    "warm": (lambda: Pretrained(warm=3), r"warm expects a Warm or None, got 3; give Warm\(WebShop\(\)\)"),
    "warm rate": (lambda: Warm(WebShop(), learning_rate=-1.0), "rate must be a finite number larger than 0, got -1.0"),
    "application": (
        lambda: Warm(3),
        r"application expects a Settings, got 3; give an application, such as WebShop\(\)",
    ),
    "uncalled application": (
        lambda: Pocket(WebShop),
        r"application=WebShop is not called; write application=WebShop\(\)",
    ),
    "rank": (lambda: Lora(rank=0), "rank must be a finite number at least 1, got 0; 8 is usual"),
    "heads": (lambda: Size(width=10, heads=4), "width must be a multiple of heads, got 10 and 4"),
    # what they are given to
    "a name": (lambda: grpo("smollm2"), r"spec expects a Spec, got the text 'smollm2'; give a model, .*Pretrained\("),
    "a number": (lambda: grpo(3), "spec expects a Spec, got 3; give a model"),
    "uncalled model": (lambda: grpo(Pretrained), r"spec=Pretrained is not called; write spec=Pretrained\(\)"),
    "uncalled settings": (lambda: grpo(Tiny(), Grpo), r"settings=Grpo is not called; write settings=Grpo\(\)"),
    "schedule": (
        lambda: grpo(Tiny(), learning_rate=constant(1e-3)),
        "rate expects a number, got a function, constant.*give a number, such",
    ),
    "held out": (lambda: held_out(3, 3, [1]), "spec expects a Spec, got 3"),
    "no environment": (
        lambda: held_out(Tiny(), 3, [1]),
        "environment expects a TextEnvironment, got 3; give the environment of an application",
    ),
    "no text": (
        lambda: trained(fedavg(grpo(Tiny()))),
        r"language agents in a TextEnvironment, got a federation of Environment; write fedrl.llm.tasks.federation",
    ),
    "no partition": (lambda: federation(COLOURS_ENVIRONMENT, 3), "partition expects a list, each a list, .*, got 3"),
    "omega": (
        lambda: preference(["a"] * 9, 2, 3, "0.5", 0),
        "omega expects a number, got the text '0.5'; write omega=0.5",
    ),
    "mix": (
        lambda: preference(["a"] * 9, 2, 3, 0.5, 0, mix="dirichlet"),
        "mix expects a function, .* give gaussian_logits, ",
    ),
    "bounds": (lambda: coverage(100, 2, 1.0, 0, bounds=(1, 2)), r"got \(1, 2\); give three numbers"),
    "solved": (lambda: hardness("abc", 2, 1, 1.0, 0), "solved expects a list or an array, got the text 'abc'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    answered(WRONG[name], monkeypatch)


def test_settings_are_records_as_before():
    settings = Grpo("score", epochs=3)
    assert dataclasses.replace(settings, epochs=4) == Grpo(reward="score", epochs=4)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(Pretrained(warm=Warm(WebShop()))) == hash(Pretrained(warm=Warm(WebShop())))

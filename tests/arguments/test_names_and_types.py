"""Arguments that are unknown, missing, or of the wrong type."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from support.mistakes import FED, STEPS, Mistakes, answered, method, trained

from fedrl.aggregation.projection import linf_ball
from fedrl.algorithms import alone, fedavg, fedsvrpg_m, fmarl
from fedrl.algorithms.fedavg import pavg
from fedrl.faults import leave_out
from fedrl.learners import local_step_counts, ppo, reinforce, trpo
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.proximal import proximal
from fedrl.learners.surrogates import clipped
from fedrl.policies.mlp import mlp
from fedrl.policies.multi_categorical import multi_categorical_mlp
from fedrl.policies.softmax import softmax_table
from fedrl.selection.by_loss import power_of_choice
from fedrl.selection.participation import uniform

PPO, TRPO, AVG = ppo, trpo, fedavg

WRONG: Mistakes = {
    "typo": (
        lambda: PPO(stepz=2000),
        r"ppo\(\) has no argument 'stepz'; did you mean steps\? It takes trust, optimizer",
    ),
    "rate": (lambda: PPO(rate=1e-3), r"did you mean learning_rate\?.* and remember$"),
    "lr": (lambda: pavg(lr=0.1, local_steps=1, horizon=1), r"pavg\(\) has no argument 'lr'; did you mean eta\?"),
    "n_envs": (lambda: PPO(n_envs=4), r"did you mean num_envs\?"),
    "lam": (lambda: TRPO(lam=0.9), r"did you mean gae_lambda\?"),
    "clip": (lambda: PPO(clip_range=0.2), r"did you mean trust=clipped\(0\.2\)\?"),
    "clients_per_round": (lambda: AVG(PPO(), clients_per_round=4), r"did you mean selection=uniform\(4\)\?"),
    "server_stepp": (lambda: AVG(PPO(), server_stepp=1.0), r"did you mean server_step\?"),
    "gamma": (lambda: PPO(gamma=0.9), "it belongs to the environment of the federation. It takes"),
    "nothing like it": (lambda: PPO(xyzzy=1), "no argument 'xyzzy'; leave it out. It takes"),
    "missing": (
        lambda: pavg(eta=0.1),
        r"missing local_steps and horizon; write pavg\(eta=…, local_steps=…, horizon=…\)",
    ),
    "positional": (
        lambda: AVG(PPO(), uniform(3)),
        r"takes only learner by position, got 2; give the others by name: server_step, server, sel",
    ),
    "all named": (lambda: PPO(1e-3), r"ppo\(\) takes no argument by position, got 1; give the others by name: trust"),
    "twice": (lambda: uniform(3, clients=3), r"uniform\(\) got clients twice"),
    "timeout": (lambda: leave_out(timeout=60), r"no argument 'timeout'; did you mean deadline\? It takes quorum"),
    "a share alone": (
        lambda: leave_out(0.5),
        r"leave_out\(\) takes no argument by position, got 1; .* by name: quorum",
    ),
    "policy of a method": (
        lambda: AVG(PPO(), policy=mlp(4)),
        r"'policy'; give it to the learner, such as ppo\(policy=mlp",
    ),
    "policy alone": (lambda: alone(PPO(), policy=mlp(4)), "give it to the learner"),
    "policy of fmarl": (lambda: fmarl(PPO(), tau=2, policy=mlp(4)), "give it to the learner"),
    # types
    "text": (
        lambda: fedsvrpg_m(beta="0.2", **STEPS),
        "beta expects a number, got the text '0.2'; write beta=0.2 wi",
    ),
    "fraction": (lambda: pavg(**STEPS | {"horizon": 2.5}), "horizon expects a whole number, got 2.5; write horizon=2"),
    "bool for int": (lambda: PPO(steps=True), "steps expects a whole number, got True"),
    "int for bool": (lambda: PPO(bootstrap=1), "bootstrap expects True or False, got 1"),
    "literal": (lambda: PPO(filters="shared"), "filters expects 'pooled' or 'own', got the text 'shared'"),
    "layers": (lambda: PPO(value=64), r"value expects a tuple such as \(64, 64\), got 64"),
    "layers in a tuple": (
        lambda: mlp((64, 64)),
        r"hidden expects a whole number, got \(64, 64\); give the layers one by one",
    ),
    "learning_rate": (
        lambda: PPO(learning_rate="fast"),
        r"learning_rate expects a function or a number, got the text 'fast'; give 0\.001, or decaying",
    ),
    "optimizer": (
        lambda: PPO(optimizer="adam"),
        r"expects a GradientTransformation.* give fedrl.learners.optimizers.adam\(clip=0.5\)",
    ),
    "decay": (
        lambda: fmarl(PPO(), tau=2, decay=0.95),
        r"decay expects a function, got 0.95; give .*exponential\(0.95\)",
    ),
    "layers of several choices": (
        lambda: multi_categorical_mlp("a"),
        "hidden expects a whole number, got the text 'a'",
    ),
    "infinitely many": (
        lambda: uniform(math.inf),
        "clients expects a whole number, got inf; give how many .* such as 4",
    ),
    "infinite rounds": (
        lambda: trained(method(), rounds=math.inf),
        "rounds expects a whole number, got inf; give how many",
    ),
    "a share": (
        lambda: uniform(0.5),
        "clients expects a whole number, got 0.5; give how many there are to be, such as 4",
    ),
    "half a step": (
        lambda: local_step_counts.fixed_steps([1, 1.5, 2]),
        r"each a whole number, got \[1, 1.5, 2\]; give one number per client",
    ),
    "one pace": (lambda: local_step_counts.fixed_steps(3), "steps expects a list, each a whole number, got 3"),
    "paces in text": (
        lambda: local_step_counts.fixed_steps("121"),
        "steps expects a list, each a whole number, got the text '121'",
    ),
    "seconds": (lambda: local_step_counts.steps_by_time(["a", 1, 2]), "seconds expects a list, each a number, got "),
    "quorum": (lambda: leave_out(quorum=True), "quorum expects a whole number or a number, got True"),
    # functions
    "rate of nothing": (
        lambda: PPO(learning_rate=lambda: 0.1),
        "learning_rate expects .* that cannot be called with 1 argument; give 0.001",
    ),
    "evaluation": (lambda: trained(method(), evaluation=lambda: 3), r"with 2 arguments; give .*exact_return\(\)"),
    "pace": (lambda: fmarl(PPO(), tau=2, pace=lambda: 3), r"with 2 arguments; give fixed_steps\(steps\), "),
    "callback": (
        lambda: trained(method(), callback=lambda row: 0),
        "with 2 arguments; give a function of row and rounds",
    ),
    "snapshot": (
        lambda: trained(method(), snapshot=True),
        "snapshot expects a function or None, got True; give a function such as",
    ),
    "a choice": (
        lambda: AVG(PPO(), selection=uniform(2)(FED, None)),
        r"selection expects a selection, got a Selection",
    ),
    "nobody": (
        lambda: AVG(PPO(), selection=0),
        r"a selection, got 0; give everyone\(\), uniform\(clients\), weighted\(clients\), ",
    ),
    "median in text": (
        lambda: AVG(PPO(), combine="median"),
        "the text 'median'; give fedrl.aggregation.median.median, or",
    ),
    "NumPy's mean": (lambda: AVG(PPO(), combine=np.mean), "got numpy's mean; give fedrl.aggregation.median.median"),
    "JAX's median": (lambda: AVG(PPO(), combine=jnp.median), "got jax's median; give fedrl.aggregation.median.median"),
    "ball": (lambda: AVG(PPO(), project=linf_ball), r"project=lambda environment, policy: linf_ball\(1.0\)"),
    "a ball": (lambda: AVG(PPO(), project=linf_ball(1.0)), r"project=lambda environment, policy: linf_ball\(1.0\)"),
    "start": (
        lambda: softmax_table(start=0.3),
        "start expects a function or None, got 0.3; give .*=lambda key, shape: array",
    ),
    "array": (lambda: softmax_table(np.zeros((4, 3))), r"ndarray of shape \(4, 3\); give .*=lambda key, shape: array"),
    "alone with 3": (lambda: alone(3), r"learner expects a learner, got 3; give ppo\(\), "),
    "along 3": (lambda: proximal(direction=3, mu=0.1), r"expects a direction, got 3; give .*reinforce\(horizon=…\)"),
    "steps_of": (
        lambda: gradient_learner(reinforce(horizon=3), eta=0.1, local_steps=2, steps_of=3),
        "steps_of expects a function or None, got 3; give a function of client and key",
    ),
    # functions that build
    "uncalled": (
        lambda: AVG(PPO(), selection=uniform),
        r"selection=uniform is not called; write selection=uni",
    ),
    "uncalled trust": (lambda: PPO(trust=clipped), r"trust=clipped is not called; write trust=clipped\(\)"),
    "uncalled learner": (lambda: AVG(PPO), r"fedavg\(\): learner=ppo is not called; write learner=ppo\(\)"),
    "uncalled selection": (
        lambda: AVG(PPO(), selection=power_of_choice),
        r"write selection=power_of_choice\(candidates, cli",
    ),
    "number": (lambda: AVG(PPO(), selection=3), r"a selection, got 3; write selection=uniform\(3\) or"),
    "no learner": (
        lambda: AVG(reinforce(horizon=8)),
        r"a learner, got a direction, reinforce\(…\); write gradient_learner\(",
    ),
    "method in method": (lambda: AVG(method()), r"a learner, got a method, pavg\(…\); it is a method already"),
    "uncalled faults": (
        lambda: trained(method(), faults=leave_out),
        r"faults=leave_out is not called; write .*leave_out\(\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    answered(WRONG[name], monkeypatch)

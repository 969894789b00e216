"""Numbers out of range, and settings that contradict each other."""

import math

import optax
import pytest
from support.mistakes import FED, STEPS, WHERE, Mistakes, answered, method, trained

from fedrl.algorithms import alone, fedavg, fedhapg_m, fedsvrpg_m, fmarl
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedpg import b_rs_fedpg, rs_fedpg, s_fedpg
from fedrl.channels import gaussian, graphs, hinge, polynomial
from fedrl.engines.fused import fused
from fedrl.environments.control import cart_pole
from fedrl.environments.tabular import grid_world, random_mdp, synthetic
from fedrl.evaluation import exact_return, sampled_return
from fedrl.faults import leave_out
from fedrl.learners import hapg, ppo, q_learning, reinforce, svrpg, tac, trpo
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.optimizers import dropping, sgd
from fedrl.learners.own_critic import own_critic
from fedrl.learners.proximal import proximal
from fedrl.learners.surrogates import clipped
from fedrl.policies.mlp import gaussian_mlp, mlp
from fedrl.selection.by_loss import power_of_choice
from fedrl.selection.candidates import uniform_of
from fedrl.selection.participation import uniform

PPO, TAC, TRPO, AVG = ppo, tac, trpo, fedavg

WRONG: Mistakes = {
    "eta": (lambda: pavg(**STEPS | {"eta": -0.1}), "eta must be a finite number at least 0, got -0.1"),
    "eta nan": (lambda: pavg(**STEPS | {"eta": math.nan}), "eta must be a finite number at least 0, got nan"),
    "anchored eta": (
        lambda: fedhapg_m(beta=0.5, **STEPS | {"eta": -1}),
        "eta must be .* larger than 0, got -1",
    ),
    "anchored step": (
        lambda: fedsvrpg_m(beta=0.5, server_step=-1, **STEPS),
        "server_step must .* 0, got -1",
    ),
    "beta": (lambda: svrpg(beta=-0.5, horizon=3), "beta must be a finite number at least 0, got -0.5"),
    "beta of a method": (lambda: fedsvrpg_m(beta=1.5, **STEPS), r"beta must lie in \(0, 1\], got 1.5"),
    "hapg": (lambda: hapg(beta=0.5, horizon=0), "horizon must be a finite number at least 1, got 0"),
    "local_steps": (
        lambda: pavg(**STEPS | {"local_steps": 0}),
        "local_steps must be a finite number at least 1, got 0",
    ),
    "horizon": (
        lambda: s_fedpg(batch=1, **STEPS | {"horizon": 0}),
        "horizon must be a finite number at least 1, got 0",
    ),
    "gae_lambda": (
        lambda: rs_fedpg(batch=1, lam=-0.1, **STEPS),
        "lam must be a finite number at least 0, got -0.1; 0 does not",
    ),
    "no radius": (
        lambda: b_rs_fedpg(batch=1, lam=0.0, **STEPS),
        "lam must be .* larger than 0, got 0.0; R_b.*radius=math.inf",
    ),
    "mu": (lambda: proximal(reinforce(horizon=3), mu=-1.0), "cannot be negative, got -1.0"),
    "server_step": (lambda: AVG(PPO(), server_step=-1), "server_step must be a finite number larger than 0, got -1"),
    "negative rate": (lambda: PPO(learning_rate=-1e-3), "rate must be a finite number at least 0, got -0.001"),
    "negative entropy": (lambda: PPO(entropy=-0.1), "entropy must be a finite number at least 0, got -0.1"),
    "negative alpha": (lambda: TAC(alpha=-0.1), "alpha must be a finite number at least 0, got -0.1"),
    "negative schedule": (lambda: dropping(-0.1, every=3), "start must be a finite number at least 0, got -0.1"),
    "critic_learning_rate": (
        lambda: TRPO(critic_learning_rate=-1.0),
        "critic_learning_rate must be a finite number at least 0, got -1.0",
    ),
    "GAE": (lambda: PPO(gae_lambda=1.5), "gae_lambda must lie between 0 and 1, got 1.5"),
    "no clients": (lambda: uniform(0), "clients must be a finite number at least 1, got 0"),
    "samples": (lambda: q_learning(samples=0), "samples must be a finite number at least 1, got 0"),
    "a falling schedule": (
        lambda: PPO(learning_rate=lambda round: -1.0),
        "rate must be .* at least 0, got -1.0; this is what the sch",
    ),
    "a schedule of text": (lambda: PPO(learning_rate=lambda round: "a"), r"rate\(round\) must return one number"),
    "bit_discount": (
        lambda: b_rs_fedpg(batch=1, lam=0.1, bit_discount=2.0, **STEPS),
        "bit_discount must .* at most 1, got 2",
    ),
    "lanes": (lambda: fused(lanes=0), "lanes must be a finite number at least 1, got 0"),
    "momentum": (lambda: sgd(momentum=1.5), "momentum must be a finite number smaller than 1, got 1.5; 0.9 is usual"),
    "momentum nan": (lambda: sgd(momentum=math.nan), "momentum must be a finite number at least 0, got nan"),
    "infinite mu": (lambda: proximal(reinforce(horizon=3), mu=math.inf), "mu .* is finite .*, got inf"),
    "infinite reach": (lambda: clipped(math.inf), "reach must be positive and finite, got inf; 0.2 is usual"),
    "entropic index": (lambda: TAC(q=math.inf), "q must be a finite number larger than 0, got inf"),
    "epsilon": (lambda: fmarl(PPO(), tau=2, epsilon=-1), "epsilon must be a finite number larger than 0, got -1"),
    "a layer of none": (lambda: mlp(0), "hidden must be a finite number at least 1, got 0"),
    "a negative layer": (lambda: mlp(-3), "hidden must be a finite number at least 1, got -3"),
    "hold": (lambda: gaussian_mlp(hold=0), "hold must be a finite number at least 1, got 0"),
    "no time": (
        lambda: sampled_return(5, horizon=0),
        "horizon must be a finite number at least 1, got 0; leave it out",
    ),
    "no episodes": (lambda: sampled_return(0), "episodes must be a finite number at least 1, got 0"),
    # worlds and graphs
    "length": (
        lambda: cart_pole.evenly(3, "half_length", math.nan, 1.0),
        "finite and positive, got nan to 1.0; .* has 0.5",
    ),
    "negative length": (
        lambda: cart_pole.evenly(3, "half_length", -1.0, 1.0),
        "half_length .* positive, got -1.0 to 1.0",
    ),
    "gamma in text": (
        lambda: cart_pole.environment("0.9"),
        "gamma expects a number, got the text '0.9'; write gamma=0.9",
    ),
    "kinds": (lambda: synthetic.synthetic(0.1, kinds=0), "kinds must be None or at least 1, got 0"),
    "no distribution": (
        lambda: grid_world.grid_world(0.1, start=[0.5] + [0.0] * 7),
        "start must be a distribution over",
    ),
    "kappa": (lambda: random_mdp.dense(4, 3, math.nan), r"kappa must lie in \[0, 1\], got nan"),
    "kapa": (lambda: random_mdp.dense(4, 3, kapa=0.5), r"no argument 'kapa'; did you mean kappa\?"),
    "ring": (lambda: graphs.ring("7"), "m expects a whole number, got the text '7'; write m=7 without quotes"),
    "half a ring": (lambda: graphs.ring(3.0), "m expects a whole number, got 3.0; write m=3"),
    "no ring": (lambda: graphs.ring(), r"ring\(\) is missing m; write ring\(m\)"),
    "links": (lambda: graphs.edges([(0, 1.5)], 2), r"got \[\(0, 1.5\)\]; give pairs of agents, such as \[\(0, 1\)"),
    "random graph": (lambda: graphs.random_graph(5, 5), r"missing seed; write random_graph\(m, links, seed\)"),
    # channels
    "no clip": (lambda: gaussian(0.0, 1.0), "clip must be .* larger than 0, got 0.0; the longest upload"),
    "an infinite clip": (lambda: gaussian(math.inf, 0.0), "clip must be .*, got inf; .* leave `channel` out"),
    "a negative clip": (lambda: gaussian(-1.0, 1.0), "clip must be a finite number larger than 0, got -1.0"),
    "negative noise": (lambda: gaussian(1.0, -0.5), "noise must be a finite number at least 0, got -0.5; 0 only clips"),
    "noise nan": (lambda: gaussian(1.0, math.nan), "noise must be a finite number at least 0, got nan"),
    "clip in text": (lambda: gaussian("1.0", 0.5), "clip expects a number, got the text '1.0'; write clip=1.0"),
    "no noise": (lambda: gaussian(1.0), r"gaussian\(\) is missing noise; write gaussian\(clip, noise\)"),
    "noise misspelt": (lambda: gaussian(1.0, noize=0.5), r"no argument 'noize'; did you mean noise\?"),
    "a reward for being late": (lambda: polynomial(-1.0), "power must be a finite number at least 0, got -1.0"),
    "a hinge": (lambda: hinge(-1.0, 2.0), "a must be a finite number at least 0, got -1.0"),
    "a hinge that opens early": (lambda: hinge(1.0, -2.0), "b must be a finite number at least 0, got -2.0; so many"),
    # what does not go together
    "two steps": (
        lambda: AVG(PPO(), server=optax.adam(1e-2), server_step=0.5),
        "server_step=0.5 is the step of an average, and an optimiser at the server has its own; leave server_step out",
    ),
    "reports of nobody": (
        lambda: alone(PPO(remember=1, warm_up=2048), selection=power_of_choice(3, 2))(FED),
        "clients that go alone send nothing, and this selection needs reports from them; give selection=uniform",
    ),
    "looked at before a measurement": (
        lambda: trained(method(), evaluation=exact_return(uniform_of(3, 2))),
        "only clients that train can be asked before they are chosen.* give everyone",
    ),
    "a quorum of 50": (
        lambda: trained(method(), faults=leave_out(quorum=50)),
        "a quorum of 50 clients is more than the 3 there are; lower it",
    ),
    "no critic": (
        lambda: own_critic(gradient_learner(reinforce(horizon=3), eta=0.1, local_steps=1))(WHERE),
        r"this learner has none that travels; pass an actor-critic: own_critic\(ppo\(\)\)",
    ),
    "its critic twice": (lambda: own_critic(own_critic(PPO()))(WHERE), "this learner has none that travels"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_for_each_mistake(name, monkeypatch):
    answered(WRONG[name], monkeypatch)

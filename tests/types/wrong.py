"""Mistakes a contributor makes, one a numbered line. A type checker that sees the installed package must report each."""

from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.channels.plain import plain
from fedrl.federations.federation import Federation
from fedrl.learners.gradient_steps import Direction, gradient_learner
from fedrl.learners.ppo import ppo
from fedrl.selection.participation import uniform
from fedrl.types import Channel, Client, Exchange, LocalUpdate


def estimate(
    local: int, client: Client, seen: str
) -> int:  # arguments swapped, no key, returns one thing instead of two
    return 0


update = LocalUpdate(
    start=estimate,  # 1
    sample=estimate,  # 2
    estimate=estimate,  # 3
    apply=estimate,  # 4
    finish=estimate,  # 5
)
exchange = Exchange(
    "train",
    choose=estimate,  # 6
    send=estimate,  # 7
    local=update,
    combine=estimate,  # 8
    receive=estimate,  # 9
    channel=plain,
)
channel = Channel(encode=estimate, decode=estimate)  # 10
learner = gradient_learner(lambda environment, policy: Direction(estimate, estimate), eta=0.1, local_steps=2)  # 11
mistyped = ppo(stepz=2000)  # 12
mistyped_too = fedavg(ppo(), server_stepp=1.0)  # 13
not_called = fedavg(ppo(), selection=uniform)  # 14
text = fedsvrpg_m(beta="0.2", eta=0.1, local_steps=2, horizon=8)  # 15
federation = Federation(environment=3, env_params=None)  # 16

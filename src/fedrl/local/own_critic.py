"""A learner whose critic stays at home: what FAPI without federated policy evaluation asks for (004, Algorithm 2)."""

from typing import Any, NamedTuple

from jax import Array

from fedrl.keys import Key
from fedrl.local.actor_critic_records import Theta
from fedrl.local.learner import BuildLearner, Learner, within
from fedrl.trees import Tree
from fedrl.types import Client, LocalUpdate


class Home(NamedTuple):
    """What a client keeps: the learner's memory, and its own V_n."""

    memory: Tree
    critic: Tree


def own_critic(learner: BuildLearner) -> BuildLearner:
    """`learner` (with a `Theta` of actor and critic) of which only the actor travels."""

    def build(environment: Any) -> Learner:
        inner = learner(environment)

        def inside(client: Client) -> Client:
            return client._replace(memory=client.memory.memory)

        def memory(client_id: Array, key: Key) -> Home:
            return Home(inner.memory(client_id, key), inner.init(key).critic)

        def acts_with(actor: Tree, client: Client) -> Tree:
            return inner.acts_with(Theta(actor, client.memory.critic), inside(client))

        def at_home(local: LocalUpdate) -> LocalUpdate:
            def start(message: Any, client: Client, key: Key) -> Any:
                whole = message._replace(theta=Theta(message.theta, client.memory.critic))
                return local.start(whole, inside(client), key)

            def finish(state: Any, client: Client) -> tuple[Tree, Home, Array]:
                upload, kept, env_steps = local.finish(state, inside(client))
                return getattr(upload, "actor", upload), Home(kept, state.theta.critic), env_steps

            return within(local, inside)._replace(start=start, finish=finish)

        return Learner(
            inner.policy,
            init=lambda key: inner.init(key).actor,
            local=at_home(inner.local),
            memory=memory,
            acts_with=acts_with,
            opening=tuple(at_home(local) for local in inner.opening),
            scene=inner.scene,
        )

    return build

"""A learner whose critic stays with the client: FAPI without federated policy evaluation (xie2025, Algorithm 2)."""

from typing import Any, NamedTuple

import jax
from jax import Array

from fedrl import keys
from fedrl.arguments import checked
from fedrl.keys import Key
from fedrl.learners.filtering import Theta
from fedrl.policies.kinds import kind_of
from fedrl.trees import Tree
from fedrl.types import BuildLearner, Client, Learner, LocalUpdate, within


class Home(NamedTuple):
    """What a client keeps: the learner's memory, and its own V_n."""

    memory: Tree
    critic: Tree


@checked
def own_critic(learner: BuildLearner) -> BuildLearner:
    """`learner` (with a `Theta` of actor and critic) of which the actor travels, and the filters if they are pooled."""

    def build(environment: Any) -> Learner:
        inner = learner(environment)
        _want_critic(inner)

        def inside(client: Client) -> Client:
            return client._replace(memory=client.memory.memory)

        def memory(client_id: Array, key: Key) -> Home:
            return Home(inner.memory(client_id, key), inner.init(key).critic)

        def whole(theta: Theta, client: Client) -> Theta:
            return theta._replace(critic=client.memory.critic)

        def without_critic(key: Key) -> Theta:
            theta: Theta = inner.init(key)
            return theta._replace(critic=())

        def at_home(local: LocalUpdate) -> LocalUpdate:
            def start(message: Any, client: Client, key: Key) -> Any:
                return local.start(message._replace(theta=whole(message.theta, client)), inside(client), key)

            def finish(state: Any, client: Client) -> tuple[Tree, Home, Array]:
                upload, kept, env_steps = local.finish(state, inside(client))
                return upload._replace(critic=()), Home(kept, state.theta.critic), env_steps

            return within(local, inside)._replace(start=start, finish=finish)

        return Learner(
            inner.policy,
            init=without_critic,
            local=at_home(inner.local),
            memory=memory,
            acts_with=lambda theta, client: inner.acts_with(whole(theta, client), inside(client)),
            opening=tuple(at_home(local) for local in inner.opening),
            init_shared_state=inner.init_shared_state,
            pooling=inner.pooling,
        )

    return build


def _want_critic(learner: Learner) -> None:
    speaks = kind_of(learner.policy) == "language-model"  # its theta_0 is large, and has no critic anyway
    theta = () if speaks else jax.eval_shape(lambda: learner.init(keys.of_seed(0)))
    if not isinstance(theta, Theta) or not jax.tree.leaves(theta.critic):
        raise ValueError(
            "own_critic keeps a learner's critic at home, and this learner has none that travels; "
            "pass an actor-critic: own_critic(ppo())"
        )

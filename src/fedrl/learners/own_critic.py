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
    """`learner` (with a `Theta` of actor and critic) that shares only its actor, and the filters if they are pooled."""

    def build(environment: Any) -> Learner:
        inner = learner(environment)
        _require_critic(inner)

        def inner_client(client: Client) -> Client:
            return client._replace(memory=client.memory.memory)

        def memory(client_id: Array, key: Key) -> Home:
            return Home(inner.memory(client_id, key), inner.init(key).critic)

        def with_critic(theta: Theta, client: Client) -> Theta:
            return theta._replace(critic=client.memory.critic)

        def without_critic(key: Key) -> Theta:
            theta: Theta = inner.init(key)
            return theta._replace(critic=())

        def keep_critic(local: LocalUpdate) -> LocalUpdate:
            def start(message: Any, client: Client, key: Key) -> Any:
                return local.start(
                    message._replace(theta=with_critic(message.theta, client)), inner_client(client), key
                )

            def finish(state: Any, client: Client) -> tuple[Tree, Home, Array]:
                upload, inner_memory, env_steps = local.finish(state, inner_client(client))
                return upload._replace(critic=()), Home(inner_memory, state.theta.critic), env_steps

            return within(local, inner_client)._replace(start=start, finish=finish)

        return Learner(
            inner.policy,
            init=without_critic,
            local=keep_critic(inner.local),
            memory=memory,
            acts_with=lambda theta, client: inner.acts_with(with_critic(theta, client), inner_client(client)),
            opening=tuple(keep_critic(local) for local in inner.opening),
            init_shared_state=inner.init_shared_state,
            pooling=inner.pooling,
        )

    return build


def _require_critic(learner: Learner) -> None:
    is_language_model = kind_of(learner.policy) == "language-model"  # its theta_0 is large, and has no critic anyway
    theta = () if is_language_model else jax.eval_shape(lambda: learner.init(keys.of_seed(0)))
    if not isinstance(theta, Theta) or not jax.tree.leaves(theta.critic):
        raise ValueError(
            "own_critic keeps a learner's critic at home, and this learner has none that travels; "
            "pass an actor-critic: own_critic(ppo())"
        )

"""Trust region policy optimisation as a local learner: one natural-gradient step per batch, no longer than its KL bound."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from fedrl.arguments import at_least, checked
from fedrl.keys import Key
from fedrl.learners.actor_critic import actor_critic
from fedrl.learners.actor_critic_settings import ActorCritic
from fedrl.learners.improvement import Batch, Improvement, surrogate
from fedrl.learners.reports import aside
from fedrl.trees import Tree
from fedrl.types import BuildLearner, BuildPolicy, Metrics, Policy

Scalar = Callable[[Array], Array]  # a number for every flat vector of parameters

conjugate_gradient: Callable[..., tuple[Array, Any]] = cg  # JAX does not annotate it


@checked
def trpo(
    *,
    delta: float = 0.01,
    damping: float = 0.1,
    iterations: int = 10,
    backtracks: int = 10,
    shrink: float = 0.5,
    policy: BuildPolicy = ActorCritic.policy,
    value: tuple[int, ...] = ActorCritic.value,
    value_last: float = ActorCritic.value_last,
    steps: int = ActorCritic.steps,
    num_envs: int = ActorCritic.num_envs,
    local_steps: int = ActorCritic.local_steps,
    critic_optimizer: optax.GradientTransformation = ActorCritic.critic_optimizer,
    critic_learning_rate: float = ActorCritic.critic_learning_rate,
    critic_epochs: int = ActorCritic.critic_epochs,
    critic_minibatch: int = ActorCritic.critic_minibatch,
    gae_lambda: float = ActorCritic.gae_lambda,
    filter_observations: bool = ActorCritic.filter_observations,
    filter_rewards: bool = ActorCritic.filter_rewards,
    filters: Literal["pooled", "own"] = ActorCritic.filters,
    bootstrap: bool = ActorCritic.bootstrap,
    warm_up: int = ActorCritic.warm_up,
    remember: int = ActorCritic.remember,
) -> BuildLearner:
    """TRPO (Schulman et al. 2015, Eq. 14 and App. C): the mean KL of one iteration is at most `delta`.

    `iterations` of conjugate gradient find the direction with `damping` added to the Fisher matrix; the step is multiplied
    by `shrink` up to `backtracks` - 1 times until the surrogate improves and the bound holds, else the policy stays.
    `ActorCritic` explains the settings from `policy` on.

    Reports surrogate_gain, kl and entropy on the whole batch, the share of steps that were accepted, the number of
    backtracks (`backtracks` if none was accepted), and the metrics of all actor-critics.
    """
    if not (delta > 0 and damping >= 0 and 0 < shrink < 1):
        raise ValueError(
            f"TRPO needs delta > 0, damping >= 0 and shrink in (0, 1), got {delta}, {damping} and {shrink}; "
            "0.01, 0.1 and 0.5 are usual"
        )
    at_least(1, iterations=iterations, backtracks=backtracks)
    settings = ActorCritic(
        policy=policy, value=value, value_last=value_last, steps=steps, num_envs=num_envs, local_steps=local_steps,
        critic_optimizer=critic_optimizer, critic_learning_rate=critic_learning_rate, critic_epochs=critic_epochs,
        critic_minibatch=critic_minibatch, gae_lambda=gae_lambda, filter_observations=filter_observations,
        filter_rewards=filter_rewards, filters=filters, bootstrap=bootstrap, warm_up=warm_up, remember=remember,
    )  # fmt: skip

    def improvement(policy: Policy) -> Improvement:
        return _natural_gradient(
            policy, delta=delta, damping=damping, iterations=iterations, backtracks=backtracks, shrink=shrink
        )

    return actor_critic(improvement, settings)


def _natural_gradient(
    policy: Policy, *, delta: float, damping: float, iterations: int, backtracks: int, shrink: float
) -> Improvement:
    """Take one natural-gradient step, shortened until it is acceptable."""
    if not policy.kl:
        raise ValueError("TRPO needs a policy with closed-form KL; use fedrl.policies.mlp")
    kl = policy.kl

    def improve(actor: Tree, state: tuple[()], batch: Batch, round: Array, key: Key) -> tuple[Tree, tuple[()], Metrics]:
        theta, unravel = ravel_pytree(actor)

        def gain(new: Array) -> Array:
            return surrogate(policy, unravel(new), batch)

        def mean_kl(new: Array) -> Array:
            return jnp.mean(kl(actor, unravel(new), batch.obs))

        step = natural_step(gain, mean_kl, theta, delta=delta, damping=damping, iterations=iterations)
        new, num_backtracks = line_search(gain, mean_kl, theta, step, delta=delta, backtracks=backtracks, shrink=shrink)
        metrics = report(policy, *aside((actor, unravel(new), batch)))
        counts = {
            "accepted": (num_backtracks < backtracks).astype(jnp.float32),
            "backtracks": num_backtracks.astype(jnp.float32),
        }
        return unravel(new), state, metrics | counts

    return Improvement(lambda actor: (), improve, reports(policy))


def reports(policy: Policy) -> tuple[str, ...]:
    """The names of the metrics: entropy only if the policy has one in closed form."""
    return ("surrogate_gain", "kl", *(["entropy"] if policy.entropy else []), "accepted", "backtracks")


def report(policy: Policy, old: Tree, new: Tree, batch: Batch) -> Metrics:
    """The gain in mean(rho A), the mean KL(old || new) and the new actor's mean entropy, on the whole batch."""
    assert policy.kl
    metrics = {
        "surrogate_gain": surrogate(policy, new, batch) - surrogate(policy, old, batch),
        "kl": jnp.mean(policy.kl(old, new, batch.obs)),
    }
    return metrics | ({"entropy": jnp.mean(policy.entropy(new, batch.obs))} if policy.entropy else {})


def fisher_product(mean_kl: Scalar, theta: Array, v: Array) -> Array:
    """F v, where F is the Hessian at theta of the mean KL from theta: App. C.1."""
    product: Array = jax.jvp(jax.grad(mean_kl), (theta,), (v,))[1]
    return product


def natural_step(
    gain: Scalar, mean_kl: Scalar, theta: Array, *, delta: float, damping: float, iterations: int
) -> Array:
    """x = (F + damping I)^-1 g by conjugate gradient, scaled so that the quadratic model of the KL gives `delta`."""

    def product(v: Array) -> Array:
        return fisher_product(mean_kl, theta, v) + damping * v

    x, _ = conjugate_gradient(product, jax.grad(gain)(theta), maxiter=iterations)
    curvature = jnp.vdot(x, product(x))
    step: Array = jnp.sqrt(2.0 * delta / jnp.maximum(curvature, 1e-12)) * x
    return step


def line_search(
    gain: Scalar, mean_kl: Scalar, theta: Array, step: Array, *, delta: float, backtracks: int, shrink: float
) -> tuple[Array, Array]:
    """theta + shrink^j step for the first j < `backtracks` with more gain than theta and a mean KL of at most `delta`.

    If there is none, theta itself. Also returns j, the number of backtracks; it is `backtracks` if there is none.
    """
    gain_at_theta = gain(theta)

    def candidate(j: Array) -> Array:
        return theta + jnp.asarray(shrink, step.dtype) ** j.astype(step.dtype) * step

    def is_rejected(j: Array) -> Array:
        new = candidate(j)
        return ~((gain(new) > gain_at_theta) & (mean_kl(new) <= delta))

    j = jax.lax.while_loop(lambda j: (j < backtracks) & is_rejected(j), lambda j: j + 1, jnp.zeros((), jnp.int32))
    return jnp.where(j < backtracks, candidate(j), theta), j

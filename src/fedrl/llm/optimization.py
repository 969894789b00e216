"""Descending a loss of a language model: gradients by torch, steps by optax on the named arrays that travel."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

from fedrl import trees
from fedrl.learners.proximal import pull
from fedrl.llm.models.model import Model, Theta, gradient_checkpointing, gradients, load_theta


class Optimizer(NamedTuple):
    """AdamW after clipping the norm of the gradient."""

    init: Callable[[Theta], Any]
    step: Callable[[Theta, Theta, Any], tuple[Theta, Any]]  # (theta, gradient, state) -> theta, state


def adamw(learning_rate: float, *, clip: float = 1.0, decay: float = 0.01) -> Optimizer:
    if not learning_rate > 0:
        raise ValueError(
            f"the step size must be positive, got {learning_rate}; 1e-6 is the paper's, 5e-4 suits adapters"
        )
    chain = optax.chain(optax.clip_by_global_norm(clip), optax.adamw(learning_rate, weight_decay=decay))

    @jax.jit
    def step(theta: Theta, gradient: Theta, state: Any) -> tuple[Theta, Any]:
        # optax multiplies counts with floats, which JAX's strict promotion rejects
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            update, state = chain.update(gradient, state, theta)
        return optax.apply_updates(theta, update), state

    return Optimizer(jax.jit(chain.init), step)


def proximal(optimizer: Optimizer, anchor: Theta, mu: float) -> Optimizer:
    """`optimizer` of the loss plus mu/2 |theta - anchor|^2 (FedProx)."""
    if mu == 0:
        return optimizer

    def step(theta: Theta, gradient: Theta, state: Any) -> tuple[Theta, Any]:
        return optimizer.step(theta, trees.subtract(gradient, pull(theta, anchor, mu)), state)

    return optimizer._replace(step=step)


def descend(
    model: Model, theta: Theta, state: Any, optimizer: Optimizer, *losses: Callable[[], torch.Tensor]
) -> tuple[Theta, Any, float]:
    """One descent step on the sum of `losses`, each evaluated at `theta` and freed before the next.

    Returns the new theta and the loss before the step.
    """
    load_theta(model, theta)
    model.net.zero_grad(set_to_none=True)
    value = 0.0
    with gradient_checkpointing(model):
        for loss in losses:
            part = loss()
            part.backward()
            value += float(part.detach())
    theta, state = optimizer.step(theta, jax.tree.map(jnp.asarray, gradients(model)), state)
    model.net.zero_grad(set_to_none=True)
    return theta, state, value


def minibatches(groups: Sequence[int], passes: int, size: int, shuffle: np.random.Generator) -> Iterator[list[int]]:
    """The samples of each step, given the group of each sample; every pass contains each sample once.

    The samples of a group stay adjacent; the order of groups is shuffled.
    """
    numbers, group_index = np.unique(np.asarray(groups), return_inverse=True)
    count = len(group_index)
    for _ in range(passes):
        place = np.argsort(shuffle.permutation(len(numbers)))
        order = np.argsort(place[group_index], kind="stable").tolist()
        yield from (order[start : start + size] for start in range(0, count, size))

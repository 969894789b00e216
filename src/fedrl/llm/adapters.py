"""Averaging adapters: the mean of factors is not a factor of the mean, mean(B) mean(A) != mean(B A).

Federated averaging takes the first, as is usual. `of_products` takes the second, which is exact before truncation to the
rank. With `Lora(freeze_a=True)` all clients have the same A, so the two are equal, and federated averaging is exact.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from fedrl.arguments import checked_only
from fedrl.federations.federation import Federation, Method
from fedrl.keys import Key
from fedrl.llm.models.model import Theta
from fedrl.trees import Tree
from fedrl.types import Algorithm, Cohort, Metrics


@checked_only
def of_products(method: Method, *, used: bool = True) -> Method:
    """`method` (federated averaging of adapters) whose server averages the products B A instead of A and B.

    The mean of c clients' products has rank up to c r; the best approximation of rank r is kept (by singular values). The
    log has the distance of the usual mean from the exact one ("factors_off") and of this approximation from it ("rank_off"),
    both relative to the update of the exact one in this round; with `used=False` the result is only logged. Other parameters
    than adapters are averaged as usual. Uploads must arrive unchanged: a channel that hides them leaves nothing to multiply.
    """

    def build(federation: Federation) -> Algorithm:
        algorithm = method(federation)
        train = algorithm.training

        def init(key: Key) -> Any:
            server = algorithm.init(key)
            if not any("lora_A" in name for name in server.theta):
                raise ValueError(
                    f"of_products averages products of LoRA factors, but {_some_names(server.theta)} are trained here; "
                    "use the method itself, whose mean is exact if A is frozen or all parameters are trained"
                )
            return server

        def combine(uploads: tuple[Theta, Tree], cohort: Cohort) -> tuple[Tree, Theta]:
            return train.combine(uploads, cohort), uploads[0]

        def receive(server: Any, uploads: tuple[Tree, Theta], cohort: Cohort, key: Key) -> tuple[Any, Metrics]:
            plain_server, metrics = train.receive(server, uploads[0], cohort, key)
            weight = jnp.where(cohort.present, cohort.weight, jnp.zeros_like(cohort.weight))
            weight = weight / jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
            theta, squared_distances = dict(plain_server.theta), []
            for a in (name for name in server.theta if "lora_A" in name):
                b = a.replace("lora_A", "lora_B")
                A, B = (server.theta[name][None] + uploads[1][name] for name in (a, b))
                theta[a], theta[b] = _truncate(A, B, weight)
                squared_distances.append(
                    [
                        _squared_distance(A, B, weight, tree[a], tree[b])
                        for tree in (plain_server.theta, theta, server.theta)
                    ]
                )
            factors, rank, squared_update = jnp.sum(jnp.asarray(squared_distances), axis=0)
            squared_update = jnp.maximum(
                squared_update, jnp.finfo(squared_update.dtype).tiny
            )  # zero if no client has learnt anything
            share = {"factors_off": (factors / squared_update) ** 0.5, "rank_off": (rank / squared_update) ** 0.5}
            return plain_server._replace(theta=theta) if used else plain_server, metrics | share

        return algorithm.with_training(train._replace(combine=combine, receive=receive))._replace(init=init)

    return build


def _truncate(A: Array, B: Array, weight: Array) -> tuple[Array, Array]:
    """Factors of the best approximation of rank r to sum_k w_k B_k A_k; A [c, r, n], B [c, m, r]."""
    rank = A.shape[1]
    left, right = _sum(A, B, weight)
    q_left, r_left = jnp.linalg.qr(left)
    q_right, r_right = jnp.linalg.qr(right.T)
    u, s, v = jnp.linalg.svd(r_left @ r_right.T)
    root = jnp.sqrt(s[:rank])
    return root[:, None] * (v[:rank] @ q_right.T), (q_left @ u[:, :rank]) * root[None, :]


def _sum(A: Array, B: Array, weight: Array) -> tuple[Array, Array]:
    """[m, c r] and [c r, n], whose product is sum_k w_k B_k A_k."""
    return jnp.concatenate(list(weight[:, None, None] * B), axis=1), jnp.concatenate(list(A), axis=0)


def _squared_distance(A: Array, B: Array, weight: Array, a: Array, b: Array) -> Array:
    """|sum_k w_k B_k A_k - b a|^2 from the factors alone: a product would be as large as the model's own matrix."""
    left, right = _sum(A, B, weight)
    r_left = jnp.linalg.qr(jnp.concatenate([left, -b], axis=1), mode="r")
    r_right = jnp.linalg.qr(jnp.concatenate([right, a], axis=0).T, mode="r")
    return jnp.sum((r_left @ r_right.T) ** 2)


def _some_names(theta: Theta) -> str:
    names = list(theta)
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")

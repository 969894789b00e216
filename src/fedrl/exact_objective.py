"""The regularised objectives of finite MDPs as an evaluation: J_r and J_b, their gradients, heterogeneity and drift."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedrl import trees
from fedrl.arguments import at_least, checked
from fedrl.environments.tabular import finite, solvers
from fedrl.evaluation import Evaluation, check_mdps, choosing, evaluation_exchange, measuring
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.participation import everyone
from fedrl.selection.selection import BuildSelection
from fedrl.theory.bit_level import best_objective
from fedrl.trees import Tree
from fedrl.types import Algorithm, Client, Cohort, Exchange, Metrics, Server, stepwise

__all__ = ["exact_objective"]


class _Measured(NamedTuple):
    """What one client measures at the server's theta."""

    objective: Array  # f_c
    gradient: Tree  # grad f_c
    mean_step: Tree  # the mean of grad f_c over the local steps, which is grad f_c with one
    gap: Array  # f_c* - f_c


@checked
def exact_objective(
    lam: float = 0.0,
    *,
    bit_discount: float | None = None,
    eta: float = 0.0,
    local_steps: int = 1,
    gap: bool = False,
    clients: BuildSelection = everyone(),
) -> Evaluation:
    """The objective that a method climbs, by linear solves, in place of the return: `labbi2025` Eq. 1, 7, 65.

    J_r for a softmax table, J_b for a bit-level one, J at lam = 0; the log calls it `return`, as it does every evaluation.
    Beside it in the log, with f_c the objective of client c, F their weighted mean and theta that of the server:

    - `gradient_norm`: ||grad F(theta)||_2.
    - `heterogeneity`: max_c ||grad F(theta) - grad f_c(theta)||_2, the least zeta of Lemma 4.1 at this theta.
    - `drift`: how far `local_steps` steps of size `eta` along exact gradients, averaged over clients and divided by
      eta * local_steps, are from grad F(theta). That is what local steps do wrong, apart from noise and truncation. Its
      square is at most the left side of Lemma C.1 (by Jensen's inequality), and it is zero with one step.
    - with `gap`, `gap`: the mean of f_c* - f_c(theta), where f_c* is the optimum of client c alone. This is what Theorems
      4.2, E.12, E.21 and F.3 bound; where environments differ no common policy makes it zero.
    """
    at_least(0, "0 does not regularise", lam=lam, eta=eta)
    at_least(1, local_steps=local_steps)
    if gap and bit_discount is not None:
        raise ValueError("exact_objective(gap=True) knows the optimum of the paper's J_b only; leave out bit_discount")

    def build(algorithm: Algorithm, federation: Federation) -> Exchange:
        check_mdps("exact_objective", federation)
        finite.warn_near_one("exact_objective", federation.environment.gamma)
        gamma, policy = federation.environment.gamma, stepwise(algorithm.policy)
        if policy.table is None:
            raise ValueError(
                "exact_objective needs a policy with a table, got one without; use exact_return(), or softmax_table()"
            )

        def measure(answer: Tree, client: Client, key: Key) -> _Measured:
            theta = algorithm.theta_of(answer, client)

            def gradient(theta: Tree) -> Tree:
                return solvers.gradient(policy, theta, client.env_params, gamma, lam, bit_discount)

            def step(theta: Tree, _: None) -> tuple[Tree, Tree]:
                slope = gradient(theta)
                return trees.add(theta, trees.scale(eta, slope)), slope

            objective = solvers.objective(policy, theta, client.env_params, gamma, lam, bit_discount)
            _, slopes = jax.lax.scan(step, theta, None, length=local_steps)
            return _Measured(
                objective,
                jax.tree.map(lambda x: x[0], slopes),
                jax.tree.map(lambda x: jnp.mean(x, axis=0), slopes),
                best_objective(policy, client.env_params, gamma, lam) - objective if gap else jnp.zeros_like(objective),
            )

        local = measuring(measure)
        return evaluation_exchange(algorithm, local, choosing(clients, algorithm, federation, local), receive)

    def receive(server: Server, found: _Measured, cohort: Cohort, key: Key) -> tuple[Server, Metrics]:
        of_gap = {"gap": jnp.sum(cohort.weight * found.gap)} if gap else {}
        return server, _of_federation(found, cohort) | of_gap

    return build


def _of_federation(found: _Measured, cohort: Cohort) -> Metrics:
    mean = trees.weighted_sum(cohort.weight, found.gradient)
    mean_step = trees.weighted_sum(cohort.weight, found.mean_step)
    apart = jax.vmap(lambda one: trees.squared_norm(trees.subtract(one, mean)))(found.gradient)
    answered = cohort.weight > 0
    return {
        "return": jnp.sum(cohort.weight * found.objective),
        "returns": found.objective,
        "gradient_norm": jnp.sqrt(trees.squared_norm(mean)),
        "heterogeneity": jnp.sqrt(jnp.max(jnp.where(answered, apart, jnp.zeros_like(apart)))),
        "drift": jnp.sqrt(trees.squared_norm(trees.subtract(mean_step, mean))),
    }


def __dir__() -> list[str]:
    return __all__

"""Federated natural policy gradient (FedNPG), written outside the package: run it with `python examples/fednpg.py`."""

import jax
import jax.numpy as jnp

import fedrl
from fedrl.algorithms import fedavg
from fedrl.environments import dense_mdps, finite_mdp
from fedrl.learners import BuildDirection, Direction, gradient_learner
from fedrl.learners.reinforce import reward_to_go
from fedrl.rollouts.episodes import env_steps, sampler


def natural_gradient(*, horizon: int, batch: int) -> BuildDirection:
    """F(theta)^-1 grad J(theta) of a softmax table (Kakade 2002), which is A(s, a) / (1 - gamma).

    Q(s, a) is the mean return after the discounted visits to (s, a); pairs that no episode visited do not move.
    """

    def build(environment, policy) -> Direction:
        act = sampler(environment, policy, horizon=horizon, batch=batch)

        def learn(theta, message, trajectory, client, key):
            pair = trajectory.obs, trajectory.choice
            discount = environment.gamma ** jnp.arange(horizon, dtype=theta.dtype)
            to_go = reward_to_go(environment, policy, theta, trajectory)[..., 0]  # discounted from time zero
            visits = jnp.zeros_like(theta).at[pair].add(jnp.where(trajectory.alive, discount, 0.0))
            seen = visits > 0.0
            q = jnp.zeros_like(theta).at[pair].add(to_go) / jnp.where(seen, visits, 1.0)
            pi = jnp.where(seen, jax.nn.softmax(theta), 0.0)
            value = jnp.sum(pi * q, axis=1) / jnp.maximum(jnp.sum(pi, axis=1), 1e-9)
            advantage = jnp.where(seen, q - value[:, None], 0.0)
            return advantage / (1.0 - environment.gamma), env_steps(trajectory)

        return Direction(lambda theta, message, client, key: act(theta, client, key), learn)

    return build


def main(rounds: int = 30) -> None:
    federation = fedrl.Federation(
        finite_mdp(states=5, actions=4, gamma=0.9), env_params=dense_mdps(5, 4, kappa=0.4), clients=10
    )
    algorithm = fedavg(gradient_learner(natural_gradient(horizon=40, batch=8), eta=0.02, local_steps=2))
    run = fedrl.train(algorithm, federation, rounds=rounds)
    print(f"return {run.rows[0]['return']:.2f} at first, {run.rows[-1]['return']:.2f} after {rounds} rounds")


if __name__ == "__main__":
    main()

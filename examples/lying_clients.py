"""Two of ten clients send nonsense: the mean follows them, the median does not. `python examples/lying_clients.py`."""

import jax
import jax.numpy as jnp

import fedrl
from fedrl import aggregation, algorithms, channels, environments


def with_liars(liars: int) -> channels.Channel:
    """The first `liars` of the cohort send twenty times the opposite of what they learnt."""

    def encode(upload, cohort, slot, key):
        factor = jnp.where(slot < liars, -20.0, 1.0)
        return jax.tree.map(lambda x: factor.astype(x.dtype) * x, upload)

    return channels.Channel(encode, decode=lambda aggregate, cohort, key: aggregate)


def main(rounds: int = 30) -> dict[str, float]:
    mdps = environments.dense_mdps(5, 4, kappa=0.2)
    federation = fedrl.Federation(environments.finite_mdp(5, 4, gamma=0.9), mdps, clients=10)
    results = {}
    for name, liars, combine in [
        ("mean, all honest", 0, aggregation.mean),
        ("mean, two liars", 2, aggregation.mean),
        ("median, two liars", 2, aggregation.median),
    ]:
        method = algorithms.pavg(
            eta=0.2, local_steps=5, horizon=30, batch=4, combine=combine, channel=with_liars(liars)
        )
        results[name] = float(fedrl.train(method, federation, rounds=rounds).returns.mean())
        print(f"{name:18} {results[name]:.3f}")
    return results


if __name__ == "__main__":
    main()

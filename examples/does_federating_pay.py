"""FedAvg against going alone, with more and more data per client: `python examples/does_federating_pay.py`.

Clients with little data gain by sharing; clients with much data and tasks that differ may be better off alone.
"""

import fedrl
from fedrl import algorithms, environments, learners


def main(rounds: int = 40, batches: tuple[int, ...] = (1, 4, 16), seeds: int = 8) -> list[float]:
    mdps = environments.dense_mdps(5, 4, kappa=0.6)  # kappa: how much of a client's kernel is its own
    federation = fedrl.Federation(environments.finite_mdp(5, 4, gamma=0.9), mdps, clients=10)
    gaps = []
    for batch in batches:
        learner = learners.gradient_learner(learners.reinforce(horizon=30, batch=batch), eta=0.2, local_steps=5)
        together = fedrl.train(algorithms.fedavg(learner), federation, rounds=rounds, seeds=seeds)
        apart = fedrl.train(algorithms.alone(learner), federation, rounds=rounds, seeds=seeds)
        gap = (together.returns - apart.returns).mean(axis=1)  # one number per seed
        error = gap.std(ddof=1) / seeds**0.5
        print(f"{batch:3} episodes a step: federating gains {gap.mean():+.3f} ± {error:.3f} return")
        gaps.append(float(gap.mean()))
    return gaps


if __name__ == "__main__":
    main()

"""FedAvg, FedAvgM and FedAdam on the same federation, one figure: `python examples/server_optimisers.py`."""

import matplotlib.pyplot as plt
import numpy as np
import optax

import fedrl
from fedrl import algorithms, environments, learners


def main(rounds: int = 60, figure: str = "server_optimisers.png") -> str:
    mdps = environments.dense_mdps(5, 4, kappa=0.4)
    federation = fedrl.Federation(environments.finite_mdp(5, 4, gamma=0.9), mdps, clients=10)
    learner = learners.gradient_learner(learners.reinforce(horizon=30, batch=2), eta=0.02, local_steps=5)
    servers = {"FedAvg": None, "FedAvgM": optax.sgd(1.0, momentum=0.9), "FedAdam": optax.adam(0.1)}
    _, axes = plt.subplots()
    for name, server in servers.items():
        run = fedrl.train(algorithms.fedavg(learner, server=server), federation, rounds=rounds, seeds=4)
        axes.plot([row["round"] for row in run.rows], [np.mean(row["return"]) for row in run.rows], label=name)
        print(f"{name:8} {run.returns.mean():.3f}")
    axes.set(xlabel="round", ylabel="return, mean over clients and seeds")
    axes.legend()
    plt.savefig(figure)
    return figure


if __name__ == "__main__":
    print(main())

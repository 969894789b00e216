"""How good can one policy for all be? Exact answers, then a learnt policy beside them: `python examples/common_policies.py`.

Clients of two kinds need opposite actions, so the best common policy flips a coin (Labbi et al. 2025, Theorem 3.1).
"""

import fedrl
from fedrl import algorithms, environments, theory

GAMMA = 0.9


def main(rounds: int = 300) -> dict[str, float]:
    two_kinds = theory.counter_examples.lemma_b3()  # two clients, three states, two actions
    levels = {
        "best deterministic common policy": float(theory.best_deterministic(two_kinds, GAMMA).value),
        "best stochastic common policy": float(theory.best_stationary(two_kinds, GAMMA, starts=8).value),
        "each client its own policy": float(theory.best_agent_aware(two_kinds, GAMMA)),
    }
    federation = fedrl.Federation(environments.finite_mdp(3, 2, GAMMA), two_kinds)
    method = algorithms.rs_fedpg(eta=0.05, local_steps=2, horizon=40, batch=16, lam=0.01)
    levels["learnt by RS-FedPG"] = float(fedrl.train(method, federation, rounds=rounds).returns.mean())
    for name, value in levels.items():
        print(f"{name:34} {value:.2f}")
    return levels


if __name__ == "__main__":
    main()

"""Fed-Q-learning / QAvg with a generative model: Jin et al. 2022, as compared against in Labbi et al. 2025, App. H."""

from fedrl.algorithms.fedavg import Method, fedavg
from fedrl.local.ascent import steps_along
from fedrl.local.q_learning import q_learning
from fedrl.policies.greedy import greedy_table


def fed_q_learning(*, eta: float, local_steps: int, samples: int, unsampled: str = "keep", **options) -> Method:
    """FedAvg of Q tables moved along sampled Bellman residuals; acts greedily, so its policy is deterministic."""
    direction = q_learning(samples=samples, unsampled=unsampled)
    return fedavg(steps_along(direction, eta=eta, local_steps=local_steps, policy=greedy_table()), **options)

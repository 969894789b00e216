"""No heterogeneity: the same number of tasks for everyone, shared as evenly as can be (fedagent, section 5)."""

import numpy as np

from fedrl.arguments import checked
from fedrl.llm.partitions.checks import Partition, check_counts, check_enough
from fedrl.llm.randomness import generator_at


@checked
def uniform(tasks: int, clients: int, tasks_each: int, seed: int) -> Partition:
    """Shuffle the tasks, lay them in a ring and let client k take `tasks_each` in a row from the place k tasks / clients.

    The paper says only "100 tasks each, with a potential overlap". Its released code cuts the list into equal slices and
    widens each on both sides; here the ring has no ends, so that how many clients have a task differs by at most one.
    If clients have fewer than tasks / clients each, some tasks belong to no client.
    """
    check_counts(tasks=tasks, clients=clients, tasks_each=tasks_each)
    check_enough(tasks, tasks_each)
    ring = generator_at(seed, "uniform").permutation(tasks)
    starts = [k * tasks // clients for k in range(clients)]
    return [np.sort(ring[np.arange(start, start + tasks_each) % tasks]) for start in starts]

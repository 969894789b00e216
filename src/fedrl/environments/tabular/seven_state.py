"""The 7-state, 4-action pair of MDPs behind "highly heterogeneous" in the published code of `labbi2025`.

Unlike the paper, which describes two instances (`synthetic.highly_heterogeneous`, `grid_world.highly_heterogeneous`),
the code runs these tables for both and changes only the rewards of states 1 and 2. State 0 is the gate: clients of even
id (type 1) stay by actions 0, 1 and enter state 1 by actions 2, 3; clients of odd id (type 2) enter state 2 by actions
0, 1 and stay by actions 2, 3. States 1 and 2 are absorbing, 3 to 6 the same for all. The code lists all of type 1
first; here types alternate, which gives the same average for an even number of clients.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.environments.tabular.finite import MDP
from fedrl.environments.tabular.random_mdp import DrawMDP

TRAINING_START = np.array([0.05, 0.05, 0.05, 0.3, 0.3, 0.2, 0.05])
EVALUATION_START = np.full(7, 1.0 / 7.0)

# successors of states 3 to 6 by action, as {state: probability}
_SHARED = (
    ({3: 0.8, 4: 0.2}, {3: 0.7, 4: 0.2, 5: 0.1}, {3: 0.2, 4: 0.8}, {3: 0.9, 4: 0.1}),
    ({3: 0.6, 4: 0.2, 5: 0.2}, {3: 0.5, 4: 0.2, 5: 0.2, 6: 0.1}, {3: 0.6, 4: 0.2, 5: 0.1, 6: 0.1}, {3: 0.1, 5: 0.9}),
    ({3: 0.1, 4: 0.4, 5: 0.5}, {4: 0.5, 5: 0.4, 6: 0.1}, {3: 0.4, 5: 0.3, 6: 0.3}, {4: 0.1, 5: 0.1, 6: 0.8}),
    ({3: 0.5, 4: 0.3, 6: 0.2}, {4: 0.1, 5: 0.8, 6: 0.1}, {3: 0.2, 4: 0.2, 5: 0.2, 6: 0.4}, {0: 0.9, 6: 0.1}),
)
_REWARD = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.1, 0.2, 0.0, 0.0],
        [0.05, 0.05, 0.1, 0.0],
        [0.1, 0.1, 0.0, 0.0],
        [0.1, 0.2, 0.05, 0.0],
    ]
)
_GATE = (({0: 1.0}, {0: 1.0}, {1: 1.0}, {1: 1.0}), ({2: 1.0}, {2: 1.0}, {0: 1.0}, {0: 1.0}))


def synthetic(*, start: np.ndarray = TRAINING_START) -> DrawMDP:
    """States 1 and 2 pay 1 whatever the action. Pass `start=EVALUATION_START` (uniform) to evaluate."""
    return _generator(_REWARD, start)


def grid_world(*, start: np.ndarray = TRAINING_START) -> DrawMDP:
    """State 1 pays 0, 0, 1, 0.5 and state 2 pays 0, 0.5, 0, 0 by action: the code's "GridWorld", without a grid."""
    reward = _REWARD.copy()
    reward[1] = [0.0, 0.0, 1.0, 0.5]
    reward[2] = [0.0, 0.5, 0.0, 0.0]
    return _generator(reward, start)


def _generator(reward: np.ndarray, start: np.ndarray) -> DrawMDP:
    if np.shape(start) != (7,):
        raise ValueError(f"start must hold 7 probabilities, got shape {np.shape(start)}; try EVALUATION_START")
    kernels = np.stack([_kernel(gate) for gate in _GATE])

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        dtype = jnp.result_type(float)
        kernel = jnp.asarray(kernels, dtype)[jnp.asarray(client_id) % 2]
        return MDP(kernel, jnp.asarray(reward, dtype), jnp.asarray(start, dtype))

    return draw


def _kernel(gate: tuple[dict[int, float], ...]) -> np.ndarray:
    kernel = np.zeros((7, 4, 7))
    kernel[1, :, 1] = kernel[2, :, 2] = 1.0
    for state, row in zip((0, 3, 4, 5, 6), (gate, *_SHARED), strict=True):
        for action, successors in enumerate(row):
            for successor, probability in successors.items():
                kernel[state, action, successor] = probability
    return kernel

"""GridWorld of `labbi2025`, App. H: a 3 x 3 grid with a wall in the middle, goal (2, 2).

States are the eight free cells (row, column) in reading order; actions are left, right, down, up. Where the paper is
silent this follows rlberry's GridWorld (Domingues et al. 2021), which it cites: a failed move goes to one of the
*other* free neighbours, and a blocked move stays with probability 1. "+1 upon arrival" is read as r(s, a) = 1 for being
in the goal, since the paper's rewards are functions of (s, a) shared by all clients; nothing terminates.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys
from fedrl.arguments import checked_only
from fedrl.environments.tabular.finite import MDP
from fedrl.environments.tabular.random_mdp import DrawMDP, masked_rows
from fedrl.environments.tabular.synthetic import check_kinds, kind, mixing, with_gate

GAMMA = 0.95  # the paper's; the published code runs with 0.99
SUCCESS = 0.8
CELLS = tuple((row, column) for row in range(3) for column in range(3) if (row, column) != (1, 1))
MOVES = ((0, -1), (0, 1), (1, 0), (-1, 0))
GOAL = CELLS.index((2, 2))
CORNER = np.eye(len(CELLS))[CELLS.index((0, 0))]  # start of every training episode in the published code


@checked_only
def grid_world(epsilon: float, *, start: Array | None = None, kinds: int | None = None) -> DrawMDP:
    """P_c = (1 - epsilon) P_com + epsilon P_c_ind; epsilon = 0: all clients are alike.

    P_com reaches the intended cell with probability 0.8; P_c_ind moves to a free neighbour with random probabilities
    that depend on client, cell and action. `start` is uniform unless given (`start=CORNER` trains as the published code
    does, which still evaluates from a uniform start). `kinds=2`: client c has individual kernel c % 2, as in that code.
    """
    return _generator(epsilon, start, kinds, cut=())


@checked_only
def highly_heterogeneous(*, epsilon: float = 0.0) -> DrawMDP:
    """The goal pays nothing and becomes the gate to two absorbing states that pay 1, opened by opposite actions.

    Even clients enter state 8 from (2, 2) by left or right and stay by down or up; odd clients stay by left or right
    and enter state 9 by down or up. Of the two ways round the wall only the upper right one reaches (2, 2). Start
    uniform.

    Where the paper is silent: the suppressed path is cut, for everybody, between (2, 1) and (2, 2); cells other than
    the goal keep the kernel of `grid_world(epsilon)`. The published "GridWorld" instance has no grid: see
    `seven_state`.
    """
    base = _generator(epsilon, None, None, cut=((2, 1), (2, 2)))

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        inner = base(key, client_id)
        return with_gate(inner._replace(reward=jnp.zeros_like(inner.reward)), gate=GOAL, client_id=client_id)

    return draw


def _generator(
    epsilon: float, start: Array | np.ndarray | None, kinds: int | None, cut: tuple[tuple[int, int], ...]
) -> DrawMDP:
    share = mixing(epsilon)
    check_kinds(kinds)
    rho = np.full(len(CELLS), 1.0 / len(CELLS)) if start is None else np.asarray(start)
    if rho.shape != (len(CELLS),):
        raise ValueError(f"start must hold one probability for each of the 8 cells, got shape {rho.shape}; try CORNER")
    if not (abs(rho.sum() - 1.0) < 1e-4 and (rho >= 0).all()):
        raise ValueError(f"start must be a distribution over the 8 cells, got {rho.tolist()}; try CORNER")
    target = _targets(cut)
    neighbour = np.array(
        [[cell != own and cell in row for cell in range(len(CELLS))] for own, row in enumerate(target)]
    )
    mask = np.broadcast_to(neighbour[:, None, :], (len(CELLS), len(MOVES), len(CELLS)))

    def draw(key: keys.Key, client_id: int | Array) -> MDP:
        own = masked_rows(keys.of(key, "individual", kind(client_id, kinds)), jnp.asarray(mask))
        kernel = (1.0 - share) * jnp.asarray(_common(target, neighbour), own.dtype) + share * own
        reward = jnp.zeros((len(CELLS), len(MOVES)), own.dtype).at[GOAL].set(1.0)
        return MDP(kernel, reward, jnp.asarray(rho, own.dtype))

    return draw


def _targets(cut: tuple[tuple[int, int], ...]) -> np.ndarray:
    """[8, 4] where each move leads if it succeeds: the cell itself if blocked by border, wall or the `cut` link."""

    def after(cell: tuple[int, int], move: tuple[int, int]) -> int:
        target = (cell[0] + move[0], cell[1] + move[1])
        blocked = target not in CELLS or (cell in cut and target in cut)
        return CELLS.index(cell if blocked else target)

    return np.array([[after(cell, move) for move in MOVES] for cell in CELLS])


def _common(target: np.ndarray, neighbour: np.ndarray) -> np.ndarray:
    """P_com [8, 4, 8]: the rest of the probability is spread evenly over the other free neighbours."""
    kernel = np.zeros((len(CELLS), len(MOVES), len(CELLS)))
    for cell, row in enumerate(target):
        for action, target_cell in enumerate(row):
            others = neighbour[cell] & (np.arange(len(CELLS)) != target_cell)
            is_certain = target_cell == cell or not others.any()
            kernel[cell, action] = 0.0 if is_certain else (1.0 - SUCCESS) * others / others.sum()
            kernel[cell, action, target_cell] += 1.0 if is_certain else SUCCESS
    return kernel

"""The constants of Lemma 4.1 for S-, RS- and b-RS-FedPG: `labbi2025` Lemmas D.2 to D.8, E.2 to E.8, App. F.2.

They hold for rewards in [0, 1] that all clients share, and for every theta: L1 bounds gradients, L2 is the Lipschitz
constant of the gradient and of the estimator's mean, L3 bounds the third derivative; zeta bounds the difference of
gradients, beta the estimator's bias, sigma its noise. They are loose: of 600 random instances with two states, the worst
has 0.27 of L1, 0.03 of L2, 0.04 of beta, 0.05 of sigma2, 0.008 of sigma4 and 0.0004 of L3, all exact.

Equation (58), behind sigma4, is false for few actions: with two, of probability e^-4 and 1 - e^-4, log(pi)^4 has mean 4.7,
where log(2)^4 = 0.23. On those instances the bound on sigma4 has more than that to spare.
"""

import math
from typing import NamedTuple

from fedrl.theory.bit_level import bit_discount


class Constants(NamedTuple):
    L1: float  # ||grad f_c||_2
    L2: float  # ||Hessian of f_c||_2, and the Lipschitz constant of g_c = E g
    L3: float  # the third derivative along three unit vectors
    zeta: float  # ||grad F - grad f_c||_2, proportional to epsilon_P
    log_beta: float  # beta bounds ||g_c - grad f_c||_2 and falls with the horizon, soon below what a float holds
    sigma2: float  # E||g - g_c||_2^2, sigma_2^2 of the paper
    sigma4: float  # E||g - g_c||_2^4, sigma_4^4 of the paper

    @property
    def beta(self) -> float:
        return math.exp(self.log_beta)


def softmax_constants(
    gamma: float, *, horizon: int, batch: int = 1, lam: float = 0.0, actions: int = 2, epsilon_p: float = 0.0
) -> Constants:
    """Those of RS-FedPG, and of S-FedPG at lam = 0, where `actions` is without effect.

    Unlike the paper, whose L1 of App. F.2 multiplies by (1 - gammabar)^2, everything is divided by a power of 1 - gamma.
    """
    if not (0.0 < gamma < 1.0 and lam >= 0.0 and actions >= 1 and horizon >= 1 and batch >= 1 and epsilon_p >= 0.0):
        raise ValueError(
            f"the constants need 0 < gamma < 1, lam and epsilon_p from 0, actions, horizon and batch from 1 on; got gamma = "
            f"{gamma}, lam = {lam}, epsilon_p = {epsilon_p}, actions = {actions}, horizon = {horizon}, batch = {batch}"
        )
    rest, entropy = 1.0 - gamma, lam * math.log(actions)
    return Constants(
        L1=(1.0 + entropy) / rest**2,
        L2=(8.0 + 4.0 * lam + 8.0 * entropy) / rest**3,
        L3=(480.0 + 832.0 * entropy) / rest**4,
        zeta=math.sqrt(38.0) * (1.0 + entropy) * epsilon_p / rest**3,
        log_beta=math.log(2.0 * (1.0 + entropy) / rest * (horizon + 1.0 / rest)) + horizon * math.log(gamma),
        sigma2=(12.0 + 24.0 * entropy**2) / (batch * rest**4),
        sigma4=(1120.0 + 4480.0 * entropy**4) / (batch**2 * rest**8),
    )


def bit_constants(
    gamma: float, k: int, *, horizon: int, batch: int = 1, lam: float, epsilon_p: float = 0.0
) -> Constants:
    """Those of b-RS-FedPG with k bits: RS-FedPG's in the bit-level MDP, which has two actions and k T steps (App. F.2)."""
    return softmax_constants(
        bit_discount(gamma, k), horizon=k * horizon, batch=batch, lam=lam, actions=2, epsilon_p=epsilon_p
    )

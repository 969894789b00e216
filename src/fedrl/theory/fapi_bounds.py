"""Error bounds of federated approximate policy iteration: `xie2025` §3 and App. A-F, under the paper's numbers.

Each is a plain function of numbers (or arrays of them): gamma, R_max, the levels of heterogeneity kappa, and the errors
delta, epsilon, eps_w, eps_theta, which `theory.fapi` measures. They hold for clients that share a reward in [0, R_max]
and for value functions with ||V|| <= R_max / (1 - gamma).

Unlike the paper, which says "any V", Lemmas 16 and 17 need that bound on ||V||, and so do Lemmas 5 and 6 and
Propositions 7 and 9: nothing in them grows with V. For the same reason epsilon_n is the error at the V the client
improved against, as in Algorithms 1 and 2; the maximum over all V of Eq. (7) is infinite.

Where values lie in [0, R_max / (1 - gamma)], every kappa term could be halved: (P_i - P_j) V sees only the span of V.
"""

from jax import Array

Number = float | Array


def proposition_1(gamma: Number, epsilon: Number, delta: Number) -> Number:
    """limsup ||V^{pi^t} - V*|| of approximate policy iteration, Eq. (6)."""
    return (epsilon + 2 * gamma * delta) / (1 - gamma) ** 2


def proposition_1_step(gamma: Number, epsilon: Number, delta: Number, error: Number) -> Number:
    """||V^{pi^{t+1}} - V*|| where ||V^{pi^t} - V*|| is `error`: the step behind Eq. (6), its fixed point."""
    return gamma * error + (epsilon + 2 * gamma * delta) / (1 - gamma)


def lemma_4(gamma: Number, r_max: Number, kappa_1: Number) -> Number:
    """||Vbar^pi - V_I^pi||, the average value against the imaginary MDP's.

    With sum_m q'_m kappa_{m,I} for kappa_1 it is the same for the average over a cohort.
    """
    return gamma * r_max * kappa_1 / (1 - gamma) ** 2


def lemma_16(gamma: Number, r_max: Number, kappa: Number) -> Number:
    """||T_m V - T_n V|| and ||T_m^pi V - T_n^pi V|| with kappa_{m,n}; against the imaginary MDP with kappa_{n,I}."""
    return gamma * r_max * kappa / (1 - gamma)


def lemma_17(gamma: Number, r_max: Number, eps_theta: Number, actions: int) -> Number:
    """||T^pi V - T^{pi'} V|| where pi(.|s) and pi'(.|s) are at most `eps_theta` apart in the 2-norm."""
    bound: Number = eps_theta * actions**0.5 * r_max / (1 - gamma)
    return bound


def lemma_18(gamma: Number, r_max: Number, kappa: Number) -> Number:
    """|V_m^pi(s) - V_n^pi(s)| with kappa_{m,n}."""
    return gamma * r_max * kappa / (1 - gamma) ** 2


def equation_10(gamma: Number, r_max: Number, kappa_1: Number, delta: Number, eps_w: Number = 0.0) -> Number:
    """delta-dot, ||V^t - V_I^{pi^t}|| with federated evaluation; `delta` is sum_n q_n delta_n, the bound of Eq. (8).

    If only a cohort evaluates, delta and kappa_1 are its averages sum_m q'_m delta_m and sum_m q'_m kappa_{m,I}.
    eps_w = 0 bounds Vbar^t, the one that Lemma 6 and Proposition 7 speak of.
    """
    return eps_w + delta + lemma_4(gamma, r_max, kappa_1)


def lemma_5(
    gamma: Number, r_max: Number, kappa_1: Number, epsilon: Number, eps_theta: Number = 0.0, actions: int = 1
) -> Number:
    """epsilon', ||T_I^{pi^{t+1}} V^t - T_I V^t|| of Algorithm 1; `epsilon` is sum_n q_n epsilon_n."""
    return lemma_17(gamma, r_max, eps_theta, actions) + 2 * lemma_16(gamma, r_max, kappa_1) + epsilon


def lemma_6(
    gamma: Number,
    r_max: Number,
    kappa_1: Number,
    kappa_2: Number,
    delta: Number,
    epsilon: Number,
    eps_theta: Number = 0.0,
    actions: int = 1,
) -> Number:
    """epsilon-dot, ||T_I^{pi^{t+1}} Vbar^t - T_I Vbar^t|| of Algorithm 2, Eq. (11).

    The proof takes T_I V = sum_n q_n T_n V, Eq. (40), which is false: a mean of maxima is at least the maximum of the
    mean. But T_I V - T_I^pi V >= 0, so "at most" is enough and the bound stands; so do Eq. (46) and (56).
    """
    distance = lemma_18(gamma, r_max, kappa_2) + 2 * delta  # sum_n q_n ||Vbar^t - V_n^t||, Eq. (42)
    return lemma_17(gamma, r_max, eps_theta, actions) + 2 * gamma * distance + lemma_16(gamma, r_max, kappa_1) + epsilon


def proposition_7(
    gamma: Number,
    r_max: Number,
    kappa_imaginary: Number,
    kappa_pairs: Number,
    delta_cohort: Number,
    delta: Number,
    epsilon: Number,
    eps_theta: Number = 0.0,
    actions: int = 1,
) -> Number:
    """epsilon-hat, Algorithm 2 where a cohort takes part, Eq. (12).

    `kappa_imaginary` is sum_m q'_m kappa_{m,I}, `kappa_pairs` sum_{m,n} q'_m q_n kappa_{m,n}; `delta_cohort` and
    `epsilon` are averages by q' over the cohort, `delta` by q over everyone: Vbar^t includes a V_n^t of clients that were
    not asked, too, and any with ||V_n^t - V_n^{pi^t}|| <= delta_n will do. With everyone in the cohort it is above Lemma
    6 by gamma R_max kappa_2 / (1 - gamma).
    """
    distance = lemma_18(gamma, r_max, kappa_pairs) + delta + delta_cohort  # sum_m q'_m ||Vbar^t - V_m^t||
    return 2 * gamma * distance + proposition_9(gamma, r_max, kappa_imaginary, kappa_pairs, epsilon, eps_theta, actions)


def proposition_9(
    gamma: Number,
    r_max: Number,
    kappa_imaginary: Number,
    kappa_pairs: Number,
    epsilon: Number,
    eps_theta: Number = 0.0,
    actions: int = 1,
) -> Number:
    """epsilon-acute, Algorithm 1 where a cohort improves, Eq. (13); arguments as in `proposition_7`.

    It holds whichever clients evaluated; that matters only to `equation_10`.
    """
    distance = lemma_16(gamma, r_max, kappa_pairs) + lemma_16(gamma, r_max, kappa_imaginary)
    return lemma_17(gamma, r_max, eps_theta, actions) + distance + epsilon


def theorem_10(gamma: Number, r_max: Number, kappa_1: Number, epsilon: Number, delta: Number) -> Number:
    """limsup |Vbar^{pi^t}(s) - Vbar_s^max|, Eq. (14); where cohorts change, take the largest epsilon and delta.

    `epsilon` is one of Lemmas 5, 6, Propositions 7, 9; `delta` must be `equation_10`. Unlike the paper, which allows
    the average of Eq. (8) too: Proposition 1 is applied in the imaginary MDP, where V^t must be close to V_I^{pi^t}
    and not to Vbar^{pi^t}. The constant C_1 of Eq. (15) is indeed the one for `equation_10`.

    The proof of Eq. (50) rests on Lemma 3, which is false. It is not needed: where Vbar^{pi*}(s) < V_I*(s) we have
    V_I*(s) - Vbar^{pi*}(s) <= V_I*(s) - Vbar^{pi_I*}(s), and Lemma 4 bounds that. So any policy may stand for pi*, and
    Vbar_s^max may be the largest Vbar^pi(s) of all pi.
    """
    return proposition_1(gamma, epsilon, delta) + 2 * lemma_4(gamma, r_max, kappa_1)


def proposition_15(
    gamma: Number,
    r_max: Number,
    epsilon: Number,
    delta: Number,
    eps_theta: Number = 0.0,
    eps_w: Number = 0.0,
    actions: int = 1,
) -> Number:
    """limsup ||Vbar^{pi^t} - Vbar^{pi*}|| of Algorithm 1 with equal environments: Theorem 10 at kappa = 0.

    Unlike the paper, which averages epsilon over everyone also for a cohort, it is sum_m q'_m epsilon_m then (Prop. 9),
    and Vbar^{pi*} is V*: from a start that misses a state, a best pi* of Eq. (3) may be anything there.
    """
    improvement = lemma_17(gamma, r_max, eps_theta, actions) + epsilon
    return proposition_1(gamma, improvement, eps_w + delta)

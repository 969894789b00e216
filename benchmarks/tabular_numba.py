"""The contestant of `tabular_speed.py` in numba: FedSVRPG-M on tables, one plain function per seed."""

import numba
import numpy as np


@numba.njit(fastmath=True)
def _uniform(state):
    """splitmix64: faster than numba's own Mersenne twister."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@numba.njit(fastmath=True)
def _draw(cumulative, u):
    """Without branches: a random one is mispredicted half of the time."""
    i = 0
    for j in range(cumulative.shape[0] - 1):
        i += u >= cumulative[j]
    return i


@numba.njit(fastmath=True)
def _softmax(theta, pi, log_pi):
    for s in range(theta.shape[0]):
        top, total = theta[s, 0], 0.0
        for a in range(theta.shape[1]):
            top = max(top, theta[s, a])
        for a in range(theta.shape[1]):
            pi[s, a] = np.exp(theta[s, a] - top)
            total += pi[s, a]
        for a in range(theta.shape[1]):
            pi[s, a] /= total
            log_pi[s, a] = theta[s, a] - top - np.log(total)


@numba.njit(fastmath=True)
def _play_seed(seed, kernel, reward, start, rounds, local_steps, horizon, beta, eta, gamma, theta):
    clients, states, actions = reward.shape
    random = np.full(1, np.uint64(seed))
    for _ in range(8):
        _uniform(random)
    theta_prev, u = theta.copy(), np.zeros((states, actions))
    local, mean = np.empty((states, actions)), np.empty((states, actions))
    pi, log_pi, cumulative = np.empty((states, actions)), np.empty((states, actions)), np.empty((states, actions))
    pi_prev, log_prev = np.empty((states, actions)), np.empty((states, actions))
    credit, credit_s = np.empty((states, actions)), np.empty(states)
    obs, act, earned = np.empty(horizon, np.int64), np.empty(horizon, np.int64), np.empty(horizon)
    for _ in range(rounds):
        mean[:, :] = 0.0
        _softmax(theta_prev, pi_prev, log_prev)
        for c in range(clients):
            local[:, :] = theta
            for _ in range(local_steps):
                _softmax(local, pi, log_pi)
                for s in range(states):
                    total = 0.0
                    for a in range(actions):
                        total += pi[s, a]
                        cumulative[s, a] = total
                # one trajectory, and the log of its importance weight
                s, log_w, discount = _draw(start[c], _uniform(random)), 0.0, 1.0
                for t in range(horizon):
                    a = _draw(cumulative[s], _uniform(random))
                    obs[t], act[t], earned[t] = s, a, discount * reward[c, s, a]
                    log_w += log_prev[s, a] - log_pi[s, a]
                    discount *= gamma
                    s = _draw(kernel[c, s, a], _uniform(random))
                # sum over time of reward-to-go * (one-hot(a) - pi(s)), split into its two parts
                credit[:, :] = 0.0
                credit_s[:] = 0.0
                to_go = 0.0
                for t in range(horizon - 1, -1, -1):
                    to_go += earned[t]
                    credit[obs[t], act[t]] += to_go
                    credit_s[obs[t]] += to_go
                w = np.exp(log_w)
                for s in range(states):
                    for a in range(actions):
                        g = credit[s, a] - credit_s[s] * pi[s, a]
                        g_prev = credit[s, a] - credit_s[s] * pi_prev[s, a]
                        local[s, a] += eta * (beta * g + (1.0 - beta) * (u[s, a] + g - w * g_prev))
            for s in range(states):
                for a in range(actions):
                    mean[s, a] += (local[s, a] - theta[s, a]) / clients
        for s in range(states):
            for a in range(actions):
                theta_prev[s, a] = theta[s, a]
                theta[s, a] += mean[s, a]
                u[s, a] = mean[s, a] / (eta * local_steps)


@numba.njit(parallel=True)
def play_seeds(first, kernel, reward, start, rounds, local_steps, horizon, beta, eta, gamma, theta):
    for i in numba.prange(theta.shape[0]):
        _play_seed(first + i, kernel[i], reward[i], start[i], rounds, local_steps, horizon, beta, eta, gamma, theta[i])

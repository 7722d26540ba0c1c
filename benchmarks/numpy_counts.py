"""OPDOP with counts in plain vectorised NumPy: Algorithms 1 and 3, with every episode measured exactly."""

from __future__ import annotations

import numpy as np


def improve(policy, q, dual, constants):
    """Return the next policy [H, S, A]."""
    A = policy.shape[2]
    mixed = (1.0 - constants["mixing"]) * policy + constants["mixing"] / A
    score = constants["step_size"] * (q[0] + np.tensordot(dual, q[1:], 1))
    weights = mixed * np.exp(score - score.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True)


def play(rng, P, policy, start):
    """Return the states [H+1] and actions [H] of one episode."""
    H, S, A = policy.shape
    states, actions = np.empty(H + 1, dtype=int), np.empty(H, dtype=int)
    states[0] = start
    for h in range(H):
        actions[h] = rng.choice(A, p=policy[h, states[h]])
        states[h + 1] = rng.choice(S, p=P[h, states[h], actions[h]])
    return states, actions


def measure(P, signals, policy, start):
    """Return the true expected totals [J] of a policy."""
    J, H, S, _ = signals.shape
    value = np.zeros((S, J))
    for h in range(H - 1, -1, -1):
        ahead = signals[:, h] + np.moveaxis(P[h] @ value, 2, 0)
        value = np.einsum("jxa,xa->xj", ahead, policy[h])
    return value[start]


def move_dual(dual, thresholds, estimates, constants):
    """Return the next multipliers [I]."""
    return np.clip(dual + constants["dual_step_size"] * (thresholds - estimates), 0.0, constants["dual_bound"])


def run(P, signals, thresholds, start, episodes, constants, seed=0):
    """Run Algorithm 1 with Algorithm 3 on dense P [H, S, A, S] and signals [J, H, S, A]; return true totals [K, J].

    constants: step_size, dual_step_size, mixing, dual_bound, radii [H], ridge.
    """
    rng = np.random.default_rng(seed)
    J, H, S, A = signals.shape
    policy = np.full((H, S, A), 1.0 / A)
    q = np.zeros((J, H, S, A))
    dual = np.zeros(J - 1)
    estimates = np.array(thresholds)
    seen = np.zeros((H, S, A, S))
    sums = np.zeros((J, H, S, A))
    ceiling = np.arange(H, 0, -1.0)
    totals = np.empty((episodes, J))
    for k in range(episodes):
        policy = improve(policy, q, dual, constants)
        states, actions = play(rng, P, policy, start)
        totals[k] = measure(P, signals, policy, start)
        dual = move_dual(dual, thresholds, estimates, constants)
        # evaluate
        number = seen.sum(axis=3) + constants["ridge"]
        kernel = seen / number[..., None]
        means = sums / number
        bonus = constants["radii"][:, None, None] / np.sqrt(number)
        value = np.zeros((S, J))
        for h in range(H - 1, -1, -1):
            ahead = means[:, h] + np.moveaxis(kernel[h] @ value, 2, 0) + 2.0 * bonus[h]
            q[:, h] = np.clip(ahead, 0.0, ceiling[h])
            value = np.einsum("jxa,xa->xj", q[:, h], policy[h])
        estimates = value[start, 1:]
        # observe
        stages = np.arange(H)
        seen[stages, states[:-1], actions, states[1:]] += 1.0
        sums[:, stages, states[:-1], actions] += signals[:, stages, states[:-1], actions]
    return totals

"""Optimistic evaluation over confidence balls in plain Python, from a list of episodes; it shares no code."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opdop import Episode, Task
from tests.support.strategies import Array


def best_member(centre: Array, eps: float, values: Array) -> Array:
    """Return the distribution within eps in L1 of a centre [S] that has the largest expectation of values [S]."""
    best = int(np.argmax(values))
    member = centre.copy()
    member[best] = min(1.0, centre[best] + eps / 2)
    excess = member.sum() - 1.0
    for y in np.argsort(values):
        if y != best and excess > 0.0:
            taken = min(member[y], excess)
            member[y] -= taken
            excess -= taken
    return member


def estimate(task: Task, episodes: Sequence[Episode], policy: Array) -> tuple[Array, Array]:
    """Return q [J, H, S, A] and v [J, H+1, S] of a policy [H, S, A]; half the failure probability is used."""
    H, S, A, J = task.horizon, task.num_states, task.num_actions, 1 + task.num_constraints
    seen, number, sums = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((J, H, S, A))
    for episode in episodes:
        for h in range(H):
            x, a = episode.states[h], episode.actions[h]
            for k in range(H) if task.stationary else [h]:
                seen[k, x, a, episode.states[h + 1]] += 1
            for k in range(H) if task.stationary_signals else [h]:
                number[k, x, a] += 1
                sums[:, k, x, a] += episode.signals[:, h]
    share = task.failure_probability / (4 if task.noisy else 2)
    rows, signal_rows = (S * A * (1 if one else H) for one in (task.stationary, task.stationary_signals))
    q, v = np.zeros((J, H, S, A)), np.zeros((J, H + 1, S))
    for j, h, x, a in ((j, h, x, a) for h in reversed(range(H)) for j in range(J) for x in range(S) for a in range(A)):
        n, m = seen[h, x, a].sum(), number[h, x, a]
        signal = sums[j, h, x, a] / m if m else 1.0
        if task.noisy and m:
            signal = min(
                1.0, signal + math.sqrt((m + 1) / 2 * math.log(J * signal_rows * math.sqrt(m + 1) / share)) / m
            )
        q[j, h, x, a] = H - h
        if n:
            sets = 2.0 ** (S - 1) - 1
            eps = (
                min(2.0, 2 / n * math.sqrt((n + 1) / 2 * math.log(sets * math.sqrt(n + 1) * rows / share)))
                if sets
                else 0.0
            )
            member = best_member(seen[h, x, a] / n, eps, v[j, h + 1])
            q[j, h, x, a] = min(signal + member @ v[j, h + 1], H - h)
        v[j, h, x] += policy[h, x, a] * q[j, h, x, a]
    return q, v

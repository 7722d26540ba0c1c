"""Families from operations: bandits, maintenance of a machine, and routing to two queues."""

from __future__ import annotations

import numpy as np

from opdop.envs.families.family import family, free, whole
from opdop.model import TabularCMDP

Random = np.random.Generator
Sizes = tuple[int, int]


@family("bandit", "training", states=(1, 1), actions=(3, 10), constraints=1)
@family("bandit-noisy", "training", noisy=True, states=(1, 1), actions=(2, 6), constraints=1)
@family("contextual-bandit", "validation", noisy=True, states=(4, 50), actions=(2, 8), constraints=2)
@family("bandit-five", "validation", noisy=True, states=(1, 1), actions=(5, 5), constraints=1)
def bandit(random: Random, states: Sizes, actions: Sizes, constraints: int) -> TabularCMDP:
    """One stage: choose an action, once the state is seen."""
    S, A = whole(random, *states), whole(random, *actions)
    kernel = np.broadcast_to(np.full(S, 1.0 / S), (S, A, S))
    signals = random.random((1 + constraints, S, A))
    return free(kernel, signals[0], signals[1:], random.dirichlet(np.ones(S)) if S > 1 else 0, horizon=1)


@family("maintenance", "training", levels=(4, 20), stages=(10, 50))
def maintenance(random: Random, levels: Sizes, stages: Sizes) -> TabularCMDP:
    """A machine wears out and earns less; run it, repair it or replace it, within budgets of repairs and of hours."""
    S, H = whole(random, *levels), whole(random, *stages)
    wear, mended = random.uniform(0.1, 0.5), random.uniform(0.5, 0.9)
    kernel, reward, cost = np.zeros((S, 3, S)), np.zeros((S, 3)), np.zeros((2, S, 3))
    for x in range(S):
        kernel[x, 0, min(x + 1, S - 1)] += wear
        kernel[x, 0, x] += 1.0 - wear
        kernel[x, 1, max(x - 2, 0)] += mended
        kernel[x, 1, x] += 1.0 - mended
        kernel[x, 2, 0] = 1.0
        reward[x, 0] = (1.0 - x / S) ** 2
        reward[x, 1] = 0.3 * reward[x, 0]
    cost[0, :, 1], cost[0, :, 2] = random.uniform(0.1, 0.5), 1.0
    cost[1, :, 0] = 0.5 + 0.5 * np.arange(S) / S
    return free(kernel, reward, 1.0 - cost[: whole(random, 1, 2)], S // 2, horizon=H)


@family("routing", "validation", room=(3, 7), stages=(10, 40))
def routing(random: Random, room: Sizes, stages: Sizes) -> TabularCMDP:
    """Send customers to a fast dear server, to a slow cheap one, or away, within budgets of money and of waiting."""
    n, H = whole(random, *room), whole(random, *stages)
    side, A = n + 1, 3
    arrival, served = random.uniform(0.4, 0.9), (random.uniform(0.5, 0.9), random.uniform(0.2, 0.5))
    kernel, reward, cost = np.zeros((side**2, A, side**2)), np.zeros((side**2, A)), np.zeros((2, side**2, A))
    for x in range(side**2):
        for a in range(A):
            queues = divmod(x, side)
            room_left = a < 2 and queues[min(a, 1)] < n
            for came, likely in ((1, arrival), (0, 1.0 - arrival)):
                longer = [queues[i] + came * (room_left and i == a) for i in range(2)]
                for first in range(2):
                    for second in range(2):
                        chance = likely
                        for left, rate in ((first, served[0]), (second, served[1])):
                            chance *= rate if left else 1.0 - rate
                        y = max(longer[0] - first, 0) * side + max(longer[1] - second, 0)
                        kernel[x, a, y] += chance
            reward[x, a] = arrival * room_left
            cost[:, x, a] = (arrival * room_left if a == 0 else 0.0), sum(queues) / (2 * n)
    return free(kernel, reward, 1.0 - cost, horizon=H)

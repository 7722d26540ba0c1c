"""Families in which reward is far away: chains, locks and deep seas."""

from __future__ import annotations

import numpy as np

from opdop.envs.families.family import family, free, whole
from opdop.model import TabularCMDP

Random = np.random.Generator
Sizes = tuple[int, int]


@family("chain", "training", length=(4, 10), slip=(0.0, 0.2))
@family("chain-slippery", "training", length=(7, 12), slip=(0.1, 0.35), gap=(0.2, 0.6))
@family("chain-long", "validation", length=(12, 20), slip=(0.0, 0.1), gap=(0.2, 0.6))
def chain(random: Random, length: Sizes, slip: tuple[float, float]) -> TabularCMDP:
    """Reward waits at the far end of a chain, and each step forward costs effort."""
    S, back = whole(random, *length), random.uniform(*slip)
    H, A = S + whole(random, 1, 2 * S), 2
    kernel, reward, effort = np.zeros((S, A, S)), np.zeros((S, A)), np.zeros((S, A))
    for x in range(S):
        kernel[x, 0, max(x - 1, 0)] = 1.0
        kernel[x, 1, min(x + 1, S - 1)] += 1.0 - back
        kernel[x, 1, max(x - 1, 0)] += back
    reward[0, 0], reward[S - 1, 1] = 0.05, 1.0
    effort[:, 1] = random.uniform(0.3, 1.0)
    order = np.array([random.permutation(A) for _ in range(S)])[..., None]  # which action is which
    kernel = np.take_along_axis(kernel, order, axis=1)
    reward, effort = (np.take_along_axis(each, order[..., 0], axis=1) for each in (reward, effort))
    return free(kernel, reward, 1.0 - effort[None], horizon=H)


@family("lock", "training", length=(3, 6), actions=(2, 4))
@family("lock-two", "validation", length=(5, 8), actions=(2, 5), noisy=True)
def lock(random: Random, length: Sizes, actions: Sizes) -> TabularCMDP:
    """Only one action at each of a sequence of states leads on, others end the episode; opening pays but wears out."""
    n, A = whole(random, *length), whole(random, *actions)
    S, end, opened = n + 2, n, n + 1
    kernel, reward, wear = np.zeros((S, A, S)), np.zeros((S, A)), np.zeros((S, A))
    right = random.integers(A, size=n)
    for x in range(n):
        kernel[x, :, end] = 1.0
        kernel[x, right[x]] = 0.0
        kernel[x, right[x], x + 1 if x + 1 < n else opened] = 1.0
        reward[x] = 0.1 * random.random(A)
        reward[x, right[x]] = 0.0
    kernel[end, :, end] = kernel[opened, :, opened] = 1.0
    reward[opened] = random.uniform(0.2, 1.0, A)
    wear[opened] = reward[opened] * random.uniform(0.3, 1.0, A)
    return free(kernel, reward, 1.0 - wear[None], horizon=n + whole(random, 1, n))


@family("deep-sea", "validation", depth=(5, 12))
def deep_sea(random: Random, depth: Sizes) -> TabularCMDP:
    """A diver sinks one row at each stage; treasure lies at the far right, each dive right costs a little air."""
    n = whole(random, *depth)
    kernel, reward, air = np.zeros((n, 2, n)), np.zeros((n, n, 2)), np.zeros((n, n, 2))
    right = random.integers(2, size=n)  # which action goes right, by column
    for x in range(n):
        kernel[x, right[x], min(x + 1, n - 1)] = 1.0
        kernel[x, 1 - right[x], max(x - 1, 0)] = 1.0
        air[:, x, right[x]] = 1.0
        reward[:, x, 1 - right[x]] = 0.01
    reward[n - 1, n - 1, right[n - 1]] = 1.0
    return free(np.broadcast_to(kernel, (n, n, 2, n)), reward, 1.0 - air[None])

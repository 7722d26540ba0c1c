"""Families with random kernels: dense and sparse, stationary and not, drifting, with long horizons, and linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from opdop.envs.binding_constraint import SLACK
from opdop.envs.families.family import family, free, whole
from opdop.envs.random_tabular import sparse_kernel
from opdop.model import LinearCMDP, TabularCMDP
from opdop.model.features import embedding, mixture

Random = np.random.Generator
Sizes = tuple[int, int]


@family("dense", "training", states=(3, 25), actions=(2, 6), stages=(3, 20))
@family("dense-few", "training", states=(4, 7), actions=(3, 5), stages=(3, 6))
@family("dense-noisy", "training", noisy=True, states=(3, 12), actions=(2, 5), stages=(2, 12))
@family("dense-tight", "training", gap=(0.02, 0.08), states=(6, 16), actions=(3, 5), stages=(5, 15))
@family("dense-three", "training", states=(4, 15), actions=(3, 8), stages=(4, 12), constraints=3)
@family("dense-long", "training", states=(3, 10), actions=(2, 4), stages=(40, 100), stationary=True)
@family("dense-longest", "validation", states=(3, 8), actions=(2, 5), stages=(120, 150), stationary=True)
@family("dense-tightest", "validation", gap=(0.02, 0.05), states=(8, 20), actions=(4, 10), stages=(6, 20))
@family("dense-two-noisy", "validation", noisy=True, states=(5, 30), actions=(2, 8), stages=(3, 15), constraints=2)
def dense(
    random: Random,
    states: Sizes,
    actions: Sizes,
    stages: Sizes,
    constraints: int = 1,
    stationary: bool = False,
) -> TabularCMDP:
    """Dirichlet kernels over all states, with uniform signals."""
    H, S, A = whole(random, *stages), whole(random, *states), whole(random, *actions)
    L = 1 if stationary else H
    kernels: Any = random.dirichlet(np.full(S, random.choice([0.1, 0.5])), size=(L, S, A))
    signals = random.random((1 + constraints, L, S, A))
    return free(kernels[0] if stationary else kernels, signals[0], signals[1:], horizon=H)


@family("sparse", "training", states=(30, 150), actions=(2, 5), stages=(8, 25))
@family("sparse-stationary", "training", states=(20, 80), actions=(2, 4), stages=(10, 40), stationary=True)
@family("garnet", "validation", states=(100, 500), actions=(2, 4), stages=(10, 20), stationary=True, rare=True)
@family("garnet-three", "validation", states=(20, 60), actions=(3, 6), stages=(8, 30), constraints=3, rare=True)
def sparse(
    random: Random,
    states: Sizes,
    actions: Sizes,
    stages: Sizes,
    constraints: int = 1,
    stationary: bool = False,
    rare: bool = False,
) -> TabularCMDP:
    """Kernels with one to four next states in each row; rare signals are 0 at most pairs (Garnet problems)."""
    H, S, A, width = whole(random, *stages), whole(random, *states), whole(random, *actions), whole(random, 1, 4)
    L = 1 if stationary else H
    kernels = [sparse_kernel(random, S, A, width, 1.0) for _ in range(L)]
    signals = random.random((1 + constraints, L, S, A))
    if rare:
        signals *= random.random(signals.shape) < 0.2
    return free(kernels[0] if stationary else kernels, signals[0], signals[1:], horizon=H)


@family("drifting", "validation", states=(4, 20), actions=(2, 6), stages=(10, 60))
def drifting(random: Random, states: Sizes, actions: Sizes, stages: Sizes) -> TabularCMDP:
    """Kernel and signals move from one random model to another during the episode."""
    H, S, A = whole(random, *stages), whole(random, *states), whole(random, *actions)
    ends = random.dirichlet(np.full(S, 0.2), size=(2, S, A))
    signals = random.random((2, 2, S, A))  # signal, end
    late = np.linspace(0.0, 1.0, H)[:, None, None]
    kernels = (1.0 - late[..., None]) * ends[0] + late[..., None] * ends[1]
    moving = (1.0 - late) * signals[:, :1] + late * signals[:, 1:]
    return free(kernels, moving[0], moving[1:])


@family("mixture", "training", linear=True, states=(10, 40), actions=(2, 4), stages=(3, 8), dimension=4)
def mixed_kernels(random: Random, states: Sizes, actions: Sizes, stages: Sizes, dimension: int) -> TabularCMDP:
    """A linear kernel: a mixture of known base kernels with unknown weights."""
    H, S, A = whole(random, *stages), whole(random, *states), whole(random, *actions)
    bases = [sparse_kernel(random, S, A, 4, 1.0) for _ in range(dimension)]
    features = mixture(bases, random.dirichlet(np.full(dimension, 0.3), size=(S, A)))
    theta = random.dirichlet(np.ones(dimension), size=H)
    reward, utility = random.random((2, H, dimension))
    return LinearCMDP(features, theta, reward, utility, SLACK)


@family("embedding", "validation", linear=True, states=(15, 60), actions=(2, 5), stages=(3, 10), left=2, right=3)
def embedded(random: Random, states: Sizes, actions: Sizes, stages: Sizes, left: int, right: int) -> TabularCMDP:
    """A linear kernel of low rank: known features of pairs and of next states, and an unknown matrix between them."""
    H, S, A = whole(random, *stages), whole(random, *states), whole(random, *actions)
    p = random.dirichlet(np.full(left, 0.3), size=(S, A))
    q = random.dirichlet(np.full(S, 0.1), size=right).T
    features = embedding(p, q, random.dirichlet(np.full(left * right, 0.3), size=(S, A)))
    theta = random.dirichlet(np.full(right, 0.3), size=(H, left)).reshape(H, left * right)
    reward, utility = random.random((2, H, left * right))
    return LinearCMDP(features, theta, reward, utility, SLACK)

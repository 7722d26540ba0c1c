"""Random models with linear kernels of a given dimension: mixtures of base kernels, and embeddings."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from opdop.envs.binding_constraint import SLACK, draw_until_binding
from opdop.envs.random_tabular import sparse_kernel
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, LinearCMDP, Quantity, TabularCMDP
from opdop.model.features import Features, embedding, mixture

_MOST_ENTRIES = 50_000_000

States = Annotated[int, Parameter("number of states", low=2, high=1_000_000)]
Actions = Annotated[int, Parameter("number of actions", low=2, high=1000)]
Stages = Annotated[int, Parameter("stages in one episode", low=1, high=10_000)]
Share = Annotated[float, Parameter("threshold as a share of the largest utility that a policy has", above=0, below=1)]
Seed = Annotated[int, Parameter("which of the random models", low=0, high=2**63 - 1)]


@environment("random-mixture", summary="A random mixture of known kernels: few unknowns, however many states.")
def random_mixture(
    *,
    states: States = 20,
    actions: Actions = 3,
    stages: Stages = 5,
    dimension: Annotated[int, Parameter("number of base kernels, and of signal features", low=1, high=1000)] = 4,
    successors: Annotated[int, Parameter("possible next states in each base kernel", low=1, high=100_000)] = 5,
    share: Share = 0.8,
    seed: Seed = 0,
) -> TabularCMDP:
    """The kernel of every stage is a mixture of the same known base kernels, with unknown weights.

    Each base kernel leads from a state and action to a few next states. Rewards and utilities are averages of unknown
    numbers in [0, 1] with known weights. So there are `dimension` unknowns for each kernel and signal, however many
    states there are. The threshold is a share of the largest utility; models in which it hardly binds are drawn again.
    """
    if successors > states:
        raise InvalidParameterError(f"successors is {successors}; expected at most the number of states, {states}.")
    if states * actions * successors * dimension**2 > _MOST_ENTRIES:
        raise InvalidParameterError(
            f"the features would have {states * actions * successors * dimension**2:,} entries; expected at most "
            f"{_MOST_ENTRIES:,}."
        )

    def draw(random: np.random.Generator) -> TabularCMDP:
        bases = [sparse_kernel(random, states, actions, successors, 1.0) for _ in range(dimension)]
        features = mixture(bases, _weights(random, states, actions, dimension))
        theta = random.dirichlet(np.ones(dimension), size=stages)
        return _with_signals("random-mixture", features, theta, random, stages)

    return draw_until_binding(seed, share, draw)


@environment("random-embedding", summary="A random low-rank kernel: what follows depends on a few features only.")
def random_embedding(
    *,
    states: States = 20,
    actions: Actions = 3,
    stages: Stages = 5,
    left: Annotated[int, Parameter("features of state and action", low=1, high=100)] = 2,
    right: Annotated[int, Parameter("features of the next state", low=1, high=100)] = 3,
    share: Share = 0.8,
    seed: Seed = 0,
) -> TabularCMDP:
    """The kernel is left(x, a) times an unknown matrix times right(y): a low-rank kernel with known outer factors.

    Each of the `right` features is a distribution over next states; each of the `left` features is a weight, and the
    weights of a state and action sum to 1. The unknown matrix says how likely each next-state distribution is for each
    left feature. Signals are averages of `left` * `right` unknown numbers in [0, 1] with known weights. The threshold
    is a share of the largest utility; models in which it hardly binds are drawn again.
    """
    if states**2 * actions * stages > _MOST_ENTRIES:
        raise InvalidParameterError(
            f"the kernels would have {states**2 * actions * stages:,} entries; expected at most {_MOST_ENTRIES:,}."
        )

    def draw(random: np.random.Generator) -> TabularCMDP:
        p = random.dirichlet(np.full(left, 0.3), size=(states, actions))
        q = random.dirichlet(np.full(states, 0.1), size=right).T
        features = embedding(p, q, _weights(random, states, actions, left * right))
        theta = random.dirichlet(np.full(right, 0.3), size=(stages, left)).reshape(stages, left * right)
        return _with_signals("random-embedding", features, theta, random, stages)

    return draw_until_binding(seed, share, draw)


def _weights(random: np.random.Generator, S: int, A: int, d: int) -> Any:
    """Return signal features [S, A, d]: nonnegative, summing to 1."""
    return random.dirichlet(np.full(d, 0.3), size=(S, A))


def _with_signals(name: str, features: Features, theta: Any, random: np.random.Generator, stages: int) -> TabularCMDP:
    """Draw the signals' weights, and return the problem."""
    reward, utility = random.random((2, stages, features.signal_dim))
    display = Display(name, quantities=(Quantity("reward", "points"), Quantity("utility", "points")))
    return LinearCMDP(features, theta, reward, utility, SLACK, display=display)

"""Random models with Dirichlet kernels, as in experiments on constrained MDPs (Kitamura et al., 2024 and 2025)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from opdop.envs.binding_constraint import SLACK, draw_until_binding
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, Quantity, TabularCMDP

# What a build may hold in memory at once: 400 MB of probabilities.
_MOST_ENTRIES = 50_000_000


@environment("random-tabular", summary="A random model whose constraint is sure to bind.")
def random_tabular(
    *,
    states: Annotated[int, Parameter("number of states", low=1, high=100_000)] = 5,
    actions: Annotated[int, Parameter("number of actions", low=2, high=1000)] = 3,
    stages: Annotated[int, Parameter("stages in one episode", low=1, high=10_000)] = 4,
    concentration: Annotated[
        float, Parameter("of the Dirichlet kernels; small: few likely next states", low=1e-3, high=1e3)
    ] = 0.1,
    successors: Annotated[
        int | None, Parameter("possible next states of each state and action; none: all states", low=1, high=100_000)
    ] = None,
    signals: Annotated[
        str, Parameter("how rewards and utilities are drawn", choices=("uniform", "bernoulli"))
    ] = "uniform",
    density: Annotated[float, Parameter("probability of a 1 among bernoulli signals", above=0, below=1)] = 0.1,
    share: Annotated[
        float, Parameter("threshold as a share of the largest utility that a policy has", above=0, below=1)
    ] = 0.6,
    stationary: Annotated[bool, Parameter("whether all stages share one kernel and one set of signals")] = False,
    seed: Annotated[int, Parameter("which of the random models", low=0, high=2**63 - 1)] = 0,
) -> TabularCMDP:
    """Every row of every kernel is drawn from a Dirichlet distribution, every reward and utility at random.

    The threshold is a share of the largest utility that any policy has. A model in which satisfying it costs less
    than a hundredth of the reward is drawn again, from the next of the seed's streams. Models with many
    states should limit `successors`: their kernels are then sparse, each row over that many distinct next states, all
    sets equally likely. Large models with uniform signals seldom bind at the default share; at .8 most do.
    """
    stored = 1 if stationary else stages
    width = states if successors is None else successors
    if width > states:
        raise InvalidParameterError(f"successors is {width}; expected at most the number of states, {states}.")
    if stored * states * actions * width > _MOST_ENTRIES:
        raise InvalidParameterError(
            f"the kernels would have {stored * states * actions * width:,} entries; expected at most "
            f"{_MOST_ENTRIES:,}: set successors, or stationary, or fewer states."
        )
    display = Display("random-tabular", quantities=(Quantity("reward", "points"), Quantity("utility", "points")))

    def draw(random: np.random.Generator) -> TabularCMDP:
        if successors is None:
            transitions: Any = random.dirichlet(np.full(states, concentration), size=(stored, states, actions))
        else:
            transitions = [sparse_kernel(random, states, actions, successors, concentration) for _ in range(stored)]
        values = random.random((2, stored, states, actions))
        if signals == "bernoulli":
            values = (values < density).astype(np.float64)
        kernels = transitions[0] if stationary else transitions
        return TabularCMDP(kernels, values[0], values[1], SLACK, horizon=stages, display=display)

    return draw_until_binding(seed, share, draw)


def sparse_kernel(random: np.random.Generator, S: int, A: int, width: int, concentration: float) -> Any:
    """Return a kernel [S*A, S] with `width` distinct next states in each row."""
    successors = _distinct(random, S * A, width, S)
    probabilities = random.dirichlet(np.full(width, concentration), size=S * A)
    starts = np.arange(S * A + 1) * width
    return sparse.csr_array((probabilities.ravel(), successors.ravel(), starts), shape=(S * A, S))


def _distinct(random: np.random.Generator, rows: int, width: int, size: int) -> NDArray[np.int64]:
    """Return [rows, width] numbers below `size`, distinct in each row, every set equally likely (Floyd's method)."""
    chosen = np.empty((rows, width), dtype=np.int64)
    for i, newest in enumerate(range(size - width, size)):
        candidate = random.integers(newest + 1, size=rows)
        taken = (chosen[:, :i] == candidate[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, newest, candidate)
    return chosen

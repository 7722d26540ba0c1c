"""Random models of a given size, for benchmarks of speed and memory."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def sparse_kernel(
    rng: np.random.Generator, states: int, actions: int, successors: int, following: np.ndarray | None = None
) -> sparse.csr_array:
    """Return a kernel [S*A, S] with a few next states for each state and action, and Dirichlet probabilities.

    following: the next states [S*A, successors]; drawn uniformly, with repetition, if not given.
    """
    rows = states * actions
    if following is None:
        following = rng.integers(0, states, (rows, successors))
    probabilities = rng.dirichlet(np.ones(successors), rows)
    starts = np.arange(0, rows * successors + 1, successors)
    return sparse.csr_array((probabilities.ravel(), following.ravel(), starts), shape=(rows, states))

"""Running sums that do not drift, whatever the size of the pieces in which they are added up."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def add_up(increments, sums, lost):
    """Return the running sums [n, M] of increments [n, M], going on from sums [M] (Kahan, with lost [M])."""
    running = np.empty(increments.shape)
    for n in range(increments.shape[0]):
        for m in range(increments.shape[1]):
            addend = increments[n, m] - lost[m]
            grown = sums[m] + addend
            lost[m] = (grown - sums[m]) - addend
            sums[m] = grown
            running[n, m] = grown
    return running

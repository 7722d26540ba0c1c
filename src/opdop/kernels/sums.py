"""Sums without accumulated rounding errors (Kahan)."""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def add_compensated(total, lost, number):
    """Add a number to a total; return the new total and what rounding has taken from it so far (Kahan)."""
    addend = number - lost
    grown = total + addend
    return grown, (grown - total) - addend


@njit(cache=True, fastmath=False)
def add_up(increments, sums, lost):
    """Return the running sums [n, M] of increments [n, M], continued from sums [M]; updates sums and lost [M]."""
    running = np.empty(increments.shape)
    for n in range(increments.shape[0]):
        for m in range(increments.shape[1]):
            sums[m], lost[m] = add_compensated(sums[m], lost[m], increments[n, m])
            running[n, m] = sums[m]
    return running

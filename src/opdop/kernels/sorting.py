"""States in the order of their values; NumPy's `argsort` takes a second to compile."""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit

_GAPS = (701, 301, 132, 57, 23, 10, 4, 1)  # Ciura's


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def sort_states(v, j, stage, order, h):
    """Sort order[j, h] so that v[j, stage] descends, equal values by number: the result does not depend on the past.

    The order of the last time is nearly always still right.
    """
    before = np.uint64(order[j, h, 0])
    for place in range(np.uint64(1), np.uint64(v.shape[2])):
        state = np.uint64(order[j, h, place])
        if not _precedes(v[j, stage, before], before, v[j, stage, state], state):
            _sort_again(v[j, stage], order[j, h])
            return
        before = state


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _precedes(value, state, other_value, other):
    return value > other_value or (value == other_value and state < other)


@njit(cache=True, allocates=False, kind="compact", fastmath=False)
def _sort_again(values, order):
    """Sort states whose order is nearly right by inserting; if it is not, a Shell sort takes over."""
    if not _insert(values, order, 1, 8 * order.shape[0]):
        for gap in _GAPS:
            _insert(values, order, gap, order.shape[0] * order.shape[0])


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _insert(values, order, gap, budget):
    """Sort the elements that are a gap apart; return False if that takes more moves than the budget."""
    for place in range(gap, order.shape[0]):
        state = order[place]
        hole = place
        while hole >= gap:
            before = order[hole - gap]
            if _precedes(values[before], before, values[state], state):
                break
            order[hole] = before
            hole -= gap
            budget -= 1
        order[hole] = state
        if budget < 0:
            return False
    return True

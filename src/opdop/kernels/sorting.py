"""States in the order of their values; NumPy's `argsort` takes a second to compile."""

from __future__ import annotations

from opdop.kernels.caching import njit

_GAPS = (701, 301, 132, 57, 23, 10, 4, 1)  # Ciura's


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def sort_states(v, j, stage, order, h):
    """Sort order[j, h] so that v[j, stage] descends, equal values by number: the result does not depend on the past.

    It starts from the order of the last time, which is nearly right; if it is not, a Shell sort takes over.
    """
    if not _insert(v, j, stage, order, h, 1, 8 * v.shape[2]):
        for gap in _GAPS:
            _insert(v, j, stage, order, h, gap, v.shape[2] * v.shape[2])


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _insert(v, j, stage, order, h, gap, budget):
    """Sort the elements that are a gap apart; return False if that takes more moves than the budget."""
    for place in range(gap, v.shape[2]):
        state = order[j, h, place]
        value = v[j, stage, state]
        hole = place
        while hole >= gap:
            before = order[j, h, hole - gap]
            other = v[j, stage, before]
            if other > value or (other == value and before < state):
                break
            order[j, h, hole] = before
            hole -= gap
            budget -= 1
        order[j, h, hole] = state
        if budget < 0:
            return False
    return True

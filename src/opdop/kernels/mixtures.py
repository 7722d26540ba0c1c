"""The master program of column generation: the best mixture of columns, by the revised simplex method.

There is one row for each constraint and one for the shares, and each call begins with the basis of the last one. So it
makes a few pivots on a small matrix. The inverse of the basis is computed anew before the first pivot and after the
last: rounding errors do not accumulate.
"""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit

# Rows and rewards are scaled to numbers of at most 1. Relative to that: the smallest pivot, what is left of
# variables that leave the basis together, a reduced cost that is only rounding, and a share that is.
_SMALLEST_PIVOT = 1e-11
_TIE = 1e-14
_NO_GAIN = 1e-15
_NO_SHARE = -1e-10


@njit(cache=True, fastmath=False)
def mix_columns(slacks, rewards, widens, basis, shares, prices):
    """Find the mixture of columns with the largest reward that has no negative slack; return whether rounding let it.

    Args:
        slacks: of each column in each constraint, [M, I].
        rewards: of each column, [M].
        widens: whether the mixture with the largest smallest slack is wanted instead; rewards are not used then.
        basis: the I+1 basic variables, int64, with which to begin, and then the best ones. Column m is m, the surplus
            of constraint i is -(1+i), and the gap, a surplus of all constraints alike, is -(1+I). It must be feasible.
            If the gap is widened it must be basic; it may be negative then.
        shares: [M], the shares of the columns.
        prices: [I], the multipliers of the constraints.
    """
    I = slacks.shape[1]
    n, gap = I + 1, -(1 + I)
    scales, worth = _find_scales(slacks, rewards, widens)
    inverse, square, costs = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    along, y = np.empty(n), np.empty(n)
    pivots, most = 0, 100 + 20 * n
    ready = False
    while not ready:
        if not _invert_basis(slacks, scales, basis, square, inverse):
            return False
        ready = True
        while True:
            for k in range(n):
                costs[k] = rewards[basis[k]] / worth if basis[k] >= 0 and not widens else 0.0
                if widens and basis[k] == gap:
                    costs[k] = 1.0
            for r in range(n):
                y[r] = 0.0
                for k in range(n):
                    y[r] += costs[k] * inverse[k, r]
            # The more pivots there were, the larger a gain must be, so that rounding cannot make them go in circles.
            least, first = _NO_GAIN * (1.0 + pivots), pivots > most // 2
            entering = _choose_entering(slacks, rewards, widens, scales, worth, y, least, first)
            if entering == gap:
                break
            leaving = _choose_leaving(slacks, scales, widens, basis, inverse, entering, along)
            if leaving < 0 or pivots == most:
                return False
            for r in range(n):
                inverse[leaving, r] /= along[leaving]
            for k in range(n):
                if k != leaving:
                    for r in range(n):
                        inverse[k, r] -= along[k] * inverse[leaving, r]
            basis[leaving] = entering
            pivots += 1
            ready = False
    for i in range(I):
        prices[i] = max(-y[i], 0.0) * (1.0 if widens else worth / scales[i])  # a gap is scaled as slacks are
    for m in range(slacks.shape[0]):
        shares[m] = 0.0
    _refine(slacks, scales, basis, inverse, y, along)
    for k in range(n):
        share = along[k]
        if share < _NO_SHARE and not (widens and basis[k] == gap):
            return False
        if basis[k] >= 0:
            shares[basis[k]] = max(share, 0.0)
    return True


@njit(cache=True, fastmath=False)
def _find_scales(slacks, rewards, widens):
    """Return the scales [I+1] of the rows and the gap, and that of the rewards.

    The scale of a row is its largest slack or shortfall; if the gap is widened, they are the same for all rows.
    """
    I = slacks.shape[1]
    scales, largest, worth = np.zeros(I + 1), 0.0, 0.0
    for m in range(slacks.shape[0]):
        worth = max(worth, abs(rewards[m]))
        for i in range(I):
            scales[i] = max(scales[i], abs(slacks[m, i]))
    for i in range(I):
        largest = max(largest, scales[i])
    for i in range(I):
        if widens:
            scales[i] = largest
        if scales[i] == 0.0:
            scales[i] = 1.0
        scales[I] = scales[i] if i == 0 else min(scales[I], scales[i])
    return scales, worth if worth > 0.0 else 1.0


@njit(cache=True, fastmath=False, allocates=False)
def _entry(slacks, scales, j, r):
    """Return the entry of variable j in row r; the last row is that of the shares."""
    I = slacks.shape[1]
    if j >= 0:
        return 1.0 if r == I else slacks[j, r] / scales[r]
    if r == I:
        return 0.0
    if j == -(1 + I):
        return -scales[I] / scales[r]
    return -1.0 if j == -(1 + r) else 0.0


@njit(cache=True, fastmath=False, allocates=False)
def _invert_basis(slacks, scales, basis, square, inverse):
    """Write the inverse of the basis, by Gauss and Jordan's elimination; return False if it is singular."""
    n = basis.shape[0]
    for r in range(n):
        for k in range(n):
            square[r, k] = _entry(slacks, scales, basis[k], r)
            inverse[r, k] = 1.0 if r == k else 0.0
    for k in range(n):
        best = k
        for r in range(k + 1, n):
            if abs(square[r, k]) > abs(square[best, k]):
                best = r
        pivot = square[best, k]
        if abs(pivot) < 1e-15:
            return False
        for c in range(n):
            square[k, c], square[best, c] = square[best, c], square[k, c]
            inverse[k, c], inverse[best, c] = inverse[best, c], inverse[k, c]
        for c in range(n):
            square[k, c] /= pivot
            inverse[k, c] /= pivot
        for r in range(n):
            factor = square[r, k]
            if r != k and factor != 0.0:
                for c in range(n):
                    square[r, c] -= factor * square[k, c]
                    inverse[r, c] -= factor * inverse[k, c]
    return True


@njit(cache=True, fastmath=False, allocates=False)
def _choose_entering(slacks, rewards, widens, scales, worth, y, least, first):
    """Return the variable that gains most, or the first that gains (Bland's rule); the gap if none does.

    A gain is at least `least` relative to what it is the difference of.
    """
    I = slacks.shape[1]
    entering, most = -(1 + I), 0.0
    for m in range(slacks.shape[0]):
        gain = (0.0 if widens else rewards[m] / worth) - y[I]
        size = abs(y[I]) + 1.0
        for i in range(I):
            term = y[i] * (slacks[m, i] / scales[i])
            gain -= term
            size += abs(term)
        if gain > max(most, least * size):
            entering, most = m, gain
            if first:
                return entering
    for i in range(I):
        if y[i] > max(most, least):
            entering, most = -(1 + i), y[i]
            if first:
                return entering
    return entering


@njit(cache=True, fastmath=False, allocates=False)
def _choose_leaving(slacks, scales, widens, basis, inverse, entering, along):
    """Return the place in the basis that the entering variable takes, -1 if there is none; fills along [I+1]."""
    n = basis.shape[0]
    for k in range(n):
        along[k] = 0.0
        for r in range(n):
            along[k] += inverse[k, r] * _entry(slacks, scales, entering, r)
    least = np.inf
    for k in range(n):
        if along[k] > _SMALLEST_PIVOT and not (widens and basis[k] == -n):
            least = min(least, max(inverse[k, n - 1], 0.0) / along[k])
    leaving = -1
    for k in range(n):
        if along[k] > _SMALLEST_PIVOT and not (widens and basis[k] == -n):
            left = max(inverse[k, n - 1], 0.0) - least * along[k]
            if left <= _TIE and (leaving < 0 or along[k] > along[leaving]):
                leaving = k
    return leaving


@njit(cache=True, fastmath=False, allocates=False)
def _refine(slacks, scales, basis, inverse, missing, x):
    """Write the values of the basic variables, x [I+1], with one step of refinement: nearly tied rows need it."""
    n = basis.shape[0]
    for k in range(n):
        x[k] = inverse[k, n - 1]
    for r in range(n):
        missing[r] = 1.0 if r == n - 1 else 0.0
        for k in range(n):
            missing[r] -= _entry(slacks, scales, basis[k], r) * x[k]
    for k in range(n):
        for r in range(n):
            x[k] += inverse[k, r] * missing[r]

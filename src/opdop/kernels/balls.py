"""Widths of confidence sets that hold for any number of observations at once, and the best kernel in such a set.

docs/guarantees.md derives the widths.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit


@njit(cache=True, fastmath=False)
def mean_width(n, log_sets):
    """Return how far the mean of n observations in [0, 1] may be from its expectation; infinite for n = 0.

    With log_sets = log(N / delta), this holds for N means and all n >= 1 at once with probability 1 - delta: the
    mixture of exp(l S - l^2 n / 8) over l ~ N(0, 4), which is (n+1)^(-1/2) exp(2 S^2 / (n+1)), is a supermartingale in
    n for the centred sum S of each, and Ville's inequality bounds it by N / delta.
    """
    if n <= 0.0:
        return math.inf
    return math.sqrt(0.5 * (n + 1.0) * (log_sets + 0.5 * math.log(n + 1.0))) / n


@njit(cache=True, fastmath=False)
def l1_width(n, log_sets):
    """Return how far, in L1, the empirical distribution of n draws may be from the true one: at most 2.

    With m possible outcomes, log_sets = log((2^(m-1) - 1) / delta) covers every set of outcomes, hence half the L1
    distance; it is -inf for m = 1, and the width 0.
    """
    if log_sets == -math.inf:
        return 0.0
    return min(2.0, 2.0 * mean_width(n, log_sets))


@njit(cache=True, fastmath=False)
def log_pairs_of_sets(m):
    """Return log(2^(m-1) - 1): how many sets of m outcomes there are, a set and its complement being one.

    The empty set and its complement are left out; so it is -inf for m = 1, where nothing is random.
    """
    if m <= 1:
        return -math.inf
    return (m - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - m)))


class Balls(NamedTuple):
    """Rows of transitions, each the centre of an L1 ball, with lists of successors as in `transitions.Sparse`.

    An expectation under balls is that of the row's member that maximises the expectation of weights @ v. A row without
    successors was never visited; its width must be 2, so that all distributions on its possible successors are members.
    """

    starts: np.ndarray  # [L*S*A + 1] int64
    successors: np.ndarray  # [entries] int32
    probabilities: np.ndarray  # [entries]
    widths: np.ndarray  # [L*S*A], in L1
    possible_starts: np.ndarray  # [L*S*A + 1] int64; or [1] if every state is a possible successor
    possible: np.ndarray  # [listed] int32: the possible successors, row by row
    weights: np.ndarray  # [J]
    rank: np.ndarray  # [S] int64, room: 0 is the best state
    order: np.ndarray  # [S] int64, room: the states from the best to the worst
    slots: np.ndarray  # [S] int64, room, -1 everywhere


@njit(cache=True, fastmath=False)
def rank_states(balls, v):
    """Sort the states by weights @ v, v [J, S], from the largest to the smallest; fills `rank` and `order`."""
    J, S = v.shape
    worth = np.empty(S)
    for y in range(S):
        total = 0.0
        for j in range(J):
            total -= balls.weights[j] * v[j, y]
        worth[y] = total
    order = np.argsort(worth)
    for place in range(S):
        balls.order[place] = order[place]
        balls.rank[order[place]] = place


@njit(cache=True, fastmath=False)
def move_mass(balls, row, v, out, n):
    """Add to out [J, n] what the best member of a row's ball gains over its centre, in the expectation of v [J, S].

    Half the width is moved to the best possible successor, from the worst successors first; less if it then has all.
    """
    half = 0.5 * balls.widths[row]
    if half <= 0.0:
        return
    first, last = balls.starts[row], balls.starts[row + 1]
    best = best_possible(balls, row)
    room = 1.0
    for entry in range(first, last):
        if balls.successors[entry] == best:
            room -= balls.probabilities[entry]
    moved = min(half, room)
    if moved <= 0.0:
        return
    for j in range(v.shape[0]):
        out[j, n] += moved * v[j, best]
    # Either sort the successors, or put them at their ranks among all states: whichever takes fewer steps.
    count, S = last - first, balls.rank.shape[0]
    if count * count <= 4 * S:
        _take_sorted(balls, first, last, best, moved, v, out, n)
    else:
        _take_by_rank(balls, first, last, best, moved, v, out, n)


@njit(cache=True, fastmath=False)
def best_possible(balls, row):
    """Return the best of a row's possible successors, by the ranks."""
    if balls.possible_starts.shape[0] == 1:
        return balls.order[0]
    best = np.int64(balls.possible[balls.possible_starts[row]])
    for place in range(balls.possible_starts[row] + 1, balls.possible_starts[row + 1]):
        y = np.int64(balls.possible[place])
        if balls.rank[y] < balls.rank[best]:
            best = y
    return best


@njit(cache=True, fastmath=False)
def _take_sorted(balls, first, last, best, moved, v, out, n):
    """Take the mass from the worst successors but the best state, after an insertion sort of the row's list."""
    slots, rank, successors = balls.slots, balls.rank, balls.successors
    count = 0
    for entry in range(first, last):  # slots: the list's entries from the worst to the best
        place = count
        while place > 0 and rank[successors[slots[place - 1]]] < rank[successors[entry]]:
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = entry
        count += 1
    left = moved
    for place in range(count):
        left = _take(balls, slots[place], best, left, v, out, n)
        slots[place] = -1


@njit(cache=True, fastmath=False)
def _take_by_rank(balls, first, last, best, moved, v, out, n):
    """The same, with the successors put at their ranks among all states."""
    slots, rank, successors = balls.slots, balls.rank, balls.successors
    for entry in range(first, last):
        slots[rank[successors[entry]]] = entry
    left = moved
    for place in range(slots.shape[0] - 1, -1, -1):
        if left <= 0.0:
            break
        if slots[place] >= 0:
            left = _take(balls, slots[place], best, left, v, out, n)
    for entry in range(first, last):
        slots[rank[successors[entry]]] = -1


@njit(cache=True, fastmath=False)
def _take(balls, entry, best, left, v, out, n):
    """Take mass from one successor, unless it is the best one; return what is left to take."""
    y = balls.successors[entry]
    taken = min(balls.probabilities[entry], left)
    if y == best or taken <= 0.0:
        return left
    for j in range(v.shape[0]):
        out[j, n] -= taken * v[j, y]
    return left - taken

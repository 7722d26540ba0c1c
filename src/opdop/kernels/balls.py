"""Widths of confidence sets that hold for any number of observations at once, and the best kernel in such a set.

docs/guarantees.md derives the widths.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.parts import in_kernels
from opdop.kernels.records import as_record
from opdop.kernels.sorting import sort_states


@in_kernels(forceinline=True)
def mean_width(n, log_sets):
    """Return how far the mean of n observations in [0, 1] may be from its expectation; infinite for n = 0.

    With log_sets = log(N / delta), this holds for N means and all n >= 1 at once with probability 1 - delta: the
    mixture of exp(l S - l^2 n / 8) over l ~ N(0, 4), which is (n+1)^(-1/2) exp(2 S^2 / (n+1)), is a supermartingale in
    n for the centred sum S of each, and Ville's inequality bounds it by N / delta.
    """
    if n <= 0.0:
        return math.inf
    return math.sqrt(0.5 * (n + 1.0) * (log_sets + 0.5 * math.log(n + 1.0))) / n


@in_kernels(forceinline=True)
def l1_width(n, log_sets):
    """Return how far, in L1, the empirical distribution of n draws may be from the true one: at most 2.

    With m possible outcomes, log_sets = log((2^(m-1) - 1) / delta) covers every set of outcomes, hence half the L1
    distance; it is -inf for m = 1, and the width 0.
    """
    if log_sets == -math.inf:
        return 0.0
    return min(2.0, 2.0 * mean_width(n, log_sets))


@in_kernels(forceinline=True)
def log_pairs_of_sets(m):
    """Return log(2^(m-1) - 1): how many sets of m outcomes there are, a set and its complement being one.

    The empty set and its complement are left out; so it is -inf for m = 1, where nothing is random.
    """
    if m <= 1:
        return -math.inf
    return (m - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - m)))


@in_kernels(forceinline=True)
def unseen_mass(n, log_sets):
    """Return the largest probability of a set of outcomes of which none occurred in n draws; 1 for n = 0.

    With log_sets = log(N / delta), this holds for N sets and all n at once with probability 1 - delta: for a set of
    probability c, (1 - c)^(-n) as long as none of its outcomes occurs, and 0 after that, is a martingale in n.
    """
    if n <= 0.0:
        return 1.0
    return -math.expm1(-max(log_sets, 0.0) / n)


@as_record
class Balls(NamedTuple):
    """Rows of transitions, each the centre of an L1 ball, with lists of successors as in `transitions.Sparse`.

    The members of a row's ball also give the states outside its list no more than `unseen` together. An expectation
    under balls is that of the row's member that maximises the expectation of weights @ v. A row without successors was
    never visited; its width must be 2, so that all distributions on its possible successors are members.
    """

    starts: np.ndarray  # [L*S*A + 1] int64
    successors: np.ndarray  # [entries] int32
    probabilities: np.ndarray  # [entries]
    widths: np.ndarray  # [L*S*A], in L1
    unseen: np.ndarray  # [L*S*A]: the largest probability of all states together that are not in the row's list
    possible_starts: np.ndarray  # [L*S*A + 1] int64; or [1] if every state is a possible successor
    possible: np.ndarray  # [listed] int32: the possible successors, row by row
    weights: np.ndarray  # [J]
    rank: np.ndarray  # [S] int64, room: 0 is the best state
    order: np.ndarray  # [S] int64, room: the states from the best to the worst
    worth: np.ndarray  # [1, 1, S], room: weights @ v
    slots: np.ndarray  # [S] int64, room, -1 everywhere


def room_for_ranks(S):
    """Return the room `rank`, `order` and `worth` that `rank_states` fills; the order is of all states at any time."""
    return {"rank": np.zeros(S, dtype=np.int64), "order": np.arange(S), "worth": np.empty((1, 1, S))}


@njit(cache=True, allocates=False, fastmath=False)
def rank_states(balls, v):
    """Sort the states by weights @ v, v [J, S], from the largest to the smallest; fills `rank` and `order`."""
    J, S = v.shape
    rank, order, worth = balls.rank, balls.order, balls.worth
    for y in range(S):
        total = 0.0
        for j in range(J):
            total += balls.weights[j] * v[j, y]
        worth[0, 0, y] = total
    sort_states(worth, 0, 0, order.reshape(1, 1, S), 0)
    for place in range(S):
        rank[order[place]] = place


@njit(cache=True, allocates=False, fastmath=False)
def move_mass(balls, first_row, count, v, out):
    """Add to out [J, count] what the best members of some rows' balls gain over their centres, in expectations of v.

    Half the width is moved to the best possible successor, from the worst successors first; less if it then has all.
    If it is not in the list, it gets no more than states outside the list may have, and the best of the list the rest.
    v is [J, S], and the states have been ranked by it.
    """
    # The arrays are taken out of the tuple here: handed on as a whole, it would be copied for each row.
    starts, successors, probabilities, widths = balls.starts, balls.successors, balls.probabilities, balls.widths
    possible_starts, possible, rank, order = balls.possible_starts, balls.possible, balls.rank, balls.order
    unseen, slots, S = balls.unseen, balls.slots, balls.rank.shape[0]
    everything = possible_starts.shape[0] == 1
    for n in range(count):
        row = first_row + n
        half = 0.5 * widths[row]
        if half <= 0.0:
            continue
        best = order[0]
        if not everything:
            best = best_of(possible[possible_starts[row] : possible_starts[row + 1]], rank)
        mine = successors[starts[row] : starts[row + 1]]
        chances = probabilities[starts[row] : starts[row + 1]]
        chance = chance_of(best, mine, chances)
        moved = min(half, 1.0 - chance)
        if moved <= 0.0:
            continue
        if chance == 0.0 and mine.shape[0] > 0 and unseen[row] < moved:
            second = best_of(mine, rank)
            outside, inside = split_mass(half, unseen[row], chance_of(second, mine, chances))
            for j in range(v.shape[0]):
                out[j, n] += outside * v[j, best] + inside * v[j, second]
            moved = outside + inside
        else:
            for j in range(v.shape[0]):
                out[j, n] += moved * v[j, best]
        # A short list is searched for its worst again and again; a long one is put at its ranks among all states.
        if mine.shape[0] == S:
            _take_in_order(order, chances, best, moved, v, out, n)
        elif mine.shape[0] * mine.shape[0] <= 4 * S:
            _take_by_search(rank, mine, chances, best, moved, v, out, n)
        else:
            _take_by_rank(rank, slots, mine, chances, best, moved, v, out, n)


@njit(cache=True, allocates=False, fastmath=False)
def split_mass(half, unseen, chance):
    """Return how much mass goes outside a list and how much to the best of the list, which has `chance` already.

    Mass outside is worth more, so that it comes first; it may take from the best of the list too.
    """
    return unseen, max(min(half, 1.0 - chance) - unseen, 0.0)


@njit(cache=True, allocates=False, fastmath=False)
def best_possible(balls, row):
    """Return the best of a row's possible successors, by the ranks."""
    if balls.possible_starts.shape[0] == 1:
        return balls.order[0]
    return best_of(balls.possible[balls.possible_starts[row] : balls.possible_starts[row + 1]], balls.rank)


@njit(cache=True, allocates=False, fastmath=False)
def best_of(states, rank):
    """Return the best of some states, by the ranks."""
    best = np.int64(states[0])
    for place in range(1, states.shape[0]):
        if rank[states[place]] < rank[best]:
            best = np.int64(states[place])
    return best


@njit(cache=True, allocates=False, fastmath=False)
def chance_of(y, successors, probabilities):
    """Return the probability of a state in a list of ascending successors; 0 if it is not in it."""
    low, high = 0, successors.shape[0]
    while low < high:
        middle = (low + high) // 2
        if successors[middle] < y:
            low = middle + 1
        else:
            high = middle
    if low < successors.shape[0] and successors[low] == y:
        return probabilities[low]
    return 0.0


@njit(cache=True, allocates=False, fastmath=False)
def _take_in_order(order, chances, best, moved, v, out, n):
    """Take mass from the worst states but the best one; the list has all states."""
    left = moved
    for place in range(order.shape[0] - 1, -1, -1):
        y = order[place]
        if y != best:
            taken = min(chances[y], left)
            for j in range(v.shape[0]):
                out[j, n] -= taken * v[j, y]
            left -= taken
            if left <= 0.0:
                return


@njit(cache=True, allocates=False, fastmath=False)
def _take_by_search(rank, mine, chances, best, moved, v, out, n):
    """Take mass from the worst successors of a list but the best state, finding the next one each time."""
    left, before = moved, rank.shape[0]
    for _ in range(mine.shape[0]):
        worst, entry = -1, 0
        for k in range(mine.shape[0]):
            if worst < rank[mine[k]] < before:
                worst, entry = rank[mine[k]], k
        before = worst
        y = mine[entry]
        if y != best:
            taken = min(chances[entry], left)
            for j in range(v.shape[0]):
                out[j, n] -= taken * v[j, y]
            left -= taken
            if left <= 0.0:
                return


@njit(cache=True, allocates=False, fastmath=False)
def _take_by_rank(rank, slots, mine, chances, best, moved, v, out, n):
    """The same, with the list put at its ranks among all states; slots are -1 before and after."""
    for k in range(mine.shape[0]):
        slots[rank[mine[k]]] = k
    left = moved
    for place in range(slots.shape[0] - 1, -1, -1):
        if left > 0.0 and slots[place] >= 0:
            y = mine[slots[place]]
            if y != best:
                taken = min(chances[slots[place]], left)
                for j in range(v.shape[0]):
                    out[j, n] -= taken * v[j, y]
                left -= taken
        slots[place] = -1

"""Optimistic policy evaluation over L1 balls: Q = min(H-h, signal + max of q V over the ball), and V = <Q, policy>.

The maximum is exact. In descending order of V the first successor gets its own probability and eps/2 more, and each
next one its own until nothing is left. For a table the states are sorted once a stage, and all pairs are filled in one
vectorised pass. For lists only the best state is needed, and mass is taken from the worst successors of each list.
Pairs are laid out by action, a*S + x. All sums are in visits, n times a probability.
"""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import CountTable, any_touched, average, blocks, by_form, rows_together
from opdop.kernels.parts import overload
from opdop.kernels.simd import LANES
from opdop.kernels.vectors import load, store, where_positive, zeros
from opdop.kernels.visits import stored_stage

# As in `opdop.kernels.counts`: the same bits wherever a kernel is inlined.
_EXACT = {"contract"}
_GAPS = (701, 301, 132, 57, 23, 10, 4, 1)  # Ciura's


def evaluate_ball(counts, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S]; unvisited pairs keep the H-h written there."""
    compiled = _evaluate_table if isinstance(counts, CountTable) else _evaluate_lists
    compiled(counts, policy, q, v)


@overload(evaluate_ball, allocates=False, forceinline=True)
def _overload_evaluate_ball(counts, policy, q, v):
    def of_table(counts, policy, q, v):
        _evaluate_table(counts, policy, q, v)

    def of_lists(counts, policy, q, v):
        _evaluate_lists(counts, policy, q, v)

    return by_form(counts, of_table, of_lists)


@njit(cache=True, allocates=False, fastmath=_EXACT)
def _evaluate_table(counts, policy, q, v):
    visits, J, (H, _, S) = counts.visits, q.shape[0], policy.shape
    for j in range(J):
        for x in range(S):
            v[j, H, x] = 0.0
    for h in range(H - 1, -1, -1):
        if any_touched(visits.touched, h, 0, S):
            for j in range(J):
                if h < H - 1:
                    sort_states(v, j, h + 1, visits.order, h)
                _evaluate_signal(counts, q, v, j, h)
                average(q[j, h], policy[h], 0, S, v[j, h])


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _evaluate_signal(counts, q, v, j, h):
    """Write Q of one signal at stage h; the states have been sorted by the values that follow."""
    (_, S, pairs), H = counts.seen.shape, q.shape[1]
    places = S if h < H - 1 else 0  # nothing follows the last stage
    first, step = 0, rows_together(S, pairs)
    while True:
        last = min(first + step, places)
        whole, end = blocks(pairs) if step >= places else (pairs - pairs % LANES, pairs)
        for pair in range(0, whole, LANES):
            _fill_block(zeros(), counts, q, v, j, h, first, last, places, min(pair, end))
        for pair in range(whole, pairs):
            _fill_block(0.0, counts, q, v, j, h, first, last, places, pair)
        first = last
        if first == places:
            break


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _fill_block(like, counts, q, v, j, h, first, last, places, pair):
    """Fill one pair, or `LANES`, with the states at some places of the order; write Q after the last place.

    Sums up n times the expectation of v[j, h+1]; between calls work has this sum and the visits that are left.
    """
    visits, seen, work, order = counts.visits, counts.seen, counts.visits.work, counts.visits.order
    (L, S, pairs), H, M = seen.shape, q.shape[1], visits.upper.shape[1]
    k, m = stored_stage(h, L), stored_stage(h, M)
    number, at = load(like, visits.number, k * pairs + pair), np.uint64(k * S * pairs + pair)
    total, left = like, number
    if first > 0:
        total, left = load(like, work, pair), load(like, work, pairs + pair)
    for place in range(np.uint64(first), np.uint64(last)):
        y = np.uint64(order[j, h, place])
        n = load(like, seen, at + y * np.uint64(pairs))
        if place == 0:
            n = n + load(like, visits.moved, k * pairs + pair)
        taken = min(left, n)
        left = left - taken
        total = total + taken * v[j, h + 1, y]
    if last < places:
        store(work, pair, total)
        store(work, pairs + pair, left)
        return
    top, upper = float(H - h), load(like, visits.upper, (j * M + m) * pairs + pair)
    bound = min(upper + total * load(like, visits.inverse, k * pairs + pair), top)
    store(q, (j * H + h) * pairs + pair, where_positive(number, bound, top))


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


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _evaluate_lists(counts, policy, q, v):
    visits = counts.visits
    J, (H, A, S) = q.shape[0], policy.shape
    number, upper = visits.number, visits.upper
    for j in range(J):
        for x in range(S):
            v[j, H, x] = 0.0
    for h in range(H - 1, -1, -1):
        k, m = stored_stage(h, number.shape[0]), stored_stage(h, upper.shape[1])
        for j in range(J):
            best = 0
            for y in range(S):
                if v[j, h + 1, y] > v[j, h + 1, best]:
                    best = y
            for x in range(S):
                if visits.touched[h, x]:
                    mean = 0.0
                    for a in range(A):
                        pair = a * S + x
                        if number[k, pair] > 0.0:
                            ahead = 0.0
                            if h < H - 1:
                                ahead = _fill_list(counts, k, pair, v, j, h + 1, best) * visits.inverse[k, pair]
                            q[j, h, a, x] = min(upper[j, m, pair] + ahead, float(H - h))
                        mean += q[j, h, a, x] * policy[h, a, x]
                    v[j, h, x] = mean


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _fill_list(counts, k, pair, v, j, stage, best):
    """Return n times the largest expectation of v[j, stage] over one pair's ball."""
    visits, successors, seen = counts.visits, counts.successors, counts.seen
    row = k * visits.number.shape[1] + pair
    first, size, moved, top = counts.starts[row], counts.used[row], visits.moved[k, pair], v[j, stage, best]
    work, total, at_best = visits.work, 0.0, 0.0
    for n in range(size):
        y, mass = successors[first + n], seen[first + n]
        work[0, n], work[1, n] = v[j, stage, y], mass
        total += mass * work[0, n]
        if y == best:
            at_best = mass
    if at_best + moved >= visits.number[k, pair]:
        return visits.number[k, pair] * top
    return total + moved * top - _take_worst(work, size, moved)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _take_worst(heap, size, wanted):
    """Return the value of so much mass, taken where values are smallest; heap [2, n], values and masses, is used up."""
    for root in range(size // 2 - 1, -1, -1):
        _sift(heap, root, size)
    total = 0.0
    while wanted > 0.0 and size > 0:
        taken = min(heap[1, 0], wanted)
        total += taken * heap[0, 0]
        wanted -= taken
        size -= 1
        heap[0, 0], heap[1, 0] = heap[0, size], heap[1, size]
        _sift(heap, 0, size)
    return total


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _sift(heap, root, size):
    """Move a value down until none below it is smaller."""
    value, mass = heap[0, root], heap[1, root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size and heap[0, child + 1] < heap[0, child]:
            child += 1
        if not heap[0, child] < value:
            break
        heap[0, root], heap[1, root] = heap[0, child], heap[1, child]
        root, child = child, 2 * child + 1
    heap[0, root], heap[1, root] = value, mass

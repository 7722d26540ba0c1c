"""Optimistic policy evaluation over L1 balls: Q = min(H-h, signal + max of q V over the ball), and V = <Q, policy>.

The maximum is exact. In descending order of V the first successor gets its own probability and eps/2 more, and each
next one its own until nothing is left. For a table the states are sorted once a stage, and all pairs are filled in one
vectorised pass. For lists only the best state is needed, and mass is taken from the worst successors of each list.
Pairs are laid out by action, a*S + x. All sums are in visits, n times a probability.
"""

from __future__ import annotations

import numpy as np

from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.counts import CountTable, any_touched, average_signals, blocks, by_form
from opdop.kernels.parts import overload
from opdop.kernels.simd import LANES
from opdop.kernels.sorting import sort_states
from opdop.kernels.vectors import load, store, where_positive, zeros
from opdop.kernels.visits import stored_stage

# As in `opdop.kernels.counts`: the same bits wherever a kernel is inlined.
_EXACT = {"contract"}
_FEW = 12  # states, up to which a pair is filled in registers


def evaluate_ball(counts, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S]; unvisited pairs keep the H-h written there."""
    compiled = _evaluate_table if isinstance(counts, CountTable) else _evaluate_lists
    compiled(counts, policy, q, v)


@overload(evaluate_ball)
def _overload_evaluate_ball(counts, policy, q, v):
    return by_form(counts, _evaluate_table, _evaluate_lists)


@njit(cache=True, allocates=False, kind="compact", fastmath=False)
def _evaluate_table(counts, policy, q, v):
    H = policy.shape[0]
    walk_back(_look_ahead_in_table, average_signals, counts, policy, q, v, v[:, H], H, None)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_in_table(counts, h, first, last, q, v):
    visits, (J, H, _, S) = counts.visits, q.shape
    if not any_touched(visits.touched, h, 0, S):
        return False
    for j in range(J):
        if h < H - 1:
            sort_states(v, j, h + 1, visits.order, h)
        _evaluate_signal(counts, q, v, j, h)
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _evaluate_signal(counts, q, v, j, h):
    """Write Q of one signal at stage h; the states have been sorted by the values that follow."""
    visits, (L, S, pairs), H = counts.visits, counts.seen.shape, q.shape[1]
    k = stored_stage(h, L)
    is_filled = h < H - 1 and S > _FEW
    if is_filled:
        _fill(counts.seen, k, v, j, h + 1, visits.order, h, visits.number, visits.moved, visits.work)
    whole, end = blocks(pairs)
    for pair in range(0, whole, LANES):
        _estimate_block(zeros(), counts, q, v, j, h, k, is_filled, min(pair, end))
    for pair in range(whole, pairs):
        _estimate_block(0.0, counts, q, v, j, h, k, is_filled, pair)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _estimate_block(like, counts, q, v, j, h, k, is_filled, pair):
    """Write Q of one pair, or of `LANES`; its ball was filled into work[0], or is filled here."""
    visits, seen, order = counts.visits, counts.seen, counts.visits.order
    (_, S, pairs), H, M = seen.shape, q.shape[1], visits.upper.shape[1]
    number, inverse = load(like, visits.number, k * pairs + pair), load(like, visits.inverse, k * pairs + pair)
    total = like  # nothing follows the last stage
    if is_filled:
        total = load(like, visits.work, pair)
    elif h < H - 1:
        at, left = np.uint64(k * S * pairs + pair), number
        for place in range(np.uint64(S)):
            y = np.uint64(order[j, h, place])
            n = load(like, seen, at + y * np.uint64(pairs))
            if place == 0:
                n = n + load(like, visits.moved, k * pairs + pair)
            taken = min(left, n)
            left = left - taken
            total = total + taken * v[j, h + 1, y]
    top, upper = float(H - h), load(like, visits.upper, (j * M + stored_stage(h, M)) * pairs + pair)
    bound = min(upper + total * inverse, top)
    store(q, (j * H + h) * pairs + pair, where_positive(number, bound, top))


@njit(cache=True, allocates=False, kind="apart", fastmath=_EXACT, alone=True)
def _fill(seen, k, v, j, stage, order, h, number, moved, work):
    """Write n times the largest expectation of v[j, stage] over each pair's ball into work[0]; work[1] is used up."""
    S, pairs = seen.shape[1], seen.shape[2]
    y = order[j, h, 0]
    best = v[j, stage, y]
    for pair in range(pairs):
        wanted, n = float(seen[k, y, pair]) + moved[k, pair], number[k, pair]
        taken = wanted if wanted < n else n
        work[0, pair] = taken * best
        work[1, pair] = n - taken
    whole = S - (S - 1) % 4
    for place in range(1, whole, 4):  # four successors at a time: sums are read and written a quarter as often
        y0, y1, y2, y3 = order[j, h, place], order[j, h, place + 1], order[j, h, place + 2], order[j, h, place + 3]
        v0, v1, v2, v3 = v[j, stage, y0], v[j, stage, y1], v[j, stage, y2], v[j, stage, y3]
        for pair in range(pairs):
            n0, n1 = float(seen[k, y0, pair]), float(seen[k, y1, pair])
            n2, n3 = float(seen[k, y2, pair]), float(seen[k, y3, pair])
            total, left = work[0, pair], work[1, pair]
            t0 = n0 if n0 < left else left
            left -= t0
            t1 = n1 if n1 < left else left
            left -= t1
            t2 = n2 if n2 < left else left
            left -= t2
            t3 = n3 if n3 < left else left
            work[1, pair] = left - t3
            work[0, pair] = (((total + t0 * v0) + t1 * v1) + t2 * v2) + t3 * v3
    for place in range(whole, S):
        y = order[j, h, place]
        value = v[j, stage, y]
        for pair in range(pairs):
            n, left = float(seen[k, y, pair]), work[1, pair]
            taken = n if n < left else left
            work[1, pair] = left - taken
            work[0, pair] += taken * value


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _evaluate_lists(counts, policy, q, v):
    H = policy.shape[0]
    walk_back(_look_ahead_in_lists, _average_touched, counts, (policy, counts.visits.touched), q, v, v[:, H], H, None)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_in_lists(counts, h, first, last, q, v):
    visits, (J, H, A, S) = counts.visits, q.shape
    number, upper = visits.number, visits.upper
    k, m = stored_stage(h, number.shape[0]), stored_stage(h, upper.shape[1])
    for j in range(J):
        best = 0
        for y in range(S):
            if v[j, h + 1, y] > v[j, h + 1, best]:
                best = y
        for x in range(S):
            if visits.touched[h, x]:
                for a in range(A):
                    pair = a * S + x
                    if number[k, pair] > 0.0:
                        ahead = 0.0
                        if h < H - 1:
                            ahead = _fill_list(counts, k, pair, v, j, h + 1, best) * visits.inverse[k, pair]
                        q[j, h, a, x] = min(upper[j, m, pair] + ahead, float(H - h))
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _average_touched(chosen, h, first, last, q, v):
    """Write V = <Q, policy> where a state was visited at stage h, and H-h elsewhere, to the last bit."""
    (policy, touched), (J, H, _, S) = chosen, q.shape
    average_signals(policy, h, first, last, q, v)
    for j in range(J):
        for x in range(S):
            v[j, h, x] = v[j, h, x] if touched[h, x] else float(H - h)


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

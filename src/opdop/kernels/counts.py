"""Algorithm 3: optimistic policy evaluation from counts, which are stored in one of two forms.

A `CountTable` has a cell for every transition and is read in one vectorised pass. `CountLists` store only the
transitions that occurred. Both give Q = clip(mean + P^ V + 2 bonus, 0, H-h), and V = <Q, policy>, for J signals.
Pairs are laid out by action, a*S + x, as in all learning kernels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from opdop.kernels.caching import njit
from opdop.kernels.sums import add_compensated

# Products may be fused with sums but nothing may be reordered, so that a kernel gives the same bits wherever it is
# inlined.
_EXACT = {"contract"}


class Visits(NamedTuple):
    """What is stored for every pair of state and action, in either form of the counts; flat over the pair, a*S + x."""

    touched: np.ndarray  # [H, S] bool: the state was visited at this stage
    number: np.ndarray  # [H, S*A]: n(x, a)
    sums: np.ndarray  # [J, H, S*A]: observed signals added up
    lost: np.ndarray  # [J, H, S*A]: what rounding took from the sums so far (Kahan)
    inverse: np.ndarray  # [H, S*A]: 1 / (n + ridge)
    width: np.ndarray  # [H, S*A]: 1 / sqrt(n + ridge)
    radii: np.ndarray  # [H]
    ridge: float
    trusted_from: float  # visits from which on a pair's estimate is used; before, its width stays the first one


class CountTable(NamedTuple):
    """Every transition has a cell, ordered so that a stage is read from start to end."""

    visits: Visits
    seen: np.ndarray  # [H, S, S*A] int32: n(x, a, y) at [h, y, a*S + x]


class CountLists(NamedTuple):
    """Every pair (h, x, a) has a short list of successors in a shared pool; flat over (h*A + a)*S + x."""

    visits: Visits
    starts: np.ndarray  # [H*S*A] int64: where the list begins
    used: np.ndarray  # [H*S*A] int32: its length
    room: np.ndarray  # [H*S*A] int32: the length it can reach where it is
    successors: np.ndarray  # [pool] int32
    seen: np.ndarray  # [pool]: counts as floating-point numbers, which saves converting them
    taken: np.ndarray  # [2] int64: pool entries in use; distinct transitions seen
    table_from: int  # distinct transitions from which on a table is faster


def _by_form(counts, table, lists):
    """Choose an implementation by the form of the counts, at compile time."""
    if isinstance(counts, types.BaseNamedTuple):
        return table if counts.instance_class is CountTable else lists
    return None


@njit(cache=True, fastmath=_EXACT)
def evaluate(counts, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S], from the counts as they are.

    Blocks of states that were never visited keep the optimistic q and v that the caller wrote there.
    """
    visits = counts.visits
    J = q.shape[0]
    H, A, S = policy.shape
    flat_q = q.reshape(J, H, A * S)
    block = states_at_once(counts)
    totals = np.empty((J, A * S))
    for j in range(J):
        for x in range(S):
            v[j, H, x] = 0.0
    for h in range(H - 1, -1, -1):  # line 3
        for x in range(0, S, block):
            after = min(x + block, S)
            if visits.touched[h, x:after].any():
                # The pairs of a whole stage form one piece; those of a block of states form one piece per action.
                pieces, pairs = (1, A * S) if after - x == S else (A, after - x)
                for j in range(J):
                    for piece in range(pieces):
                        first = piece * S + x
                        _copy(visits.sums[j, h, first : first + pairs], totals[j, first : first + pairs])
                if h < H - 1:
                    for piece in range(pieces):
                        add_expected(counts, h, piece * S + x, pairs, v, totals)
                for j in range(J):
                    for piece in range(pieces):
                        first, last = piece * S + x, piece * S + x + pairs
                        _estimate_optimistically(
                            totals[j, first:last],
                            visits.inverse[h, first:last],
                            visits.width[h, first:last],
                            visits.radii[h],
                            float(H - h),
                            flat_q[j, h, first:last],
                        )
                    average(q[j, h], policy[h], x, after, v[j, h])


@njit(cache=True, fastmath=False)
def _copy(source, target):
    for n in range(source.shape[0]):
        target[n] = source[n]


@njit(cache=True, fastmath=False)
def clip_value(value, top):
    """Return a value clipped to [0, top]; top is the number of stages left, since signals are in [0, 1]."""
    return min(max(value, 0.0), top)


@njit(cache=True, fastmath=_EXACT)
def _estimate_optimistically(totals, inverse, width, radius, top, q):
    """Write Q of some pairs, from the sums of their signals and of the values of their successors."""
    for pair in range(q.shape[0]):
        bonus = radius * width[pair]  # line 6
        q[pair] = clip_value(totals[pair] * inverse[pair] + 2.0 * bonus, top)  # line 7


@njit(cache=True, fastmath=_EXACT)
def average(q, policy, first, last, v):
    """Write V = <Q, policy> of the states from first to last; q and policy [A, S], v [S]."""
    mean = v[first:last]
    for x in range(last - first):
        mean[x] = 0.0
    for a in range(q.shape[0]):
        good, likely = q[a, first:last], policy[a, first:last]
        for x in range(last - first):
            mean[x] += good[x] * likely[x]  # line 8


def states_at_once(counts):
    """Return how many states are evaluated together: all of them for a table, a block of them for lists."""
    return _table_states_at_once(counts) if isinstance(counts, CountTable) else _lists_states_at_once(counts)


def _table_states_at_once(counts):
    return counts.seen.shape[1]


def _lists_states_at_once(counts):
    return min(128, counts.visits.touched.shape[1])


@overload(states_at_once)
def _overload_states_at_once(counts):
    return _by_form(counts, _table_states_at_once, _lists_states_at_once)


def add_expected(counts, h, first, pairs, v, totals):
    """Add sum_y n(x, a, y) V(y) to totals [J, A*S] for the pairs from `first` on at stage h; V = v[:, h+1]."""
    add = _table_add_expected if isinstance(counts, CountTable) else _lists_add_expected
    add(counts, h, first, pairs, v, totals)


def _table_add_expected(counts, h, first, pairs, v, totals):
    # Four successors and two signals at a time: each count is read and converted once, each total a quarter as often.
    # A table is always evaluated as a whole, so that first = 0.
    seen = counts.seen[h]
    S, J = seen.shape[0], totals.shape[0]
    whole = S - S % 4
    for y in range(0, whole, 4):
        n0, n1, n2, n3 = seen[y], seen[y + 1], seen[y + 2], seen[y + 3]
        for j in range(0, J - 1, 2):
            one, two = totals[j], totals[j + 1]
            a, b = v[j, h + 1], v[j + 1, h + 1]
            a0, a1, a2, a3 = a[y], a[y + 1], a[y + 2], a[y + 3]
            b0, b1, b2, b3 = b[y], b[y + 1], b[y + 2], b[y + 3]
            for pair in range(pairs):
                m0, m1, m2, m3 = float(n0[pair]), float(n1[pair]), float(n2[pair]), float(n3[pair])
                one[pair] = (((one[pair] + m0 * a0) + m1 * a1) + m2 * a2) + m3 * a3
                two[pair] = (((two[pair] + m0 * b0) + m1 * b1) + m2 * b2) + m3 * b3
        if J % 2 == 1:
            one, a = totals[J - 1], v[J - 1, h + 1]
            a0, a1, a2, a3 = a[y], a[y + 1], a[y + 2], a[y + 3]
            for pair in range(pairs):
                one[pair] = (((one[pair] + n0[pair] * a0) + n1[pair] * a1) + n2[pair] * a2) + n3[pair] * a3
    for y in range(whole, S):
        for j in range(J):
            for pair in range(pairs):
                totals[j, pair] += seen[y, pair] * v[j, h + 1, y]


def _lists_add_expected(counts, h, first, pairs, v, totals):
    row = h * counts.visits.number.shape[1] + first
    starts, used = counts.starts[row : row + pairs], counts.used[row : row + pairs]
    successors, seen = counts.successors, counts.seen
    J = totals.shape[0]
    # Two signals at a time: each successor is looked up once for both. Unsigned indices save a test of the sign.
    for j in range(0, J - 1, 2):
        a, b = v[j, h + 1], v[j + 1, h + 1]
        one, two = totals[j, first : first + pairs], totals[j + 1, first : first + pairs]
        for pair in range(pairs):
            first_total, second_total = one[pair], two[pair]
            for entry in range(np.uint64(starts[pair]), np.uint64(starts[pair] + used[pair])):
                y, n = np.uint32(successors[entry]), seen[entry]
                first_total += n * a[y]
                second_total += n * b[y]
            one[pair] = first_total
            two[pair] = second_total
    if J % 2 == 1:
        a, one = v[J - 1, h + 1], totals[J - 1, first : first + pairs]
        for pair in range(pairs):
            total = one[pair]
            for entry in range(np.uint64(starts[pair]), np.uint64(starts[pair] + used[pair])):
                total += seen[entry] * a[np.uint32(successors[entry])]
            one[pair] = total


@overload(add_expected, jit_options={"fastmath": _EXACT})
def _overload_add_expected(counts, h, first, pairs, v, totals):
    return _by_form(counts, _table_add_expected, _lists_add_expected)


@njit(cache=True, fastmath=False)
def count_visit(visits, h, x, pair, observed):
    """Count one visit and its observed signals [J]."""
    visits.touched[h, x] = True
    visits.number[h, pair] += 1.0
    for j in range(observed.shape[0]):
        # Compensated, because rounding errors of 10^8 additions would add up.
        visits.sums[j, h, pair], visits.lost[j, h, pair] = add_compensated(
            visits.sums[j, h, pair], visits.lost[j, h, pair], observed[j]
        )
    visits.inverse[h, pair] = 1.0 / (visits.number[h, pair] + visits.ridge)
    if visits.number[h, pair] >= visits.trusted_from:
        visits.width[h, pair] = math.sqrt(visits.inverse[h, pair])


def observe(counts, states, actions, observed):
    """Add one episode to the counts: states [H+1], actions [H], observed signals [J, H]."""
    (_table_observe if isinstance(counts, CountTable) else _lists_observe)(counts, states, actions, observed)


def _table_observe(counts, states, actions, observed):
    visits, seen = counts
    S = visits.touched.shape[1]
    for h in range(actions.shape[0]):
        pair = actions[h] * S + states[h]
        seen[h, states[h + 1], pair] += 1
        count_visit(visits, h, states[h], pair, observed[:, h])


def _lists_observe(counts, states, actions, observed):
    visits = counts.visits
    S, pairs = visits.touched.shape[1], visits.number.shape[1]
    for h in range(actions.shape[0]):
        pair = actions[h] * S + states[h]
        _count_transition(counts, h * pairs + pair, states[h + 1])
        count_visit(visits, h, states[h], pair, observed[:, h])


@njit(cache=True, fastmath=False)
def _count_transition(counts, row, y):
    """Count one transition in its row's list; a list that is full moves to a place twice as long."""
    first, used = counts.starts[row], counts.used[row]
    for entry in range(first, first + used):
        if counts.successors[entry] == y:
            counts.seen[entry] += 1.0
            return
    if used == counts.room[row]:
        room = min(max(2, 2 * used), counts.visits.touched.shape[1])
        moved = counts.taken[0]
        for n in range(used):
            counts.successors[moved + n] = counts.successors[first + n]
            counts.seen[moved + n] = counts.seen[first + n]
        counts.starts[row] = moved
        counts.room[row] = room
        counts.taken[0] += room
        first = moved
    counts.successors[first + used] = y
    counts.seen[first + used] = 1.0
    counts.used[row] = used + 1
    counts.taken[1] += 1


@overload(observe)
def _overload_observe(counts, states, actions, observed):
    return _by_form(counts, _table_observe, _lists_observe)


@njit(cache=True, fastmath=False)
def observe_episode(counts, states, actions, observed):
    """Compiled `observe`, for callers outside the kernels."""
    observe(counts, states, actions, observed)


def is_full(counts):
    """Return whether the next episode might not fit, or the lists have become so long that a table is faster."""
    return (_table_is_full if isinstance(counts, CountTable) else _lists_is_full)(counts)


def _table_is_full(counts):
    return False


def _lists_is_full(counts):
    # An episode moves at most one list per stage, to room for at most S successors.
    out_of_room = counts.taken[0] + counts.visits.touched.size > counts.seen.shape[0]
    return out_of_room or counts.taken[1] >= counts.table_from


@overload(is_full)
def _overload_is_full(counts):
    return _by_form(counts, _table_is_full, _lists_is_full)

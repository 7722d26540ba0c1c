"""Algorithm 3: optimistic policy evaluation from counts, which are stored in one of two forms.

A `CountTable` has a cell for every transition and is read in one vectorised pass. `CountLists` store only the
transitions that occurred. Both give Q = clip(mean + P^ V + 2 bonus + doubt, 0, H-h) and V = <Q, policy> of J signals.
Pairs are laid out by action, a*S + x, as in all learning kernels. Counts have L stages of their own: L = H, or L = 1
where the visits of all stages are pooled, because the kernel is stationary.

With `BallVisits` the same counts belong to confidence sets instead of bonuses: see `opdop.kernels.ball_evaluation`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types

from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.parts import overload
from opdop.kernels.records import as_record
from opdop.kernels.simd import LANES
from opdop.kernels.vectors import WIDE, load, load_some, store, store_some, wide_zeros, zeros
from opdop.kernels.visits import BallVisits, Visits, count_visits, stored_stage

# Products may be fused with sums but nothing may be reordered, so that a kernel gives the same bits wherever it is
# inlined.
_EXACT = {"contract"}

_BLOCK = 128  # states evaluated together from lists
_NEAR = 2**13  # counts of a stage up to which a table is read in columns of `LANES` pairs, and not of `WIDE`


@as_record
class CountTable(NamedTuple):
    """Every transition has a cell, ordered so that a stage is read from start to end."""

    visits: Visits | BallVisits
    seen: np.ndarray  # [L, S, S*A] int32: n(x, a, y) at [h, y, a*S + x]


@as_record
class CountLists(NamedTuple):
    """Every pair (h, x, a) has a short list of successors in a shared pool; flat over (h*A + a)*S + x."""

    visits: Visits | BallVisits
    starts: np.ndarray  # [L*S*A] int64: where the list begins
    used: np.ndarray  # [L*S*A] int32: its length
    room: np.ndarray  # [L*S*A] int32: the length it can reach where it is
    successors: np.ndarray  # [pool] int32
    seen: np.ndarray  # [pool]: counts as floating-point numbers, which saves converting them
    taken: np.ndarray  # [2] int64: pool entries in use; distinct transitions seen
    table_from: int  # distinct transitions from which on a table is faster


def by_form(counts, table, lists):
    """Choose an implementation by the form of the counts, at compile time."""
    if isinstance(counts, types.BaseNamedTuple):
        return table if counts.instance_class is CountTable else lists
    return None


def evaluate(counts, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S], from the counts as they are.

    Blocks of states that were never visited keep the optimistic q and v that the caller wrote there.
    """
    (_evaluate_table if isinstance(counts, CountTable) else _evaluate_lists)(counts, policy, q, v)


@overload(evaluate)
def _overload_evaluate(counts, policy, q, v):
    return by_form(counts, _evaluate_table, _evaluate_lists)


@njit(cache=True, allocates=False, fastmath=False)
def _evaluate_table(counts, policy, q, v):
    H = policy.shape[0]
    walk_back(_look_ahead_in_table, average_signals, counts, policy, q, v, v[:, H], H, None)  # line 3


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_in_table(counts, h, first, last, q, v):
    visits, (J, _, _, S) = counts.visits, q.shape
    if not any_touched(visits.touched, h, 0, S):
        return False
    for j in range(0, J, 2):  # two signals at a time: each count is read and converted once for both
        i = min(j + 1, J - 1)
        _evaluate_two(counts, q, v, j, i, h, (_doubted_span(visits, v, j, h), _doubted_span(visits, v, i, h)))
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _evaluate_two(counts, q, v, j, i, h, spans):
    """Write Q of signals j and i at stage h."""
    S, pairs = counts.seen.shape[1:]
    whole, end = blocks(pairs)
    pair = 0
    if S * pairs > _NEAR and pairs >= WIDE:  # all pairs; the last vector repeats some of the one before
        while pair < pairs:
            at = min(pair, pairs - WIDE)
            sums = _sum_block(wide_zeros(), counts, v, j, i, h, at)
            _estimate_two(wide_zeros(), counts, q, v, j, i, h, spans, at, sums)
            pair += WIDE
    while pair < whole:
        at = min(pair, end)
        _estimate_two(zeros(), counts, q, v, j, i, h, spans, at, _sum_block(zeros(), counts, v, j, i, h, at))
        pair += LANES
    while pair < pairs:
        _estimate_two(0.0, counts, q, v, j, i, h, spans, pair, _sum_block(0.0, counts, v, j, i, h, pair))
        pair += 1


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _estimate_two(like, counts, q, v, j, i, h, spans, pair, sums):
    """Write Q of one pair, or of all in a vector, from the sums of two signals and of the values that follow."""
    visits, H, (L, _, pairs) = counts.visits, v.shape[1] - 1, counts.seen.shape
    at, radius, top = stored_stage(h, L) * pairs + pair, visits.radii[h], float(H - h)
    inverse, width, doubt = load(like, visits.inverse, at), load(like, visits.width, at), load(like, visits.doubt, at)
    store(q, (j * H + h) * pairs + pair, estimate(sums[0], inverse, width, doubt, radius, spans[0], top))
    store(q, (i * H + h) * pairs + pair, estimate(sums[1], inverse, width, doubt, radius, spans[1], top))


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _sum_block(like, counts, v, j, i, h, pair):
    """Return the sums of two signals and of the values that follow, of one pair or of all in a vector."""
    seen, sums, (L, S, pairs) = counts.seen, counts.visits.sums, counts.seen.shape
    k = stored_stage(h, L)
    one, two = load(like, sums, (j * L + k) * pairs + pair), load(like, sums, (i * L + k) * pairs + pair)
    if h < v.shape[1] - 2:  # nothing follows the last stage
        at, a, b = np.uint64(k * S * pairs + pair), v[j, h + 1], v[i, h + 1]
        for y in range(np.uint64(S)):
            n = load(like, seen, at)
            one, two = one + n * a[y], two + n * b[y]
            at += np.uint64(pairs)
    return one, two


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _evaluate_lists(counts, policy, q, v):
    H = policy.shape[0]
    walk_back(_look_ahead_in_lists, average_signals, counts, policy, q, v, v[:, H], H, _BLOCK)  # line 3


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_in_lists(counts, h, first, last, q, v):
    visits, (J, H, A, S) = counts.visits, q.shape
    inverse, width, doubt = visits.inverse, visits.width, visits.doubt
    totals, spans = visits.work, visits.spans
    if first == 0:
        for j in range(J):
            spans[j] = _doubted_span(visits, v, j, h)
    if not any_touched(visits.touched, h, first, last):
        return False
    k = stored_stage(h, visits.number.shape[0])
    radius, top = visits.radii[h], float(H - h)
    for a in range(A):
        pairs = slice(a * S + first, a * S + last)
        _sum_listed(counts, h, a * S + first, last - first, v, totals)
        for j in range(J):
            _estimate_pairs(
                totals[j, pairs],
                inverse[k, pairs],
                width[k, pairs],
                doubt[k, pairs],
                radius,
                spans[j],
                top,
                q[j, h, a, first:last],
            )
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _copy(source, target):
    for n in range(source.shape[0]):
        target[n] = source[n]


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _estimate_pairs(totals, inverse, width, doubt, radius, span, top, q):
    """Write Q of some pairs."""
    whole, last = blocks(totals.shape[0])
    for n in range(0, whole, LANES):
        _estimate_block(zeros(), min(n, last), totals, inverse, width, doubt, radius, span, top, q)
    for n in range(whole, totals.shape[0]):
        _estimate_block(0.0, n, totals, inverse, width, doubt, radius, span, top, q)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _estimate_block(like, n, totals, inverse, width, doubt, radius, span, top, q):
    """Write Q of one pair, or of `LANES` pairs if `like` is a vector."""
    total, share, wide, doubted = (
        load(like, totals, n),
        load(like, inverse, n),
        load(like, width, n),
        load(like, doubt, n),
    )
    store(q, n, estimate(total, share, wide, doubted, radius, span, top))


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def blocks(n):
    """Return how many of n numbers are written in vectors, and where the last vector begins.

    All are if they fill a vector: the last one then begins early enough to fit, and repeats what the one before wrote.
    """
    return (n, n - LANES) if n >= LANES else (0, 0)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def any_touched(touched, h, first, last):
    """Return whether one of the states from first to last was visited at stage h."""
    for x in range(first, last):
        if touched[h, x]:
            return True
    return False


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _doubted_span(visits, v, j, h):
    """Return what multiplies the doubts at stage h: shares of the ranges of the values that follow and of a signal."""
    trust, touched = visits.trust, visits.touched
    if trust.value_doubt <= 0.0 and trust.signal_doubt <= 0.0:
        return 0.0
    following = _span(v[j, h + 1], touched[h + 1]) if h < touched.shape[0] - 1 else 0.0
    return trust.value_doubt * following + trust.signal_doubt


@njit(cache=True, fastmath=False, allocates=False)
def _span(v, touched):
    """Return the range of the values v [S] of the states that were visited."""
    low, high = math.inf, -math.inf
    for x in range(v.shape[0]):
        if touched[x]:
            low, high = min(low, v[x]), max(high, v[x])
    return max(high - low, 0.0)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def clip_value(value, top):
    """Return a value clipped to [0, top]; top is the number of stages left, since signals are in [0, 1]."""
    return min(max(value, 0.0), top)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def estimate(total, inverse, width, doubt, radius, span, top):
    """Return Q of a pair, from the sum of its signals and of the values of its successors."""
    return clip_value(_with_bonus(total, inverse, radius * width) + span * doubt, top)  # lines 6 and 7


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _with_bonus(total, inverse, bonus):
    """Return mean and bonus; rounded in between, so that it does not depend on where this is inlined."""
    return total * inverse + 2.0 * bonus


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def average(q, policy, first, last, v):
    """Write V = <Q, policy> of the states from first to last; q and policy [A, S], v [S]."""
    whole, end = blocks(last - first)
    for x in range(0, whole, LANES):
        _average_block(q, policy, first + min(x, end), LANES, v)
    if whole == 0:
        _average_block(q, policy, first, last - first, v)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _average_block(q, policy, x, count, v):
    """Write V of at most `LANES` states."""
    mean, at = zeros(), np.uint64(x)
    while at < np.uint64(q.size):
        mean = mean + load_some(q, at, count) * load_some(policy, at, count)  # line 8
        at += np.uint64(q.shape[1])
    store_some(v, x, mean, count)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def average_signals(policy, h, first, last, q, v):
    """Choose a given policy [H, A, S], for `walk_back`: write V = <Q, policy> of all signals at stage h."""
    for j in range(q.shape[0]):
        average(q[j, h], policy[h], first, last, v[j, h])


def sum_signals(counts, h, v, totals):
    """Write sums of signals and sum_y n(x, a, y) V(y) of all pairs at stage h into totals [J, S*A]; V = v[:, h+1]."""
    (_table_sum_signals if isinstance(counts, CountTable) else _lists_sum_signals)(counts, h, v, totals)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _table_sum_signals(counts, h, v, totals):
    k = stored_stage(h, counts.seen.shape[0])
    for j in range(totals.shape[0]):
        _copy(counts.visits.sums[j, k], totals[j])
    if h < v.shape[1] - 2:  # nothing follows the last stage
        _add_expected(counts.seen, k, v, h + 1, totals)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _add_expected(seen, k, v, stage, totals):
    """Add sum_y n(x, a, y) V(y) to totals [J, S*A] for all pairs, from a table; V = v[:, stage]."""
    # Four successors and two signals at a time: each count is read and converted once, each total a quarter as often.
    S, pairs, J = seen.shape[1], seen.shape[2], totals.shape[0]
    whole = S - S % 4
    for y in range(0, whole, 4):
        for j in range(0, J - 1, 2):
            a0, a1, a2, a3 = v[j, stage, y], v[j, stage, y + 1], v[j, stage, y + 2], v[j, stage, y + 3]
            b0, b1, b2, b3 = v[j + 1, stage, y], v[j + 1, stage, y + 1], v[j + 1, stage, y + 2], v[j + 1, stage, y + 3]
            for pair in range(pairs):
                m0, m1 = float(seen[k, y, pair]), float(seen[k, y + 1, pair])
                m2, m3 = float(seen[k, y + 2, pair]), float(seen[k, y + 3, pair])
                totals[j, pair] = (((totals[j, pair] + m0 * a0) + m1 * a1) + m2 * a2) + m3 * a3
                totals[j + 1, pair] = (((totals[j + 1, pair] + m0 * b0) + m1 * b1) + m2 * b2) + m3 * b3
        if J % 2 == 1:
            j = J - 1
            a0, a1, a2, a3 = v[j, stage, y], v[j, stage, y + 1], v[j, stage, y + 2], v[j, stage, y + 3]
            for pair in range(pairs):
                m0, m1 = float(seen[k, y, pair]), float(seen[k, y + 1, pair])
                m2, m3 = float(seen[k, y + 2, pair]), float(seen[k, y + 3, pair])
                totals[j, pair] = (((totals[j, pair] + m0 * a0) + m1 * a1) + m2 * a2) + m3 * a3
    for y in range(whole, S):
        for j in range(J):
            for pair in range(pairs):
                totals[j, pair] += seen[k, y, pair] * v[j, stage, y]


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _lists_sum_signals(counts, h, v, totals):
    _sum_listed(counts, h, 0, totals.shape[1], v, totals)


@overload(sum_signals, allocates=False)
def _overload_sum_signals(counts, h, v, totals):
    def of_table(counts, h, v, totals):
        _table_sum_signals(counts, h, v, totals)

    def of_lists(counts, h, v, totals):
        _lists_sum_signals(counts, h, v, totals)

    return by_form(counts, of_table, of_lists)


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _sum_listed(counts, h, first, pairs, v, totals):
    """Write the same from lists, for some pairs from `first` on."""
    k, J = stored_stage(h, counts.visits.number.shape[0]), totals.shape[0]
    for j in range(J):
        _copy(counts.visits.sums[j, k, first : first + pairs], totals[j, first : first + pairs])
    if h == v.shape[1] - 2:
        return  # nothing follows the last stage
    row, stage = k * counts.visits.number.shape[1] + first, h + 1
    starts, used = counts.starts[row : row + pairs], counts.used[row : row + pairs]
    successors, seen = counts.successors, counts.seen
    # Two signals at a time: each successor is looked up once for both. Unsigned indices save a test of the sign.
    for j in range(0, J - 1, 2):
        a, b = v[j, stage], v[j + 1, stage]
        one, two = totals[j, first : first + pairs], totals[j + 1, first : first + pairs]
        for pair in range(pairs):
            first_total, second_total = one[pair], two[pair]
            for entry in range(np.uint64(starts[pair]), np.uint64(starts[pair] + used[pair])):
                y, n = np.uint32(successors[entry]), seen[entry]
                first_total += n * a[y]
                second_total += n * b[y]
            one[pair], two[pair] = first_total, second_total
    if J % 2 == 1:
        a, one = v[J - 1, stage], totals[J - 1, first : first + pairs]
        for pair in range(pairs):
            total = one[pair]
            for entry in range(np.uint64(starts[pair]), np.uint64(starts[pair] + used[pair])):
                total += seen[entry] * a[np.uint32(successors[entry])]
            one[pair] = total


def observe(counts, states, actions, observed):
    """Add one episode to the counts: states [H+1], actions [H], observed signals [J, H]."""
    (_table_observe if isinstance(counts, CountTable) else _lists_observe)(counts, states, actions, observed)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _table_observe(counts, states, actions, observed):
    seen, S = counts.seen, counts.seen.shape[1]
    for h in range(actions.shape[0]):
        seen[stored_stage(h, seen.shape[0]), states[h + 1], actions[h] * S + states[h]] += 1
    count_visits(counts.visits, states, actions, observed)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _lists_observe(counts, states, actions, observed):
    S, (stages, pairs) = counts.visits.touched.shape[1], counts.visits.number.shape
    for h in range(actions.shape[0]):
        pair = actions[h] * S + states[h]
        _count_transition(counts, stored_stage(h, stages) * pairs + pair, states[h + 1])
    count_visits(counts.visits, states, actions, observed)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
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
    return by_form(counts, _table_observe, _lists_observe)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
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


@overload(is_full, allocates=False, forceinline=True)
def _overload_is_full(counts):
    return by_form(counts, _table_is_full, _lists_is_full)

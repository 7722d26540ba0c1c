"""Algorithm 3: optimistic policy evaluation from counts, with two ways to keep what was seen.

A `CountTable` has a cell for every transition and is read in one vectorised stream. `CountLists` keep only the
transitions that occurred. Both give Q = clip(mean + P^ V + 2 bonus, 0, H-h), and V = <Q, policy>, for J signals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

_SUMS = {"reassoc", "contract", "nsz"}  # see known.py


class Visits(NamedTuple):
    """What is kept of every state and action, whatever becomes of the transitions; flat over the pair, x*A + a."""

    touched: np.ndarray  # [H, S] bool: the state was visited at this stage
    number: np.ndarray  # [H, S*A]: n(x, a)
    sums: np.ndarray  # [J, H, S*A]: observed signals added up
    lost: np.ndarray  # [J, H, S*A]: what rounding took from the sums so far (Kahan)
    inverse: np.ndarray  # [H, S*A]: 1 / (n + ridge)
    width: np.ndarray  # [H, S*A]: 1 / sqrt(n + ridge)
    radii: np.ndarray  # [H]
    ridge: float


class CountTable(NamedTuple):
    """Every transition has a cell, ordered so that a stage is read from start to end."""

    visits: Visits
    seen: np.ndarray  # [H, S, S*A] int32: n(x, a, y) at [h, y, x*A + a]


class CountLists(NamedTuple):
    """Every pair (h, x, a) has a short list of successors in a shared pool; flat over (h*S + x)*A + a."""

    visits: Visits
    starts: np.ndarray  # [H*S*A] int64: where the list begins
    used: np.ndarray  # [H*S*A] int32: its length
    room: np.ndarray  # [H*S*A] int32: the length it can reach where it is
    successors: np.ndarray  # [pool] int32
    seen: np.ndarray  # [pool] int32
    taken: np.ndarray  # [2] int64: pool entries given away; distinct transitions seen


def _by_form(counts, table, lists):
    """Choose an implementation by the form of the counts, at compile time."""
    if isinstance(counts, types.BaseNamedTuple):
        return table if counts.instance_class is CountTable else lists
    return None


def evaluate(counts, policy, q, v):
    """Evaluate policy [H, S, A] into q [J, H, S, A] and v [J, H+1, S], from the counts as they are.

    States never visited keep the optimistic q and v that the caller has put there.
    """
    (_table_evaluate if isinstance(counts, CountTable) else _lists_evaluate)(counts, policy, q, v)


@njit(cache=True)
def _optimistic(total, inverse, width, radius, top):
    """Return Q at one pair from the sum of its signals and values ahead."""
    bonus = radius * width  # line 6
    return min(max(total * inverse + 2.0 * bonus, 0.0), top)  # line 7


def _table_evaluate(counts, policy, q, v):
    visits, seen = counts
    J = q.shape[0]
    H, S, A = policy.shape
    totals = np.empty((J, S * A))
    v[:, H] = 0.0
    for h in range(H - 1, -1, -1):  # line 3
        totals[:] = visits.sums[:, h]
        if h < H - 1:
            add_expected(seen[h], v[:, h + 1], totals)
        inverse, width, radius, top = visits.inverse[h], visits.width[h], visits.radii[h], float(H - h)
        for j in range(J):
            values = q[j, h].reshape(S * A)
            for pair in range(S * A):
                values[pair] = _optimistic(totals[j, pair], inverse[pair], width[pair], radius, top)
            for x in range(S):
                mean = 0.0
                for a in range(A):
                    mean += values[x * A + a] * policy[h, x, a]  # line 8
                v[j, h, x] = mean


@njit(cache=True, fastmath=_SUMS)
def add_expected(seen, v, totals):
    """Add sum_y n(x, a, y) V(y) to totals [J, S*A]; seen [S, S*A], v [J, S]. Four successors at a time."""
    S, pairs = seen.shape
    whole = S - S % 4
    for y in range(0, whole, 4):
        for j in range(totals.shape[0]):
            v0, v1, v2, v3 = v[j, y], v[j, y + 1], v[j, y + 2], v[j, y + 3]
            for pair in range(pairs):
                totals[j, pair] += (
                    seen[y, pair] * v0 + seen[y + 1, pair] * v1 + seen[y + 2, pair] * v2 + seen[y + 3, pair] * v3
                )
    for y in range(whole, S):
        for j in range(totals.shape[0]):
            for pair in range(pairs):
                totals[j, pair] += seen[y, pair] * v[j, y]


def _lists_evaluate(counts, policy, q, v):
    visits = counts.visits
    J = q.shape[0]
    H, S, A = policy.shape
    v[:, H] = 0.0
    for h in range(H - 1, -1, -1):  # line 3
        inverse, width, radius, top = visits.inverse[h], visits.width[h], visits.radii[h], float(H - h)
        for x in range(S):
            if visits.touched[h, x]:
                for j in range(J):
                    mean = 0.0
                    for a in range(A):
                        pair = x * A + a
                        first = counts.starts[h * S * A + pair]
                        total = visits.sums[j, h, pair]
                        for entry in range(first, first + counts.used[h * S * A + pair]):
                            total += counts.seen[entry] * v[j, h + 1, counts.successors[entry]]
                        q[j, h, x, a] = _optimistic(total, inverse[pair], width[pair], radius, top)
                        mean += q[j, h, x, a] * policy[h, x, a]  # line 8
                    v[j, h, x] = mean


@overload(evaluate, jit_options={"fastmath": {"contract", "nsz"}})
def _overload_evaluate(counts, policy, q, v):
    return _by_form(counts, _table_evaluate, _lists_evaluate)


@njit(cache=True)
def evaluate_counts(counts, policy, q, v):
    """Compiled `evaluate`, for callers outside the kernels."""
    evaluate(counts, policy, q, v)


@njit(cache=True)
def _count_visit(visits, h, x, pair, observed):
    """Count one visit and its observed signals [J]."""
    visits.touched[h, x] = True
    visits.number[h, pair] += 1.0
    for j in range(observed.shape[0]):
        # Kahan: 10^8 additions must not drift.
        addend = observed[j] - visits.lost[j, h, pair]
        grown = visits.sums[j, h, pair] + addend
        visits.lost[j, h, pair] = (grown - visits.sums[j, h, pair]) - addend
        visits.sums[j, h, pair] = grown
    visits.inverse[h, pair] = 1.0 / (visits.number[h, pair] + visits.ridge)
    visits.width[h, pair] = math.sqrt(visits.inverse[h, pair])


def observe(counts, states, actions, observed):
    """Put one episode into the counts: states [H+1], actions [H], observed signals [J, H]."""
    (_table_observe if isinstance(counts, CountTable) else _lists_observe)(counts, states, actions, observed)


def _table_observe(counts, states, actions, observed):
    visits, seen = counts
    H = actions.shape[0]
    A = visits.number.shape[1] // visits.touched.shape[1]
    for h in range(H):
        pair = states[h] * A + actions[h]
        seen[h, states[h + 1], pair] += 1
        _count_visit(visits, h, states[h], pair, observed[:, h])


def _lists_observe(counts, states, actions, observed):
    visits = counts.visits
    H = actions.shape[0]
    pairs = visits.number.shape[1]
    A = pairs // visits.touched.shape[1]
    for h in range(H):
        pair = states[h] * A + actions[h]
        _count_transition(counts, h * pairs + pair, states[h + 1])
        _count_visit(visits, h, states[h], pair, observed[:, h])


@njit(cache=True)
def _count_transition(counts, row, y):
    """Count one transition in its row's list, which moves to a place twice as long when it is full."""
    first, used = counts.starts[row], counts.used[row]
    for entry in range(first, first + used):
        if counts.successors[entry] == y:
            counts.seen[entry] += 1
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
    counts.seen[first + used] = 1
    counts.used[row] = used + 1
    counts.taken[1] += 1


@overload(observe)
def _overload_observe(counts, states, actions, observed):
    return _by_form(counts, _table_observe, _lists_observe)


@njit(cache=True)
def observe_counts(counts, states, actions, observed):
    """Compiled `observe`, for callers outside the kernels."""
    observe(counts, states, actions, observed)


def is_full(counts, table_from):
    """Whether the next episode might not fit, or the lists have become so full that a table is faster."""
    return False if isinstance(counts, CountTable) else _lists_is_full(counts, table_from)


def _table_is_full(counts, table_from):
    return False


def _lists_is_full(counts, table_from):
    # An episode moves at most one list a stage, to room for at most S successors.
    return counts.taken[0] + counts.visits.touched.size > counts.seen.shape[0] or counts.taken[1] >= table_from


@overload(is_full)
def _overload_is_full(counts, table_from):
    return _by_form(counts, _table_is_full, _lists_is_full)


@njit(cache=True)
def fill_table(counts, seen):
    """Copy lists into a table seen [H, S, S*A]."""
    H, _, pairs = seen.shape
    for row in range(H * pairs):
        for entry in range(counts.starts[row], counts.starts[row] + counts.used[row]):
            seen[row // pairs, counts.successors[entry], row % pairs] = counts.seen[entry]


@njit(cache=True)
def repack(counts, starts, successors, seen):
    """Copy lists one after the other, in the order of their rows, into new arrays; return the entries taken."""
    taken = 0
    for row in range(starts.shape[0]):
        first = counts.starts[row]
        starts[row] = taken
        for n in range(counts.used[row]):
            successors[taken + n] = counts.successors[first + n]
            seen[taken + n] = counts.seen[first + n]
        taken += counts.room[row]
    return taken

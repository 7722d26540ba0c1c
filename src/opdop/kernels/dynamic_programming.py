"""Backward and forward passes over a known finite model, and episodes played in it.

Shapes: J signals (0 is the reward), H stages, S states, A actions. Transitions and signals carry L stages of
their own, L = H or L = 1 for a stationary model; stage h reads slice h % L, so nothing is ever copied H times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from opdop.kernels.caching import njit
from opdop.kernels.simd import LANES, add_scaled

# In planning, sums may be reordered and fused, which is what vectorises them; NaN and infinity keep their meaning.
# In what learning uses nothing is reordered, so that a kernel gives the same bits wherever it is inlined.
_SUMS = {"reassoc", "contract", "nsz"}


class Dense(NamedTuple):
    """Transition rows as one table."""

    rows: np.ndarray  # [L*S*A, S]; row (h*S + x)*A + a


class Sparse(NamedTuple):
    """Transition rows in compressed form."""

    starts: np.ndarray  # [L*S*A + 1] int64
    successors: np.ndarray  # [entries] int32
    probabilities: np.ndarray  # [entries]


Transitions = Dense | Sparse

_BLOCK = 64  # states whose expectations are computed together

# Arrays are copied by loops here, never as a[:] = b: Numba needs seconds to compile the latter.


def _by_form(transitions, dense, sparse):
    """Choose an implementation by the form of the transitions, at compile time."""
    if isinstance(transitions, types.BaseNamedTuple):
        return dense if transitions.instance_class is Dense else sparse
    return None


def count_rows(transitions):
    """Return L*S*A."""
    return _dense_count_rows(transitions) if isinstance(transitions, Dense) else _sparse_count_rows(transitions)


def _dense_count_rows(transitions):
    return transitions.rows.shape[0]


def _sparse_count_rows(transitions):
    return transitions.starts.shape[0] - 1


@overload(count_rows)
def _overload_count_rows(transitions):
    return _by_form(transitions, _dense_count_rows, _sparse_count_rows)


def expect(transitions, first_row, count, v, out):
    """Write the expectation of v [J, S] over the next state of some rows into out [J, count]."""
    (_dense_expect if isinstance(transitions, Dense) else _sparse_expect)(transitions, first_row, count, v, out)


def _dense_expect(transitions, first_row, count, v, out):
    for n in range(count):
        p = transitions.rows[first_row + n]
        for j in range(v.shape[0]):
            total = 0.0
            for y in range(p.shape[0]):
                total += p[y] * v[j, y]
            out[j, n] = total


def _sparse_expect(transitions, first_row, count, v, out):
    # Two signals at a time: each successor is looked up once for both.
    starts, J = transitions.starts[first_row : first_row + count + 1], v.shape[0]
    successors, probabilities = transitions.successors, transitions.probabilities
    for n in range(count):
        for j in range(0, J - 1, 2):
            one, two = 0.0, 0.0
            for entry in range(starts[n], starts[n + 1]):
                y, p = np.uint32(successors[entry]), probabilities[entry]
                one += p * v[j, y]
                two += p * v[j + 1, y]
            out[j, n] = one
            out[j + 1, n] = two
        if J % 2 == 1:
            one = 0.0
            for entry in range(starts[n], starts[n + 1]):
                one += probabilities[entry] * v[J - 1, np.uint32(successors[entry])]
            out[J - 1, n] = one


@overload(expect, jit_options={"fastmath": _SUMS})
def _overload_expect(transitions, first_row, count, v, out):
    return _by_form(transitions, _dense_expect, _sparse_expect)


def empty_values(transitions, J, S):
    """Return room for v [J, S], laid out as `expect` and `push` use it: by state where successors are listed."""
    return (_dense_empty_values if isinstance(transitions, Dense) else _sparse_empty_values)(transitions, J, S)


def _dense_empty_values(transitions, J, S):
    return np.empty((J, S))


def _sparse_empty_values(transitions, J, S):
    return np.empty((S, J)).T


@overload(empty_values)
def _overload_empty_values(transitions, J, S):
    return _by_form(transitions, _dense_empty_values, _sparse_empty_values)


def push(transitions, first_row, masses, out):
    """Add sum_n masses[n, b] P(. | first_row + n) to out[b] [S], for several sets b of masses in one reading of P.

    What is added to one set, and in which order, does not depend on the others. Room for `LANES` sets from
    `empty_values` is filled fastest.
    """
    (_dense_push if isinstance(transitions, Dense) else _sparse_push)(transitions, first_row, masses, out)


def _dense_push(transitions, first_row, masses, out):
    rows, count = transitions.rows, masses.shape[0]
    whole = count - count % 4  # four rows at a time, so that `out` is read and written a quarter as often
    for n in range(0, whole, 4):
        row = first_row + n
        for b in range(masses.shape[1]):
            m0, m1, m2, m3 = masses[n, b], masses[n + 1, b], masses[n + 2, b], masses[n + 3, b]
            for y in range(out.shape[1]):
                out[b, y] += m0 * rows[row, y] + m1 * rows[row + 1, y] + m2 * rows[row + 2, y] + m3 * rows[row + 3, y]
    for n in range(whole, count):
        for b in range(masses.shape[1]):
            for y in range(out.shape[1]):
                out[b, y] += masses[n, b] * rows[first_row + n, y]


def _sparse_push(transitions, first_row, masses, out):
    for b in range(masses.shape[1]):
        for n in range(masses.shape[0]):
            mass = masses[n, b]
            if mass > 0.0:
                for entry in range(transitions.starts[first_row + n], transitions.starts[first_row + n + 1]):
                    out[b, transitions.successors[entry]] += mass * transitions.probabilities[entry]


def _sparse_push_lanes(transitions, first_row, masses, out):
    starts, by_state = transitions.starts[first_row : first_row + masses.shape[0] + 1], out.T
    successors, probabilities = transitions.successors, transitions.probabilities
    for n in range(masses.shape[0]):
        total = 0.0
        for b in range(LANES):
            total += masses[n, b]
        if total > 0.0:
            for entry in range(np.uint64(starts[n]), np.uint64(starts[n + 1])):
                add_scaled(masses, n, probabilities[entry], by_state, np.uint32(successors[entry]))


@overload(push, jit_options={"fastmath": {"contract"}})
def _overload_push(transitions, first_row, masses, out):
    return _by_form(transitions, _dense_push, _sparse_push_lanes if out.layout == "F" else _sparse_push)


def draw_next(transitions, row, uniform):
    """Return the next state that a uniform in [0, 1) selects; never one of probability zero."""
    return (_dense_draw_next if isinstance(transitions, Dense) else _sparse_draw_next)(transitions, row, uniform)


def _dense_draw_next(transitions, row, uniform):
    return draw(transitions.rows[row], uniform)


def _sparse_draw_next(transitions, row, uniform):
    first, last = transitions.starts[row], transitions.starts[row + 1]
    return np.int64(transitions.successors[first + draw(transitions.probabilities[first:last], uniform)])


@overload(draw_next)
def _overload_draw_next(transitions, row, uniform):
    return _by_form(transitions, _dense_draw_next, _sparse_draw_next)


@njit(cache=True, fastmath=False)
def draw(probabilities, uniform):
    """Return the index that a uniform in [0, 1) selects from probabilities [n]; never one of probability zero."""
    total, last = 0.0, 0
    for n in range(probabilities.shape[0]):
        if probabilities[n] > 0.0:
            total += probabilities[n]
            last = n
            if uniform < total:
                return n
    return last  # the probabilities sum to a hair less than the uniform


@njit(cache=True, fastmath=False)
def evaluate(transitions, signals, policy, v):
    """Evaluate all signals [J, L, S, A] of a policy [H, S, A] backwards into v [J, D, S].

    D = H + 1 keeps every stage (v[:, h] is stage h); D = 2 keeps only what the recursion needs, and stage 0
    ends in v[:, 0].
    """
    J, L, S, A = signals.shape
    H, D = policy.shape[0], v.shape[1]
    rows = count_rows(transitions)
    ahead = np.empty((J, _BLOCK * A))
    v[:, H % D] = 0.0
    for h in range(H - 1, -1, -1):
        first_row = (h * S * A) % rows
        for x in range(S):
            if x % _BLOCK == 0:
                expect(transitions, first_row + x * A, min(_BLOCK, S - x) * A, v[:, (h + 1) % D], ahead)
            for j in range(J):
                mean = 0.0
                for a in range(A):
                    mean += policy[h, x, a] * (signals[j, h % L, x, a] + ahead[j, x % _BLOCK * A + a])
                v[j, h % D, x] = mean


@njit(cache=True, fastmath=False)
def act_greedily(transitions, signals, horizon, weights, second, slack):
    """Maximise the weighted sum of signals by backward induction, carrying every signal's own value along.

    Among the actions within `slack` of the best, the one with the largest `second` weighted sum is taken, then
    the first. Returns actions [H, S] and the values v [J, S] of stage 0 under them.
    """
    J, L, S, A = signals.shape
    rows = count_rows(transitions)
    actions = np.empty((horizon, S), dtype=np.int32)
    v, following = empty_values(transitions, J, S), empty_values(transitions, J, S)
    v[:] = 0.0
    q, score = np.empty((J, _BLOCK * A)), np.empty(_BLOCK * A)
    for h in range(horizon - 1, -1, -1):
        v, following = following, v
        first_row = (h * S * A) % rows
        for first in range(0, S, _BLOCK):
            states = min(_BLOCK, S - first)
            expect(transitions, first_row + first * A, states * A, following, q)
            score[:] = 0.0
            for j in range(J):
                signal = signals[j, h % L].ravel()[first * A : (first + states) * A]
                _add_signal(signal, weights[j], q[j], score)
            for n in range(states):
                a = _choose(score[n * A : (n + 1) * A], slack, q[:, n * A : (n + 1) * A], second)
                actions[h, first + n] = a
                for j in range(J):
                    v[j, first + n] = q[j, n * A + a]
    return actions, v


@njit(cache=True, fastmath={"contract"})
def _add_signal(signal, weight, q, score):
    """Add a signal to its expectation ahead, and its weighted value to the score; all over the same pairs."""
    for pair in range(signal.shape[0]):
        q[pair] += signal[pair]
        score[pair] += weight * q[pair]


@njit(cache=True, fastmath=False)
def _choose(score, slack, q, second):
    """Return the action with the largest score [A]; among those within `slack` of it, the best for `second`."""
    best, chosen = score[0], 0
    for a in range(1, score.shape[0]):
        if score[a] > best:
            best, chosen = score[a], a
    best_second = -np.inf
    for a in range(score.shape[0]):
        if score[a] >= best - slack:
            total = 0.0
            for j in range(second.shape[0]):
                total += second[j] * q[j, a]
            if total > best_second:
                chosen, best_second = a, total
    return chosen


@njit(cache=True, fastmath=False)
def visit(transitions, policy, initial):
    """Return the probabilities d [H, S] of being in each state at each stage under a policy [H, S, A]."""
    H, S, A = policy.shape
    rows = count_rows(transitions)
    d = np.zeros((H, S))
    masses = np.empty((S * A, 1))
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        for x in range(S):
            for a in range(A):
                masses[x * A + a, 0] = d[h, x] * policy[h, x, a]
        push(transitions, (h * S * A) % rows, masses, d[h + 1 : h + 2])
    return d


@njit(cache=True, fastmath=False)
def visit_by_actions(transitions, actions, num_actions, initial):
    """Return the same as `visit` for a deterministic policy, actions [H, S]."""
    H, S = actions.shape
    rows = count_rows(transitions)
    d = np.zeros((H, S))
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        first_row = (h * S * num_actions) % rows
        for x in range(S):
            if d[h, x] > 0.0:
                row = first_row + x * num_actions + actions[h, x]
                push(transitions, row, d[h : h + 1, x : x + 1], d[h + 1 : h + 2])
    return d


@njit(cache=True, fastmath=False)
def count_uniforms(horizon, num_signals, noisy):
    """Return how many uniforms one episode takes: first state, then action and next state of each stage, then noise."""
    return 1 + 2 * horizon + (num_signals * horizon if noisy else 0)


@njit(cache=True, fastmath=False)
def play(transitions, signals, policy, initial, noisy, uniforms, states, actions, observed):
    """Play one episode: fill states [H+1], actions [H] and observed signals [J, H] from the uniforms.

    A noisy signal is 0 or 1 with the given mean.
    """
    J, L, S, A = signals.shape
    H = policy.shape[0]
    rows = count_rows(transitions)
    states[0] = draw(initial, uniforms[0])
    for h in range(H):
        x = states[h]
        a = draw(policy[h, x], uniforms[1 + 2 * h])
        actions[h] = a
        states[h + 1] = draw_next(transitions, (h * S * A) % rows + x * A + a, uniforms[2 + 2 * h])
        for j in range(J):
            mean = signals[j, h % L, x, a]
            if noisy:
                observed[j, h] = 1.0 if uniforms[1 + 2 * H + h * J + j] < mean else 0.0
            else:
                observed[j, h] = mean

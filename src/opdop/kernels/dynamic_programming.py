"""Backward and forward passes over a finite model, and episodes played in it.

Shapes: J signals (0 is the reward), H stages, S states, A actions. Transitions and signals carry L stages of
their own, L = H or L = 1 for a stationary model; stage h reads slice h % L, so nothing is ever copied H times.
Transitions that are balls (`opdop.kernels.balls`) make `evaluate` and `act_greedily` optimistic over the kernel too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.parts import in_kernels
from opdop.kernels.records import as_record
from opdop.kernels.transitions import count_rows, draw, draw_next, empty_values, expect, prepare, push

_BLOCK = 64  # states whose expectations are computed together

# Arrays are filled and copied by loops here, never as a[:] = b: Numba needs seconds to compile the latter.


def for_reading(array):
    """Return a contiguous array that cannot be written, without a copy if there is one: kernels compile for it once."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def evaluate(transitions, signals, policy, v):
    """Evaluate all signals [J, L, S, A] of a policy [H, S, A] backwards into v [J, D, S].

    D = H + 1 keeps every stage (v[:, h] is stage h); D = 2 keeps only what the recursion needs, and stage 0
    ends in v[:, 0].
    """
    J, L, S, A = signals.shape
    by_pair = for_reading(signals).reshape(J, L, S * A)
    evaluate_in(transitions, by_pair, for_reading(policy), v, np.empty((J, _BLOCK * A)))


@njit(cache=True, allocates=False, fastmath=False)
def evaluate_in(transitions, signals, policy, v, q):
    """Evaluate as `evaluate` does, but signals are [J, L, S*A]; q [J, _BLOCK * A] is room."""
    H, D = policy.shape[0], v.shape[1]
    walk_back(_look_ahead_in_array, _average, (transitions, signals), policy, q, v, v[:, H % D], H, _BLOCK)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead_in_array(known, h, first, last, q, v):
    transitions, signals = known
    _look_ahead(transitions, signals, h, first, last, q, v[:, (h + 1) % v.shape[1]])
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead_in_pair(known, h, first, last, q, v):
    transitions, signals = known
    _look_ahead(transitions, signals, h, first, last, q, v[(h + 1) % 2])
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead(transitions, signals, h, first, last, q, following):
    """Write Q = signal + P V of some states into q [J, _BLOCK * A], by state; following [J, S] are the values V."""
    J, L, pairs = signals.shape
    A = q.shape[1] // _BLOCK
    if first == 0:
        prepare(transitions, following)
    some = (last - first) * A
    expect(transitions, (h * pairs) % count_rows(transitions) + first * A, some, following, q)
    stage, at = h % L, np.uint64(first * A)
    for j in range(J):
        for pair in range(np.uint64(some)):  # unsigned: Numba tests whether a signed index is negative
            q[j, pair] += signals[j, stage, at + pair]


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _average(policy, h, first, last, q, v):
    """Choose a given policy [H, S, A]: V = <Q, policy>."""
    values, A = v[:, h % v.shape[1]], policy.shape[2]
    for n in range(last - first):
        for j in range(q.shape[0]):
            mean = 0.0
            for a in range(A):
                mean += policy[h, first + n, a] * q[j, n * A + a]
            values[j, first + n] = mean


@in_kernels()
def act_greedily(transitions, signals, horizon, weights, second, slack):
    """Maximise the weighted sum of signals by backward induction, carrying every signal's own value along.

    Among the actions within `slack` of the best, the one with the largest `second` weighted sum is taken, then
    the first. Returns actions [H, S] and the values v [J, S] of stage 0 under them.
    """
    J, L, S, A = signals.shape
    by_pair = signals.reshape(J, L, S * A)
    actions, score = np.empty((horizon, S), dtype=np.int32), np.empty(_BLOCK * A)
    v, other, q = empty_values(transitions, J, S), empty_values(transitions, J, S), np.empty((J, _BLOCK * A))
    act_greedily_in(transitions, by_pair, weights, second, slack, actions, v, other, q, score)
    return actions, v


@as_record
class Greedy(NamedTuple):
    """The choice of the best actions: see `act_greedily`."""

    weights: np.ndarray  # [J]
    second: np.ndarray  # [J]
    slack: float
    actions: np.ndarray  # [H, S] int32: what is chosen
    score: np.ndarray  # [_BLOCK * A]: room for weighted sums


@njit(cache=True, allocates=False, fastmath=False)
def act_greedily_in(transitions, signals, weights, second, slack, actions, v, other, q, score):
    """Do what `act_greedily` does, with signals [J, L, S*A], in given room: v and other [J, S], q [J, _BLOCK * A].

    The values of stage 0 end in v.
    """
    H, stages = actions.shape[0], (v, other)
    greedy = Greedy(weights, second, slack, actions, score)
    walk_back(_look_ahead_in_pair, _choose_best, (transitions, signals), greedy, q, stages, stages[H % 2], H, _BLOCK)


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def _choose_best(greedy, h, first, last, q, v):
    """Choose the best action of some states, and write its values."""
    score, values, J, states = greedy.score, v[h % 2], q.shape[0], last - first
    A = score.shape[0] // _BLOCK
    for pair in range(states * A):
        score[pair] = 0.0
    for j in range(J):
        weight = greedy.weights[j]
        for pair in range(states * A):
            score[pair] += weight * q[j, pair]
    for n in range(states):
        a = _choose(score, n * A, A, greedy.slack, q, greedy.second)
        greedy.actions[h, first + n] = a
        for j in range(J):
            values[j, first + n] = q[j, n * A + a]


@njit(cache=True, allocates=False, fastmath=False)
def _choose(score, first, A, slack, q, second):
    """Return the action with the largest of the A scores from `first` on; of those within `slack`, the best second."""
    best, chosen = score[first], 0
    for a in range(1, A):
        if score[first + a] > best:
            best, chosen = score[first + a], a
    best_second = -np.inf
    for a in range(A):
        if score[first + a] >= best - slack:
            total = 0.0
            for j in range(second.shape[0]):
                total += second[j] * q[j, first + a]
            if total > best_second:
                chosen, best_second = a, total
    return chosen


def visit(transitions, policy, initial):
    """Return the probabilities d [H, S] of being in each state at each stage under a policy [H, S, A]."""
    H, S, A = policy.shape
    d = np.zeros((H, S))
    visit_in(transitions, policy, initial, d, np.empty((S * A, 1)))
    return d


@njit(cache=True, allocates=False, fastmath=False)
def visit_in(transitions, policy, initial, d, masses):
    """Write the same into d [H, S], which is 0; masses [S*A, 1] is room."""
    H, S, A = policy.shape
    rows = count_rows(transitions)
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        for x in range(S):
            for a in range(A):
                masses[x * A + a, 0] = d[h, x] * policy[h, x, a]
        push(transitions, (h * S * A) % rows, masses, d[h + 1 : h + 2])


def visit_by_actions(transitions, actions, num_actions, initial):
    """Return the same as `visit` for a deterministic policy, actions [H, S]."""
    d = np.zeros(actions.shape)
    visit_by_actions_in(transitions, actions, num_actions, initial, d)
    return d


@njit(cache=True, allocates=False, fastmath=False)
def visit_by_actions_in(transitions, actions, num_actions, initial, d):
    """Write the same into d [H, S], which is 0."""
    H, S = actions.shape
    rows = count_rows(transitions)
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        first_row = (h * S * num_actions) % rows
        for x in range(S):
            if d[h, x] > 0.0:
                row = first_row + x * num_actions + actions[h, x]
                push(transitions, row, d[h : h + 1, x : x + 1], d[h + 1 : h + 2])


@in_kernels()
def count_uniforms(horizon, num_signals, noisy):
    """Return how many uniforms one episode takes: first state, then action and next state of each stage, then noise."""
    return 1 + 2 * horizon + (num_signals * horizon if noisy else 0)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def play_in(model, policy, uniforms, states, actions, observed):
    """Play one episode of a `loops.Model` with policy [H, A, S], as `play` does."""
    play(
        model.transitions,
        model.signals,
        policy,
        model.initial,
        model.noisy,
        uniforms,
        states,
        actions,
        observed,
    )


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def play(transitions, signals, policy, initial, noisy, uniforms, states, actions, observed):
    """Play one episode of policy [H, A, S]: fill states [H+1], actions [H] and signals [J, H] from the uniforms.

    A noisy signal is 0 or 1 with the given mean.
    """
    J, L, S, A = signals.shape
    H = policy.shape[0]
    rows = count_rows(transitions)
    states[0] = draw(initial, uniforms[0])
    first_row, stage = 0, 0  # h * S * A % rows and h % L, without dividing
    for h in range(H):
        x = states[h]
        a = draw(policy[h, :, x], uniforms[1 + 2 * h])
        actions[h] = a
        states[h + 1] = draw_next(transitions, first_row + x * A + a, uniforms[2 + 2 * h])
        for j in range(J):
            mean = signals[j, stage, x, a]
            if noisy:
                observed[j, h] = 1.0 if uniforms[1 + 2 * H + h * J + j] < mean else 0.0
            else:
                observed[j, h] = mean
        first_row = first_row + S * A if first_row + S * A < rows else 0
        stage = stage + 1 if stage + 1 < L else 0

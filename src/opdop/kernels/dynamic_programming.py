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
    J, _, _, A = signals.shape
    evaluate_in(transitions, for_reading(signals), for_reading(policy), v, np.empty((J, _BLOCK * A)))


@njit(cache=True, allocates=False, fastmath=False)
def evaluate_in(transitions, signals, policy, v, ahead):
    """Evaluate as `evaluate` does; ahead [J, _BLOCK * A] is room."""
    H, S, _ = policy.shape
    walk_back(_look_ahead_from_array, _average, (transitions, signals), policy, ahead, v, H, S, _BLOCK)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead_from_array(known, h, first, last, q, v):
    _look_ahead(known, h, first, last, q, v[:, (h + 1) % v.shape[1]])
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead(known, h, first, last, q, following):
    """Write Q = signal + P V of some states into q [J, _BLOCK * A], by state; following [J, S] are the values V."""
    transitions, signals = known
    _, L, S, A = signals.shape
    if first == 0:
        prepare(transitions, following)
    pairs = (last - first) * A
    expect(transitions, (h * S * A) % count_rows(transitions) + first * A, pairs, following, q)
    for j in range(signals.shape[0]):
        signal = signals[j, h % L].reshape(S * A)[first * A : last * A]
        for pair in range(pairs):
            q[j, pair] += signal[pair]


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _average(policy, h, first, last, q, v):
    """Choose a given policy [H, S, A]: V = <Q, policy>."""
    J, D, _ = v.shape
    for n in range(last - first):
        for j in range(J):
            mean = 0.0
            for a in range(policy.shape[2]):
                mean += policy[h, first + n, a] * q[j, n * policy.shape[2] + a]
            v[j, h % D, first + n] = mean


@in_kernels()
def act_greedily(transitions, signals, horizon, weights, second, slack):
    """Maximise the weighted sum of signals by backward induction, carrying every signal's own value along.

    Among the actions within `slack` of the best, the one with the largest `second` weighted sum is taken, then
    the first. Returns actions [H, S] and the values v [J, S] of stage 0 under them.
    """
    J, _, S, A = signals.shape
    actions, score = np.empty((horizon, S), dtype=np.int32), np.empty(_BLOCK * A)
    v = empty_values(transitions, J, S), empty_values(transitions, J, S)
    greedy = Greedy(weights, second, slack, actions, score)
    act_greedily_in(transitions, signals, greedy, v, np.empty((J, _BLOCK * A)))
    return actions, v[0]


class Greedy(NamedTuple):
    """The choice of the best actions: see `act_greedily`."""

    weights: np.ndarray  # [J]
    second: np.ndarray  # [J]
    slack: float
    actions: np.ndarray  # [H, S] int32: what is chosen
    score: np.ndarray  # [_BLOCK * A]: room for weighted sums


@njit(cache=True, allocates=False, fastmath=False)
def act_greedily_in(transitions, signals, greedy, v, q):
    """Do what `act_greedily` does, in given room: v is a pair of [J, S], the first of stage 0; q is [J, _BLOCK * A]."""
    H, S = greedy.actions.shape
    walk_back(_look_ahead_from_pair, _choose_best, (transitions, signals), greedy, q, v, H, S, _BLOCK)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead_from_pair(known, h, first, last, q, v):
    _look_ahead(known, h, first, last, q, v[(h + 1) % 2])
    return True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _choose_best(greedy, h, first, last, q, v):
    """Choose the best action of some states, and write its values."""
    score, values, states = greedy.score, v[h % 2], last - first
    A = score.shape[0] // _BLOCK
    for pair in range(states * A):
        score[pair] = 0.0
    for j in range(q.shape[0]):
        _add_weighted(q[j], greedy.weights[j], states * A, score)
    for n in range(states):
        a = _choose(score[n * A : (n + 1) * A], greedy.slack, q[:, n * A : (n + 1) * A], greedy.second)
        greedy.actions[h, first + n] = a
        for j in range(q.shape[0]):
            values[j, first + n] = q[j, n * A + a]


@njit(cache=True, allocates=False, fastmath={"contract"})
def _add_weighted(q, weight, pairs, score):
    """Add weight times q to the score of some pairs."""
    for pair in range(pairs):
        score[pair] += weight * q[pair]


@njit(cache=True, allocates=False, fastmath=False)
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

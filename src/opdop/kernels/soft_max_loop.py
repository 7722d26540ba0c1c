"""Least-squares value iteration with a soft-max policy over many episodes, for linear MDPs and for tables.

The regressions of stage h have the targets signal + V(next state), and V changes in every episode. Sums over the data
are kept instead of the data: of phi times signal, and for each next state of phi. So each episode takes the same time,
and the estimates are exactly those from all data. With one-hot features these sums are counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels import counts as counting
from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.counts import CountLists, CountTable, average_signals, sum_signals
from opdop.kernels.dynamic_programming import play_in
from opdop.kernels.loops import average_start
from opdop.kernels.measuring import wait_for_measurement
from opdop.kernels.parts import in_kernels, overload
from opdop.kernels.primal_dual import empty_room, improve_stage, update_dual
from opdop.kernels.records import as_record
from opdop.kernels.regression import multiply, observe_row, predict, quadratic_forms
from opdop.kernels.visits import stored_stage

_EXACT = {"contract"}


@as_record
class Regressions(NamedTuple):
    """Data of a linear MDP with features phi(x, a); L = H, or L = 1 where all stages are pooled."""

    counts: CountTable | CountLists  # for certificates only
    phi: np.ndarray  # [d, A*S]
    gram: np.ndarray  # [L, d, d]: Lambda
    inverse: np.ndarray  # [L, d, d]
    target: np.ndarray  # [J, L, d]: sums of phi times signal
    successors: np.ndarray  # [L, d, S]: sums of phi over the transitions that led to a state
    width: np.ndarray  # [L, A*S]: (phi^T Lambda^-1 phi)^(1/2)
    information: np.ndarray  # [L]: log det(gram / ridge)
    updates: np.ndarray  # [L] int64
    ridge: float


Data = Regressions | CountTable | CountLists


@as_record
class SoftMax(NamedTuple):
    """The learner's state between episodes, which the loop changes in place, and its constants."""

    policy: np.ndarray  # [H, A, S]
    q: np.ndarray  # [J, H, A, S]
    v: np.ndarray  # [J, H+1, S]
    dual: np.ndarray  # [1]: Y
    thresholds: np.ndarray  # [1]: b
    initial: np.ndarray  # [S]
    tops: np.ndarray  # [H]: the largest value of Q
    step_size: float  # alpha
    radius: float  # beta
    dual_step_size: float  # eta
    dual_bound: float  # xi


def _is_regressions(data):
    return getattr(data, "instance_class", type(data)) is Regressions


@njit(cache=True, allocates=False, fastmath=_EXACT)
def _dot(one, two):
    """Return the product of two vectors, in four sums that do not wait for each other."""
    whole = one.shape[0] - one.shape[0] % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for y in range(0, whole, 4):
        a += one[y] * two[y]
        b += one[y + 1] * two[y + 1]
        c += one[y + 2] * two[y + 2]
        d += one[y + 3] * two[y + 3]
    for y in range(whole, one.shape[0]):
        a += one[y] * two[y]
    return (a + b) + (c + d)


@as_record
class Chosen(NamedTuple):
    """The soft-max of Q_r + Y Q_g, which is chosen stage by stage, and room for it."""

    policy: np.ndarray  # [H, A, S]: what is chosen
    flat_policy: np.ndarray  # [H*A*S]: a view of it
    flat_q: np.ndarray  # [J*H*A*S]: a view of Q
    dual: np.ndarray  # [1]: Y
    step_size: float  # alpha
    room: np.ndarray  # of `improve_stage`


@in_kernels()
def _soft_max_of(learner):
    policy, q = learner.policy, learner.q
    return Chosen(policy, policy.ravel(), q.ravel(), learner.dual, learner.step_size, empty_room(policy))


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _choose_soft_max(chosen, h, first, last, q, v):
    """Choose the soft-max policy at stage h, and write V = <Q, policy>."""
    _, _, A, S = q.shape
    # A step from the uniform policy, which a mixing of 1 gives, is the soft-max.
    improve_stage(
        chosen.flat_policy, chosen.flat_q, chosen.dual, chosen.step_size, 1.0, h, A, S, chosen.room
    )  # line 10
    average_signals(chosen.policy, h, 0, S, q, v)  # lines 11 and 12


def evaluate_softly(data, learner):
    """Write Q, the soft-max policy of Q_r + Y Q_g, and V of all stages, backwards."""
    (_evaluate_linear if _is_regressions(data) else _evaluate_one_hot)(data, learner)


@overload(evaluate_softly)
def _overload_evaluate_softly(data, learner):
    return _evaluate_linear if _is_regressions(data) else _evaluate_one_hot


@in_kernels()
def _evaluate_linear(data, learner):
    J, (d, pairs) = learner.q.shape[0], data.phi.shape
    _evaluate_linear_in(data, learner, _soft_max_of(learner), np.empty((J, pairs)), np.empty(d), np.empty(d))


@njit(cache=True, allocates=False, fastmath=False)
def _evaluate_linear_in(data, learner, chosen, totals, sums, weights):
    q, v, given = learner.q, learner.v, (data, learner.tops, learner.radius, totals, sums, weights)
    H = q.shape[1]
    walk_back(_look_ahead_linear, _choose_soft_max, given, chosen, q, v, v[:, H], H, None)  # line 4


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_linear(given, h, first, last, q, v):
    """Write Q of stage h from regressions; totals [J, A*S], sums and weights [d] are room."""
    data, tops, radius, totals, sums, weights = given
    (J, H, A, S), (d, pairs) = q.shape, data.phi.shape
    k, top = stored_stage(h, data.inverse.shape[0]), tops[h]
    width = data.width[k]
    for j in range(J):
        for i in range(d):
            sums[i] = data.target[j, k, i]
        if h < H - 1:
            for i in range(d):
                sums[i] += _dot(data.successors[k, i], v[j, h + 1])
        multiply(data.inverse[k], sums, weights)  # lines 6 and 7
        predicted = totals[j]
        for pair in range(pairs):
            predicted[pair] = 0.0
        predict(weights, data.phi, 0, pairs, predicted)
        values = q[j, h].reshape(A * S)
        for pair in range(pairs):
            values[pair] = min(predicted[pair] + radius * width[pair], top)  # lines 8 and 9
    return True


@in_kernels()
def _evaluate_one_hot(data, learner):
    J, _, A, S = learner.q.shape
    _evaluate_one_hot_in(data, learner, _soft_max_of(learner), np.empty((J, A * S)))


@njit(cache=True, allocates=False, fastmath=False)
def _evaluate_one_hot_in(data, learner, chosen, totals):
    q, v, given = learner.q, learner.v, (data, learner.tops, learner.radius, totals)
    H = q.shape[1]
    walk_back(_look_ahead_one_hot, _choose_soft_max, given, chosen, q, v, v[:, H], H, None)  # line 4


@njit(cache=True, allocates=False, forceinline=True, fastmath=_EXACT)
def _look_ahead_one_hot(given, h, first, last, q, v):
    """Write Q of stage h from counts; totals [J, A*S] is room."""
    data, tops, radius, totals = given
    visits, (J, _, A, S) = data.visits, q.shape
    k, top, pairs = stored_stage(h, visits.number.shape[0]), tops[h], A * S
    sum_signals(data, h, v, totals)
    width, inverse = visits.width[k], visits.inverse[k]
    for j in range(J):
        values, sums = q[j, h].reshape(pairs), totals[j]
        for pair in range(pairs):
            values[pair] = min(sums[pair] * inverse[pair] + radius * width[pair], top)  # lines 6 to 9
    return True


def observe(data, states, actions, observed):
    """Add one episode to the data: states [H+1], actions [H], observed signals [J, H]."""
    (_linear_observe if _is_regressions(data) else counting.observe_episode)(data, states, actions, observed)


@njit(cache=True, fastmath=_EXACT)
def _linear_observe(data, states, actions, observed):
    d, pairs = data.phi.shape
    L, _, S = data.successors.shape
    H, J = actions.shape[0], observed.shape[0]
    row, direction = np.empty(d), np.empty(d)
    for h in range(H):
        k, pair = stored_stage(h, L), actions[h] * S + states[h]
        for i in range(d):
            row[i] = data.phi[i, pair]
        observe_row(row, data.ridge, k, data.gram, data.inverse, data.information, data.updates, direction)  # line 5
        for i in range(d):
            data.successors[k, i, states[h + 1]] += row[i]
            for j in range(J):
                data.target[j, k, i] += row[i] * observed[j, h]
    for k in range(L):
        width = data.width[k]
        quadratic_forms(data.inverse[k], data.phi, pairs, width)
        for pair in range(pairs):
            width[pair] = math.sqrt(max(width[pair], 0.0))
    counting.observe(data.counts, states, actions, observed)


@overload(observe)
def _overload_observe(data, states, actions, observed):
    return _linear_observe if _is_regressions(data) else counting.observe


@njit(cache=True, fastmath=False)
def observe_episode(data, states, actions, observed):
    """Compiled `observe`, for callers outside the kernels."""
    observe(data, states, actions, observed)


def is_full(data):
    """Return whether the counts must make room before the next episode."""
    return counting.is_full(data.counts if _is_regressions(data) else data)


@overload(is_full)
def _overload_is_full(data):
    return _linear_is_full if _is_regressions(data) else counting.is_full


def _linear_is_full(data):
    return counting.is_full(data.counts)


@njit(cache=True, fastmath=False)
def move_multiplier(learner, utility_estimates):
    """Move the multiplier along the estimated violation; utility_estimates [1]."""
    update_dual(
        learner.dual, learner.thresholds, utility_estimates, learner.dual_step_size, learner.dual_bound, math.inf
    )  # line 16


@njit(cache=True, fastmath=False)
def run_soft_max(learner, data, model, uniforms, record):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    It stops early when the counts must make room.
    """
    J, H = learner.q.shape[:2]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((J, H))
    waiting = np.zeros(1 + record.waiting.shape[0], dtype=np.int64)
    done = 0
    while done < uniforms.shape[0]:
        evaluate_softly(data, learner)  # lines 4 to 12, on the episodes before this one
        play_in(model, learner.policy, uniforms[done], states, actions, observed)  # lines 3 and 13 to 15
        average_start(learner.v, learner.initial, record.estimates[done])
        record.dual[done, 0] = learner.dual[0]
        observe(data, states, actions, observed)
        stop = done + 1 == uniforms.shape[0] or is_full(data)
        wait_for_measurement(model, learner.policy, record, done, stop, waiting)
        move_multiplier(learner, record.estimates[done, 1:])
        done += 1
        if stop:
            break
    return done

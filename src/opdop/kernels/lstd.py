"""Algorithm 2: optimistic policy evaluation by least squares, for linear kernels and for one-hot features.

Each observation enters the regressions once, with the features phi^tau and the value function V^tau of its own
episode. So the state is updated recursively, and its size does not grow with the episodes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.counts import average_signals, clip_value
from opdop.kernels.features import Form, dimension, empty_common, find_common, integrate, pieces
from opdop.kernels.records import as_record
from opdop.kernels.regression import REFRESH, multiply, observe_row, predict, quadratic_forms
from opdop.kernels.visits import Visits, count_pairs

_EXACT = {"contract"}  # see features.py


@as_record
class Radii(NamedTuple):
    """radius = noise * sqrt(slack + information) + bias, information being log det(Gram / ridge)."""

    noise: np.ndarray  # [H]
    slack: float
    bias: np.ndarray  # [H]
    signal_noise: float
    signal_slack: float
    signal_bias: float


@as_record
class LinearRoom(NamedTuple):
    """Room for evaluating and observing with a linear kernel, made once; b pairs are evaluated together (`pieces`)."""

    phi: np.ndarray  # [J, d1, b]
    common: np.ndarray  # of `find_common`
    certain: np.ndarray  # [b]
    forms: np.ndarray  # [b]
    w: np.ndarray  # [J, d1]
    u: np.ndarray  # [J, d2]
    visited: np.ndarray  # [J, d1, 1]: phi of one pair
    x: np.ndarray  # [d1]
    direction: np.ndarray  # [d1]
    f: np.ndarray  # [d2]
    along: np.ndarray  # [d2]
    reach: np.ndarray  # [A*S]


def empty_linear_room(form, varphi, J, A, S):
    """Return room for features of a form and varphi [d2, A*S]."""
    d1, d2 = dimension(form), varphi.shape[0]
    b = pairs_together(form, A, S)
    return LinearRoom(
        phi=np.empty((J, d1, b)),
        common=empty_common(form, J, S),
        certain=np.empty(b),
        forms=np.empty(b),
        w=np.empty((J, d1)),
        u=np.empty((J, d2)),
        visited=np.empty((J, d1, 1)),
        x=np.empty(d1),
        direction=np.empty(d1),
        f=np.empty(d2),
        along=np.empty(d2),
        reach=np.empty(A * S),
    )


def pairs_together(form, A, S):
    """Return how many pairs are evaluated together."""
    parts, block = pieces(form, A, S)
    return block * A // parts


@as_record
class Linear(NamedTuple):
    """The regressions of a linear kernel: one for each signal and stage, and one Gram matrix for all signals' means."""

    form: Form
    varphi: np.ndarray  # [d2, A*S]
    radii: Radii
    ridge: float
    gram: np.ndarray  # [J, H, d1, d1]
    inverse: np.ndarray  # [J, H, d1, d1]
    target: np.ndarray  # [J, H, d1]: sum of phi^tau V^tau(next)
    information: np.ndarray  # [J, H]
    updates: np.ndarray  # [J, H] int64
    signal_gram: np.ndarray  # [H, d2, d2]
    signal_inverse: np.ndarray  # [H, d2, d2]
    signal_target: np.ndarray  # [J, H, d2]
    signal_information: np.ndarray  # [H]
    signal_updates: np.ndarray  # [H] int64
    signal_width: np.ndarray  # [H, A*S]: varphi^T inverse varphi
    room: LinearRoom


@as_record
class OneHotRoom(NamedTuple):
    """Room for evaluating and observing with one-hot features, made once."""

    products: np.ndarray  # [S*(S+1)/2]
    forms: np.ndarray  # [A*S]
    direction: np.ndarray  # [S]


@as_record
class OneHot(NamedTuple):
    """The regressions for one-hot features: A*S independent Gram matrices of S x S, and counts for the signals."""

    radii: Radii
    ridge: float
    gram: np.ndarray  # [J, H, A*S, S, S]
    inverse: np.ndarray  # [J, H, A*S, S, S]
    target: np.ndarray  # [J, H, A*S, S]
    weights: np.ndarray  # [J, H, S, A*S]: inverse @ target, laid out so that loops over the pairs are vectorised
    quadratic: np.ndarray  # [J, H, S*(S+1)/2, A*S]: half of each inverse, by pair; see `write_quadratic`
    information: np.ndarray  # [J, H, A*S]
    updates: np.ndarray  # [J, H, A*S] int64
    signal_bonus: np.ndarray  # [H, A*S]: of the signals' means; changes with the visits only
    visits: Visits
    room: OneHotRoom


@njit(cache=True, fastmath=_EXACT, allocates=False)
def _radius(noise, slack, information, bias):
    return noise * math.sqrt(slack + information) + bias


@njit(cache=True, fastmath=_EXACT, allocates=False)
def kernel_radius(radii, h, information):
    """Return the radius of the kernel's regression at a stage."""
    return _radius(radii.noise[h], radii.slack, information, radii.bias[h])


@njit(cache=True, fastmath=_EXACT, allocates=False)
def signal_radius(radii, information):
    """Return the radius of the signals' regression."""
    return _radius(radii.signal_noise, radii.signal_slack, information, radii.signal_bias)


@njit(cache=True, fastmath=_EXACT, allocates=False)
def bonus(radius, form):
    """Return radius * sqrt(form); a quadratic form is negative only by rounding."""
    return radius * math.sqrt(max(form, 0.0))  # lines 7 and 10


@njit(cache=True, fastmath=False, allocates=False)
def evaluate_linear(state, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S]."""
    J, H, A, S = q.shape
    data = state, q.reshape(J, H, A * S)
    block = pieces(state.form, A, S)[1]
    walk_back(_look_ahead_linear, average_signals, data, policy, q, v, v[:, H], H, block)  # lines 3 and 12


@njit(cache=True, fastmath=_EXACT, allocates=False, forceinline=True)
def _look_ahead_linear(data, h, first, last, q, v):
    """Write Q of the states from first to last."""
    state, flat_q = data
    room = state.room
    phi, common, certain, forms, w, u = room.phi, room.common, room.certain, room.forms, room.w, room.u
    J, H, A, S = q.shape
    if first == 0:
        for j in range(J):
            multiply(state.inverse[j, h], state.target[j, h], w[j])  # line 5
            multiply(state.signal_inverse[h], state.signal_target[j, h], u[j])  # line 9
        find_common(state.form, v, h + 1, common)
    radius_of_signals = signal_radius(state.radii, state.signal_information[h])
    parts, _ = pieces(state.form, A, S)
    pairs = (last - first) * A // parts
    for part in range(parts):
        at = part * S + first
        width = state.signal_width[h, at : at + pairs]
        for pair in range(pairs):
            certain[pair] = bonus(radius_of_signals, width[pair])  # line 10
        if h < H - 1:
            integrate(state.form, v, h + 1, common, at, pairs, phi)  # line 6
        for j in range(J):
            values = flat_q[j, h, at : at + pairs]
            for pair in range(pairs):
                values[pair] = certain[pair]
            predict(u[j], state.varphi, at, pairs, values)
            if h < H - 1:
                predict(w[j], phi[j], 0, pairs, values)
                quadratic_forms(state.inverse[j, h], phi[j], pairs, forms)
                radius = kernel_radius(state.radii, h, state.information[j, h])
                for pair in range(pairs):
                    values[pair] += bonus(radius, forms[pair])  # line 7
            for pair in range(pairs):
                values[pair] = clip_value(values[pair], float(H - h))  # line 11
    return True


@njit(cache=True, fastmath=_EXACT, allocates=False)
def observe_linear(state, v, states, actions, observed):
    """Add one episode to the regressions, with the value functions v [J, H+1, S] of its own evaluation."""
    room = state.room
    phi, common, x, direction = room.visited, room.common, room.x, room.direction
    f, along, reach = room.f, room.along, room.reach
    J, H = observed.shape
    S, d1, d2 = v.shape[2], x.shape[0], f.shape[0]
    for h in range(H):
        pair = actions[h] * S + states[h]
        if h < H - 1:
            find_common(state.form, v, h + 1, common)
            integrate(state.form, v, h + 1, common, pair, 1, phi)
            for j in range(J):
                for i in range(d1):
                    x[i] = phi[j, i, 0]
                gram, inverse = state.gram[j], state.inverse[j]
                observe_row(  # line 4
                    x, state.ridge, h, gram, inverse, state.information[j], state.updates[j], direction
                )
                for i in range(d1):
                    state.target[j, h, i] += x[i] * v[j, h + 1, states[h + 1]]
        for i in range(d2):
            f[i] = state.varphi[i, pair]
        signal_gram, signal_inverse = state.signal_gram, state.signal_inverse
        growth = observe_row(  # line 8
            f, state.ridge, h, signal_gram, signal_inverse, state.signal_information, state.signal_updates, along
        )
        for j in range(J):
            for i in range(d2):
                state.signal_target[j, h, i] += f[i] * observed[j, h]
        if state.signal_updates[h] % REFRESH == 0:
            quadratic_forms(signal_inverse[h], state.varphi, state.varphi.shape[1], state.signal_width[h])
        else:
            _narrow(state.varphi, along, growth, reach, state.signal_width[h])


@njit(cache=True, fastmath=_EXACT, allocates=False)
def _narrow(varphi, along, growth, reach, width):
    """Subtract from every width the effect of one observation x: (varphi . inverse x)^2 / growth; reach is room."""
    for pair in range(width.shape[0]):
        reach[pair] = 0.0
    predict(along, varphi, 0, width.shape[0], reach)
    scale = 1.0 / growth
    for pair in range(width.shape[0]):
        width[pair] -= reach[pair] * reach[pair] * scale


@njit(cache=True, fastmath=False, allocates=False)
def evaluate_one_hot(state, policy, q, v):
    """Evaluate policy [H, A, S] into q [J, H, A, S] and v [J, H+1, S]."""
    J, H, A, S = q.shape
    data = state, q.reshape(J, H, A * S)
    walk_back(_look_ahead_one_hot, average_signals, data, policy, q, v, v[:, H], H, None)  # lines 3 and 12


@njit(cache=True, fastmath=_EXACT, allocates=False, forceinline=True)
def _look_ahead_one_hot(data, h, first, last, q, v):
    """Write Q of all states."""
    state, flat_q = data
    products, forms = state.room.products, state.room.forms
    visits, (J, H, pairs) = state.visits, flat_q.shape
    for j in range(J):
        values, ahead, sums, inverse = flat_q[j, h], v[j, h + 1], visits.sums[j, h], visits.inverse[h]
        signal_bonus, information = state.signal_bonus[h], state.information[j, h]
        for pair in range(pairs):
            values[pair] = sums[pair] * inverse[pair] + signal_bonus[pair]  # lines 8 to 10
        if h < H - 1:
            predict(ahead, state.weights[j, h], 0, pairs, values)
            _multiply_pairs(ahead, products)
            for pair in range(pairs):
                forms[pair] = 0.0
            predict(products, state.quadratic[j, h], 0, pairs, forms)
            for pair in range(pairs):
                values[pair] += bonus(kernel_radius(state.radii, h, information[pair]), forms[pair])  # line 7
        for pair in range(pairs):
            values[pair] = clip_value(values[pair], float(H - h))  # line 11
    return True


@njit(cache=True, fastmath=_EXACT, allocates=False)
def one_hot_signal_bonus(state, h, pair):
    """Return the bonus of the signals' means; their Gram matrix is diagonal: counts and ridge."""
    radius = signal_radius(state.radii, math.log1p(state.visits.number[h, pair] / state.ridge))
    return radius * state.visits.width[h, pair]


@njit(cache=True, fastmath=_EXACT, allocates=False)
def _multiply_pairs(x, products):
    """Write the products x_i x_k with i <= k into products [d*(d+1)/2]: every quadratic form of x is a sum of them."""
    n = 0
    for i in range(x.shape[0]):
        for k in range(i, x.shape[0]):
            products[n] = x[i] * x[k]
            n += 1


@njit(cache=True, fastmath=_EXACT, allocates=False)
def write_quadratic(matrix, pair, quadratic):
    """Write what multiplies these products in x^T matrix x into a column of quadratic [d*(d+1)/2, pairs].

    The matrix [d, d] is symmetric, so half of it is enough: M_ii, and 2 M_ik for k > i.
    """
    n = 0
    for i in range(matrix.shape[0]):
        quadratic[n, pair] = matrix[i, i]
        n += 1
        for k in range(i + 1, matrix.shape[0]):
            quadratic[n, pair] = 2.0 * matrix[i, k]
            n += 1


@njit(cache=True, fastmath=_EXACT, allocates=False)
def observe_one_hot(state, v, states, actions, observed):
    """Add one episode to the regressions of the pairs that it visited."""
    direction = state.room.direction
    J, H = observed.shape
    S = v.shape[2]
    count_pairs(state.visits, states, actions, observed)
    for h in range(H):
        pair = actions[h] * S + states[h]
        state.signal_bonus[h, pair] = one_hot_signal_bonus(state, h, pair)
        if h < H - 1:
            for j in range(J):
                x, gram, inverse = v[j, h + 1], state.gram[j, h], state.inverse[j, h]
                observe_row(  # line 4
                    x, state.ridge, pair, gram, inverse, state.information[j, h], state.updates[j, h], direction
                )
                for y in range(S):
                    state.target[j, h, pair, y] += x[y] * x[states[h + 1]]
                multiply(inverse[pair], state.target[j, h, pair], direction)  # line 5
                for y in range(S):
                    state.weights[j, h, y, pair] = direction[y]
                write_quadratic(inverse[pair], pair, state.quadratic[j, h])

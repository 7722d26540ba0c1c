"""The policy pi^k at a state that is not one of the carried ones: lines 4 to 6 of Algorithm 1, replayed.

The past is a list of evaluations, each with everything that Q^tau(x, .) depends on for any x, and of the mirror steps
that were made with it. Evaluations are stored side by side in lanes, so that Q^tau of many tau is computed at once; the
policy's steps follow one after the other. The features of one state are laid out by component, [d, A].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import clip_value
from opdop.kernels.features import find_common
from opdop.kernels.lstd import bonus, kernel_radius, signal_radius
from opdop.kernels.primal_dual import mixed, settled, tilt
from opdop.kernels.records import as_record
from opdop.kernels.regression import multiply

LANES = 64  # evaluations in one block

_EXACT = {"contract"}  # see features.py


@as_record
class Past(NamedTuple):
    """B blocks of LANES evaluations. `d` is d1; or dl for psi = left outer right, where V is folded into the rest."""

    signal_weights: np.ndarray  # [B, J, H, d2, LANES]
    signal_inverse: np.ndarray  # [B, H, d2, d2, LANES]
    signal_radius: np.ndarray  # [B, H, LANES]
    weights: np.ndarray  # [B, J, H, d, LANES]
    inverse: np.ndarray  # [B, J, H, d, d, LANES]
    radius: np.ndarray  # [B, J, H, LANES]
    v: np.ndarray  # [B, J, H, N, LANES]: V at the nodes after each stage; N = 0 where it is folded in
    first: np.ndarray  # [B * LANES] int64: mirror steps made before the first one with this evaluation
    dual: np.ndarray  # [steps, I]: the multipliers of every mirror step
    rates: np.ndarray  # [steps, 2]: alpha and theta of every mirror step


@as_record
class Rows(NamedTuple):
    """The features of one state: psi = left outer right has no psi, a general psi no left."""

    left: np.ndarray  # [d, A]
    psi: np.ndarray  # [N, d, A], times the nodes' weights
    varphi: np.ndarray  # [d2, A]


@njit(cache=True, fastmath=_EXACT, allocates=False)
def record(past, entry, state, v, dr):
    """Store the evaluation with value functions v [J, H+1, S] in the past; dr > 0 folds V into left's weights."""
    J, H, d1 = state.target.shape
    d2 = state.varphi.shape[0]
    block, lane = entry // LANES, entry % LANES
    w, u, common = state.room.w[0], state.room.u[0], state.room.common
    for h in range(H):
        find_common(state.form, v, h + 1, common)
        past.signal_radius[block, h, lane] = signal_radius(state.radii, state.signal_information[h])
        for i in range(d2):
            for k in range(d2):
                past.signal_inverse[block, h, i, k, lane] = state.signal_inverse[h, i, k]
        for j in range(J):
            multiply(state.signal_inverse[h], state.signal_target[j, h], u)
            for i in range(d2):
                past.signal_weights[block, j, h, i, lane] = u[i]
            multiply(state.inverse[j, h], state.target[j, h], w)
            past.radius[block, j, h, lane] = kernel_radius(state.radii, h, state.information[j, h])
            if dr > 0:
                _fold(past, block, lane, j, h, w, state.inverse[j, h], common[j], dr)
            else:
                for i in range(d1):
                    past.weights[block, j, h, i, lane] = w[i]
                    for k in range(d1):
                        past.inverse[block, j, h, i, k, lane] = state.inverse[j, h, i, k]
                for y in range(past.v.shape[3]):
                    past.v[block, j, h, y, lane] = v[j, h + 1, y]


@njit(cache=True, fastmath=_EXACT)
def _fold(past, block, lane, j, h, w, inverse, common, dr):
    """Write weights and inverse as they act on left: phi = left outer common, so phi w = left (W common), and so on."""
    dl = w.shape[0] // dr
    for i in range(dl):
        total = 0.0
        for r in range(dr):
            total += w[i * dr + r] * common[r]
        past.weights[block, j, h, i, lane] = total
        for k in range(dl):
            total = 0.0
            for r in range(dr):
                for s in range(dr):
                    total += common[r] * inverse[i * dr + r, k * dr + s] * common[s]
            past.inverse[block, j, h, i, k, lane] = total


@njit(cache=True, fastmath=_EXACT)
def value_block(past, block, h, rows, features, q):
    """Write Q of all evaluations of one block at a state, q [J, A, LANES]; features [d, LANES] is scratch."""
    J, H, d = past.weights.shape[1:4]
    d2, A = rows.varphi.shape
    form, inner, certain = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for a in range(A):
        for lane in range(LANES):
            certain[lane] = 0.0
        for i in range(d2):
            for lane in range(LANES):
                inner[lane] = 0.5 * past.signal_inverse[block, h, i, i, lane] * rows.varphi[i, a]
            for k in range(i + 1, d2):
                other = past.signal_inverse[block, h, i, k]
                for lane in range(LANES):
                    inner[lane] += other[lane] * rows.varphi[k, a]
            for lane in range(LANES):
                certain[lane] += 2.0 * rows.varphi[i, a] * inner[lane]
        for lane in range(LANES):
            certain[lane] = bonus(past.signal_radius[block, h, lane], certain[lane])
        for j in range(J):
            value = q[j, a]
            for lane in range(LANES):
                value[lane] = certain[lane]
            for i in range(d2):
                u = past.signal_weights[block, j, h, i]
                for lane in range(LANES):
                    value[lane] += u[lane] * rows.varphi[i, a]
            if h < H - 1:
                _integrate(past.v[block, j, h], rows, a, features)
                for lane in range(LANES):
                    form[lane] = 0.0
                for i in range(d):
                    f, w = features[i], past.weights[block, j, h, i]
                    for lane in range(LANES):
                        value[lane] += w[lane] * f[lane]
                        inner[lane] = 0.5 * past.inverse[block, j, h, i, i, lane] * f[lane]
                    for k in range(i + 1, d):
                        other, g = past.inverse[block, j, h, i, k], features[k]
                        for lane in range(LANES):
                            inner[lane] += other[lane] * g[lane]
                    for lane in range(LANES):
                        form[lane] += 2.0 * f[lane] * inner[lane]
                radius = past.radius[block, j, h]
                for lane in range(LANES):
                    value[lane] += bonus(radius[lane], form[lane])
            for lane in range(LANES):
                value[lane] = clip_value(value[lane], float(H - h))


@njit(cache=True, fastmath=_EXACT)
def _integrate(v, rows, a, features):
    """Write what the weights of each lane act on: left(x, a), or phi(x, a) = sum_y psi(x, a, y) V(y)."""
    N = rows.psi.shape[0]
    for i in range(features.shape[0]):
        f = features[i]
        for lane in range(LANES):
            f[lane] = rows.left[i, a] if N == 0 else 0.0
        for y in range(N):
            weight, values = rows.psi[y, i, a], v[y]
            for lane in range(LANES):
                f[lane] += weight * values[lane]


@njit(cache=True, fastmath=_EXACT)
def replay(past, entries, steps, h, rows, evaluated, policy):
    """Write the policy [A] at one state after all steps, and the one that the last evaluation valued."""
    J, d = past.weights.shape[1], past.weights.shape[3]
    A = rows.varphi.shape[1]
    q, features = np.empty((J, A, LANES)), np.empty((d, LANES))
    scores, best = np.empty((A, LANES)), np.empty(LANES)
    of = np.empty(LANES, dtype=np.int64)  # the lane that a step's Q is in
    for a in range(A):
        policy[a] = 1.0 / A
        evaluated[a] = 1.0 / A
    for block in range((entries + LANES - 1) // LANES):
        value_block(past, block, h, rows, features, q)
        entry, last = block * LANES, min((block + 1) * LANES, entries)
        step = past.first[entry]
        after = past.first[last] if last < entries else steps
        valued = past.first[entries - 1] if last == entries else -1
        while step < after:
            n = min(LANES, after - step)
            for s in range(n):
                while entry + 1 < last and past.first[entry + 1] <= step + s:
                    entry += 1
                of[s] = entry % LANES
            rates = past.rates[step : step + n]
            _weigh(q, past.dual[step : step + n], of, rates, scores, best)
            _walk(scores, n, rates, valued - step, evaluated, policy)
            step += n
        if valued == step:
            for a in range(A):
                evaluated[a] = policy[a]


@njit(cache=True, fastmath=_EXACT)
def _weigh(q, dual, of, rates, weights, best):
    """Write exp(alpha (Q_r + sum_i Y_i Q_{g_i})), up to a factor, for n steps into weights [A, LANES].

    dual [n, I] are their multipliers, rates [n, 2] their alpha and theta.
    """
    J, A, _ = q.shape
    n = dual.shape[0]
    for a in range(A):
        for s in range(n):
            weights[a, s] = q[0, a, of[s]]
        for i in range(J - 1):
            for s in range(n):
                weights[a, s] += dual[s, i] * q[1 + i, a, of[s]]
        for s in range(n):
            best[s] = weights[a, s] if a == 0 else max(best[s], weights[a, s])
    for a in range(A):
        row = weights[a, :n]
        for s in range(n):
            row[s] = tilt(row[s], best[s], rates[s, 0])


@njit(cache=True, fastmath=_EXACT)
def _walk(weights, n, rates, valued, evaluated, policy):
    """Make n mirror steps, one after the other; before step `valued` note the policy."""
    A = policy.shape[0]
    for s in range(n):
        if s == valued:
            for a in range(A):
                evaluated[a] = policy[a]
        total = 0.0
        for a in range(A):
            policy[a] = weights[a, s] * mixed(policy[a], rates[s, 1], A)  # lines 5 and 6
            total += policy[a]
        scale = 1.0 / total
        for a in range(A):
            policy[a] = settled(policy[a], scale)


@njit(cache=True, fastmath=False)
def value_at(past, entry, h, rows, policy, out):
    """Write V = <Q, policy> of one evaluation at a state into out [J], policy [A]."""
    J, d = past.weights.shape[1], past.weights.shape[3]
    A = policy.shape[0]
    q, features = np.empty((J, A, LANES)), np.empty((d, LANES))
    value_block(past, entry // LANES, h, rows, features, q)
    for j in range(J):
        total = 0.0
        for a in range(A):
            total += policy[a] * q[j, a, entry % LANES]
        out[j] = total

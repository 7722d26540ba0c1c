"""The standard to beat with least squares: Algorithm 1 with Algorithm 2 as one plain compiled loop over plain arrays.

Nothing is clever here, as in naive_loop.py: no views, no helper functions, no blocks. Inverses are updated by Sherman
and Morrison's formula. `run_lists` is for features that are lists, `run_one_hot` for one-hot features, which have one
regression for each pair. Both do the job of `train`: they improve the policy, play, move the multiplier, evaluate,
observe, and measure the policy with the true kernel. There is one constraint, and signals are deterministic.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit
def run_lists(P, r, psi, varphi, threshold, uniforms, alpha, eta, theta, chi, radii, ridge, totals, dual, occupancy):
    """Play one episode for each row of uniforms [K, 1+2H] from state 0; P [H, S, A, S], r [2, H, S, A].

    psi is (starts, successors, weights) of rows (x*A + a)*d1 + i, varphi [S, A, d2]. radii are those of
    `opdop.kernels.lstd`. Fills totals [K, 2] and dual [K], and adds up occupancy [H, S, A].
    """
    starts, successors, weights = psi
    noise, slack, bias, signal_noise, signal_slack, signal_bias = radii
    _, H, S, A = r.shape
    d1, d2 = (starts.shape[0] - 1) // (S * A), varphi.shape[2]
    policy, q, v = np.full((H, S, A), 1.0 / A), np.zeros((2, H, S, A)), np.zeros((2, H + 1, S))
    inverse, target, known = np.zeros((2, H, d1, d1)), np.zeros((2, H, d1)), np.zeros((2, H))
    signal_inverse, signal_target, signal_known = np.zeros((H, d2, d2)), np.zeros((2, H, d2)), np.zeros(H)
    for h in range(H):
        for i in range(d1):
            inverse[0, h, i, i], inverse[1, h, i, i] = 1.0 / ridge, 1.0 / ridge
        for i in range(d2):
            signal_inverse[h, i, i] = 1.0 / ridge
    phi, seen, w, u = np.zeros((2, d1)), np.zeros((2, H, d1)), np.zeros((2, d1)), np.zeros((2, d2))
    along, states, actions = np.zeros(max(d1, d2)), np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
    here, there = np.zeros(S), np.zeros(S)
    Y, estimate = 0.0, threshold
    for k in range(uniforms.shape[0]):
        for h in range(H):  # improve
            for x in range(S):
                best, total = -math.inf, 0.0
                for a in range(A):
                    best = max(best, q[0, h, x, a] + Y * q[1, h, x, a])
                for a in range(A):
                    likely = (1.0 - theta) * policy[h, x, a] + theta / A
                    policy[h, x, a] = likely * math.exp(alpha * (q[0, h, x, a] + Y * q[1, h, x, a] - best))
                    total += policy[h, x, a]
                for a in range(A):
                    policy[h, x, a] /= total
        for h in range(H):  # play
            x, a, y, total = states[h], 0, 0, policy[h, states[h], 0]
            while total <= uniforms[k, 1 + 2 * h] and a < A - 1:
                a += 1
                total += policy[h, x, a]
            total = P[h, x, a, 0]
            while total <= uniforms[k, 2 + 2 * h] and y < S - 1:
                y += 1
                total += P[h, x, a, y]
            actions[h], states[h + 1] = a, y
        Y = min(max(Y + eta * (threshold - estimate), 0.0), chi)
        for h in range(H - 1, -1, -1):  # evaluate
            for j in range(2):
                for i in range(d1):
                    w[j, i] = 0.0
                    for n in range(d1):
                        w[j, i] += inverse[j, h, i, n] * target[j, h, n]
                for i in range(d2):
                    u[j, i] = 0.0
                    for n in range(d2):
                        u[j, i] += signal_inverse[h, i, n] * signal_target[j, h, n]
            signal_radius = signal_noise * math.sqrt(signal_slack + signal_known[h]) + signal_bias
            for x in range(S):
                v0, v1 = 0.0, 0.0
                for a in range(A):
                    square, q0, q1 = 0.0, 0.0, 0.0
                    for i in range(d2):
                        inner = 0.0
                        for n in range(d2):
                            inner += signal_inverse[h, i, n] * varphi[x, a, n]
                        square += varphi[x, a, i] * inner
                        q0 += varphi[x, a, i] * u[0, i]
                        q1 += varphi[x, a, i] * u[1, i]
                    q0 += signal_radius * math.sqrt(max(square, 0.0))
                    q1 += signal_radius * math.sqrt(max(square, 0.0))
                    if h < H - 1:
                        for i in range(d1):
                            phi0, phi1, row = 0.0, 0.0, (x * A + a) * d1 + i
                            for entry in range(starts[row], starts[row + 1]):
                                phi0 += weights[entry] * v[0, h + 1, successors[entry]]
                                phi1 += weights[entry] * v[1, h + 1, successors[entry]]
                            phi[0, i], phi[1, i] = phi0, phi1
                        square0, square1 = 0.0, 0.0
                        for i in range(d1):
                            inner0, inner1 = 0.0, 0.0
                            for n in range(d1):
                                inner0 += inverse[0, h, i, n] * phi[0, n]
                                inner1 += inverse[1, h, i, n] * phi[1, n]
                            square0 += phi[0, i] * inner0
                            square1 += phi[1, i] * inner1
                            q0 += phi[0, i] * w[0, i]
                            q1 += phi[1, i] * w[1, i]
                            if x == states[h] and a == actions[h]:
                                seen[0, h, i], seen[1, h, i] = phi[0, i], phi[1, i]
                        q0 += (noise[h] * math.sqrt(slack + known[0, h]) + bias[h]) * math.sqrt(max(square0, 0.0))
                        q1 += (noise[h] * math.sqrt(slack + known[1, h]) + bias[h]) * math.sqrt(max(square1, 0.0))
                    q[0, h, x, a], q[1, h, x, a] = min(max(q0, 0.0), H - h), min(max(q1, 0.0), H - h)
                    v0 += q[0, h, x, a] * policy[h, x, a]
                    v1 += q[1, h, x, a] * policy[h, x, a]
                v[0, h, x], v[1, h, x] = v0, v1
        for h in range(H):  # observe
            x, a, y = states[h], actions[h], states[h + 1]
            growth = 1.0
            for i in range(d2):
                along[i] = 0.0
                for n in range(d2):
                    along[i] += signal_inverse[h, i, n] * varphi[x, a, n]
                growth += varphi[x, a, i] * along[i]
                signal_target[0, h, i] += varphi[x, a, i] * r[0, h, x, a]
                signal_target[1, h, i] += varphi[x, a, i] * r[1, h, x, a]
            signal_known[h] += math.log(growth)
            for i in range(d2):
                for n in range(d2):
                    signal_inverse[h, i, n] -= along[i] * along[n] / growth
            if h < H - 1:
                for j in range(2):
                    growth = 1.0
                    for i in range(d1):
                        along[i] = 0.0
                        for n in range(d1):
                            along[i] += inverse[j, h, i, n] * seen[j, h, n]
                        growth += seen[j, h, i] * along[i]
                        target[j, h, i] += seen[j, h, i] * v[j, h + 1, y]
                    known[j, h] += math.log(growth)
                    for i in range(d1):
                        for n in range(d1):
                            inverse[j, h, i, n] -= along[i] * along[n] / growth
        estimate, dual[k] = v[1, 0, 0], Y
        for x in range(S):  # measure
            here[x] = 1.0 if x == 0 else 0.0
        reward, utility = 0.0, 0.0
        for h in range(H):
            for y in range(S):
                there[y] = 0.0
            for x in range(S):
                for a in range(A):
                    mass = here[x] * policy[h, x, a]
                    occupancy[h, x, a] += mass
                    reward += mass * r[0, h, x, a]
                    utility += mass * r[1, h, x, a]
                    for y in range(S):
                        there[y] += mass * P[h, x, a, y]
            for y in range(S):
                here[y] = there[y]
        totals[k, 0], totals[k, 1] = reward, utility


@njit
def run_one_hot(P, r, threshold, uniforms, alpha, eta, theta, chi, radii, ridge, totals, dual, occupancy):
    """The same for one-hot features and P [H, S, A, S]: each pair has a regression on the values of the next states."""
    noise, slack, bias, signal_noise, signal_slack, signal_bias = radii
    _, H, S, A = r.shape
    policy, q, v = np.full((H, S, A), 1.0 / A), np.zeros((2, H, S, A)), np.zeros((2, H + 1, S))
    inverse, target, w = np.zeros((2, H, S, A, S, S)), np.zeros((2, H, S, A, S)), np.zeros((2, H, S, A, S))
    known, number, sums = np.zeros((2, H, S, A)), np.zeros((H, S, A)), np.zeros((2, H, S, A))
    for n in range(2 * H * S * A * S):
        y = n % S
        inverse[n // (H * S * A * S), n // (S * A * S) % H, n // (A * S) % S, n // S % A, y, y] = 1.0 / ridge
    along, states, actions = np.zeros(S), np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
    here, there = np.zeros(S), np.zeros(S)
    Y, estimate = 0.0, threshold
    for k in range(uniforms.shape[0]):
        for h in range(H):  # improve
            for x in range(S):
                best, total = -math.inf, 0.0
                for a in range(A):
                    best = max(best, q[0, h, x, a] + Y * q[1, h, x, a])
                for a in range(A):
                    likely = (1.0 - theta) * policy[h, x, a] + theta / A
                    policy[h, x, a] = likely * math.exp(alpha * (q[0, h, x, a] + Y * q[1, h, x, a] - best))
                    total += policy[h, x, a]
                for a in range(A):
                    policy[h, x, a] /= total
        for h in range(H):  # play
            x, a, y, total = states[h], 0, 0, policy[h, states[h], 0]
            while total <= uniforms[k, 1 + 2 * h] and a < A - 1:
                a += 1
                total += policy[h, x, a]
            total = P[h, x, a, 0]
            while total <= uniforms[k, 2 + 2 * h] and y < S - 1:
                y += 1
                total += P[h, x, a, y]
            actions[h], states[h + 1] = a, y
        Y = min(max(Y + eta * (threshold - estimate), 0.0), chi)
        for h in range(H - 1, -1, -1):  # evaluate
            for x in range(S):
                for a in range(A):
                    scale = 1.0 / (number[h, x, a] + ridge)
                    radius = signal_noise * math.sqrt(signal_slack + math.log(1.0 + number[h, x, a] / ridge))
                    for j in range(2):
                        value = sums[j, h, x, a] * scale + (radius + signal_bias) * math.sqrt(scale)
                        if h < H - 1:
                            square = 0.0
                            for y in range(S):
                                inner = 0.0
                                for n in range(S):
                                    inner += inverse[j, h, x, a, y, n] * v[j, h + 1, n]
                                square += v[j, h + 1, y] * inner
                                value += w[j, h, x, a, y] * v[j, h + 1, y]
                            around = noise[h] * math.sqrt(slack + known[j, h, x, a]) + bias[h]
                            value += around * math.sqrt(max(square, 0.0))
                        q[j, h, x, a] = min(max(value, 0.0), H - h)
                v0, v1 = 0.0, 0.0
                for a in range(A):
                    v0 += q[0, h, x, a] * policy[h, x, a]
                    v1 += q[1, h, x, a] * policy[h, x, a]
                v[0, h, x], v[1, h, x] = v0, v1
        for h in range(H):  # observe
            x, a, y = states[h], actions[h], states[h + 1]
            number[h, x, a] += 1.0
            for j in range(2):
                sums[j, h, x, a] += r[j, h, x, a]
                if h < H - 1:
                    growth = 1.0
                    for i in range(S):
                        along[i] = 0.0
                        for n in range(S):
                            along[i] += inverse[j, h, x, a, i, n] * v[j, h + 1, n]
                        growth += v[j, h + 1, i] * along[i]
                        target[j, h, x, a, i] += v[j, h + 1, i] * v[j, h + 1, y]
                    known[j, h, x, a] += math.log(growth)
                    for i in range(S):
                        w[j, h, x, a, i] = 0.0
                        for n in range(S):
                            inverse[j, h, x, a, i, n] -= along[i] * along[n] / growth
                            w[j, h, x, a, i] += inverse[j, h, x, a, i, n] * target[j, h, x, a, n]
        estimate, dual[k] = v[1, 0, 0], Y
        for x in range(S):  # measure
            here[x] = 1.0 if x == 0 else 0.0
        reward, utility = 0.0, 0.0
        for h in range(H):
            for y in range(S):
                there[y] = 0.0
            for x in range(S):
                for a in range(A):
                    mass = here[x] * policy[h, x, a]
                    occupancy[h, x, a] += mass
                    reward += mass * r[0, h, x, a]
                    utility += mass * r[1, h, x, a]
                    for y in range(S):
                        there[y] += mass * P[h, x, a, y]
            for y in range(S):
                here[y] = there[y]
        totals[k, 0], totals[k, 1] = reward, utility

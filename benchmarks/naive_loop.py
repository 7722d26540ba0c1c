"""The standard to beat: Algorithm 1 with counts as one plain compiled loop over plain arrays, every episode measured.

Nothing is clever here: no views, no helper functions, no vector layout, no blocks. `run_bonuses` adds a bonus to the
mean; `run_balls` maximises over an L1 ball around it. Both do the job of `train`: they improve the policy, play, move
the multiplier, evaluate, count, and measure the policy with the true kernel, whose occupancies add up to the average
policy. There is one constraint, and signals are deterministic.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit
def run_bonuses(P, r, threshold, uniforms, alpha, eta, theta, chi, radii, totals, dual, occupancy):
    """Play one episode for each row of uniforms [K, 1+2H] from state 0; P [H, S, A, S], r [2, H, S, A], radii [H].

    Fills totals [K, 2] and dual [K], and adds up occupancy [H, S, A].
    """
    H, S, A = P.shape[:3]
    policy, q, v = np.full((H, S, A), 1.0 / A), np.zeros((2, H, S, A)), np.zeros((2, H + 1, S))
    seen, number, sums = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((2, H, S, A))
    states, actions = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
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
                v0, v1 = 0.0, 0.0
                for a in range(A):
                    q0, q1 = sums[0, h, x, a], sums[1, h, x, a]
                    for y in range(S):
                        q0 += seen[h, x, a, y] * v[0, h + 1, y]
                        q1 += seen[h, x, a, y] * v[1, h + 1, y]
                    inverse = 1.0 / (number[h, x, a] + 1.0)
                    bonus = 2.0 * radii[h] * math.sqrt(inverse)
                    q[0, h, x, a] = min(max(q0 * inverse + bonus, 0.0), H - h)
                    q[1, h, x, a] = min(max(q1 * inverse + bonus, 0.0), H - h)
                    v0 += q[0, h, x, a] * policy[h, x, a]
                    v1 += q[1, h, x, a] * policy[h, x, a]
                v[0, h, x], v[1, h, x] = v0, v1
        for h in range(H):  # observe
            x, a = states[h], actions[h]
            seen[h, x, a, states[h + 1]] += 1.0
            number[h, x, a] += 1.0
            sums[0, h, x, a] += r[0, h, x, a]
            sums[1, h, x, a] += r[1, h, x, a]
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
def run_balls(P, r, threshold, uniforms, alpha, eta, theta, chi, log_sets, totals, dual, occupancy):
    """The same with the confidence balls of `certified`: log_sets is `opdop.kernels.balls.l1_width`'s."""
    H, S, A = P.shape[:3]
    policy, q, v = np.full((H, S, A), 1.0 / A), np.zeros((2, H, S, A)), np.zeros((2, H + 1, S))
    seen, number, moved = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
    states, actions = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
    here, there, order = np.zeros(S), np.zeros(S), np.zeros((2, H, S), dtype=np.int64)
    for n in range(2 * H * S):
        order[n // (H * S), n // S % H, n % S] = n % S
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
                for n in range(1, S):  # sort the next states by value, from the order of the last episode
                    y, m = order[j, h, n], n
                    while m > 0 and v[j, h + 1, order[j, h, m - 1]] < v[j, h + 1, y]:
                        order[j, h, m] = order[j, h, m - 1]
                        m -= 1
                    order[j, h, m] = y
                for x in range(S):
                    value = 0.0
                    for a in range(A):
                        q[j, h, x, a] = H - h
                        if number[h, x, a] > 0.0:
                            y, left = order[j, h, 0], number[h, x, a]
                            mass = min(seen[h, x, a, y] + moved[h, x, a], left)
                            total, left, n = mass * v[j, h + 1, y], left - mass, 1
                            while left > 0.0 and n < S:
                                y = order[j, h, n]
                                mass = min(seen[h, x, a, y], left)
                                total, left, n = total + mass * v[j, h + 1, y], left - mass, n + 1
                            q[j, h, x, a] = min(r[j, h, x, a] + total / number[h, x, a], H - h)
                        value += q[j, h, x, a] * policy[h, x, a]
                    v[j, h, x] = value
        for h in range(H):  # observe
            x, a = states[h], actions[h]
            seen[h, x, a, states[h + 1]] += 1.0
            number[h, x, a] += 1.0
            n = number[h, x, a]
            width = math.sqrt(0.5 * (n + 1.0) * (log_sets + 0.5 * math.log(n + 1.0))) / n
            moved[h, x, a] = n * min(1.0, width)
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

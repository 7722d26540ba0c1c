"""The policy and dual steps of Algorithm 1 (OPDOP)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# An action of smaller probability keeps this much, so that without mixing it can still come back.
PROBABILITY_FLOOR = 1e-300

_BLOCK = 64  # states improved together
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts, so that k * ln 2 is exact enough
_LN2_LOW = 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))


@njit(cache=True, fastmath={"contract"})
def exponentiate(x):
    """Replace x [n], all at most 0, by exp(x), to the last bit or two; below -690 by exp(-690).

    Written so that it is vectorised: exp(x) = 2^k exp(r) with |r| <= ln(2)/2, and a Taylor polynomial for exp(r).
    """
    for n in range(x.shape[0]):
        value = max(x[n], -690.0)
        k = math.floor(value * _LOG2_E + 0.5)
        r = value - k * _LN2_HIGH - k * _LN2_LOW
        total = _TAYLOR[0]
        for coefficient in _TAYLOR[1:]:
            total = total * r + coefficient
        x[n] = total * np.int64((np.int64(k) + 1023) << 52).view(np.float64)


@njit(cache=True, fastmath={"contract"})
def improve(policy, q, dual, step_size, mixing, touched):
    """Turn pi^{k-1} into pi^k in place: mix with the uniform policy, then step along Q_r + sum_i Y_i Q_{g_i}.

    policy [H, S, A], q [1+I, H, S, A], dual [I]. Where touched [H, S] is False all actions look alike, and the policy
    stays uniform; blocks of states with no touched one are passed over.
    """
    H, S, A = policy.shape
    scores = np.empty((A, _BLOCK))
    best, total = np.empty(_BLOCK), np.empty(_BLOCK)
    for h in range(H):
        for first in range(0, S, _BLOCK):
            last = min(first + _BLOCK, S)
            if touched[h, first:last].any():
                score(q[:, h, first:last], dual, scores, best)
                mirror_step(policy[h, first:last], scores, best, total, step_size, mixing)


@njit(cache=True, fastmath={"contract"})
def score(q, dual, scores, best):
    """Write Q_r + sum_i Y_i Q_{g_i} of a block of states, by action, and the best over the actions.

    q [1+I, n, A], scores [A, n], best [n]. Loops run over the states, which is what vectorises them.
    """
    J, n, A = q.shape
    for a in range(A):
        for x in range(n):
            scores[a, x] = q[0, x, a]
        for i in range(J - 1):
            for x in range(n):
                scores[a, x] += dual[i] * q[1 + i, x, a]
        for x in range(n):
            best[x] = scores[a, x] if a == 0 else max(best[x], scores[a, x])


@njit(cache=True, fastmath={"contract"})
def mirror_step(policy, scores, best, total, step_size, mixing):
    """Improve a block of states in place: policy [n, A]; scores [A, n] and best [n] are used up."""
    n, A = policy.shape
    kept, added = 1.0 - mixing, mixing / A
    total[:] = 0.0
    for a in range(A):
        weights = scores[a, :n]
        for x in range(n):
            weights[x] = step_size * (weights[x] - best[x])
        exponentiate(weights)
        for x in range(n):
            weights[x] *= kept * policy[x, a] + added  # lines 5 and 6
            total[x] += weights[x]
    for x in range(n):
        total[x] = 1.0 / total[x]
    for a in range(A):
        for x in range(n):
            policy[x, a] = max(scores[a, x] * total[x], PROBABILITY_FLOOR)


@njit(cache=True)
def update_dual(dual, thresholds, utility_estimates, dual_step_size, dual_bound):
    """Move each multiplier along its estimated violation, within [0, chi]; all arrays [I]."""
    for i in range(dual.shape[0]):
        moved = dual[i] + dual_step_size * (thresholds[i] - utility_estimates[i])  # line 9
        dual[i] = min(max(moved, 0.0), dual_bound)

"""The policy and dual steps of Algorithm 1 (OPDOP)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# An action of smaller probability keeps this much, so that without mixing it can still come back.
PROBABILITY_FLOOR = 1e-300

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
    """Turn pi^{k-1} into pi^k in place: mix with the uniform policy, then one mirror step along Q_r + sum_i Y_i Q_{g_i}.

    policy [H, S, A], q [1+I, H, S, A], dual [I]. Where touched [H, S] is False all actions look alike, and the policy
    stays as it is.
    """
    H, S, A = policy.shape
    weights = np.empty(S * A)
    for h in range(H):
        end = 0
        for x in range(S):
            if touched[h, x]:
                best = -np.inf
                for a in range(A):
                    score = q[0, h, x, a]
                    for i in range(dual.shape[0]):
                        score += dual[i] * q[1 + i, h, x, a]
                    weights[end + a] = score
                    best = max(best, score)
                for a in range(A):
                    weights[end + a] = step_size * (weights[end + a] - best)
                end += A
        exponentiate(weights[:end])
        end = 0
        for x in range(S):
            if touched[h, x]:
                total = 0.0
                for a in range(A):
                    mixed = (1.0 - mixing) * policy[h, x, a] + mixing / A  # line 5
                    policy[h, x, a] = mixed * weights[end + a]  # line 6
                    total += policy[h, x, a]
                for a in range(A):
                    policy[h, x, a] = max(policy[h, x, a] / total, PROBABILITY_FLOOR)
                end += A


@njit(cache=True)
def update_dual(dual, thresholds, utility_estimates, dual_step_size, dual_bound):
    """Move each multiplier along its estimated violation, within [0, chi]; all arrays [I]."""
    for i in range(dual.shape[0]):
        moved = dual[i] + dual_step_size * (thresholds[i] - utility_estimates[i])  # line 9
        dual[i] = min(max(moved, 0.0), dual_bound)

"""The steps of OptPess-PrimalDual: a greedy policy of the optimistic Lagrangian, and a pessimistic multiplier.

Liu, Zhou, Kalathil, Kumar and Tian (2021), Algorithm 2; see `opdop.algorithms.optpess_primal_dual`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.dynamic_programming import act_greedily
from opdop.kernels.records import as_record
from opdop.kernels.transitions import Dense


@as_record
class OptPess(NamedTuple):
    """The learner's state between episodes, which the loop changes in place, and its constants."""

    policy: np.ndarray  # [H, A, S]: pi^k
    queue: np.ndarray  # [1]: lambda^k
    dual: np.ndarray  # [1]: lambda^k / eta^k, the price of the utility
    estimates: np.ndarray  # [2]: the optimistic values of pi^k
    rows: np.ndarray  # [L*S*A, S]: the empirical kernel
    threshold: float  # b
    initial: np.ndarray  # [S]
    bonus: float  # (1 + S H) sqrt(Z), that of one visit
    pessimism: float  # multiplies epsilon_k
    log_shift: float  # log(1 / delta'), of epsilon_k
    price_scale: float  # 1 / ((tau - c0) H): prices are this times lambda^k / sqrt(k)


@njit(cache=True, fastmath=False)
def pessimism_of(k, pessimism, log_shift):
    """Return epsilon_k = pessimism (log(k / delta') + 1) / sqrt(k log(k / delta'))."""
    logarithm = math.log(k) + log_shift
    return pessimism * (logarithm + 1.0) / math.sqrt(k * logarithm)


@njit(cache=True, fastmath=False)
def choose_greedily(peer, counts, played):
    """Move the multiplier by the estimates of the last episode, then plan greedily for this one."""
    H, A, S = peer.policy.shape
    visits, k = counts.visits, played + 1.0
    if played > 0:
        lacking = peer.threshold - peer.estimates[1] + pessimism_of(k - 1.0, peer.pessimism, peer.log_shift)
        peer.queue[0] = max(peer.queue[0] + lacking, 0.0)
    L = visits.number.shape[0]
    signals = np.empty((2, L, S, A))
    for h in range(L):
        for a in range(A):
            for x in range(S):
                n = max(visits.number[h, a * S + x], 1.0)
                bonus = peer.bonus / math.sqrt(n)
                if visits.number[h, a * S + x] == 0.0:  # the paper's is larger than H anyway
                    bonus = max(bonus, float(H))
                signals[0, h, x, a] = visits.sums[0, h, a * S + x] / n + bonus
                # A cost as a negative utility: what follows an unvisited pair has neither reward nor cost.
                signals[1, h, x, a] = visits.sums[1, h, a * S + x] / n - 1.0 + bonus
    peer.dual[0] = peer.price_scale * peer.queue[0] / math.sqrt(k)
    weights, second = np.array([1.0, peer.dual[0]]), np.array([0.0, 1.0])
    actions, v = act_greedily(Dense(peer.rows), signals, H, weights, second, 0.0)
    for h in range(H):
        for a in range(A):
            for x in range(S):
                peer.policy[h, a, x] = 1.0 if actions[h, x] == a else 0.0
    for j in range(2):
        total = 0.0
        for x in range(S):
            total += peer.initial[x] * v[j, x]
        peer.estimates[j] = total
    peer.estimates[1] += H

"""The steps of the regularised primal-dual method: entropy in the policy's objective, a decaying multiplier.

Mueller, Alatur, Cevher, Ramponi and He (2024); see `opdop.algorithms.regularised_primal_dual`. With the entropy as one
more signal, -log pi(a | x), whose price is tau, the policy's step is the mirror step of Algorithm 1:
pi exp(eta (Q + tau Q_psi)) = pi^(1 - eta tau) exp(eta (Q + tau P V_psi)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.backward_pass import walk_back
from opdop.kernels.caching import njit
from opdop.kernels.counts import average_signals
from opdop.kernels.evaluators import evaluate
from opdop.kernels.loops import average_start
from opdop.kernels.primal_dual import improve
from opdop.kernels.records import as_record


@as_record
class Regularised(NamedTuple):
    """The learner's state between episodes, which the loop changes in place, and its constants."""

    policy: np.ndarray  # [H, A, S]: pi^k
    q: np.ndarray  # [J+1, H, A, S]: Q^k, and that of the entropy
    v: np.ndarray  # [J+1, H+1, S]: V^k, and that of the entropy
    dual: np.ndarray  # [I]: lambda^k
    estimates: np.ndarray  # [J]: <rho, V^k>
    rows: np.ndarray  # [L*S*A, S]: the empirical kernel
    touched: np.ndarray  # [H, S]: all True, because the entropy tells actions apart everywhere
    thresholds: np.ndarray  # [I]
    initial: np.ndarray  # [S]
    step_size: float  # eta, of the policy
    dual_step_size: float  # eta, of the multipliers
    regularisation: float  # tau
    dual_bound: float
    entropy_bonus: float  # of one visit


@njit(cache=True, fastmath=False)
def choose_regularised(peer, counts, played):
    """Improve the policy, move the multipliers, then evaluate the new policy on the episodes so far."""
    J, I = peer.estimates.shape[0], peer.dual.shape[0]
    eta, tau = peer.dual_step_size, peer.regularisation
    if played > 0:
        prices = np.empty(I + 1)
        for i in range(I):
            prices[i] = peer.dual[i]
        prices[I] = tau
        improve(peer.policy, peer.q, prices, peer.step_size, 0.0, peer.touched)
        for i in range(I):
            moved = (1.0 - eta * tau) * peer.dual[i] + eta * (peer.thresholds[i] - peer.estimates[1 + i])
            peer.dual[i] = min(max(moved, 0.0), peer.dual_bound)
    evaluate(counts, peer.policy, peer.q[:J], peer.v[:J])
    visits = counts.visits
    _evaluate_entropy(peer.policy, peer.q[J:], peer.v[J:], visits.number, peer.rows, peer.entropy_bonus)
    average_start(peer.v[:J], peer.initial, peer.estimates)


@njit(cache=True, allocates=False, fastmath=False)
def _evaluate_entropy(policy, q, v, number, rows, bonus):
    """Evaluate -log pi of a policy [H, A, S] into q [1, H, A, S] and v [1, H+1, S]; see `choose_regularised`."""
    H = policy.shape[0]
    walk_back(_look_ahead_for_entropy, average_signals, (policy, number, rows, bonus), policy, q, v, v[:, H], H, None)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _look_ahead_for_entropy(data, h, first, last, q, v):
    """Write Q = -log pi + min(P V + bonus, (H-h-1) log A)."""
    (policy, number, rows, bonus), (_, H, A, S) = data, q.shape
    k, top = h % number.shape[0], (H - h - 1) * math.log(A)
    for x in range(S):
        for a in range(A):
            n = number[k, a * S + x]
            ahead = top
            if n > 0.0 and h < H - 1:
                row, total = (k * S + x) * A + a, 0.0
                for y in range(S):
                    total += rows[row, y] * v[0, h + 1, y]
                ahead = min(total + bonus / math.sqrt(n), top)
            q[0, h, a, x] = ahead - math.log(policy[h, a, x])
    return True

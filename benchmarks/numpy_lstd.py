"""OPDOP with least squares in plain vectorised NumPy: Algorithms 1 and 2, with every episode measured exactly."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_counts import improve, measure, move_dual, play


def run(P, signals, psi, varphi, thresholds, start, episodes, constants, seed=0):
    """Run Algorithm 1 with Algorithm 2; return true totals [K, J].

    P [H, S, A, S], signals [J, H, S, A], psi [S, A, S, d1], varphi [S, A, d2]; constants: step_size, dual_step_size,
    mixing, dual_bound, radius, ridge. Inverses are updated by Sherman and Morrison's formula.
    """
    rng = np.random.default_rng(seed)
    J, H, S, A = signals.shape
    d1, d2, ridge, radius = psi.shape[3], varphi.shape[2], constants["ridge"], constants["radius"]
    policy = np.full((H, S, A), 1.0 / A)
    q, v = np.zeros((J, H, S, A)), np.zeros((J, H + 1, S))
    dual, estimates = np.zeros(J - 1), np.array(thresholds)
    inverse, target = np.tile(np.eye(d1) / ridge, (J, H, 1, 1)), np.zeros((J, H, d1))
    signal_inverse, signal_target = np.tile(np.eye(d2) / ridge, (H, 1, 1)), np.zeros((J, H, d2))
    totals = np.empty((episodes, J))
    for k in range(episodes):
        policy = improve(policy, q, dual, constants)
        states, actions = play(rng, P, policy, start)
        totals[k] = measure(P, signals, policy, start)
        dual = move_dual(dual, thresholds, estimates, constants)
        # evaluate
        features = np.zeros((J, H, S, A, d1))
        for h in range(H - 1, -1, -1):
            width = np.sqrt(np.einsum("xai,ik,xak->xa", varphi, signal_inverse[h], varphi, optimize=True))
            for j in range(J):
                phi = np.einsum("xayi,y->xai", psi, v[j, h + 1], optimize=True)
                features[j, h] = phi
                form = np.einsum("xai,ik,xak->xa", phi, inverse[j, h], phi, optimize=True)
                mean = varphi @ (signal_inverse[h] @ signal_target[j, h]) + phi @ (inverse[j, h] @ target[j, h])
                q[j, h] = np.clip(mean + radius * (width + np.sqrt(np.maximum(form, 0.0))), 0.0, H - h)
                v[j, h] = (q[j, h] * policy[h]).sum(axis=1)
        estimates = v[1:, 0, start]
        # observe
        for h in range(H):
            x, a, y = states[h], actions[h], states[h + 1]
            for j in range(J):
                phi = features[j, h, x, a]
                along = inverse[j, h] @ phi
                inverse[j, h] -= np.outer(along, along) / (1.0 + phi @ along)
                target[j, h] += phi * v[j, h + 1, y]
                signal_target[j, h] += varphi[x, a] * signals[j, h, x, a]
            along = signal_inverse[h] @ varphi[x, a]
            signal_inverse[h] -= np.outer(along, along) / (1.0 + varphi[x, a] @ along)
    return totals

"""Many episodes of a known model with a learner that counts and chooses its policy anew, in one compiled loop."""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import is_full, observe
from opdop.kernels.dynamic_programming import play_in
from opdop.kernels.empirical_rows import renew_visited
from opdop.kernels.measuring import wait_for_measurement
from opdop.kernels.optpess import OptPess, choose_greedily
from opdop.kernels.parts import overload
from opdop.kernels.regularised import Regularised, choose_regularised


def choose_policy(peer, counts, played):
    """Write the policy of the next episode, its estimates and the multipliers into a peer's state, from counts."""
    {OptPess: choose_greedily, Regularised: choose_regularised}[type(peer)](peer, counts, played)


@overload(choose_policy)
def _overload_choose_policy(peer, counts, played):
    return {OptPess: choose_greedily, Regularised: choose_regularised}[peer.instance_class]


@njit(cache=True, fastmath=False)
def run_peer(peer, counts, model, uniforms, record, played, chosen):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    `played` episodes came before. If `chosen`, the policy of the first one has been chosen already. It stops early when
    the counts must make room.
    """
    H, J = peer.policy.shape[0], peer.estimates.shape[0]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((J, H))
    waiting = np.zeros(1 + record.waiting.shape[0], dtype=np.int64)
    done = 0
    while done < uniforms.shape[0]:
        if done > 0 or not chosen:
            choose_policy(peer, counts, played + done)
        play_in(model, peer.policy, uniforms[done], states, actions, observed)
        observe(counts, states, actions, observed)
        renew_visited(counts, states, actions, peer.rows)
        for j in range(J):
            record.estimates[done, j] = peer.estimates[j]
        for i in range(J - 1):
            record.dual[done, i] = peer.dual[i]
        stop = done + 1 == uniforms.shape[0] or is_full(counts)
        wait_for_measurement(model, peer.policy, record, done, stop, waiting)
        done += 1
        if stop:
            break
    return done

"""Many episodes of a known model with a learner that counts and chooses its policy anew, in one compiled loop."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from opdop.kernels.caching import njit
from opdop.kernels.counts import is_full, observe
from opdop.kernels.dynamic_programming import play
from opdop.kernels.empirical_rows import renew_visited
from opdop.kernels.loops import measure
from opdop.kernels.optpess import OptPess, choose_greedily
from opdop.kernels.regularised import Regularised, choose_regularised


def choose_policy(peer, counts, played):
    """Write the policy of the next episode, its estimates and the multipliers into a peer's state, from counts."""
    {OptPess: choose_greedily, Regularised: choose_regularised}[type(peer)](peer, counts, played)


@overload(choose_policy)
def _overload_choose_policy(peer, counts, played):
    def greedily(peer, counts, played):
        choose_greedily(peer, counts, played)

    def regularised(peer, counts, played):
        choose_regularised(peer, counts, played)

    return {OptPess: greedily, Regularised: regularised}[peer.instance_class]


@njit(cache=True, fastmath=False)
def run_peer(peer, counts, model, uniforms, record, played, chosen):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    `played` episodes came before. If `chosen`, the policy of the first one has been chosen already. It stops early when
    the counts must make room.
    """
    waiting, every = record.waiting, record.measure_every
    H, J = peer.policy.shape[0], peer.estimates.shape[0]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((J, H))
    totals = np.empty((waiting.shape[0], J))
    measured = np.empty(waiting.shape[0], dtype=np.int64)
    pending, done = 0, 0
    while done < uniforms.shape[0]:
        if done > 0 or not chosen:
            choose_policy(peer, counts, played + done)
        play(
            model.transitions,
            model.signals,
            peer.policy.transpose(0, 2, 1),
            model.initial,
            model.noisy,
            uniforms[done],
            states,
            actions,
            observed,
        )
        observe(counts, states, actions, observed)
        renew_visited(counts, states, actions, peer.rows)
        for j in range(J):
            record.estimates[done, j] = peer.estimates[j]
            record.totals[done, j] = np.nan
        for i in range(J - 1):
            record.dual[done, i] = peer.dual[i]
        if every > 0 and (record.first + done) % every == 0:
            _copy(peer.policy, waiting, pending)
            measured[pending] = done
            pending += 1
        done += 1
        stop = done == uniforms.shape[0] or is_full(counts)
        if pending == waiting.shape[0] or (stop and pending > 0):
            measure(model, waiting[:pending], float(every), record.occupancy, totals[:pending])
            for n in range(pending):
                for j in range(J):
                    record.totals[measured[n], j] = totals[n, j]
            pending = 0
        if stop:
            break
    return done


@njit(cache=True, fastmath=False)
def _copy(policy, waiting, place):
    for h in range(policy.shape[0]):
        for a in range(policy.shape[1]):
            for x in range(policy.shape[2]):
                waiting[place, h, a, x] = policy[h, a, x]

"""Many episodes of a known model with one policy, played and counted in one compiled loop."""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import is_full, observe
from opdop.kernels.dynamic_programming import play_in


def run_policy(policy, counts, model, uniforms, totals, masses, estimates, dual, record):
    """Play policy [H, A, S] on uniforms [n, ...] and count the episodes; return how many were played.

    The policy's exact totals [J] and its occupancy, masses [H, S, A], are the same in every episode; so are the plan's
    estimates [J] and multipliers [I]. It stops early when the counts must make room.
    """
    H, J = policy.shape[0], totals.shape[0]
    states, actions, observed = np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty((J, H))
    room = states, actions, observed
    return _run_policy(policy, counts, model, uniforms, totals, masses, estimates, dual, record, *room)


@njit(cache=True, allocates=False, fastmath=False)
def _run_policy(policy, counts, model, uniforms, totals, masses, estimates, dual, record, states, actions, observed):
    """Do the same in given room: states [H+1], actions [H] and observed [J, H] are of one episode."""
    J, every, done = totals.shape[0], record.measure_every, 0
    while done < uniforms.shape[0]:
        play_in(model, policy, uniforms[done], states, actions, observed)
        observe(counts, states, actions, observed)
        measured = every > 0 and (record.first + done) % every == 0
        for j in range(J):
            record.estimates[done, j] = estimates[j]
            record.totals[done, j] = totals[j] if measured else np.nan
        for i in range(J - 1):
            record.dual[done, i] = dual[i]
        if measured:
            _add_occupancy(masses, float(every), record.occupancy)
        done += 1
        if is_full(counts):
            break
    return done


@njit(cache=True, allocates=False, fastmath={"contract"})
def _add_occupancy(masses, weight, occupancy):
    """Add a policy's occupancy as `loops.measure` does, to the last bit."""
    ours, sums = masses.reshape(masses.size), occupancy.reshape(occupancy.size)
    for n in range(ours.shape[0]):
        sums[n] += weight * ours[n]

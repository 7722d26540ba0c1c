"""Policies of a compiled loop wait until several of them are measured together, in one reading of the model."""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.loops import copy_policy, measure


@njit(cache=True, fastmath=False)
def wait_for_measurement(model, policy, record, done, stop, waiting):
    """Let the policy [H, A, S] of episode `done` wait if it is due; measure all that wait if there is no more room.

    waiting [1 + B] has the number of policies that wait, and then the episode of each; `stop` says that no episode
    follows. Writes the totals of measured episodes into the record, and NaN for others.
    """
    J, B = record.totals.shape[1], record.waiting.shape[0]
    for j in range(J):
        record.totals[done, j] = np.nan
    if record.measure_every > 0 and (record.first + done) % record.measure_every == 0:
        copy_policy(policy, record.waiting[waiting[0]])
        waiting[1 + waiting[0]] = done
        waiting[0] += 1
    count = waiting[0]
    if count == B or (stop and count > 0):
        totals = np.empty((count, J))
        measure(model, record.waiting[:count], float(record.measure_every), record.occupancy, totals)
        for n in range(count):
            for j in range(J):
                record.totals[waiting[1 + n], j] = totals[n, j]
        waiting[0] = 0

"""Algorithm 1 over many episodes in a known model: one compiled pass over the data for each episode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from opdop.kernels.counts import evaluate, is_full, observe
from opdop.kernels.known import count_rows, play, push
from opdop.kernels.primal_dual import improve, update_dual


class Model(NamedTuple):
    """The environment, as the simulator knows it."""

    transitions: tuple  # Dense or Sparse
    signals: np.ndarray  # [J, L, S, A]
    initial: np.ndarray  # [S]
    noisy: bool


class PrimalDual(NamedTuple):
    """The learner's state between episodes, changed in place, and its constants."""

    policy: np.ndarray  # [H, S, A]: pi^k
    q: np.ndarray  # [J, H, S, A]: Q^k
    v: np.ndarray  # [J, H+1, S]: V^k
    dual: np.ndarray  # [I]: Y^k
    utility_estimates: np.ndarray  # [I]: <rho, V_g^k> at the first stage
    touched: np.ndarray  # [H, S]: where the evaluator has anything to say
    thresholds: np.ndarray  # [I]
    initial: np.ndarray  # [S]: rho, as the learner was told
    step_size: float
    dual_step_size: float
    mixing: float
    dual_bound: float


class Record(NamedTuple):
    """What is noted of each of n episodes."""

    totals: np.ndarray  # [n, J]: true expected totals of pi^k; NaN where not measured
    estimates: np.ndarray  # [n, J]: <rho, V^k>
    dual: np.ndarray  # [n, I]: Y^k


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def measure(model, policy, occupancy, weight, totals):
    """Write the exact expected totals [J] of a policy [H, S, A]; add weight times its occupancy to occupancy [H, S, A]."""
    J, L, S, A = model.signals.shape
    H = policy.shape[0]
    rows = count_rows(model.transitions)
    here, there = model.initial.copy(), np.empty(S)
    masses = np.empty(S * A)
    totals[:] = 0.0
    for h in range(H):
        visited = occupancy[h].reshape(S * A)
        for x in range(S):
            for a in range(A):
                masses[x * A + a] = here[x] * policy[h, x, a]
        for pair in range(S * A):
            visited[pair] += weight * masses[pair]
        for j in range(J):
            signal = model.signals[j, h % L].reshape(S * A)
            total = 0.0
            for pair in range(S * A):
                total += masses[pair] * signal[pair]
            totals[j] += total
        if h < H - 1:
            there[:] = 0.0
            push(model.transitions, (h * S * A) % rows, masses, there)
            here, there = there, here


@njit(cache=True)
def average_start(v, initial, out):
    """Write <rho, V(., first stage)> of every signal into out [J]."""
    for j in range(v.shape[0]):
        total = 0.0
        for x in range(initial.shape[0]):
            total += initial[x] * v[j, 0, x]
        out[j] = total


@njit(cache=True)
def run_episodes(learner, counts, model, table_from, uniforms, first, measure_every, occupancy, record):
    """Run episodes first + 1, first + 2, ... on uniforms [n, ...]; return how many were run.

    It stops early when the counts need the caller's attention (`is_full`). Episodes whose number less one is a
    multiple of measure_every are measured; 0 measures none.
    """
    H = learner.policy.shape[0]
    J = learner.q.shape[0]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((J, H))
    for n in range(uniforms.shape[0]):
        improve(  # lines 4-6
            learner.policy, learner.q, learner.dual, learner.step_size, learner.mixing, learner.touched
        )
        play(  # lines 3, 7, 8
            model.transitions,
            model.signals,
            learner.policy,
            model.initial,
            model.noisy,
            uniforms[n],
            states,
            actions,
            observed,
        )
        if measure_every > 0 and (first + n) % measure_every == 0:
            measure(model, learner.policy, occupancy, float(measure_every), record.totals[n])
        else:
            record.totals[n] = np.nan
        update_dual(  # line 9
            learner.dual, learner.thresholds, learner.utility_estimates, learner.dual_step_size, learner.dual_bound
        )
        evaluate(counts, learner.policy, learner.q, learner.v)  # line 10, on episodes before this one only
        observe(counts, states, actions, observed)
        average_start(learner.v, learner.initial, record.estimates[n])
        learner.utility_estimates[:] = record.estimates[n, 1:]
        record.dual[n] = learner.dual
        if is_full(counts, table_from):
            return n + 1
    return uniforms.shape[0]

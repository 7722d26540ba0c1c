"""Algorithm 1 over many episodes of a known model, in one compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.dynamic_programming import play
from opdop.kernels.evaluators import evaluate, is_full, observe
from opdop.kernels.primal_dual import Steps, find_rates, improve, move_dual, update_scales
from opdop.kernels.simd import LANES, add_scaled
from opdop.kernels.transitions import Transitions, count_rows, empty_values, push

_BLOCK = 64  # states whose masses are written together


class Model(NamedTuple):
    """The environment, as the simulator knows it."""

    transitions: Transitions
    signals: np.ndarray  # [J, L, S, A]
    initial: np.ndarray  # [S]
    noisy: bool


class PrimalDual(NamedTuple):
    """The learner's state between episodes, which the loop changes in place, and its constants."""

    policy: np.ndarray  # [H, A, S]: pi^k
    q: np.ndarray  # [J, H, A, S]: Q^k
    v: np.ndarray  # [J, H+1, S]: V^k
    dual: np.ndarray  # [I]: Y^k
    integral: np.ndarray  # [I]: the sum of line 9, which is Y^k without damping
    scales: np.ndarray  # [J]: of the ranges of Q; used by relative steps
    utility_estimates: np.ndarray  # [I]: <rho, V_g^k> at the first stage
    touched: np.ndarray  # [H, S]: where the evaluator's estimates of the actions may differ
    thresholds: np.ndarray  # [I]: those of the task, plus the margin
    initial: np.ndarray  # [S]: rho, as the learner was told
    steps: Steps
    dual_bound: float
    dual_total: float
    played: int  # episodes before these


class Record(NamedTuple):
    """Where the numbers of n episodes are written, and how their policies are measured."""

    totals: np.ndarray  # [n, J]: true expected totals of pi^k; NaN where not measured
    estimates: np.ndarray  # [n, J]: <rho, V^k>
    dual: np.ndarray  # [n, I]: Y^k
    first: int  # episodes played before these
    measure_every: int  # episodes 1, 1 + measure_every, ... are measured; 0 measures none
    waiting: np.ndarray  # [B, H, A, S]: room for policies that are measured together
    occupancy: np.ndarray  # [H, S, A]: sum of the measured policies' occupancies


@njit(cache=True, fastmath={"contract"})
def measure(model, policies, weight, occupancy, totals):
    """Write the exact expected totals [B, J] of at most `LANES` policies [B, H, A, S] in one reading of the model.

    Adds weight times each policy's occupancy to occupancy [H, S, A]. A policy's numbers do not depend on the others.
    """
    J, L, S, A = model.signals.shape
    B, H = policies.shape[:2]
    rows = count_rows(model.transitions)
    here, there = empty_values(model.transitions, LANES, S), empty_values(model.transitions, LANES, S)
    masses, sums = np.zeros((_BLOCK * A, LANES)), np.empty((J, LANES))
    for b in range(LANES):
        for x in range(S):
            here[b, x] = model.initial[x]
    for b in range(B):
        for j in range(J):
            totals[b, j] = 0.0
    for h in range(H):
        for b in range(LANES):
            for x in range(S):
                there[b, x] = 0.0
        for first in range(0, S, _BLOCK):  # in blocks that stay near: masses are by state, policies by action
            pairs = min(_BLOCK, S - first) * A
            visited = occupancy[h].ravel()[first * A : first * A + pairs]
            _spread(here, policies, h, first, pairs // A, masses)
            for n in range(pairs):
                for b in range(B):
                    visited[n] += weight * masses[n, b]
            for j in range(J):
                for b in range(LANES):
                    sums[j, b] = 0.0
            for x in range(pairs // A):
                for a in range(A):
                    for j in range(J):
                        add_scaled(masses, x * A + a, model.signals[j, h % L, first + x, a], sums, j)
            for b in range(B):
                for j in range(J):
                    totals[b, j] += sums[j, b]
            if h < H - 1:
                push(model.transitions, ((h * S + first) * A) % rows, masses[:pairs], there)
        here, there = there, here


@njit(cache=True, fastmath=False)
def _spread(here, policies, h, first, states, masses):
    """Spread the masses of some states over their actions, into masses [states * A, LANES]."""
    B, _, A, _ = policies.shape
    for b in range(B):
        for a in range(A):
            likely, mass = policies[b, h, a, first : first + states], here[b, first : first + states]
            for x in range(states):
                masses[x * A + a, b] = mass[x] * likely[x]


@njit(cache=True, fastmath=False)
def average_start(v, initial, out):
    """Write <rho, V(., first stage)> of every signal into out [J]."""
    for j in range(v.shape[0]):
        total = 0.0
        for x in range(initial.shape[0]):
            total += initial[x] * v[j, 0, x]
        out[j] = total


@njit(cache=True, fastmath=False)
def copy_policy(policy, out):
    """Copy a policy [H, A, S]."""
    source, target = policy.ravel(), out.ravel()
    for n in range(source.shape[0]):
        target[n] = source[n]


@njit(cache=True, fastmath=False)
def run_episodes(learner, evaluator, model, uniforms, record):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    It stops early when the evaluator must make room (`is_full`). B policies are measured together, which reads the
    model once instead of B times and does not change any bit of the result.
    """
    waiting, every = record.waiting, record.measure_every
    H, J = learner.policy.shape[0], learner.q.shape[0]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((J, H))
    totals = np.empty((waiting.shape[0], J))
    measured = np.empty(waiting.shape[0], dtype=np.int64)
    rates = np.empty(2 * J)
    pending = 0
    done = 0
    while done < uniforms.shape[0]:
        find_rates(
            learner.steps,
            learner.scales,
            learner.integral,
            learner.dual,
            learner.thresholds,
            learner.utility_estimates,
            learner.played + done,
            rates,
        )
        improve(learner.policy, learner.q, learner.dual, rates[0], rates[1], learner.touched)  # lines 4-6
        play(  # lines 3, 7, 8
            model.transitions,
            model.signals,
            learner.policy.transpose(0, 2, 1),
            model.initial,
            model.noisy,
            uniforms[done],
            states,
            actions,
            observed,
        )
        move_dual(  # line 9
            learner.integral,
            learner.thresholds,
            learner.utility_estimates,
            rates,
            learner.dual_bound,
            learner.dual_total,
            learner.dual,
        )
        evaluate(evaluator, learner.policy, learner.q, learner.v)  # line 10, on the episodes before this one only
        observe(evaluator, learner.v, states, actions, observed)
        if learner.steps.relative:
            update_scales(learner.q, states, learner.played + done, learner.scales)

        average_start(learner.v, learner.initial, record.estimates[done])
        for i in range(J - 1):
            learner.utility_estimates[i] = record.estimates[done, 1 + i]
            record.dual[done, i] = learner.dual[i]
        for j in range(J):
            record.totals[done, j] = np.nan
        if every > 0 and (record.first + done) % every == 0:
            copy_policy(learner.policy, waiting[pending])
            measured[pending] = done
            pending += 1
        done += 1
        stop = done == uniforms.shape[0] or is_full(evaluator)
        if pending == waiting.shape[0] or (stop and pending > 0):
            measure(model, waiting[:pending], float(every), record.occupancy, totals[:pending])
            for n in range(pending):
                for j in range(J):
                    record.totals[measured[n], j] = totals[n, j]
            pending = 0
        if stop:
            break
    return done

"""Algorithm 1 over many episodes of a known model, in one compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.dynamic_programming import play
from opdop.kernels.evaluators import evaluate, is_full, observe
from opdop.kernels.parts import in_kernels
from opdop.kernels.primal_dual import (
    Seen,
    Steps,
    empty_room,
    find_rates,
    find_targets,
    further_updates,
    improve_flat,
    move_dual,
    update_scales,
    update_variances,
)
from opdop.kernels.records import as_record
from opdop.kernels.simd import LANES
from opdop.kernels.transitions import Transitions, count_rows, push_lanes
from opdop.kernels.vectors import gather, load, store, zeros

_BLOCK = 64  # states whose masses are written together


@as_record
class Model(NamedTuple):
    """The environment, as the simulator knows it."""

    transitions: Transitions
    signals: np.ndarray  # [J, L, S, A]
    initial: np.ndarray  # [S]
    noisy: bool


@as_record
class PrimalDual(NamedTuple):
    """The learner's state between episodes, which the loop changes in place, and its constants."""

    policy: np.ndarray  # [H, A, S]: pi^k
    q: np.ndarray  # [J, H, A, S]: Q^k
    v: np.ndarray  # [J, H+1, S]: V^k
    dual: np.ndarray  # [I]: Y^k
    integral: np.ndarray  # [I]: the sum of line 9, which is Y^k without damping
    seen: Seen  # used by relative steps
    utility_estimates: np.ndarray  # [I]: <rho, V_g^k> at the first stage
    touched: np.ndarray  # [H, S]: where the evaluator's estimates of the actions may differ
    thresholds: np.ndarray  # [I]: those of the task, plus the margin
    initial: np.ndarray  # [S]: rho, as the learner was told
    steps: Steps
    dual_bound: float
    dual_total: float
    played: int  # episodes before these
    states: np.ndarray  # [H+1] int64: of the last episode
    further: np.ndarray  # [1] int64: updates that are made before the next episode is played


@as_record
class Record(NamedTuple):
    """Where the numbers of n episodes are written, and how their policies are measured."""

    totals: np.ndarray  # [n, J]: true expected totals of pi^k; NaN where not measured
    estimates: np.ndarray  # [n, J]: <rho, V^k>
    dual: np.ndarray  # [n, I]: Y^k
    first: int  # episodes played before these
    measure_every: int  # episodes 1, 1 + measure_every, ... are measured; 0 measures none
    waiting: np.ndarray  # [B, H, A, S]: room for policies that are measured together
    occupancy: np.ndarray  # [H, S, A]: sum of the measured policies' occupancies


@in_kernels()
def measure(model, policies, weight, occupancy, totals):
    """Write the exact expected totals [B, J] of at most `LANES` policies [B, H, A, S] in one reading of the model.

    Adds weight times each policy's occupancy to occupancy [H, S, A]. A policy's numbers do not depend on the others.
    """
    _measure(model, policies, weight, occupancy, totals, policies.shape[0], empty_lanes(model))


@as_record
class Lanes(NamedTuple):
    """Room for measuring `LANES` policies side by side."""

    here: np.ndarray  # [S, LANES]: the probability of each state at a stage
    there: np.ndarray  # [S, LANES]: at the next stage
    masses: np.ndarray  # [_BLOCK * A, LANES]: of the pairs of some states
    sums: np.ndarray  # [J, LANES]


@in_kernels()
def empty_lanes(model):
    """Return room for measuring policies of a model."""
    J, _, S, A = model.signals.shape
    return Lanes(_aligned(S), _aligned(S), _aligned(_BLOCK * A), _aligned(J))


@in_kernels()
def _aligned(n):
    """Return zeros [n, LANES] of which each row is one cache line: rows across two take several times as long."""
    raw = np.zeros(n * LANES + LANES)
    first = -(raw.ctypes.data // 8) % LANES
    return raw[first : first + n * LANES].reshape(n, LANES)


@njit(cache=True, allocates=False, kind="apart", fastmath={"contract"}, alone=True)
def _measure(model, policies, weight, occupancy, totals, B, lanes):
    """Measure the first B policies in given room."""
    J, L, S, A = model.signals.shape
    H = policies.shape[1]
    rows = count_rows(model.transitions)
    here, there, masses, sums = lanes
    for x in range(S):
        for b in range(LANES):
            here[x, b] = model.initial[x]
    for b in range(B):
        for j in range(J):
            totals[b, j] = 0.0
    for h in range(H):
        _clear(there)
        for block in range(0, S, _BLOCK):  # in blocks that stay near: masses are by state, policies by action
            first, last = _visited(here, block, min(block + _BLOCK, S))
            if first == last:
                continue
            pairs = (last - first) * A
            _spread(here, policies, h, first, last - first, B, masses)
            for x in range(pairs // A):
                for a in range(A):
                    mass = occupancy[h, first + x, a]
                    for b in range(B):
                        mass += weight * masses[x * A + a, b]
                    occupancy[h, first + x, a] = mass
            for j in range(J):
                at = np.uint64(((j * L + h % L) * S + first) * A)
                total = zeros()
                for n in range(np.uint64(pairs)):
                    total = total + load(0.0, model.signals, at + n) * load(total, masses, n * np.uint64(LANES))
                store(sums, j * LANES, total)
            for b in range(B):
                for j in range(J):
                    totals[b, j] += sums[j, b]
            if h < H - 1:
                push_lanes(model.transitions, ((h * S + first) * A) % rows, pairs, masses, there)
        here, there = there, here


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _visited(here, first, last):
    """Return the first and the last of some states without those at both ends that no policy visits.

    Four states stay together, because `push_lanes` adds four rows at a time: so no bit depends on what is left out.
    """
    low, high = first, last
    while low < last and _is_empty(here, low):
        low += 1
    while high > low and _is_empty(here, high - 1):
        high -= 1
    if low == high:
        return first, first
    return low - (low - first) % 4, min(high + (first - high) % 4, last)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _is_empty(here, x):
    number = 0
    for b in range(LANES):
        number += here[x, b] > 0.0
    return number == 0


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _clear(array):
    for n in range(array.shape[0]):
        for b in range(LANES):
            array[n, b] = 0.0


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _spread(here, policies, h, first, states, B, masses):
    """Spread the masses of some states over their actions, into masses [states * A, LANES]."""
    A = policies.shape[2]
    for a in range(A):
        for x in range(states):
            likely = gather(policies, B, h, a, first + x)
            store(masses, (x * A + a) * LANES, load(likely, here, (first + x) * LANES) * likely)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
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


@as_record
class Room(NamedTuple):
    """What the loop needs beside the learner's state; made once for many episodes."""

    actions: np.ndarray  # [H] int64
    observed: np.ndarray  # [J, H]
    estimates: np.ndarray  # [J]: <rho, V>
    targets: np.ndarray  # [I]: thresholds, raised by a margin
    rates: np.ndarray  # [2 J]: the steps
    scores: np.ndarray  # of `improve_flat`
    lanes: Lanes
    totals: np.ndarray  # [B, J]: of the policies that wait
    measured: np.ndarray  # [B] int64: their episodes


def run_episodes(learner, evaluator, model, uniforms, record):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    It stops early when the evaluator must make room (`is_full`). B policies are measured together, which reads the
    model once instead of B times and does not change any bit of the result.
    """
    policy, q, B = learner.policy, learner.q, record.waiting.shape[0]
    H, J = policy.shape[0], q.shape[0]
    room = Room(
        actions=np.empty(H, dtype=np.int64),
        observed=np.empty((J, H)),
        estimates=np.empty(J),
        targets=np.empty(J - 1),
        rates=np.empty(2 * J),
        scores=empty_room(policy),
        lanes=empty_lanes(model),
        totals=np.empty((B, J)),
        measured=np.empty(B, dtype=np.int64),
    )
    flat_policy, flat_q, waiting = policy.reshape(-1), q.reshape(-1), record.waiting.reshape(B, policy.size)
    return _run_episodes(learner, evaluator, model, uniforms, record, room, flat_policy, flat_q, waiting)


@njit(cache=True, allocates=False, fastmath=False)
def _run_episodes(learner, evaluator, model, uniforms, record, room, flat_policy, flat_q, waiting):
    """Play and learn in given room; the policy and q are given flat too, as views."""
    actions, observed, estimates, targets, rates, scores, lanes, totals, measured = room
    states, further = learner.states, learner.further
    J, every, pending, done = learner.q.shape[0], record.measure_every, 0, 0
    while done < uniforms.shape[0]:
        is_played = further[0] == 0
        find_targets(learner.steps, learner.thresholds, learner.seen.variances, learner.played + done, targets)
        find_rates(
            learner.steps,
            learner.seen,
            learner.integral,
            learner.dual,
            targets,
            learner.utility_estimates,
            learner.played + done,
            rates,
        )
        if learner.played + done > 0:  # Q^0 = 0, even if the evaluator has observed episodes before
            improve_flat(flat_policy, flat_q, learner.dual, rates[0], rates[1], learner.touched, scores)  # lines 4-6
        if is_played:
            play(  # lines 3, 7, 8
                model.transitions,
                model.signals,
                learner.policy,
                model.initial,
                model.noisy,
                uniforms[done],
                states,
                actions,
                observed,
            )
        move_dual(  # line 9
            learner.integral,
            targets,
            learner.utility_estimates,
            rates,
            learner.dual_bound,
            learner.dual_total,
            learner.dual,
        )
        evaluate(evaluator, learner.policy, learner.q, learner.v)  # line 10, on the episodes before this one only
        if is_played:
            observe(evaluator, learner.v, states, actions, observed)
        if learner.steps.relative:
            update_scales(learner.q, learner.policy, states, learner.played + done, learner.seen)
            if is_played:
                update_variances(learner.q, learner.v, states, actions, observed, learner.played + done, learner.seen)
        average_start(learner.v, learner.initial, estimates)
        for i in range(J - 1):
            learner.utility_estimates[i] = estimates[1 + i]
        if not is_played:
            further[0] -= 1
            continue

        further[0] = further_updates(learner.steps, learner.played + done)
        for j in range(J):
            record.totals[done, j] = np.nan
            record.estimates[done, j] = estimates[j]
        for i in range(J - 1):
            record.dual[done, i] = learner.dual[i]
        if every > 0 and (record.first + done) % every == 0:
            for n in range(flat_policy.shape[0]):
                waiting[pending, n] = flat_policy[n]
            measured[pending] = done
            pending += 1
        done += 1
        stop = done == uniforms.shape[0] or is_full(evaluator)
        if pending == totals.shape[0] or (stop and pending > 0):
            _measure(model, record.waiting, float(every), record.occupancy, totals, pending, lanes)
            for n in range(pending):
                for j in range(J):
                    record.totals[measured[n], j] = totals[n, j]
            pending = 0
        if stop:
            break
    return done

"""The policy and dual steps of Algorithm 1 (OPDOP).

Arrays of learners are laid out by action, [..., A, S], so that loops over the states are vectorised.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import any_touched
from opdop.kernels.parts import in_kernels
from opdop.kernels.records import as_record
from opdop.kernels.simd import LANES
from opdop.kernels.vectors import load, load_some, power_of_two, store, store_some, zeros

# The smallest probability of an action; so it can become likely again without mixing.
PROBABILITY_FLOOR = 1e-300

# Of relative steps: episodes over which scales are averaged, the smallest scale, what a violation counts at most, how
# much the response of the policy counts, how much of the Slater gap a margin may take, and how far a raised kappa may
# move a multiplier, in units of W / s_i.
SCALE_MEMORY = 100.0
LEAST_SCALE = 1e-6
MOST_SCALES = 10.0
RESPONSE_SHARE = 0.3
MOST_OF_GAP = 0.5
MOST_MOVED = 0.5

_BLOCK = 128  # states of which all are improved if one was visited
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts, so that k * ln 2 is exact enough
_LN2_LOW = 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(n) for n in range(12, -1, -1))
_ROUNDER = 1.5 * 2.0**52  # added to a small number, it rounds it to the nearest whole one in the last bits


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def exponential(x):
    """Return exp(x) of a number of at most 0, or of a vector, to the last bit or two; below -690 that of -690.

    Written so that loops over it are vectorised: exp(x) = 2^k exp(r) with |r| <= ln(2)/2, and a Taylor polynomial for
    exp(r).
    """
    value = max(x, -690.0)
    rounded = value * _LOG2_E + _ROUNDER
    k = rounded - _ROUNDER
    r = value - k * _LN2_HIGH - k * _LN2_LOW
    t = _TAYLOR  # written out, because LLVM keeps a loop over them where code is to be short
    total = (((t[0] * r + t[1]) * r + t[2]) * r + t[3]) * r + t[4]
    total = (((total * r + t[5]) * r + t[6]) * r + t[7]) * r + t[8]
    total = (((total * r + t[9]) * r + t[10]) * r + t[11]) * r + t[12]
    return total * power_of_two(rounded)


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def mixed(likely, mixing, actions):
    """Return a probability, mixed with the uniform policy's."""
    return (1.0 - mixing) * likely + mixing / actions  # line 5


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def tilt(score, best, step_size):
    """Return the factor by which a probability grows before all are scaled, relative to the best action's factor."""
    return exponential(step_size * (score - best))  # line 6


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def settled(weight, scale):
    """Return a weight as a probability."""
    return max(weight * scale, PROBABILITY_FLOOR)


@in_kernels()
def improve(policy, q, dual, step_size, mixing, touched):
    """Turn pi^{k-1} into pi^k in place: mix with the uniform policy, then step along Q_r + sum_i Y_i Q_{g_i}.

    policy [H, A, S], q [1+I, H, A, S], dual [I]. Where touched [H, S] is False all actions have the same estimate, and
    the policy stays uniform; blocks of states that are all untouched are skipped.
    """
    improve_flat(policy.ravel(), q.ravel(), dual, step_size, mixing, touched, empty_room(policy))


@in_kernels()
def empty_room(policy):
    """Return room [A, LANES] for `improve_flat` with a policy [H, A, S]."""
    return np.empty((policy.shape[1], LANES))


@njit(cache=True, allocates=False, kind="compact", fastmath=False)
def improve_flat(policy, q, dual, step_size, mixing, touched, room):
    """Improve a flat policy [H*A*S] with flat q [J*H*A*S], in given room; views are made once, not in each episode."""
    H, S = touched.shape
    A = policy.shape[0] // (H * S)
    for h in range(H):
        for first in range(0, S, _BLOCK):
            n = min(_BLOCK, S - first)
            if any_touched(touched, h, first, first + n):
                _improve_states(policy, q, dual, step_size, mixing, h * A * S + first, n, A, S, room)


@njit(cache=True, allocates=False, fastmath=False)
def improve_stage(policy, q, dual, step_size, mixing, h, A, S, room):
    """Improve all states of stage h; the arrays are flat, as in `improve_flat`."""
    _improve_states(policy, q, dual, step_size, mixing, h * A * S, S, A, S, room)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _improve_states(policy, q, dual, step_size, mixing, start, n, A, S, room):
    """Improve n states of a stage, of which the first action of the first is at `start` of the flat arrays."""
    whole = n - n % LANES
    for x in range(0, whole, LANES):
        _improve_block(policy, q, dual, step_size, mixing, start + x, LANES, A, S, room)
    if whole < n:
        _improve_block(policy, q, dual, step_size, mixing, start + whole, n - whole, A, S, room)


# Loops over actions and signals are written with `while` and a step that is not known, which LLVM does not unroll:
# there are few of both, and an unrolled loop takes longer to begin than to run.


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _improve_block(policy, q, dual, step_size, mixing, start, n, A, S, room):
    """Improve at most `LANES` states side by side; action a of the first is at start + a * S."""
    first, states, lanes, size = np.uint64(start), np.uint64(S), np.uint64(LANES), np.uint64(policy.shape[0])
    end = first + np.uint64(A) * states
    best = _score(q, dual, first, size, n)
    store(room, 0, best)
    at, to = first + states, lanes
    while at < end:
        score = _score(q, dual, at, size, n)
        store(room, to, score)
        best = max(best, score)
        at, to = at + states, to + lanes
    total, at, to = zeros(), first, np.uint64(0)
    while at < end:
        weight = _weigh(load(best, room, to) - best, load_some(policy, at, n), step_size, mixing, A)
        store(room, to, weight)
        total = total + weight
        at, to = at + states, to + lanes
    scale, at, to = 1.0 / total, first, np.uint64(0)
    while at < end:
        store_some(policy, at, settled(load(scale, room, to), scale), n)
        at, to = at + states, to + lanes


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def _score(q, dual, at, size, n):
    """Return Q_r + sum_i Y_i Q_{g_i} of n pairs from `at` on; each Q has so many numbers."""
    score, i = load_some(q, at, n), np.uint64(0)
    at += size
    while at < np.uint64(q.shape[0]):
        score = score + dual[i] * load_some(q, at, n)
        at, i = at + size, i + np.uint64(1)
    return score


@njit(cache=True, allocates=False, forceinline=True, fastmath={"contract"})
def _weigh(score, likely, step_size, mixing, A):
    """Return the weights of probabilities, from scores relative to the best."""
    return tilt(score, 0.0, step_size) * mixed(likely, mixing, A)  # lines 5 and 6


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def update_dual(dual, thresholds, utility_estimates, dual_step_size, dual_bound, dual_total):
    """Move each multiplier along its estimated violation, within [0, chi]; all arrays [I].

    Where dual_total is finite, they move to the nearest point with dual >= 0 and sum(dual) <= dual_total instead.
    """
    each = dual_bound if dual_total == math.inf else math.inf
    total = 0.0
    for i in range(dual.shape[0]):
        moved = dual[i] + dual_step_size * (thresholds[i] - utility_estimates[i])  # line 9
        dual[i] = min(max(moved, 0.0), each)
        total += dual[i]
    if total > dual_total:
        _lower_to_total(dual, dual_total)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _lower_to_total(dual, dual_total):
    """Lower all multipliers by the same number, but none below 0, so that their sum is dual_total."""
    lowered, positive = 0.0, dual.shape[0] + 1
    while True:
        total, number = 0.0, 0
        for i in range(dual.shape[0]):
            if dual[i] > lowered:
                total += dual[i]
                number += 1
        if number in (positive, 0):
            break
        lowered, positive = (total - dual_total) / number, number
    for i in range(dual.shape[0]):
        dual[i] = min(max(dual[i] - lowered, 0.0), dual_total)


@as_record
class Steps(NamedTuple):
    """The constants of the steps of Algorithm 1, as numbers or relative to the ranges of Q; see `find_rates`."""

    step_size: float  # alpha
    dual_step_size: float  # eta
    mixing: float  # theta
    damping: float  # kappa
    relative: bool
    early_updates: float = 1.0  # episode k is followed by this many / k updates, but at least by one
    damping_ratio: float = 0.0  # the least one of the oscillation of policy and multiplier
    caution: float = 0.0  # standard errors of the estimated utilities by which thresholds are raised
    most_margin: float = 0.0  # by which they are raised at most


@as_record
class Seen(NamedTuple):
    """Running means over the episodes, which relative steps use; `update_scales` and `update_variances` move them."""

    scales: np.ndarray  # [J]: the root mean square range of Q_j among the actions
    responses: np.ndarray  # [I]: how much V_i rises for alpha Y_i = 1: variances of Q_i under the policy, summed
    variances: np.ndarray  # [I]: of the total of an episode: squared errors of Q_i after one stage, summed


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def further_updates(steps, played):
    """Return how many updates follow the episode after `played` ones, beside its own.

    The data grow by the share 1 / k in episode k, so an update is made at least whenever they have grown by the share
    1 / early_updates. They are as many for a doubling of the data at first as later, and need no further episodes.
    """
    return max(math.ceil(steps.early_updates / (played + 1.0)) - 1, 0)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def find_targets(steps, thresholds, variances, played, targets):
    """Write the thresholds of the next dual step into targets [I]: those of the task, raised by a margin.

    The margin is `caution` standard errors of the estimated utility: after k episodes sqrt(variance / k), because an
    error of V_i is a mean of k errors after one stage at every stage. With random kernels half of all policies would
    violate their constraint otherwise, by about as much.
    """
    for i in range(targets.shape[0]):
        targets[i] = thresholds[i]
        if steps.caution > 0.0 and played > 0:
            targets[i] += min(steps.caution * math.sqrt(variances[i] / played), steps.most_margin)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def damping_for(ratio, dual_step_size, response):
    """Return the kappa with which the oscillation of policy and multiplier has a damping ratio.

    To first order an episode changes v by -response (Y - Y*), with response = alpha G, and I by eta v, and Y is
    I + kappa v. So v'' + kappa response v' + eta response v = 0, and its ratio is kappa sqrt(response / eta) / 2.
    """
    return 2.0 * ratio * math.sqrt(dual_step_size / max(response, PROBABILITY_FLOOR))


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def find_rates(steps, seen, integral, dual, targets, utility_estimates, played, rates):
    """Write the steps of the next episode into rates [2 J]: alpha, theta, then every eta_i and then every kappa_i.

    Relative steps do not depend on the units of the signals, on H or on the number of episodes. With s_j the scale of
    Q_j and G_i the response of V_i (`Seen`), W = s_0 + sum_i I_i s_i the scale of scores and v_i = b_i - V_i:

        alpha = step_size / (s_0 + sum_i Y_i s_i),   theta = mixing / k,
        eta_i and kappa_i = dual_step_size and damping times W / (s_i (s_i + |v_i| / MOST_SCALES) + RESPONSE_SHARE G_i).

    So a step along a score of typical range multiplies odds by exp(step_size), and a violation of s_i moves the
    multiplier by a share of W / s_i, the multiplier at which the constraint weighs as much as everything else. A large
    violation counts as at most MOST_SCALES s_i: the first estimates are poor, and I_i must not wind up meanwhile.
    Where many states choose at random, V_i reacts to Y_i by alpha G_i in one step, far more than s_i; without G_i a
    damped multiplier would react to its own reaction, and circle.

    Where the policy reacts little, kappa_i is larger: `damping_for`.
    """
    I, scales = dual.shape[0], seen.scales
    rates[0], rates[1] = steps.step_size, steps.mixing
    for i in range(I):
        rates[2 + i], rates[2 + I + i] = steps.dual_step_size, steps.damping
    if steps.relative:
        moving, settled_scale = scales[0], scales[0]
        for i in range(I):
            moving += dual[i] * scales[1 + i]
            settled_scale += integral[i] * scales[1 + i]
        for i in range(I):
            violation = abs(targets[i] - utility_estimates[i])
            opposed = scales[1 + i] * (scales[1 + i] + violation / MOST_SCALES) + RESPONSE_SHARE * seen.responses[i]
            unit = settled_scale / opposed
            rates[2 + i] *= unit
            rates[2 + I + i] *= unit
            if steps.damping_ratio > 0.0:
                needed = damping_for(steps.damping_ratio, rates[2 + i], rates[0] / moving * seen.responses[i])
                most = MOST_MOVED * settled_scale / max(scales[1 + i] * violation, LEAST_SCALE**2)
                rates[2 + I + i] = max(rates[2 + I + i], min(needed, most))
        rates[0] /= moving
        rates[1] /= played + 1.0


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _weight_of_last(played):
    """Return the weight of an episode in running means: over all at first, then over about SCALE_MEMORY ones."""
    return max(1.0 / (played + 1.0), 1.0 / SCALE_MEMORY)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def update_scales(q, policy, states, played, seen):
    """Move the scales and the responses towards those of an episode.

    q [J, H, A, S] is of the last evaluation, that of policy [H, A, S]; states [H+1] are those that the episode visited.
    """
    J, H, A, _ = q.shape
    weight = _weight_of_last(played)
    for j in range(J):
        total, response = 0.0, 0.0
        for h in range(H):
            x = states[h]
            first = q[j, h, 0, x]
            low, high, mean, square = first, first, 0.0, 0.0
            for a in range(1, A):
                value = q[j, h, a, x]
                low, high = min(low, value), max(high, value)
                mean += policy[h, a, x] * (value - first)
                square += policy[h, a, x] * (value - first) ** 2
            total += (high - low) ** 2
            response += max(square - mean**2, 0.0)
        scale = math.sqrt(total / H)
        seen.scales[j] = max(seen.scales[j] + weight * (scale - seen.scales[j]), LEAST_SCALE)
        if j > 0:
            seen.responses[j - 1] += weight * (response - seen.responses[j - 1])


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def update_variances(q, v, states, actions, observed, played, seen):
    """Move the variances towards the squared errors of an episode that was not among the data of q.

    q [J, H, A, S] and v [J, H+1, S] are of the last evaluation; states [H+1], actions [H] and observed [J, H] are those
    of the episode. An error is what was observed at a stage plus V of the next state, minus Q. Errors of different
    stages are uncorrelated, so the sum of their variances is that of the total.
    """
    for j in range(1, q.shape[0]):
        total = 0.0
        for h in range(actions.shape[0]):
            found = observed[j, h] + v[j, h + 1, states[h + 1]]
            total += (found - q[j, h, actions[h], states[h]]) ** 2
        seen.variances[j - 1] += _weight_of_last(played) * (total - seen.variances[j - 1])


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def move_dual(integral, targets, utility_estimates, rates, dual_bound, dual_total, dual):
    """Move the multipliers: Y = clip(I + kappa (b - V_g), 0, chi), where I is the clipped sum of line 9; arrays [I].

    The damping term kappa (b - V_g) keeps multiplier and policy from circling (Stooke, Achiam and Abbeel, 2020).
    Without it Y = I, as in Algorithm 1. Where dual_total is finite there is none, and every eta_i is the same.
    """
    I = dual.shape[0]
    if dual_total < math.inf:  # all steps are equal then
        update_dual(integral, targets, utility_estimates, rates[2], dual_bound, dual_total)
    for i in range(I):
        if dual_total == math.inf:
            each = slice(i, i + 1)
            update_dual(integral[each], targets[each], utility_estimates[each], rates[2 + i], dual_bound, dual_total)
        dual[i] = integral[i]
        if rates[2 + I + i] > 0.0:
            damped = integral[i] + rates[2 + I + i] * (targets[i] - utility_estimates[i])
            dual[i] = min(max(damped, 0.0), dual_bound)

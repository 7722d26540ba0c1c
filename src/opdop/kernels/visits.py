"""Visits of pairs of state and action, and all that is computed from them when an episode is counted.

With `Visits` a pair has a mean and a bonus, with `BallVisits` confidence sets. Successors are counted in
`opdop.kernels.counts`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.balls import l1_width, mean_width
from opdop.kernels.caching import njit
from opdop.kernels.parts import overload
from opdop.kernels.records import as_record
from opdop.kernels.sums import add_compensated
from opdop.kernels.trust import Trust, renew_visited

# Two observations of a deterministic signal that differ by more are not rounding.
SAME_SIGNAL = 1e-9


@as_record
class Visits(NamedTuple):
    """What is stored for every pair of state and action, in either form of the counts; flat over the pair, a*S + x."""

    touched: np.ndarray  # [H, S] bool: the state was visited at this stage, or at any stage if L = 1
    number: np.ndarray  # [L, S*A]: n(x, a)
    sums: np.ndarray  # [J, L, S*A]: observed signals added up
    lost: np.ndarray  # [J, L, S*A]: what rounding took from the sums so far (Kahan)
    inverse: np.ndarray  # [L, S*A]: 1 / (n + ridge)
    width: np.ndarray  # [L, S*A]: 1 / sqrt(n + ridge)
    work: np.ndarray  # [J, S*A]: room for sums
    spans: np.ndarray  # [J]: room for ranges of values
    radii: np.ndarray  # [H]
    ridge: float
    doubt: np.ndarray  # [L, S*A]: of the estimate; see `opdop.kernels.trust`
    trust: Trust


@as_record
class BallVisits(NamedTuple):
    """The same for confidence sets: an L1 ball for each row, and an interval for each signal; M = H or M = 1.

    Signals have M stages of their own, because the kernel may be stationary where the signals are not.
    """

    touched: np.ndarray  # [H, S] bool: as in `Visits`
    number: np.ndarray  # [L, S*A]: n(x, a)
    signal_number: np.ndarray  # [M, S*A]: how often the signals of a pair were observed
    sums: np.ndarray  # [J, M, S*A]: as in `Visits`
    lost: np.ndarray  # [J, M, S*A]
    upper: np.ndarray  # [J, M, S*A]: the upper end of the signal's interval; 1 before the first observation
    inverse: np.ndarray  # [L, S*A]: 1 / n; 0 before the first visit
    moved: np.ndarray  # [L, S*A]: n eps / 2, the visits that the ball may move to another successor; at most n
    order: np.ndarray  # [J, H, S] int64: room for the states in the order of their values
    work: np.ndarray  # [2, S*A]: room for sums
    refuted: np.ndarray  # [1] int64: 1 + (m*A + a)*S + x of a pair whose deterministic signal has changed, or 0
    log_sets: float  # of `l1_width`
    signal_log_sets: float  # of `mean_width`
    scale: float  # multiplies both widths; only 1 is certified
    noisy: bool


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def stored_stage(h, stages):
    """Return the slice that stage h reads of an array with one stage or with all: h % stages, without dividing."""
    return 0 if stages == 1 else h


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _touch(touched, h, x, stages):
    """Note a visit to a state at stage h, and at all stages that share its counts."""
    if not touched[h, x]:
        for k in range(stored_stage(h, stages), touched.shape[0], stages):
            touched[k, x] = True


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def count_pairs(visits, states, actions, observed):
    """Count the visits of an episode and its observed signals [J, H]."""
    touched, number, sums, lost = visits.touched, visits.number, visits.sums, visits.lost
    inverse, width, ridge = visits.inverse, visits.width, visits.ridge
    S, L, J = touched.shape[1], number.shape[0], observed.shape[0]
    for h in range(actions.shape[0]):
        k, pair = stored_stage(h, L), actions[h] * S + states[h]
        _touch(touched, h, states[h], L)
        number[k, pair] += 1.0
        for j in range(J):
            # Compensated, because rounding errors of 10^8 additions would add up.
            sums[j, k, pair], lost[j, k, pair] = add_compensated(sums[j, k, pair], lost[j, k, pair], observed[j, h])
        inverse[k, pair] = 1.0 / (number[k, pair] + ridge)
        width[k, pair] = math.sqrt(inverse[k, pair])


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _count_visits(visits, states, actions, observed):
    count_pairs(visits, states, actions, observed)
    renew_visited(visits, states, actions)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def _count_ball_visits(visits, states, actions, observed):
    """Count the visits of an episode and its signals, and write the new confidence sets of the visited pairs."""
    touched, number, signal_number, upper = visits.touched, visits.number, visits.signal_number, visits.upper
    sums, lost, log_sets, scale = visits.sums, visits.lost, visits.log_sets, visits.scale
    S, L, M = touched.shape[1], number.shape[0], signal_number.shape[0]
    for h in range(actions.shape[0]):
        pair = actions[h] * S + states[h]
        k, m = stored_stage(h, L), stored_stage(h, M)
        _touch(touched, h, states[h], L)
        n = number[k, pair] + 1.0
        number[k, pair] = n
        visits.inverse[k, pair] = 1.0 / n
        visits.moved[k, pair] = moved_visits(n, log_sets, scale)
        n = signal_number[m, pair] + 1.0
        signal_number[m, pair] = n
        width = scale * mean_width(n, visits.signal_log_sets) if visits.noisy and scale > 0.0 else 0.0
        for j in range(observed.shape[0]):
            sums[j, m, pair], lost[j, m, pair] = add_compensated(sums[j, m, pair], lost[j, m, pair], observed[j, h])
            if visits.noisy:
                upper[j, m, pair] = min(1.0, sums[j, m, pair] / n + width)
            elif n == 1.0:
                upper[j, m, pair] = observed[j, h]
            elif abs(upper[j, m, pair] - observed[j, h]) > SAME_SIGNAL:
                visits.refuted[0] = 1 + m * number.shape[1] + pair


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def moved_visits(n, log_sets, scale):
    """Return n eps / 2: of n visits to a pair, how many its ball may move to another successor; at most n."""
    if scale == 0.0:  # who only counts does not wait for logarithms
        return 0.0
    return n * min(1.0, 0.5 * scale * l1_width(n, log_sets))


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def renew_balls(visits):
    """Compute again what counting has written of the kernel's balls, from the numbers of visits."""
    for k in range(visits.number.shape[0]):
        for pair in range(visits.number.shape[1]):
            n = visits.number[k, pair]
            visits.inverse[k, pair] = 1.0 / n if n > 0.0 else 0.0
            visits.moved[k, pair] = moved_visits(n, visits.log_sets, visits.scale) if n > 0.0 else 0.0


def count_visits(visits, states, actions, observed):
    """Count the visits of one episode and its observed signals [J, H], in either kind of visits."""
    (_count_ball_visits if isinstance(visits, BallVisits) else _count_visits)(visits, states, actions, observed)


@overload(count_visits)
def _overload_count_visits(visits, states, actions, observed):
    return _count_ball_visits if visits.instance_class is BallVisits else _count_visits

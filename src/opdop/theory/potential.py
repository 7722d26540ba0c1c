"""The largest sum of bonuses that any run can have: pigeonhole sums of counts, and the elliptical potential.

These bounds hold for every sequence of episodes; nothing is random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opdop.algorithms.radius_rules import BallRadius, FeatureSizes, Radius, first_widths, linear_rule
from opdop.algorithms.task import Task
from opdop.kernels.lstd import Radii as LinearRadii
from opdop.kernels.lstd import kernel_radius, signal_radius
from opdop.model import InvalidParameterError
from opdop.model.validation import Floats


def pigeonhole(visits: float, top: float, scale: float, ridge: float, first: float = 0.0) -> float:
    """Return the integral from -1 to visits - 1 of min(top, scale / sqrt(max(t, 0) + ridge)).

    It is concave in `visits`, 0 at 0, and at least the sum of the integrand over t = 0, ..., visits - 1. So the sum
    over many cells whose visits add up to K is at most their number times this, at K divided by their number. Where the
    first visit is worth more, `first`, the integrand is that before t = 0, and all of this stays true.
    """
    if scale == 0.0:
        return 0.0
    flat = max((scale / top) ** 2 - ridge, 0.0)  # up to here the integrand is at its top
    highest = min(top, scale / math.sqrt(ridge))
    rest = math.sqrt(max(visits - 1.0, flat) + ridge) - math.sqrt(flat + ridge)
    extra = max(min(first, top) - highest, 0.0) * min(visits, 1.0)
    return highest * min(visits, 1.0 + flat) + 2.0 * scale * rest + extra


# Widths of balls are added up one by one for this many visits, and by an integral afterwards.
EXACT_VISITS = 4096


@lru_cache(maxsize=64)
def _first_widths_sums(log_sets: float) -> Floats:
    """Return the sums of min(1, 2 w_n) over n = 1, ..., N for N = 0, ..., `EXACT_VISITS`."""
    n = np.arange(1.0, EXACT_VISITS + 1.0)
    widths = np.sqrt(2.0 * (n + 1.0) * (log_sets + 0.5 * np.log(n + 1.0))) / n
    return np.concatenate([[0.0], np.cumsum(np.minimum(widths, 1.0))])


def ball_widths(visits: float, log_sets: float, late: int = 1) -> float:
    """Return at least the sum of g(max(0, j - late + 1)) over j = 0, ..., visits - 1: the widths at visits to one row.

    g(0) = 1 and g(n) = min(1, 2 w_n), w_n = `kernels.balls.mean_width`. `late` is the largest number of visits in one
    episode, none of which is counted before the episode ends. The sum is concave in `visits`, also between whole
    numbers, and 0 at 0: g does not increase while log_sets + log(n + 1) / 2 >= 1/2.

    Beyond M visits, 2 w_t = (t + 1) / t sqrt(2 L_t / (t + 1)) with L_t = log_sets + log(t + 1) / 2 is at most the same
    with (M + 1) / M. That has an integral in closed form, by Dawson's function, and does not increase either. M is
    `EXACT_VISITS`, or where 2 w_t falls below 1, if that is later.
    """
    return min(visits, float(late)) + _counted_widths(visits - late, log_sets)


def _counted_widths(last: float, log_sets: float) -> float:
    """Return at least the sum of g(n) over n = 1, ..., last; linear between whole numbers."""
    if log_sets == -math.inf or last <= 0.0:
        return 0.0
    if log_sets < 0.5:
        raise InvalidParameterError(f"log_sets is {log_sets:g}; expected at least 1/2, as a union bound below p/2 has.")
    sums = _first_widths_sums(log_sets)
    if last <= EXACT_VISITS:
        before = math.floor(last)
        return float(sums[before] + (last - before) * (sums[min(before + 1, EXACT_VISITS)] - sums[before]))
    change = _last_full_width(log_sets)
    if change <= EXACT_VISITS:
        change, total = float(EXACT_VISITS), float(sums[-1])
    else:
        total = min(change, last)
    if last <= change:
        return total
    return total + (change + 1.0) / change * (_root_integral(last, log_sets) - _root_integral(change, log_sets))


def _last_full_width(log_sets: float) -> float:
    """Return a whole number t with 2 w_t <= 1, found by doubling and bisection."""

    def full(t: float) -> bool:
        return 2.0 * (t + 1.0) * (log_sets + 0.5 * math.log(t + 1.0)) > t * t

    low, high = 1.0, 2.0
    while full(high):
        low, high = high, 2.0 * high
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (middle, high) if full(middle) else (low, middle)
    return high


def _root_integral(t: float, log_sets: float) -> float:
    """Return an integral of sqrt(2 (log_sets + log(t + 1) / 2) / (t + 1))."""
    s = math.sqrt(t + 1.0)
    root = math.sqrt(log_sets + math.log(s))
    from scipy.special import dawsn  # late, as in identities.py

    return 2.0 * math.sqrt(2.0) * s * (root - float(dawsn(root)))


def most_information(rows: float, dim: int, length: float, ridge: float) -> float:
    """Return the largest log det(Gram / ridge) of that many rows in R^dim, each of norm at most `length`."""
    return dim * math.log1p(rows * length**2 / (ridge * dim))


def most_potential(information: float) -> float:
    """Return the largest sum of min(1, width^2) over rows with this information.

    min(1, w) <= log(1 + w) / log 2 for w >= 0, and the logarithms add up to the information, whatever the rows' norms.
    """
    return information / math.log(2.0)


@dataclass(frozen=True, eq=False)
class CountBonuses:
    """The bonuses of Algorithm 3: what the two-sided bound allows is min(H - h, 4 radius_h / sqrt(n + ridge))."""

    radii: Floats  # [H]
    pairs: int  # S A
    ridge: float
    first: Floats  # [H]: width of a pair before its first visit, 1 / sqrt(ridge) unless optimistic_init makes it wider

    def most(self, episodes: float) -> float:
        """Return the largest sum over episodes and stages of what the two-sided bound allows, for any signal."""
        H, scales = len(self.radii), 4.0 * self.radii
        each = [
            pigeonhole(episodes / self.pairs, H - h, float(scales[h]), self.ridge, float(scales[h] * self.first[h]))
            for h in range(H)
        ]
        return self.pairs * sum(each)

    @property
    def settled_from(self) -> float:
        """The K from which on a certified `most`(K) / K does not increase, wherever a bound is not vacuous."""
        return 1.0


@dataclass(frozen=True, eq=False)
class BallBonuses:
    """The excess of an optimum over L1 balls: R g(n) for the kernel, R = H-1-h, and g(n) for the signals.

    g is that of `ball_widths`: 1 before the first visit, then the width of the set, at most 1. Where a kernel is pooled
    over stages, R is the number of m = 1, ..., H-1 with h < m, and the first m stages visit a row at most m times in an
    episode.
    """

    horizon: int
    pairs: int  # S A
    log_sets: float  # of the ball of one row; -inf where there is one successor
    signal_log_sets: float  # of the mean of one signal; -inf where signals are not random
    pooled: bool = False
    pooled_signals: bool = False

    def most(self, episodes: float) -> float:
        """Return the largest sum over episodes and stages of what the two-sided bound allows, for any signal."""
        H, N = self.horizon, episodes / self.pairs
        if self.pooled:
            kernel = math.fsum(ball_widths(m * N, self.log_sets, late=m) for m in range(1, H))
        else:
            kernel = ball_widths(N, self.log_sets) * H * (H - 1) / 2
        if self.pooled_signals:
            signal = ball_widths(H * N, self.signal_log_sets, late=H)
        else:
            signal = ball_widths(N, self.signal_log_sets) * H
        return self.pairs * (kernel + signal)

    @property
    def settled_from(self) -> float:
        """The K from which on `most`(K) / K does not increase: always, as `most` is concave and 0 at 0."""
        return 1.0


@dataclass(frozen=True, eq=False)
class LinearBonuses:
    """The bonuses of Algorithm 2: the two-sided bound allows min(H - h, 2 kernel bonus + 2 signal bonus)."""

    radii: LinearRadii
    sizes: FeatureSizes
    ridge: float

    def most(self, episodes: float) -> float:
        """Return the largest sum over episodes and stages of what the two-sided bound allows, for any signal."""
        H = len(self.radii.noise)
        return sum(self._kernel(h, H, episodes) + self._signal(h, H, episodes) for h in range(H))

    @property
    def settled_from(self) -> float:
        """The K from which on a certified `most`(K) / K does not increase, wherever a bound is not vacuous.

        The radius of random signals grows with the information, which grows as K until log(1 + K L^2 / (ridge d)) = 2.
        """
        length = self.sizes.signal_length
        if self.radii.signal_noise == 0.0 or self.sizes.blocks > 1 or length == 0.0:
            return 1.0
        return max(math.expm1(2.0) * self.ridge * self.sizes.signal_dim / length**2, 1.0)

    def _kernel(self, h: int, H: int, episodes: float) -> float:
        span = H - 1 - h
        if span == 0:
            return 0.0  # there is no value after the last stage
        dim = self.sizes.kernel_dim // self.sizes.blocks
        length = span * math.sqrt(dim)
        radius = float(kernel_radius(self.radii, h, most_information(episodes, dim, length, self.ridge)))
        return self._elliptical(H - h, radius, dim, length, episodes)

    def _signal(self, h: int, H: int, episodes: float) -> float:
        blocks, length = self.sizes.blocks, self.sizes.signal_length
        dim = self.sizes.signal_dim // blocks
        radius = float(signal_radius(self.radii, most_information(episodes, dim, length, self.ridge)))
        if dim == 1 and blocks > 1:
            return blocks * pigeonhole(episodes / blocks, H - h, 2.0 * radius, self.ridge)
        return self._elliptical(H - h, radius, dim, length, episodes)

    def _elliptical(self, top: int, radius: float, dim: int, length: float, episodes: float) -> float:
        """Sum of min(top, 2 radius width) <= max(top, 2 radius) sqrt(K potential), by Cauchy and Schwarz."""
        blocks = self.sizes.blocks
        in_all = blocks * most_information(episodes / blocks, dim, length, self.ridge)
        bound = max(top, 2.0 * radius) * math.sqrt(episodes * most_potential(in_all))
        return min(bound, top * episodes)


Bonuses = CountBonuses | BallBonuses | LinearBonuses


def bonuses_of(task: Task, rule: Radius | BallRadius, ridge: float, sizes: FeatureSizes | None) -> Bonuses:
    """Return the bonuses of a confidence rule, for counts or, given the features' sizes, for least squares."""
    pairs = task.num_states * task.num_actions
    if sizes is not None:
        return LinearBonuses(linear_rule(rule).linear_radii(task, sizes, ridge), sizes, ridge)
    if isinstance(rule, BallRadius):
        log_sets, signal_log_sets = rule.log_sets(task)
        signal = signal_log_sets if task.noisy else -math.inf
        together = task.stationary and task.stationary_signals
        return BallBonuses(task.horizon, pairs, log_sets, signal, task.stationary, together)
    return CountBonuses(rule.radii(task, ridge), pairs, ridge, first_widths(rule, task, ridge))

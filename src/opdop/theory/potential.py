"""The largest sum of bonuses that any run can have: the pigeonhole sum of counts and the elliptical potential.

These bounds hold for every sequence of episodes; nothing is random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opdop.algorithms.constants import FeatureSizes, Radius, first_widths, linear_rule
from opdop.algorithms.task import Task
from opdop.kernels.lstd import Radii as LinearRadii
from opdop.kernels.lstd import kernel_radius, signal_radius
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


Bonuses = CountBonuses | LinearBonuses


def bonuses_of(task: Task, rule: Radius, ridge: float, sizes: FeatureSizes | None) -> Bonuses:
    """Return the bonuses of a confidence rule, for counts or, given the features' sizes, for least squares."""
    if sizes is None:
        pairs = task.num_states * task.num_actions
        return CountBonuses(rule.radii(task, ridge), pairs, ridge, first_widths(rule, task, ridge))
    return LinearBonuses(linear_rule(rule).linear_radii(task, sizes, ridge), sizes, ridge)

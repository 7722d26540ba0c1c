"""Regret, violation and hard violation, computed from true values."""

from __future__ import annotations

import numpy as np

from opdop.kernels.sums import add_up
from opdop.model.validation import Floats


def increments(totals: Floats, optimal_value: float, thresholds: Floats) -> Floats:
    """Return what each episode adds: totals, regret, signed shortfall of each constraint, hard violation; [n, M].

    totals [n, 1+I] are the true expected totals of the episodes' policies. The hard violation of an episode is that of
    the constraint it violates most, at least 0, so that it never cancels. If there are several constraints, the hard
    violation of each follows. M is `size_of_increments(I)`.
    """
    n, I = len(totals), len(thresholds)
    steps = np.empty((n, size_of_increments(I)))
    steps[:, : 1 + I] = totals
    np.subtract(optimal_value, totals[:, 0], out=steps[:, 1 + I])
    shortfalls, hard = steps[:, 2 + I : 2 + 2 * I], steps[:, 2 + 2 * I]
    np.subtract(thresholds, totals[:, 1:], out=shortfalls)
    hard[:] = 0.0
    for i in range(I):  # NumPy's maximum over a short axis takes ten times as long
        np.maximum(hard, shortfalls[:, i], out=hard)
    if I > 1:
        np.maximum(shortfalls, 0.0, out=steps[:, 3 + 2 * I :])
    return steps


def size_of_increments(num_constraints: int) -> int:
    """Return M, the number of sums that `increments` adds to: 5 with one constraint, otherwise 3 + 3 I."""
    return 3 + (2 if num_constraints == 1 else 3) * num_constraints


class Sums:
    """Running sums with compensated rounding; they do not depend on the sizes of the pieces that are added."""

    def __init__(self, num_constraints: int) -> None:
        self.sums = np.zeros(size_of_increments(num_constraints))
        self.lost = np.zeros(size_of_increments(num_constraints))

    def add(self, steps: Floats) -> Floats:
        """Add increments [n, M]; return the running sums [n, M]."""
        running: Floats = add_up(np.ascontiguousarray(steps), self.sums, self.lost)
        return running


def violation(shortfall_sums: Floats) -> Floats:
    """Return the paper's violation from the signed sums [..., I]: the largest of them, at least 0."""
    worst: Floats = np.maximum(shortfall_sums.max(axis=-1), 0.0)
    return worst


def loglog_slope(episodes: Floats, values: Floats) -> float:
    """Return the slope of log(values) over log(episodes), both [n] and positive: the measured order of growth."""
    slope: float = np.polynomial.polynomial.polyfit(np.log(episodes), np.log(values), 1)[1]
    return float(slope)

"""Regret, violation and hard violation: what a run is measured by, from true values only."""

from __future__ import annotations

import numpy as np

from opdop.kernels.sums import add_up
from opdop.model.validation import Floats


def increments(totals: Floats, optimal_value: float, thresholds: Floats) -> Floats:
    """Return what each episode adds: totals, regret, signed shortfall of each constraint, hard violation; [n, 3+2I].

    totals [n, 1+I] are the true expected totals of the episodes' policies. The hard violation of an episode is that of
    the constraint it breaks most; it is never paid back.
    """
    shortfalls = thresholds - totals[:, 1:]
    hard = np.maximum(shortfalls.max(axis=1), 0.0)
    return np.column_stack([totals, optimal_value - totals[:, 0], shortfalls, hard])


class Sums:
    """The running sums of a run, exact to the last bits for any number of episodes, in pieces of any size."""

    def __init__(self, num_constraints: int) -> None:
        self.sums = np.zeros(3 + 2 * num_constraints)
        self.lost = np.zeros(3 + 2 * num_constraints)

    def add(self, steps: Floats) -> Floats:
        """Add increments [n, 3+2I]; return the running sums [n, 3+2I]."""
        running: Floats = add_up(np.ascontiguousarray(steps), self.sums, self.lost)
        return running


def violation(shortfall_sums: Floats) -> Floats:
    """Return the paper's violation from the signed sums [..., I]: of the worst constraint, and at least 0."""
    worst: Floats = np.maximum(shortfall_sums.max(axis=-1), 0.0)
    return worst


def loglog_slope(episodes: Floats, values: Floats) -> float:
    """Return the slope of log(values) over log(episodes): the measured order of growth."""
    slope: float = np.polynomial.polynomial.polyfit(np.log(episodes), np.log(values), 1)[1]
    return float(slope)

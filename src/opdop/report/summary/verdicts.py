"""Verdicts: which differences between groups of runs are statistically significant, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from opdop.model.rounding import digits_for, plain
from opdop.report.summary.groups import Metric, RealisedSection, Section
from opdop.report.summary.statistics import LEVEL, Difference, difference, holm


@dataclass(frozen=True)
class Verdict:
    """One comparison of two groups."""

    metric: Metric
    first: str
    second: str
    difference: Difference  # first minus second, in own units per episode
    p: float  # corrected

    @property
    def clear(self) -> bool:
        """Whether the difference is significant after correction."""
        return bool(self.p < 1.0 - LEVEL)

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        found, unit = self.difference, f" {self.metric.unit}".rstrip() + " per episode"
        runs = min(found.runs)
        if np.isnan(found.p):
            return f"not clear: a test needs at least 2 seeds in each group, and there is {runs}"
        if found.half == found.mean == 0.0:
            return f"no difference: the same in all {runs} seeds"
        digits = digits_for(found.half or found.mean)
        half = plain(found.half, digits)
        if not self.clear:
            about = f"{self.first} minus {self.second}: {plain(found.mean, digits)} ± {half}{unit}"
            return f"not clear at {runs} seeds ({about})"
        less, more = (self.first, self.second) if found.mean < 0.0 else (self.second, self.first)
        by = f"{plain(abs(found.mean), digits)} ± {half}{unit}"
        return f"clear: {less} has less {self.metric.name} than {more} by {by}"


def verdicts(section: Section | RealisedSection) -> list[Verdict]:
    """Compare every two groups of a problem in every metric."""
    tests = [
        (metric, first.label, second.label, difference(metric.per_episode(first), metric.per_episode(second)))
        for metric in section.metrics
        for first, second in combinations(section.groups, 2)
    ]
    corrected = holm([test[3].p for test in tests])
    return [Verdict(*test, p) for test, p in zip(tests, corrected, strict=True)]

"""Which differences between algorithms are more than chance, in words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from opdop.report.groups import Cost, Section
from opdop.report.statistics import LEVEL, Difference, difference, digits_for, holm, plain

METHOD = (
    "Differences of averages per episode between every two groups, in all three measures. A t test, paired by seed "
    "where both groups have the same seeds and Welch's otherwise; all tests of one problem are corrected together by "
    "Holm's method, so that with nothing but chance at work a wrong “clear” is in at most 5 % of such tables. ± is the "
    "95 % interval of the difference alone."
)


@dataclass(frozen=True)
class Verdict:
    """One comparison of two groups."""

    cost: Cost
    first: str
    second: str
    difference: Difference  # first less second, in own units per episode
    p: float  # corrected

    @property
    def clear(self) -> bool:
        """Whether the difference is more than chance."""
        return bool(self.p < 1.0 - LEVEL)

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        found, unit = self.difference, f" {self.cost.unit}".rstrip() + " per episode"
        runs = min(found.runs)
        if np.isnan(found.p):
            return f"not clear: with {runs} seed{'' if runs == 1 else 's'} chance cannot be judged"
        if found.half == found.mean == 0.0:
            return f"no difference: the same in all {runs} seeds"
        digits = digits_for(found.half or found.mean)
        half = plain(found.half, digits)
        if not self.clear:
            about = f"{self.first} less {self.second}: {plain(found.mean, digits)} ± {half}{unit}"
            return f"not clear at {runs} seeds ({about})"
        less, more = (self.first, self.second) if found.mean < 0.0 else (self.second, self.first)
        by = f"{plain(abs(found.mean), digits)} ± {half}{unit}"
        return f"clear: {less} has less {self.cost.name} than {more} by {by}"


def verdicts(section: Section) -> list[Verdict]:
    """Compare every two groups of a problem in every measure."""
    tests = [
        (cost, first.label, second.label, difference(cost.finals(first), cost.finals(second)))
        for cost in section.costs
        for first, second in combinations(section.groups, 2)
    ]
    corrected = holm([test[3].p for test in tests])
    return [Verdict(*test, p) for test, p in zip(tests, corrected, strict=True)]

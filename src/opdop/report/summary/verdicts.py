"""Which differences between algorithms are more than chance, in words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opdop.report.summary.groups import Cost, Section
from opdop.report.summary.statistics import LEVEL, Difference, band, difference, digits_for, holm, plain

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


def verdict_page(section: Section) -> RenderableType:
    """Return the costs of every group, and the verdicts, for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("per episode", overflow="fold")
    for cost in section.costs:
        table.add_column(f"{cost.name}\n{cost.unit}".rstrip(), justify="right")
    table.add_column("seeds", justify="right")
    for group in section.groups:
        costs = [band(np.array(list(cost.finals(group).values()))).text for cost in section.costs]
        table.add_row(group.label, *costs, f"{len(group.runs)}")
    lines = [
        Text(f"- {verdict.cost.name}: {verdict.words}", style="bold" if verdict.clear else "")
        for verdict in verdicts(section)
    ]
    return Lines(Text(section.name, style="bold cyan"), Text(""), table, Text(""), *lines, *[Text("")] * bool(lines))

"""Groups of runs that differ only in their seed, the groups of a problem, and their measures in own units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opdop.envs import environments, make
from opdop.model import OpdopError, TabularCMDP
from opdop.model.rounding import short_number
from opdop.model.validation import Floats
from opdop.report.summary.realised_summary import RealisedSummary
from opdop.report.summary.run_facts import RunFacts
from opdop.report.summary.run_summary import RunSummary
from opdop.report.summary.statistics import Band, band
from opdop.runs import Run, fingerprint


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed, in the order of their seeds."""

    label: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(run.config.seed for run in self.runs)

    @cached_property
    def summaries(self) -> tuple[RunSummary, ...]:
        """The summary of each run."""
        return tuple(RunSummary(run) for run in self.runs)

    @property
    def facts(self) -> RunFacts:
        """The first run, for what can be said of any run."""
        return RunFacts(self.runs[0])

    @property
    def episodes(self) -> int:
        """The number of episodes that every run has played."""
        return min(int(run.episodes[-1]) for run in self.runs)

    @cached_property
    def grid(self) -> Floats:
        """The episodes at which the runs are compared, [K'].

        These are all episodes that some run recorded, within the range that every run covers. Values between two
        records are interpolated linearly. Runs of one configuration are recorded at the same episodes.
        """
        recorded = [run.episodes for run in self.runs]
        first, last = max(each[0] for each in recorded), min(each[-1] for each in recorded)
        every = np.unique(np.concatenate(recorded))
        grid: Floats = every[(every >= first) & (every <= last)].astype(np.float64)
        return grid

    def column(self, name: str) -> Floats:
        """Return a column of the histories at the episodes of `grid`, [n, K']."""
        return np.array([np.interp(self.grid, run.episodes, run.columns[name]) for run in self.runs])

    def average(self, name: str) -> Floats:
        """Return a column of cumulative sums as averages per episode, [n, K']."""
        return self.column(name) / self.grid


@dataclass(frozen=True)
class Metric:
    """Regret, violation or hard violation, or a realised quantity where the model is not known, with its unit."""

    key: str  # its column in the history: a sum over all episodes so far
    scale: float  # own units in a model unit
    unit: str
    label: str = ""  # its name in sentences, if that is not the column's
    offset: float = 0.0  # of an episode, in own units
    kind: str = ""  # regret, violation or hard_violation; empty for a realised quantity

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return self.label or self.key.replace("_", " ")

    def totals(self, group: Group) -> Floats:
        """Return the sums over all episodes so far, at the episodes of the group's grid, in own units, [n, K']."""
        return self._own(group.column(self.key), group.grid)

    def per_episode(self, group: Group) -> dict[int, float]:
        """Return the average over all episodes of each run by seed, in own units."""
        found = {}
        for run in group.runs:
            episodes = run.episodes[-1:].astype(np.float64)
            found[run.config.seed] = float(self._own(run.columns[self.key][-1:], episodes)[0] / episodes[0])
        return found

    def _own(self, sums: Floats, episodes: Floats) -> Floats:
        """Return sums in own units; a violation is at least 0."""
        own: Floats = self.offset * episodes + self.scale * sums
        return np.maximum(own, 0.0) if self.kind == "violation" else own

    def text(self, group: Group) -> str:
        """Return the average over the runs of a group with its band; a single realised average has four digits."""
        found = band(list(self.per_episode(group).values()))
        return short_number(float(found.mean)) if found.runs == 1 and not self.kind else found.text


@dataclass(frozen=True, eq=False)
class Section:
    """All groups of one problem."""

    key: str  # a name for files that no other section has
    groups: tuple[Group, ...]
    label: str = ""  # the problem's name with what tells it apart, if other sections are of a problem of this name

    @property
    def summary(self) -> RunSummary:
        """The summary of the first run, for what all runs share: the problem, its optimum, its units."""
        return self.groups[0].summaries[0]

    @property
    def name(self) -> str:
        """The problem's name, with the parameters in which it differs from others of this name."""
        return self.label or self.summary.run.display.name

    @cached_property
    def cmdp(self) -> TabularCMDP | None:
        """The model, rebuilt from its name; None if no shipped problem has this name, or it has changed since."""
        run = self.summary.run
        if run.config.problem not in environments():
            return None  # code is not run because a folder names it
        try:
            built = make(run.config.problem, **run.config.problem_parameters)
        except OpdopError:
            return None
        cmdp = built.tabular()
        sizes = (cmdp.horizon, cmdp.num_states, cmdp.num_actions, len(cmdp.thresholds))
        same = sizes == (*self.summary.shape, len(run.thresholds)) and fingerprint(built) == run.origin.get("model")
        return cmdp if same else None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Regret, and the violation and the hard violation of each constraint, in own units."""
        reward, *constrained = self.summary.run.display.quantities
        found = [Metric("regret", abs(reward.scale), reward.unit, kind="regret")]
        for kind, column in (("violation", "shortfall"), ("hard_violation", "hard_violation")):
            for i, quantity in enumerate(constrained):
                several = len(constrained) > 1
                key = f"{column}_{i}" if several else kind
                label = f"{kind.replace('_', ' ')} of {quantity.name}" if several else ""
                # Runs of an earlier version have no hard violation of each of several constraints.
                if all(key in run.columns for group in self.groups for run in group.runs):
                    found.append(Metric(key, abs(quantity.scale), quantity.unit, label, kind=kind))
        return tuple(found)

    @property
    def seeds(self) -> int:
        """The largest number of runs in a group."""
        return max(len(group.runs) for group in self.groups)

    @property
    def total_runs(self) -> int:
        """The number of runs."""
        return sum(len(group.runs) for group in self.groups)


@dataclass(frozen=True, eq=False)
class RealisedSection:
    """All groups of one problem whose model is not known."""

    key: str  # a name for files that no other section has
    groups: tuple[Group, ...]
    label: str = ""  # the problem's name with what tells it apart, if other sections are of a problem of this name

    @cached_property
    def summaries(self) -> tuple[RealisedSummary, ...]:
        """The summary of each group's first run."""
        return tuple(RealisedSummary(group.runs[0]) for group in self.groups)

    @property
    def summary(self) -> RealisedSummary:
        """The summary of the first run, for what all runs share: the problem, its constraints, its units."""
        return self.summaries[0]

    @property
    def name(self) -> str:
        """The problem's name, with the parameters in which it differs from others of this name."""
        return self.label or self.summary.run.display.name

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The realised reward and each realised quantity with a limit, in own units."""
        keys = ["total_realised_reward", *(f"total_realised_utility_{i}" for i in range(len(self.summary.constraints)))]
        return tuple(
            Metric(key, quantity.scale, quantity.unit, f"realised {quantity.name}", quantity.offset)
            for key, quantity in zip(keys, self.summary.run.display.quantities, strict=True)
        )

    @property
    def seeds(self) -> int:
        """The largest number of runs in a group."""
        return max(len(group.runs) for group in self.groups)

    @property
    def total_runs(self) -> int:
        """The number of runs."""
        return sum(len(group.runs) for group in self.groups)


def average_band(group: Group, signal: int) -> Band:
    """Return the value of a group's average policies in one signal, in own units, over the seeds."""
    quantity = group.runs[0].display.quantities[signal]
    return band([quantity.shown(float(run.average.totals[signal])) for run in group.runs])


def final_band(group: Group, signal: int) -> Band:
    """Return the value of a group's final policies in one signal, in own units, over the seeds."""
    quantity = group.runs[0].display.quantities[signal]
    return band([quantity.shown(float(each.final_values.totals[signal])) for each in group.summaries])

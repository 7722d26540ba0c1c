"""The tables of the comparison."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

import opdop
from studies.general.cases import Case
from studies.peers.runs import REFUSED, Comparison, Measured

LEAST = 1e-6  # a share below this counts as this: an optimal policy has no logarithm
OPTIMUM = "the exact optimum"
PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
MEASURES = ("regret", "violation", "hard_violation", "late_regret", "late_violation", "late_hard_violation")
_BEGIN = re.compile(r"^\d+ problems, of which every algorithm covers", re.MULTILINE)  # of the tables in the page


def measure_optimum(case: Case) -> Measured:
    """Return the measures of runs that play the optimum of a problem in every episode, from its policy's values."""
    values = opdop.evaluate(case.cmdp, case.optimum.policy)
    regret, lacking = case.optimum.value - values.reward, float((case.cmdp.thresholds - values.utilities).max())
    lacking = max(lacking, 0.0)
    return Measured(1, regret, lacking, lacking, regret, lacking, lacking, reached=1, seconds=0.0)


def written(page: str, tables: str) -> str:
    """Return a page with other tables at its end; raises ValueError if it has none."""
    begin = _BEGIN.search(page)
    if begin is None:
        raise ValueError("the page has no tables of a comparison.")
    return page[: begin.start()] + tables.strip() + "\n"


class Tables:
    """Prints the tables of a comparison, with the algorithms in the order of their mean cost."""

    def __init__(self, comparison: Comparison) -> None:
        self.runs = comparison
        made = [
            name for name in comparison.algorithms if any(comparison.found(name, case) for case in comparison.cases)
        ]
        self.algorithms = sorted(made, key=lambda name: self.mean_cost(name, self._common(made)))
        self.common = self._common(made)

    def _common(self, algorithms: list[str]) -> list[Case]:
        """Return the problems that every algorithm covers."""
        return [case for case in self.runs.cases if all(self.runs.found(name, case) for name in algorithms)]

    def cost(self, run: Measured, case: Case, *, late: bool = False, cancels: bool = False) -> float:
        """Return the cost of an episode as a share of the uniform policy's: see `studies.general`.

        With `cancels` it contains the violation instead of the hard violation: slack cancels it.
        """
        regret, lacking = (run.late_regret, run.late_hard_violation) if late else (run.regret, run.hard_violation)
        if cancels:
            lacking = max(run.late_violation if late else run.violation, 0.0)
        return max(case.cost(regret, lacking) / case.uniform_cost, LEAST)

    def found(self, name: str, case: Case) -> list[Measured]:
        """Return the measured runs of an algorithm on a problem, or those of the optimum."""
        return [measure_optimum(case)] if name == OPTIMUM else self.runs.found(name, case)

    def share(self, name: str, case: Case, *, late: bool = False, cancels: bool = False) -> float:
        """Return the mean cost of an algorithm on a problem over the seeds."""
        runs = self.found(name, case)
        return float(np.mean([self.cost(run, case, late=late, cancels=cancels) for run in runs]))

    def mean_cost(self, name: str, cases: Iterable[Case], *, late: bool = False, cancels: bool = False) -> float:
        """Return the geometric mean of the costs over some problems."""
        shares = [self.share(name, case, late=late, cancels=cancels) for case in cases]
        return float(np.exp(np.mean(np.log(shares))))

    def text(self) -> str:
        """Return every table."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.print_all()
        return printed.getvalue()

    def print_all(self) -> None:
        """Print every table."""
        cases = self.runs.cases
        print(f"\n{len(cases)} problems, of which every algorithm covers {len(self.common)}.")
        self._print_commits()
        self._print_costs()
        self._print_measures()
        self._print_speed()
        self._print_verdicts()
        self._print_problems()

    def _print_commits(self) -> None:
        """Print with the code of which commits the runs were made."""
        made: dict[str, set[str]] = {}
        for (name, *_), commit in self.runs.commits.items():
            made.setdefault(name, set()).add(commit)
        groups: dict[str, list[str]] = {}
        for name in self.algorithms:
            groups.setdefault(", ".join(sorted(made.get(name, set()))), []).append(f"`{name}`")
        for commits, names in groups.items():
            print(f"Code of {commits}: {', '.join(names)}.")

    def _print_costs(self) -> None:
        print(
            "\n| algorithm | covers | cost, common | late | where slack cancels | late | cost, all covered | late |\n"
            "|---|--:|--:|--:|--:|--:|--:|--:|"
        )
        for name in (OPTIMUM, *self.algorithms):
            own = [case for case in self.runs.cases if self.found(name, case)]
            ways = ((self.common, False), (self.common, True), (own, False))
            costs = [
                self.mean_cost(name, group, late=late, cancels=cancels)
                for group, cancels in ways
                for late in (False, True)
            ]
            print(f"| {_shown(name)} | {len(own)} | {' | '.join(f'{cost:.3f}' for cost in costs)} |")

    def _print_measures(self) -> None:
        words = [measure.replace("_", " ") for measure in MEASURES]
        print(f"\nMeans over the {len(self.common)} common problems, per episode, in % of H.")
        print(f"\n| algorithm | {' | '.join(words)} |\n|---|" + "--:|" * len(words))
        for name in (OPTIMUM, *self.algorithms):
            cells = []
            for measure in MEASURES:
                each = [
                    np.mean([getattr(run, measure) for run in self.found(name, case)]) / case.cmdp.horizon
                    for case in self.common
                ]
                cells.append(f"{round(100.0 * float(np.mean(each)), 2) + 0.0:.2f}")
            print(f"| {_shown(name)} | {' | '.join(cells)} |")

    def _print_speed(self) -> None:
        print(
            "\n| algorithm | reached 5 % in | median episodes | certified within 10 % | median episodes | s per 1,000 |"
        )
        print("|---|--:|--:|--:|--:|--:|")
        for name in self.algorithms:
            reached, all_runs = [], 0
            for case in self.runs.cases:
                for run in self.runs.found(name, case):
                    all_runs += 1
                    reached += [run.reached] if run.reached is not None else []
            trails = [self.runs.certified(name, case) for case in self.runs.cases]
            tried = [found for found in trails if found != REFUSED]
            certified = [found for found in tried if found is not None]
            seconds = [run.seconds for case in self.common for run in self.runs.found(name, case)]
            cells = [f"{len(reached)} of {all_runs} runs", _median(reached)]
            cells += [f"{len(certified)} of {len(tried)}", _median(certified), f"{float(np.median(seconds)):.3f}"]
            print(f"| `{name}` | {' | '.join(cells)} |")

    def _print_verdicts(self, reference: str = "opdop") -> None:
        """Print how many times the reference's cost each algorithm has, and in how many problems it costs less or more.

        A problem counts where every run of one costs less than every run of the other.
        """
        heads = ["times its cost (95 %)", "cheaper", "dearer", "undecided"]
        print(f"\n| against `{reference}` | {' | '.join([*heads, 'late: ' + heads[0], *heads[1:]])} |")
        print("|---|" + "--:|" * 8)
        for name in self.algorithms:
            if name != reference and reference in self.algorithms:
                cells: list[object] = []
                for late in (False, True):
                    cells += [self._ratio(name, reference, late), *self._verdicts(name, reference, late)]
                print(f"| `{name}` | {' | '.join(map(str, cells))} |")
        others = [name for name in self.algorithms if name != reference]
        shares = [self._seed_share(name, reference, late) for name in others for late in (False, True)]
        most = 100.0 * max(shares, default=0.0)
        print(f"\nOf the variance of these means of logarithms, seeds make {most:.0f} % at most.")

    def _seed_share(self, name: str, reference: str, late: bool) -> float:
        """Return the share of the variance of the mean logarithm that more seeds would remove.

        That is the mean over the problems of the variance between seeds, to first order, by the variance between
        problems; problems with one seed are left out.
        """
        logs, between = [], []
        for case in self.runs.cases:
            costs = [
                np.array([self.cost(run, case, late=late) for run in self.runs.found(each, case)])
                for each in (name, reference)
            ]
            if min(map(len, costs)) > 1:
                logs.append(np.log(costs[0].mean() / costs[1].mean()))
                between.append(sum(each.var(ddof=1) / len(each) / each.mean() ** 2 for each in costs))
        return float(np.mean(between) / np.var(logs, ddof=1)) if len(logs) > 1 else 0.0

    def _ratio(self, name: str, reference: str, late: bool) -> str:
        """Return the geometric mean of the ratios of costs over the problems both cover, with its 95 % interval.

        The interval is Student's for the mean of the logarithms: problems are what varies.
        """
        both = [case for case in self.runs.cases if self.runs.found(name, case) and self.runs.found(reference, case)]
        logs = np.log([self.share(name, case, late=late) / self.share(reference, case, late=late) for case in both])
        if len(logs) < 2:
            return ""
        half = float(stdtrit(len(logs) - 1, 0.975) * logs.std(ddof=1) / np.sqrt(len(logs)))
        middle, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"

    def _verdicts(self, name: str, reference: str, late: bool) -> tuple[int, int, int]:
        cheaper = dearer = undecided = 0
        for case in self.runs.cases:
            ours, theirs = (
                [self.cost(run, case, late=late) for run in self.runs.found(each, case)] for each in (name, reference)
            )
            if ours and theirs:
                cheaper += max(ours) < min(theirs)
                dearer += min(ours) > max(theirs)
                undecided += not (max(ours) < min(theirs) or min(ours) > max(theirs))
        return cheaper, dearer, undecided

    def _print_problems(self) -> None:
        print("\nCost, and after the stroke late cost, of every problem; an empty cell is refused.")
        print(f"\n| problem | S, A, H, I | K | {' | '.join(f'`{name}`' for name in self.algorithms)} |")
        print("|---|---|--:|" + "--:|" * len(self.algorithms))
        for case in self.runs.cases:
            model = case.cmdp
            sizes = ", ".join(map(str, (model.num_states, model.num_actions, model.horizon, model.num_constraints)))
            shares = {name: self.share(name, case) for name in self.algorithms if self.runs.found(name, case)}
            least = min(shares.values(), default=0.0)
            cells = [self._cell(name, case, shares.get(name), least) for name in self.algorithms]
            print(f"| {case.name} | {sizes} | {self.runs.episodes(case):,} | {' | '.join(cells)} |")

    def _cell(self, name: str, case: Case, share: float | None, least: float) -> str:
        if share is None:
            return ""
        text = f"{share:.3f}" if share > least else f"**{share:.3f}**"
        return f"{text} / {self.share(name, case, late=True):.3f}"


def _shown(name: str) -> str:
    return name if name == OPTIMUM else f"`{name}`"


def _median(values: list[int]) -> str:
    return f"{float(np.median(values)):,.0f}" if values else ""

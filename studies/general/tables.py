"""The criterion of the study, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studies.general.cases import Case
from studies.general.runs import Measured, Results
from studies.general.settings import Setting

LEAST = 1e-6  # a share below this counts as this: an optimal policy has no logarithm


@dataclass(frozen=True)
class Table:
    """Settings compared on some problems, numbers of episodes and seeds."""

    results: Results
    cases: tuple[Case, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]

    def runs(self, setting: Setting, case: Case, episodes: int) -> list[Measured]:
        """Return the runs of a setting that were made."""
        found = [self.results.find(setting, case, episodes, seed) for seed in self.seeds]
        return [run for run in found if run is not None]

    def share(self, setting: Setting, case: Case, episodes: int, *, late: bool = False) -> float:
        """Return the cost as a share of the uniform policy's cost, averaged over seeds; NaN without runs."""
        runs = self.runs(setting, case, episodes)
        prefix = "late_" if late else ""
        costs = [case.cost(getattr(run, f"{prefix}regret"), getattr(run, f"{prefix}hard_violation")) for run in runs]
        return float(np.mean(costs)) / case.uniform_cost if costs else float("nan")

    def mean(self, setting: Setting, episodes: int, *, late: bool = False) -> float:
        """Return the geometric mean of the shares over the problems of this length that the algorithm covers."""
        cases = self.covered(setting, episodes)
        shares = [max(self.share(setting, case, episodes, late=late), LEAST) for case in cases]
        return float(np.exp(np.mean(np.log(shares)))) if shares else float("nan")

    def covered(self, setting: Setting, episodes: int) -> list[Case]:
        """Return the problems of this length with runs: an algorithm refuses those that its theory does not cover."""
        long = (case for case in self.cases if episodes in case.lengths(self.lengths))
        return [case for case in long if self.runs(setting, case, episodes)]

    def violations(self, setting: Setting, episodes: int, *, late: bool = False) -> list[float]:
        """Return the hard violation of each problem as a share of the uniform cost: in units of cost."""
        name = "late_hard_violation" if late else "hard_violation"
        found = []
        for case in self.cases:
            runs = self.runs(setting, case, episodes)
            if runs and episodes in case.lengths(self.lengths):
                mean = float(np.mean([getattr(run, name) for run in runs]))
                found.append(case.cost(0.0, mean) / case.uniform_cost)
        return found

    def spreads(self, setting: Setting, episodes: int) -> list[float]:
        """Return the spread of the multipliers of each problem as a share of max(Y*, 1)."""
        pairs = [(case, self.runs(setting, case, episodes)) for case in self.cases]
        return [
            float(np.mean([run.spread for run in runs])) / case.dual_scale
            for case, runs in pairs
            if runs and episodes in case.lengths(self.lengths)
        ]

    def print_settings(self, settings: Sequence[Setting]) -> None:
        """Print one row for each setting, the best first."""
        each = [f"K {length:,}" for length in self.lengths]
        violations = "hard violation", "late hard violation"
        columns = [*each, *(f"late {name}" for name in each), *violations, "spread", "problems"]
        print(f"\n| setting | {' | '.join(columns)} |\n|---|" + "--:|" * len(columns))
        for setting in sorted(settings, key=self.overall):
            cells = [self.mean(setting, length, late=late) for late in (False, True) for length in self.lengths]
            last = self.lengths[-1]
            cells += [
                float(np.mean(self.violations(setting, last))),
                float(np.mean(self.violations(setting, last, late=True))),
                float(np.median(self.spreads(setting, last))),
            ]
            problems = len(self.covered(setting, last))
            print(f"| `{setting.text}` | {' | '.join(f'{cell:.3f}' for cell in cells)} | {problems} |")

    def print_against(self, first: Setting, others: Sequence[Setting]) -> None:
        """Print, for each number of episodes, how other settings compare with the first one."""
        columns = ["cost", "hard violation", "late hard violation", "cheaper / dearer", "largest cost"]
        columns += ["median spread", "spread > 5 %"]
        for length in self.lengths:
            print(f"\nK {length:,}, relative to `{first.text}`:\n")
            print(f"| setting | {' | '.join(columns)} |")
            print("|---|" + "--:|" * len(columns))
            for setting in others:
                cases = self.covered(setting, length)
                shares = np.array([[self.share(each, case, length) for case in cases] for each in (first, setting)])
                hard, late = (
                    np.mean(self.violations(setting, length, late=late))
                    / np.mean(self.violations(first, length, late=late))
                    for late in (False, True)
                )
                spreads, worst = self.spreads(setting, length), int(np.argmax(shares[1]))
                cells = f"{self.mean(setting, length) / self.mean(first, length):.2f}", f"{hard:.2f}", f"{late:.3f}"
                counts = f"{np.sum(shares[1] < shares[0])} / {np.sum(shares[1] > shares[0])} of {len(cases)}"
                wide = f"{np.sum(np.array(spreads) > 0.05)} of {len(spreads)}"
                largest = f"{shares[1, worst]:.3f} ({cases[worst].name})"
                median = f"{np.median(spreads):.3f}"
                print(f"| `{setting.text}` | {' | '.join((*cells, counts, largest, median, wide))} |")

    def overall(self, setting: Setting) -> float:
        """Return the criterion: the geometric mean over problems and numbers of episodes."""
        return float(np.exp(np.mean([np.log(self.mean(setting, length)) for length in self.lengths])))

    def print_cases(self, settings: Sequence[Setting]) -> None:
        """Print the cost of every problem, each cell with the settings in order; then the late cost and the spread."""
        names = " / ".join(f"`{setting.text}`" for setting in settings)
        print(f"\nEach cell: {names}.\n")
        columns = [*(f"K {length:,}" for length in self.lengths), "late hard violation", "spread of Y / max(Y*, 1)"]
        print(f"| problem | S, A, H, I | {' | '.join(columns)} |\n|---|---|" + "--:|" * len(columns))
        for case in self.cases:
            if not case.lengths(self.lengths):
                continue  # too large for these lengths
            cmdp = case.cmdp
            cells = [", ".join(map(str, (cmdp.num_states, cmdp.num_actions, cmdp.horizon, cmdp.num_constraints)))]
            for length in self.lengths:
                played = length in case.lengths(self.lengths)
                shares = (f"{self.share(setting, case, length):.3f}" for setting in settings)
                cells.append(" / ".join(shares) if played else "")
            last = case.lengths(self.lengths)[-1]
            runs = [self.runs(setting, case, last) for setting in settings]
            cells.append(" / ".join(f"{np.mean([run.late_hard_violation for run in each]):.2g}" for each in runs))
            scale = case.dual_scale
            cells.append(" / ".join(f"{np.mean([run.spread for run in each]) / scale:.2g}" for each in runs))
            print(f"| {case.name} | {' | '.join(cells)} |")

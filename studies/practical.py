"""Choose the default parameters of `practical` over all shipped problems: `python -m studies.practical [FOLDER]`.

The search runs a coarse grid, then moves to a better neighbour until there is none. The final compares four settings on
other seeds and longer runs: the best of the search, the one nearest to `certified` among those that are nearly as good,
the former defaults, and `certified`. Finished runs are kept in FOLDER (results/practical), so the study can be
interrupted; use another folder after a change of the code.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

import opdop
from studies.common import MEASURES, per_episode

FACTOR = 2.0  # a unit of hard violation costs this many times the optimum's multipliers
SEARCH_LENGTHS, SEARCH_SEEDS = (2_000, 10_000), (0,)
FINAL_LENGTHS, FINAL_SEEDS = (2_000, 20_000, 100_000), (1, 2)
NEARLY = 1.15  # a setting whose criterion is within this factor of the best counts as nearly as good

PARAMETERS = ("radius_scale", "step_scale", "dual_step_scale", "ridge_scale", "optimistic_init")
COARSE = ((0.003, 0.03), (30.0, 300.0), (3.0, 30.0), (0.01, 1.0), (1e-9, 1.0))
LADDERS = (  # neighbours are one step up or down a ladder
    (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
    (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0),
    (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0),
    (0.0001, 0.001, 0.01, 0.1, 1.0),
    (1e-9, 0.1, 0.3, 1.0),
)


@dataclass(frozen=True)
class Setting:
    """A preset with values for its parameters."""

    preset: str
    parameters: tuple[float, ...] = ()

    @property
    def cells(self) -> str:
        """The values as the cells of a table row."""
        return (
            " | ".join(f"{value:g}" for value in self.parameters)
            if self.parameters
            else " | ".join(["-"] * len(PARAMETERS))
        )

    @property
    def title(self) -> str:
        """The name in a table."""
        return f"`{self.preset}`" + " before" * (self == FORMER)

    @property
    def by_name(self) -> dict[str, float]:
        """The parameters as `train` takes them."""
        return dict(zip(PARAMETERS, self.parameters, strict=False))  # certified has none

    @property
    def text(self) -> str:
        """The parameters as one line of text."""
        return ", ".join(f"{name} {value:g}" for name, value in self.by_name.items())

    @property
    def scaling(self) -> float:
        """The distance from the constants of `certified`: powers of ten, summed over the four scales."""
        return float(np.abs(np.log10(self.parameters[:4])).sum())

    def neighbours(self) -> Iterator[Setting]:
        """Return the settings that differ by one step of one parameter."""
        for place, ladder in enumerate(LADDERS):
            at = ladder.index(self.parameters[place])
            for other in ladder[max(at - 1, 0) : at + 2]:
                if other != self.parameters[place]:
                    yield Setting(self.preset, (*self.parameters[:place], other, *self.parameters[place + 1 :]))


FORMER = Setting("practical", (0.03, 30.0, 3.0, 1.0, 1e-9))
CERTIFIED = Setting("certified")


@dataclass(frozen=True)
class Case:
    """A problem and its algorithm; `most` limits the episodes, and slow cases are not `searched`, only in the final."""

    problem: str
    parameters: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "opdop"
    noisy: bool = False
    most: int = 100_000
    searched: bool = True

    @property
    def name(self) -> str:
        """The problem, its parameters and how it is learnt."""
        parts = [f"{name} {value:g}" for name, value in self.parameters.items()]
        parts += ["noisy"] * self.noisy + ["least squares"] * (self.algorithm == "opdop-lstd")
        return f"{self.problem} ({', '.join(parts)})" if parts else self.problem

    def lengths(self, wanted: Sequence[int]) -> list[int]:
        """Return the wanted numbers of episodes that are at most `most`."""
        return [length for length in wanted if length <= self.most]

    @cached_property
    def made(self) -> opdop.Problem:
        """The problem, which may have continuous states."""
        return opdop.make(self.problem, **self.parameters)

    @property
    def cmdp(self) -> opdop.TabularCMDP:
        """The finite model in which policies are measured."""
        return self.made.tabular()

    @cached_property
    def optimum(self) -> opdop.Optimum:
        """The exact optimum of the model."""
        return opdop.solve(self.cmdp)

    def cost(self, regret: float, hard_violation: float) -> float:
        """Return the cost in units of reward: never negative, and 0 only for an optimal policy."""
        return regret + FACTOR * float(self.optimum.dual.sum()) * hard_violation

    @cached_property
    def uniform_cost(self) -> float:
        """The cost of one episode of the uniform policy, with which every learner begins."""
        H, S, A = self.cmdp.horizon, self.cmdp.num_states, self.cmdp.num_actions
        values = opdop.evaluate(self.cmdp, np.full((H, S, A), 1.0 / A))
        lacking = max(float((self.cmdp.thresholds - values.utilities).max()), 0.0)
        return self.cost(self.optimum.value - values.reward, lacking)


CASES = (
    Case("factored"),
    Case("factored", {"states": 10, "stages": 12, "moves": 5}),
    Case("media-streaming"),
    Case("media-streaming", {"capacity": 19, "stages": 20, "fast_services": 8}),
    Case("media-streaming", noisy=True),
    Case("inventory"),
    Case("inventory", {"capacity": 8, "stages": 10}),
    Case("random-tabular"),
    Case("random-tabular", {"seed": 1}),
    Case("random-tabular", {"seed": 2}),
    Case("random-tabular", {"seed": 3}, noisy=True),
    Case("random-tabular", {"seed": 4, "states": 20, "actions": 4, "stages": 8}),
    Case("queue"),
    Case("gridworld", most=20_000, searched=False),
    Case("gridworld", {"size": 5}),
    Case("river-crossing"),
    Case("river-crossing", {"states": 8, "stages": 30}),
    Case("hospital-beds"),
    Case("random-mixture", algorithm="opdop-lstd", most=20_000),
    Case("random-mixture", {"states": 60}, algorithm="opdop-lstd", most=20_000, searched=False),
    Case("random-embedding", algorithm="opdop-lstd", most=20_000),
    Case("reservoir", algorithm="opdop-lstd", most=2_000, searched=False),
)


@dataclass(frozen=True)
class Measured:
    """The three measures of a run, per episode and in model units."""

    regret: float
    violation: float
    hard_violation: float


class RunCache:
    """Make runs and keep their measures in a file, one line for each run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "runs.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.known = {key: Measured(*values) for key, values in map(json.loads, lines)}

    def measure(self, case: Case, setting: Setting, episodes: int, seed: int) -> Measured:
        """Return the measures of a run, from the file if it has them."""
        key = json.dumps([case.name, setting.preset, *setting.parameters, episodes, seed])
        if key not in self.known:
            run = opdop.train(
                case.made,
                case.algorithm,
                episodes=episodes,
                seed=seed,
                preset=setting.preset,
                parameters=setting.by_name,
                noisy=case.noisy,
                records=2,
            )
            values = per_episode(run)
            with self.file.open("a") as file:
                file.write(json.dumps([key, values]) + "\n")
            self.known[key] = Measured(*values)
        return self.known[key]


@dataclass(frozen=True)
class Trial:
    """The cases, numbers of episodes and seeds on which settings are compared."""

    cache: RunCache
    cases: tuple[Case, ...]
    lengths: tuple[int, ...]
    seeds: tuple[int, ...]

    def mean(self, case: Case, setting: Setting, episodes: int) -> Measured:
        """Return the measures of a case, averaged over seeds."""
        runs = [self.cache.measure(case, setting, episodes, seed) for seed in self.seeds]
        return Measured(*(float(np.mean([getattr(run, name) for run in runs])) for name in MEASURES))

    def share(self, case: Case, setting: Setting, episodes: int) -> float:
        """Return the cost of a case as a share of the uniform policy's cost."""
        found = self.mean(case, setting, episodes)
        return case.cost(found.regret, found.hard_violation) / case.uniform_cost

    def shares(self, setting: Setting, lengths: Sequence[int] | None = None) -> list[float]:
        """Return the shares of all cases and numbers of episodes."""
        pairs = [(case, length) for case in self.cases for length in case.lengths(self.lengths)]
        return [self.share(case, setting, length) for case, length in pairs if lengths is None or length in lengths]

    def criterion(self, setting: Setting, lengths: Sequence[int] | None = None) -> float:
        """Return the geometric mean of the shares."""
        return float(np.exp(np.mean(np.log(self.shares(setting, lengths)))))

    def ranked(self, settings: Iterable[Setting], description: str) -> list[Setting]:
        """Return the settings, best first."""
        chosen = list(settings)
        with Progress(transient=True, console=Console(stderr=True)) as progress:
            for setting in progress.track(chosen, description=description):
                self.criterion(setting)
        return sorted(chosen, key=self.criterion)


def search(trial: Trial) -> list[Setting]:
    """Return every setting tried, best first: a coarse grid, then better neighbours of its best until there is none."""
    tried = {FORMER, *(Setting("practical", parameters) for parameters in itertools.product(*COARSE))}
    best = trial.ranked(tried, "coarse grid")[0]
    while True:
        around = set(best.neighbours())
        tried |= around
        found = trial.ranked([best, *around], "steps around the best")[0]
        if found == best:
            return trial.ranked(tried, "all")
        best = found


def print_settings(title: str, trial: Trial, settings: Sequence[Setting]) -> None:
    """Print a table of settings with their criterion."""
    print(f"\n{title}\n")
    lengths = " | ".join(f"K {length:,}" for length in trial.lengths)
    print(f"| preset | {' | '.join(PARAMETERS)} | all | {lengths} |")
    print("|---|" + "--:|" * (len(PARAMETERS) + 1 + len(trial.lengths)))
    for setting in settings:
        each = " | ".join(f"{trial.criterion(setting, [length]):.3f}" for length in trial.lengths)
        print(f"| {setting.title} | {setting.cells} | {trial.criterion(setting):.3f} | {each} |")


def print_cases(trial: Trial, settings: Sequence[Setting]) -> None:
    """Print the measures of some settings for every case at its largest K, in the problem's own units."""
    print("\n| problem | K | regret | violation | hard violation | cost |")
    print("|---|--:|--:|--:|--:|--:|")
    for case in trial.cases:
        length = case.lengths(trial.lengths)[-1]
        found = [trial.mean(case, setting, length) for setting in settings]
        reward, constrained, *_ = case.cmdp.display.quantities
        scales = (("regret", reward), ("violation", constrained), ("hard_violation", constrained))
        cells = [
            " / ".join(_short(getattr(each, name) * abs(quantity.scale)) for each in found) + f" {quantity.unit}"
            for name, quantity in scales
        ]
        costs = " / ".join(f"{trial.share(case, setting, length):.3f}" for setting in settings)
        print(f"| {case.name} | {length:,} | {' | '.join(cells)} | {costs} |")


def print_multipliers(settings: Sequence[Setting], episodes: int, seed: int) -> None:
    """Print how near the multiplier is to the optimal one, Y*, in the second half of a run on one problem."""
    cmdp = opdop.make("media-streaming")
    price = float(opdop.solve(cmdp).dual[0])
    print(f"\nmedia-streaming, {episodes:,} episodes: the multiplier in the second half, where Y* is {price:.3f}\n")
    print(f"| preset | {' | '.join(PARAMETERS)} | mean | spread | final |")
    print("|---|" + "--:|" * (len(PARAMETERS) + 3))
    for setting in settings:
        run = opdop.train(cmdp, episodes=episodes, seed=seed, preset=setting.preset, parameters=setting.by_name)
        dual = run.history.filter(run.history["episode"] > episodes // 2)["dual_0"].to_numpy()
        print(f"| {setting.title} | {setting.cells} | {dual.mean():.3f} | {dual.std():.3f} | {dual[-1]:.3f} |")


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def print_losses(trial: Trial, winner: Setting, others: dict[str, Setting]) -> None:
    """Print where the winner is worse than other settings: for each measure, in model units."""
    pairs = [(case, length) for case in trial.cases for length in case.lengths(trial.lengths)]
    for (name, other), measure in itertools.product(others.items(), MEASURES):
        lost = []
        for case, length in pairs:
            mine, its = (getattr(trial.mean(case, setting, length), measure) for setting in (winner, other))
            if mine > its:
                lost.append(f"{case.name} at K {length:,} ({mine:.2g} against {its:.2g})")
        line = f"- {measure.replace('_', ' ')}, against {name}: more in {len(lost)} of {len(pairs)}"
        print(f"{line}: {'; '.join(lost)}" if lost else line)
    for name, other in others.items():
        more = sum(trial.share(case, winner, length) > trial.share(case, other, length) for case, length in pairs)
        print(f"- cost, against {name}: more in {more} of {len(pairs)}")


def print_by_evaluator(trial: Trial, ranking: Sequence[Setting], winner: Setting) -> None:
    """Print the best of the search for counts alone, and for least squares alone."""
    for name, algorithm in (("counts", "opdop"), ("least squares", "opdop-lstd")):
        cases = tuple(case for case in trial.cases if case.algorithm == algorithm)
        alone = Trial(trial.cache, cases, trial.lengths, trial.seeds)
        best = min(ranking, key=alone.criterion)
        found = " / ".join(f"{alone.criterion(setting):.3f}" for setting in (best, winner, FORMER))
        print(f"- {name}: best {best.text}; the best / the winner / before: {found}")


def main() -> None:
    """Run the study and print its tables."""
    cache = RunCache(Path(sys.argv[1] if len(sys.argv) > 1 else "results/practical"))
    quick = Trial(cache, tuple(case for case in CASES if case.searched), SEARCH_LENGTHS, SEARCH_SEEDS)
    ranking = search(quick)
    print_settings(f"Search: the best ten of {len(ranking)}, and the former defaults", quick, [*ranking[:10], FORMER])
    best = ranking[0]
    good = [setting for setting in ranking if quick.criterion(setting) <= NEARLY * quick.criterion(best)]
    mild = min(good, key=lambda setting: setting.scaling)
    alike = [setting for setting in ranking if setting.parameters[:3] == best.parameters[:3]]
    print_settings("Search: its best with other ridge_scale and optimistic_init, as far as tried", quick, alike[:6])
    final = Trial(cache, CASES, FINAL_LENGTHS, FINAL_SEEDS)
    settings = final.ranked({best, mild, FORMER, CERTIFIED}, "final, other seeds")
    print_settings(f"Final: seeds {FINAL_SEEDS}", final, settings)
    winner = mild if final.criterion(mild) <= NEARLY * final.criterion(settings[0]) else settings[0]
    print(f"\nThe winner: {winner.text}.")
    print_multipliers(settings, max(FINAL_LENGTHS), FINAL_SEEDS[0])
    print("\nEach cell: the winner / before / certified.")
    print_cases(final, (winner, FORMER, CERTIFIED))
    print("\nWhere the winner is worse, per episode and in model units:\n")
    print_losses(final, winner, {"before": FORMER, "certified": CERTIFIED})
    print("\nThe search, by evaluator:\n")
    print_by_evaluator(quick, ranking, winner)


if __name__ == "__main__":
    main()

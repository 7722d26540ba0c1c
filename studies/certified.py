"""The preset `certified` before and after L1 balls: `python -m studies.certified [LARGEST_K] [SEEDS]`.

Each case is learnt with the former constants (the paper's step sizes and mixing, and Weissman's
radius for a planned number of visits), with today's for a kernel of every stage, and with today's as the problem
declares it: pooled where the kernel is the same at every stage. The cost is that of docs/practical.md, as a share of
the uniform policy's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import opdop
from opdop import LSTD, OPDOP, Counts, Task
from opdop.algorithms import SelfNormalisedRadius, WeissmanRadius, choose
from studies.common import numbers_from, per_episode
from studies.general.cases import Case

FORMER, BY_STAGE, DECLARED = "former", "by stage", "as declared"
AIM = 1.0 / 3.0


@dataclass(frozen=True)
class Version(Case):
    """A shipped problem with parameters of its own, and how it is learnt; `most` limits the episodes."""

    parameters: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "opdop"
    noisy: bool = False
    most: int = 100_000

    @property
    def name(self) -> str:
        """The problem, its parameters and how it is learnt."""
        parts = [f"{name} {value:g}" for name, value in self.parameters.items()]
        parts += ["noisy"] * self.noisy + ["least squares"] * (self.algorithm == "opdop-lstd")
        return f"{self.problem} ({', '.join(parts)})" if parts else self.problem

    @cached_property
    def made(self) -> opdop.Problem:
        """The problem."""
        return opdop.make(self.problem, **self.parameters)


CASES = (
    Version("factored"),
    Version("factored", parameters={"states": 10, "stages": 12, "moves": 5}),
    Version("media-streaming"),
    Version("media-streaming", parameters={"capacity": 19, "stages": 20, "fast_services": 8}),
    Version("media-streaming", noisy=True),
    Version("inventory"),
    Version("inventory", parameters={"capacity": 8, "stages": 10}),
    Version("random-tabular"),
    Version("random-tabular", parameters={"seed": 1}),
    Version("random-tabular", parameters={"seed": 2}),
    Version("random-tabular", parameters={"seed": 3}, noisy=True),
    Version("random-tabular", parameters={"seed": 4, "states": 20, "actions": 4, "stages": 8}),
    Version("queue"),
    Version("gridworld", most=20_000),
    Version("gridworld", parameters={"size": 5}),
    Version("river-crossing"),
    Version("river-crossing", parameters={"states": 8, "stages": 30}),
    Version("hospital-beds"),
    Version("random-mixture", algorithm="opdop-lstd", most=20_000),
    Version("random-mixture", parameters={"states": 60}, algorithm="opdop-lstd", most=20_000),
    Version("random-embedding", algorithm="opdop-lstd", most=20_000),
)


def former_learner(task: Task, algorithm: str) -> OPDOP:
    """Return `certified` as it was before: the step sizes of `paper`, and bonuses instead of balls."""
    steps = choose(task, "paper")
    counts = algorithm == "opdop"
    evaluator = Counts(task, radius=WeissmanRadius()) if counts else LSTD(task, radius=SelfNormalisedRadius())
    return OPDOP(
        task,
        evaluator,
        step_size=steps.step_size,
        dual_step_size=steps.dual_step_size,
        mixing=steps.mixing,
        dual_bound=steps.dual_bound,
    )


def share(case: Version, how: str, episodes: int, seed: int) -> float:
    """Return the cost of a run as a share of the uniform policy's cost."""
    common = {"episodes": episodes, "seed": seed, "noisy": case.noisy, "records": 2}
    if how == FORMER:
        task = Task.of(case.made, episodes=episodes, noisy=case.noisy)
        run = opdop.train(case.made, former_learner(task, case.algorithm), **common)
    else:
        stationary = False if how == BY_STAGE else None
        run = opdop.train(case.made, case.algorithm, preset="certified", stationary=stationary, **common)
    regret, _, hard_violation = per_episode(run)
    return case.cost(regret, hard_violation) / case.uniform_cost


def row(case: Version, most: int, seeds: Iterable[int]) -> tuple[int, list[float]]:
    """Return the number of episodes of a case, and its cost each way, averaged over seeds."""
    episodes = min(case.most, most)
    ways = (FORMER, BY_STAGE, DECLARED)
    return episodes, [float(np.mean([share(case, how, episodes, seed) for seed in seeds])) for how in ways]


def main() -> None:
    """Print the table, one row as soon as it is known."""
    most, seeds = numbers_from(sys.argv[1:], [100_000, 1])
    print("| problem | K | former | by stage | as declared | as declared / former |")
    print("|---|--:|--:|--:|--:|--:|")
    ratios = []
    for case in CASES:
        episodes, costs = row(case, most, range(1, seeds + 1))
        ratios.append(costs[2] / costs[0])
        print(
            f"| {case.name} | {episodes:,} | {' | '.join(f'{cost:.3f}' for cost in costs)} | {ratios[-1]:.3f} |",
            flush=True,
        )
    reached = sum(ratio <= AIM for ratio in ratios)
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"\nAt most a third of the former cost in {reached} of {len(ratios)} cases; geometric mean {mean:.3f}.")


if __name__ == "__main__":
    main()

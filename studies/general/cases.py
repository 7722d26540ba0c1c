"""The problems of the study, and what a policy costs in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import opdop
from opdop.envs.families import draw, families

FACTOR = 2.0  # a unit of hard violation costs this many times the optimum's multipliers
LONGEST = {"reservoir": 2_000}  # with continuous states each episode takes longer than the one before
TRAINING_SEEDS, VALIDATION_SEEDS = (0, 1), (100, 101)
FIXED = ("frozen-lake-4x4", "frozen-lake-8x8", "cliff-walking", "taxi")  # only the threshold is random: one seed
HALVES = ("training", "validation")


@dataclass(frozen=True)
class Case:
    """One problem: a shipped one (no seed), or that of a family and a seed."""

    problem: str
    seed: int | None = None

    @property
    def name(self) -> str:
        """The problem and its seed."""
        return self.problem if self.seed is None else f"{self.problem} {self.seed}"

    @cached_property
    def made(self) -> opdop.Problem:
        """The problem, which may have continuous states."""
        return opdop.make(self.problem) if self.seed is None else draw(self.problem, self.seed)

    @property
    def noisy(self) -> bool:
        """Whether learners observe random signals."""
        return self.seed is not None and families()[self.problem].noisy

    @property
    def linear(self) -> bool:
        """Whether the problem has features, so that Algorithm 1 learns by least squares."""
        return self.made.learner_features is not None

    @property
    def cmdp(self) -> opdop.TabularCMDP:
        """The finite model in which policies are measured."""
        return self.made.tabular()

    @cached_property
    def optimum(self) -> opdop.Optimum:
        """The exact optimum of the model."""
        return opdop.solve(self.cmdp)

    def lengths(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return the numbers of episodes that this problem is run for."""
        return tuple(length for length in wanted if length <= LONGEST.get(self.problem, length))

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

    @cached_property
    def dual_scale(self) -> float:
        """What the spread of multipliers is compared with: max(Y*, 1), 1 being the scale of rewards in one stage."""
        return max(float(self.optimum.dual.max()), 1.0)


def cases(half: str, draws: Sequence[int] = ()) -> tuple[Case, ...]:
    """Return the problems of a half, drawn with other seeds than usual if `draws` says so.

    The shipped problems belong to the validation half.
    """
    seeds = tuple(draws) or (TRAINING_SEEDS if half == "training" else VALIDATION_SEEDS)
    drawn = [Case(name, seed) for name in families(half) for seed in (seeds[:1] if name in FIXED else seeds)]
    shipped = [Case(name) for name in opdop.environments()] if half == "validation" else []
    return (*drawn, *shipped)

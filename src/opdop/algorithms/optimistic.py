"""Optimistic planning on confidence sets: OptCMDP of Efroni, Mannor and Pirotta (2020), without a linear program.

"Exploration-Exploitation in Constrained MDPs", Algorithm 1. The confidence set is that of certificates: an L1 ball for
each row of the kernel and an interval for each signal, for all numbers of visits at once. The optimum over policies and
kernels of the set is found by the dual walk, or by column generation if there are several constraints. What is played
is one Markov policy with the mixed occupancy of the corners on both sides of the best multipliers, each under its own
optimistic kernel: see `opdop.confidence.markov_policy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.radius_rules import BallRadius, rule_data
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import GROWTH, Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations, TabularSet, optimistic_policy
from opdop.confidence.tabular_set import as_balls
from opdop.kernels.balls import Balls
from opdop.model.validation import Floats


@dataclass(frozen=True)
class OptimisticConstants:
    """The scale of the widths of the confidence set, and how often it plans."""

    radius_scale: float
    growth: float


def _certified(task: Task, dual_bound: float | None) -> OptimisticConstants:
    """The whole confidence set: with probability 1 - p no plan is worse than the optimum."""
    return OptimisticConstants(1.0, GROWTH)


def _practical(
    task: Task, dual_bound: float | None, radius_scale: float = 1e-7, growth: float = GROWTH
) -> OptimisticConstants:
    """The confidence set with narrower balls and intervals; no guarantee, use `certified` for data to be certified."""
    return OptimisticConstants(radius_scale, growth)


@dataclass(frozen=True, eq=False)
class NarrowedSet:
    """A confidence set whose balls and intervals of visited pairs are narrower by a factor.

    A pair that was never visited may still lead anywhere, with any signals.
    """

    whole: TabularSet
    scale: float
    observations: Observations = field(init=False)
    widths: Floats = field(init=False)  # [L*S*A]
    signal_up: Floats = field(init=False)  # [1+I, M, S, A]

    def __post_init__(self) -> None:
        data, up = self.whole.observations, self.whole.signal_up
        means = data.signal_means().reshape(up.shape)
        known = np.broadcast_to((data.signal_number > 0).reshape(up.shape[1:]), up.shape)
        values = {
            "observations": data,
            "widths": np.where(data.number > 0, self.scale * self.whole.widths, self.whole.widths),
            "signal_up": np.where(known, means + self.scale * (up - means), up),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def balls(self, weights: Any) -> Balls:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        return as_balls(self.observations, self.widths, self.whole.unseen, weights)


class OptimisticPlanner:
    """Plans for the best policy together with the best kernel that the data allow.

    With probability 1 - p, for all plans at once, the estimated reward is at least the optimum's, if `radius_scale` is
    1. A smaller one makes the balls and intervals narrower.
    """

    def __init__(self, failure_probability: float, radius_scale: float = 1.0) -> None:
        self.failure_probability, self.radius_scale = failure_probability, radius_scale

    def plan(self, data: Observations) -> Plan:
        """Return the optimistic plan."""
        whole = TabularSet(data, self.failure_probability)
        kernels = whole if self.radius_scale == 1.0 else NarrowedSet(whole, self.radius_scale)
        policy, mixture = optimistic_policy(kernels, data.thresholds)
        return Plan(policy, mixture.totals, mixture.dual)

    def described(self) -> dict[str, Any]:
        """Return the planner's name and its confidence rule."""
        scale = {} if self.radius_scale == 1.0 else {"radius_scale": self.radius_scale}
        return {"planner": "optimistic", "radius": rule_data(BallRadius()), **scale}


@algorithm(
    "optimistic",
    summary="OptCMDP: plans for the best that the data allow, again when they have grown by 2 %",
    presets={"certified": _certified, "practical": _practical},
)
def optimistic(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner."""
    constants: OptimisticConstants = preset.constants(task)
    planner = OptimisticPlanner(task.failure_probability, constants.radius_scale)
    return ReplanningLearner(task, planner, growth=constants.growth, constants={"preset": preset.name})

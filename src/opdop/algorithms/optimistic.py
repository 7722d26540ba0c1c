"""Optimistic planning on confidence sets: OptCMDP of Efroni, Mannor and Pirotta (2020), without a linear program.

"Exploration-Exploitation in Constrained MDPs", Algorithm 1. The confidence set is that of certificates: an L1 ball for
each row of the kernel and an interval for each signal, for all numbers of visits at once. The optimum over policies and
kernels of the set is found by the dual walk, or by column generation if there are several constraints. What is played
is one Markov policy with the mixed occupancy of the corners on both sides of the best multipliers, each under its own
optimistic kernel: see `opdop.confidence.markov_policy`.
"""

from __future__ import annotations

from typing import Any

from opdop.algorithms.constants import Preset
from opdop.algorithms.radius_rules import BallRadius, rule_data
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations, TabularSet, optimistic_policy


def _confidence(task: Task, dual_bound: float | None) -> None:
    """The failure probability is the only constant, so `certified` and `practical` are the same."""


class OptimisticPlanner:
    """Plans for the best policy together with the best kernel that the data allow.

    With probability 1 - p, for all plans at once, the estimated reward is at least the optimum's.
    """

    def __init__(self, failure_probability: float) -> None:
        self.failure_probability = failure_probability

    def plan(self, data: Observations) -> Plan:
        """Return the optimistic plan."""
        kernels = TabularSet(data, self.failure_probability)
        policy, mixture = optimistic_policy(kernels, data.thresholds)
        return Plan(policy, mixture.totals, mixture.dual)

    def described(self) -> dict[str, Any]:
        """Return the planner's name and its confidence rule."""
        return {"planner": "optimistic", "radius": rule_data(BallRadius())}


@algorithm(
    "optimistic",
    summary="OptCMDP: plans for the best that the data allow, again when they have grown by 2 %",
    presets={"certified": _confidence, "practical": _confidence},
)
def optimistic(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner."""
    planner = OptimisticPlanner(task.failure_probability)
    return ReplanningLearner(task, planner, constants={"preset": preset.name})

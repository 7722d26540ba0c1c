"""The uniform policy as a baseline: it plays every action with the same probability, and only counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations
from opdop.model import TabularPolicy

_NEVER = 1e12  # the growth of the data after which the same plan would be made again


class UniformPlanner:
    """Plans to play every action with the same probability, whatever the data; its estimates and multipliers are 0."""

    def plan(self, data: Observations) -> Plan:
        """Return the uniform policy for the sizes of the data."""
        policy = TabularPolicy.uniform(data.horizon, data.num_states, data.num_actions)
        return Plan(policy, np.zeros(1 + data.num_constraints), np.zeros(data.num_constraints))

    def described(self) -> dict[str, Any]:
        """Return the planner's name."""
        return {"planner": "uniform"}


def _nothing(task: Task, dual_bound: float | None) -> None:
    """It has no constants."""


@algorithm(
    "uniform", summary="Plays every action with the same probability: a baseline", presets={"practical": _nothing}
)
def uniform(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner; its data can be certified as any other's."""
    return ReplanningLearner(task, UniformPlanner(), growth=_NEVER, constants={"preset": preset.name})

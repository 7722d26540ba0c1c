"""Certainty equivalence with optimism where data are missing, planned again as the data grow.

The plan trusts the means of all pairs seen often enough. A pair seen less often may lead to any state with the largest
signals, so that it is tried. While data are few the plan asks for more than the thresholds, by a margin that falls with
the number of episodes; this keeps early violation down. There is no guarantee before the run; its data can be certified
after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import GROWTH, Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations, optimistic_policy
from opdop.confidence.tabular_set import as_balls
from opdop.kernels.balls import Balls
from opdop.model.validation import Floats

LEAST_VISITS = 2.0
MARGIN = 0.000865


@dataclass(frozen=True, eq=False)
class TrustedMeans:
    """The empirical kernel and signals of rows seen at least `least` times, and anything for other rows."""

    observations: Observations
    least: float = LEAST_VISITS
    widths: Floats = field(init=False)  # [L*S*A]: 0 or 2
    signal_up: Floats = field(init=False)  # [1+I, M, S, A]

    def __post_init__(self) -> None:
        data = self.observations
        shape = 1 + data.num_constraints, -1, data.num_states, data.num_actions
        known = data.signal_number >= self.least
        object.__setattr__(self, "widths", np.where(data.number >= self.least, 0.0, 2.0))
        object.__setattr__(self, "signal_up", np.where(known, data.signal_means(), 1.0).reshape(shape))

    def balls(self, weights: Any) -> Balls:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        return as_balls(self.observations, self.widths, np.ones(len(self.widths)), weights)


class CertaintyEquivalence:
    """Plans as if the means were the truth, for the thresholds and a margin.

    The margin after n episodes is `margin` H / (2 sqrt(n)): that many standard deviations of the mean of n totals, if
    they were as spread as totals in [0, H] can be.
    """

    def __init__(self, *, least_visits: float = LEAST_VISITS, margin: float = MARGIN) -> None:
        self.least_visits, self.margin = least_visits, margin

    def plan(self, data: Observations) -> Plan:
        """Return the plan; where the margin cannot be reached, for as much of it as can."""
        episodes = data.observed / data.horizon
        margin = self.margin * data.horizon / (2.0 * math.sqrt(max(episodes, 1.0)))
        policy, mixture = optimistic_policy(TrustedMeans(data, self.least_visits), data.thresholds + margin)
        return Plan(policy, mixture.totals, mixture.dual)

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers."""
        return {"planner": "certainty equivalence", "least_visits": self.least_visits, "margin": self.margin}


@dataclass(frozen=True)
class ReplanConstants:
    """Visits after which a mean is trusted, the margin, and how often it plans."""

    least_visits: float
    margin: float
    growth: float


def _practical(
    task: Task,
    dual_bound: float | None,
    least_visits: float = LEAST_VISITS,
    margin: float = MARGIN,
    growth: float = GROWTH,
) -> ReplanConstants:
    """It has no proven constants; for a learner with proven confidence sets, use `optimistic` with `certified`."""
    return ReplanConstants(least_visits, margin, growth)


@algorithm(
    "replan",
    summary="Plans on the observed means, optimistic where data are missing; again as they grow by 2 %",
    presets={"practical": _practical},
)
def replan(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner."""
    constants: ReplanConstants = preset.constants(task)
    planner = CertaintyEquivalence(least_visits=constants.least_visits, margin=constants.margin)
    return ReplanningLearner(task, planner, growth=constants.growth, constants={"preset": preset.name})

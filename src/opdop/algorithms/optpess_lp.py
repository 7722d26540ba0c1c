"""OptPess-LP: plan in the empirical model with an optimistic reward and a pessimistic cost; a safe baseline first.

Liu, Zhou, Kalathil, Kumar and Tian (2021), "Learning Policies with Zero or Bounded Constraint Violation for Constrained
MDPs", Algorithm 1. Its linear program is solved by the dual walk; docs/algorithms/optpess-lp.md compares both line by
line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.baseline import Baseline
from opdop.algorithms.constants import Preset
from opdop.algorithms.peers import empirical_values, learner_from_baseline, scaled
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import EVERY_EPISODE, GROWTH, Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations
from opdop.confidence.optimism import KernelOracle
from opdop.model import InfeasibleError
from opdop.planning import solve_by_oracle
from opdop.planning.optimum import mix_corners


@dataclass(frozen=True)
class OptPessConstants:
    """The scales of the widths and of the reward's bonus, and how often it plans."""

    radius_scale: float
    bonus_scale: float
    growth: float


class OptPessPlanner:
    """Plans in the empirical model with reward r + alpha_r w and cost c + (1 + S H) w, w = sqrt(Z / n).

    Here alpha_r = 1 + S H + 4 H (1 + S H) / slack and Z = log(16 S^2 A H K / p). As long as the baseline's own cost
    with this pessimism is not below the middle of its true cost and the budget, there is no plan.
    """

    def __init__(self, task: Task, constants: OptPessConstants) -> None:
        H, S, A, K = task.horizon, task.num_states, task.num_actions, task.episodes
        self.constants = constants
        self.log_term = math.log(16.0 * S * S * A * H * K / task.failure_probability)  # Z

    def safe_plan(self, data: Observations, baseline: Baseline) -> Plan | None:
        """Return the plan; None if the baseline is not yet known to be safe enough."""
        H, S, slack = data.horizon, data.num_states, float(baseline.slack[0])
        shape = (-1, S, data.num_actions)
        visits = np.maximum(data.number, 1).reshape(shape)
        width = self.constants.radius_scale * np.sqrt(self.log_term / visits)  # beta
        means = data.signal_means().reshape(2, *shape)
        optimism = self.constants.bonus_scale * (1.0 + S * H + 4.0 * H * (1.0 + S * H) / slack)  # alpha_r
        # Costs 1 - g as negative utilities: what follows an unvisited pair has neither reward nor cost.
        # Of an unvisited pair both are at least H, which the paper's are anyway.
        least = np.where(data.number.reshape(shape) > 0, 0.0, H)
        bonus, pessimism = np.maximum(optimism * width, least), np.maximum((1.0 + S * H) * width, least)
        reward, saved = np.broadcast_arrays(means[0] + bonus, means[1] - 1.0 - pessimism)
        signals, sizes = scaled(reward, saved)
        own = empirical_values(data, baseline.policy, signals)[1] * sizes[1]
        if own <= data.thresholds[0] - H + 0.5 * slack:
            return None
        try:
            mixture = solve_by_oracle(KernelOracle(data.kernel(), signals, data, (data.thresholds - H) / sizes[1]))
        except InfeasibleError:
            return None
        policy = mix_corners(data.kernel(), data.num_actions, data.initial, mixture)
        return Plan(policy, mixture.totals * sizes + np.array([0.0, H]), mixture.dual * sizes[0] / sizes[1])

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers."""
        numbers = {"radius_scale": self.constants.radius_scale, "bonus_scale": self.constants.bonus_scale}
        return {"planner": "OptPess-LP", **numbers, "log_term": self.log_term}


def _paper(task: Task, dual_bound: float | None) -> OptPessConstants:
    """The theorem's widths, optimism and pessimism, planned before every episode."""
    return OptPessConstants(1.0, 1.0, EVERY_EPISODE)


def _practical(
    task: Task,
    dual_bound: float | None,
    radius_scale: float = 0.000017,
    bonus_scale: float = 1.0,
    growth: float = GROWTH,
) -> OptPessConstants:
    """Narrower widths, a smaller bonus and fewer plans: leaves the baseline soon, no guarantee."""
    return OptPessConstants(radius_scale, bonus_scale, growth)


@algorithm(
    "optpess-lp",
    summary="OptPess-LP (Liu et al. 2021): optimistic reward, pessimistic cost, from a safe baseline on",
    presets={"paper": _paper, "practical": _practical},
    needs_baseline=True,
)
def optpess_lp(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner; raises InvalidParameterError for tasks that `peers.required_baseline` refuses."""
    return learner_from_baseline("optpess-lp", task, preset, OptPessPlanner)

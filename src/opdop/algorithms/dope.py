"""DOPE: optimistic in the reward and in the model, pessimistic in the cost; it plays a safe baseline first.

Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland (2022), "DOPE: Doubly Optimistic and Pessimistic Exploration
for Safe Reinforcement Learning". Its linear program over policies and kernels is solved by the dual walk over the
confidence set; docs/algorithms/dope.md compares both line by line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.baseline import Baseline
from opdop.algorithms.constants import Preset
from opdop.algorithms.peers import learner_from_baseline, scaled
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import EVERY_EPISODE, GROWTH, Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations, reaching_policy
from opdop.confidence.bernstein_set import BernsteinSet
from opdop.model import InfeasibleError
from opdop.model.validation import Floats


@dataclass(frozen=True)
class DopeConstants:
    """The scales of the widths and of the bonus, the largest sum of widths of a row, and how often it plans."""

    radius_scale: float
    bonus_scale: float
    most_width: float
    growth: float


class DopePlanner:
    """Plans for the best policy and kernel of a Bernstein set, with a reward bonus and a safety margin in the utility.

    With w(s, a) the sum of the widths of a row and b the width of a random signal, the reward is
    r + (3 H / slack) b + (H^2 / slack) w and the utility g - b - H w. For any two kernels P' and P of the set
    |(P' - P) V| <= H w, because their distance is at most 2 w in L1 and a V in [0, H] is at most H / 2 from the middle.
    So a plan that keeps the constraint under P' keeps it under P.
    """

    def __init__(self, task: Task, constants: DopeConstants) -> None:
        H, S, A, K = task.horizon, task.num_states, task.num_actions, task.episodes
        pairs = S * A * H * K
        self.constants = constants
        self.log_term = math.log(6.0 * S * pairs / task.failure_probability)  # L
        self.signal_log_term = 2.0 * math.log(6.0 * pairs / task.failure_probability)  # L'

    def safe_plan(self, data: Observations, baseline: Baseline) -> Plan | None:
        """Return the plan; None if no policy keeps the pessimistic constraint under any kernel of the set."""
        kernels = BernsteinSet(data, self.log_term, self.constants.radius_scale)
        reward, utility = self.signals(data, kernels.widths, float(baseline.slack[0]))
        signals, sizes = scaled(reward, utility)
        try:
            policy, mixture = reaching_policy(kernels.with_signals(signals), data.thresholds / sizes[1])
        except InfeasibleError:
            return None
        return Plan(policy, mixture.totals * sizes, mixture.dual * sizes[0] / sizes[1])

    def signals(self, data: Observations, widths: Floats, slack: float) -> list[Floats]:
        """Return the optimistic reward and the pessimistic utility [M, S, A], from the sums of widths of all rows."""
        constants, H = self.constants, data.horizon
        width = np.minimum(widths, constants.most_width).reshape(-1, data.num_states, data.num_actions)
        own = signal_widths(data, constants.radius_scale**2 * self.signal_log_term)
        means = data.signal_means().reshape(2, *own.shape)
        factor = constants.bonus_scale * H / slack
        reward = means[0] + max(3.0 * factor, 1.0) * own + factor * H * width
        return list(np.broadcast_arrays(reward, np.maximum(means[1] - own, 0.0) - H * width))

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers."""
        constants = self.constants
        numbers = {"radius_scale": constants.radius_scale, "bonus_scale": constants.bonus_scale}
        widest = {} if constants.most_width == math.inf else {"most_width": constants.most_width}
        return {"planner": "DOPE", **numbers, **widest, "log_term": self.log_term}


def signal_widths(data: Observations, log_term: float) -> Floats:
    """Return the widths of the signals' means, [M, S, A]: sqrt(log_term / n) if they are random.

    Others are known after one visit; an unvisited signal may be any number in [0, 1].
    """
    number = data.signal_number
    width = np.sqrt(log_term / np.maximum(number, 1)) if data.noisy else np.zeros(len(number))
    shape = (data.signal_stages, data.num_states, data.num_actions)
    return np.where(number > 0, width, 1.0).reshape(shape)


def _paper(task: Task, dual_bound: float | None) -> DopeConstants:
    """The theorem's confidence intervals, bonus and pessimism, planned before every episode."""
    return DopeConstants(1.0, 1.0, math.inf, EVERY_EPISODE)


def _practical(
    task: Task,
    dual_bound: float | None,
    radius_scale: float = 1e-9,
    bonus_scale: float = 0.051,
    growth: float = GROWTH,
) -> DopeConstants:
    """Narrower intervals, a smaller bonus and fewer plans: leaves the baseline soon, no guarantee."""
    return DopeConstants(radius_scale, bonus_scale, 1.0, growth)


@algorithm(
    "dope",
    summary="DOPE (Bura et al. 2022): optimistic in reward and model, pessimistic in cost, from a safe baseline on",
    presets={"paper": _paper, "practical": _practical},
    needs_baseline=True,
)
def dope(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner; raises InvalidParameterError for tasks that `peers.required_baseline` refuses."""
    return learner_from_baseline("dope", task, preset, DopePlanner)

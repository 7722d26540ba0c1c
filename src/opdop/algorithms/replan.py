"""Certainty equivalence that doubts what was seen seldom, planned again as the data grow.

The plan trusts the means of the data, except that an estimate from few visits is doubted while others are visited often
(`opdop.kernels.trust`): it may be a little better than it looked. A pair that was never visited may lead to any state,
with large signals. So what may be good is tried, and nothing is written off for ever after an unlucky start. While
data are few the plan asks for more than the thresholds, by a margin that falls with the number of episodes; this keeps
early violation down. There is no guarantee before the run; its data can be certified after it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations, optimistic_policy
from opdop.confidence.tabular_set import as_balls
from opdop.kernels.balls import Balls
from opdop.kernels.trust import exact_doubts
from opdop.model.validation import Floats

LARGE = 0.75  # of the mean signals of visited pairs, this share is smaller than what an unvisited pair may have


@dataclass(frozen=True)
class ReplanConstants:
    """How much is doubted, what a pair that was never visited may be worth, the margin, and how often it plans.

    Attributes:
        doubt_scale: multiplies the doubt of a row, to the width of its L1 ball.
        noise_doubt: multiplies the square root of the doubt of random signals.
        optimistic_init: the least signal of a pair that was never visited.
        init_growth: what the doubt adds to it.
        margin: above the thresholds, in standard deviations; see `CertaintyEquivalence`.
        growth: by which share the episodes grow between two plans.
    """

    doubt_scale: float = 0.03
    noise_doubt: float = 0.3
    optimistic_init: float = 0.75
    init_growth: float = 0.02
    margin: float = 0.01
    growth: float = 0.01


@dataclass(frozen=True, eq=False)
class DoubtedMeans:
    """The empirical kernel and signals, somewhat better where pairs were seen seldom, and far better where never.

    The doubt of a pair with n visits is D = log2+(m / (A n)) / n (`opdop.kernels.trust`). Its row is within
    `doubt_scale` D of the empirical one in L1. Random signals are `noise_doubt` sqrt(D) above their means, the index of
    MOSS (Audibert and Bubeck 2009). A pair that was never visited may lead to any state; its signals are the larger of
    `optimistic_init` and the upper quartile of the means of others, and `init_growth` D more.
    """

    observations: Observations
    constants: ReplanConstants
    widths: Floats = field(init=False)  # [L*S*A]
    signal_up: Floats = field(init=False)  # [1+I, M, S, A]

    def __post_init__(self) -> None:
        data, constants = self.observations, self.constants
        shape = -1, data.num_states, data.num_actions
        doubt = exact_doubts(data.number.reshape(shape).astype(np.float64)).ravel()
        widths = np.where(data.number > 0, np.minimum(constants.doubt_scale * doubt, 2.0), 2.0)
        known, means = data.signal_number > 0, data.signal_means()
        doubt = exact_doubts(data.signal_number.reshape(shape).astype(np.float64)).ravel()
        first = np.full(len(means), constants.optimistic_init)
        if known.any():
            first = np.maximum(first, np.quantile(means[:, known], LARGE, axis=1))
        noise = constants.noise_doubt * np.sqrt(doubt) if data.noisy else 0.0
        up = np.where(known, means + noise, first[:, None] + constants.init_growth * doubt)
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "signal_up", np.minimum(up, 1.0).reshape(len(means), *shape))

    def balls(self, weights: Any) -> Balls:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        return as_balls(self.observations, self.widths, np.ones(len(self.widths)), weights)


class CertaintyEquivalence:
    """Plans as if the doubted means were the truth, for the thresholds and a margin.

    The margin after n episodes is `margin` H / (2 sqrt(n)): that many standard deviations of the mean of n totals, if
    they were as spread as totals in [0, H] can be.
    """

    def __init__(self, constants: ReplanConstants | None = None) -> None:
        self.constants = constants or ReplanConstants()

    def plan(self, data: Observations) -> Plan:
        """Return the plan; where the margin cannot be reached, for as much of it as can."""
        episodes = data.observed / data.horizon
        margin = self.constants.margin * data.horizon / (2.0 * math.sqrt(max(episodes, 1.0)))
        policy, mixture = optimistic_policy(DoubtedMeans(data, self.constants), data.thresholds + margin)
        return Plan(policy, mixture.totals, mixture.dual)

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers."""
        return {"planner": "certainty equivalence", **asdict(self.constants)}


def _practical(
    task: Task,
    dual_bound: float | None,
    doubt_scale: float = ReplanConstants.doubt_scale,
    noise_doubt: float = ReplanConstants.noise_doubt,
    optimistic_init: float = ReplanConstants.optimistic_init,
    init_growth: float = ReplanConstants.init_growth,
    margin: float = ReplanConstants.margin,
    growth: float = ReplanConstants.growth,
) -> ReplanConstants:
    """It has no proven constants; for a learner with proven confidence sets, use `optimistic` with `certified`."""
    return ReplanConstants(doubt_scale, noise_doubt, optimistic_init, init_growth, margin, growth)


@algorithm(
    "replan",
    summary="Plans on the observed means, and doubts what was seen seldom; what `opdop run` uses by default",
    presets={"practical": _practical},
)
def replan(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner."""
    constants: ReplanConstants = preset.constants(task)
    planner = CertaintyEquivalence(constants)
    return ReplanningLearner(task, planner, growth=constants.growth, constants={"preset": preset.name})

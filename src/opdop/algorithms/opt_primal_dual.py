"""OptPrimalDual-CMDP: optimistic bonuses, mirror ascent on the Lagrangian, and dual descent.

Efroni, Mannor and Pirotta (2020), "Exploration-Exploitation in Constrained MDPs", Algorithm 4. Its lines are those of
Algorithm 1 with other constants and without mixing, so it runs in the same loop; docs/algorithms/opt-primal-dual.md
compares them line by line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opdop.algorithms.constants import Preset, bound_multipliers
from opdop.algorithms.opdop import OPDOP
from opdop.algorithms.peers import BonusRadius, PrimalDualConstants, refuse_continuous
from opdop.algorithms.registry import algorithm
from opdop.algorithms.task import Task

SOURCE = "Efroni, Mannor and Pirotta (2020)"


@dataclass(frozen=True)
class L1BonusRadius(BonusRadius):
    """The bonus (sqrt(2 ln(2 N / d)) + H sqrt(4 S ln(3 N / d))) / sqrt(n), with N = (1+I) S A H K and d = p / 3.

    The first term covers the mean of a signal, the second H times the L1 distance of the empirical row.
    """

    def bonus(self, task: Task) -> float:
        """Return the bonus of a pair that was visited once."""
        H, S, A = task.horizon, task.num_states, task.num_actions
        events = 3.0 * (1 + task.num_constraints) * S * A * H * task.episodes / task.failure_probability
        return math.sqrt(2.0 * math.log(2.0 * events)) + H * math.sqrt(4.0 * S * math.log(3.0 * events))


def policy_step_size(task: Task, dual_bound: float) -> float:
    """Return t_K = sqrt(2 ln A / (H^2 (1 + I rho)^2 K))."""
    I = task.num_constraints
    return math.sqrt(2.0 * math.log(task.num_actions) / task.episodes) / (task.horizon * (1.0 + I * dual_bound))


def dual_step_size(task: Task, dual_bound: float) -> float:
    """Return 1 / t_lambda = rho / sqrt(H^2 I K)."""
    return dual_bound / (task.horizon * math.sqrt(task.num_constraints * task.episodes))


def _paper(task: Task, dual_bound: float | None) -> PrimalDualConstants:
    """The step sizes and the bonus that the theorem needs; learns very slowly."""
    rho = bound_multipliers(task, dual_bound)
    return PrimalDualConstants(policy_step_size(task, rho), dual_step_size(task, rho), rho, L1BonusRadius())


def _practical(
    task: Task,
    dual_bound: float | None,
    step_scale: float = 1700.0,
    dual_step_scale: float = 300.0,
    radius_scale: float = 0.00001,
) -> PrimalDualConstants:
    """The paper's constants times factors, and pooled visits where the problem is stationary; no guarantee."""
    rho = bound_multipliers(task, dual_bound)
    return PrimalDualConstants(
        step_size=step_scale * policy_step_size(task, rho),
        dual_step_size=dual_step_scale * dual_step_size(task, rho),
        dual_bound=rho,
        radius=L1BonusRadius(radius_scale, pools=True),
    )


@algorithm(
    "opt-primal-dual",
    summary="OptPrimalDual-CMDP (Efroni et al. 2020): bonuses, mirror ascent, dual descent, no mixing",
    presets={"paper": _paper, "practical": _practical},
)
def opt_primal_dual(task: Task, preset: Preset) -> OPDOP:
    """Return the learner.

    Raises InvalidParameterError if states are continuous, or if neither `dual_bound` nor the Slater gap is known.
    """
    refuse_continuous("opt-primal-dual", task)
    constants: PrimalDualConstants = preset.constants(task)
    return constants.learner(task, preset, SOURCE)

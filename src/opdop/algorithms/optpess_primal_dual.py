"""OptPess-PrimalDual: an optimistic greedy policy, and a multiplier whose pessimism decreases with the episodes.

Liu, Zhou, Kalathil, Kumar and Tian (2021), "Learning Policies with Zero or Bounded Constraint Violation for Constrained
MDPs", Algorithm 2. The arithmetic is in `opdop.kernels.optpess`; docs/algorithms/optpess-primal-dual.md compares both
line by line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.counting_peer import CountingPeer, room_for_rows
from opdop.algorithms.counts import Counts
from opdop.algorithms.peers import NO_RIDGE, refuse_continuous, refuse_several, told
from opdop.algorithms.radius_rules import FixedRadius
from opdop.algorithms.registry import algorithm
from opdop.algorithms.task import Task
from opdop.kernels.optpess import OptPess
from opdop.model import InvalidParameterError

SOURCE = "Liu et al. (2021)"


@dataclass(frozen=True)
class PoolingRadius(FixedRadius):
    """No bonus of the evaluator's own: the algorithm adds its bonus. Visits are pooled where the task is stationary."""

    value: float = 0.0
    pools: bool = True


@dataclass(frozen=True)
class OptPessPrimalDualConstants:
    """Factors of the bonus, of the pessimism and of the multiplier's step, and whether stages are pooled."""

    radius_scale: float
    pessimism_scale: float
    dual_step_scale: float
    pools: bool


def _paper(task: Task, dual_bound: float | None) -> OptPessPrimalDualConstants:
    """The bonus, the pessimism and the step that the theorem needs; learns very slowly."""
    return OptPessPrimalDualConstants(1.0, 1.0, 1.0, pools=False)


def _practical(
    task: Task,
    dual_bound: float | None,
    radius_scale: float = 3.33e-9,
    pessimism_scale: float = 1e-6,
    dual_step_scale: float = 30.0,
) -> OptPessPrimalDualConstants:
    """The paper's constants times factors, and pooled visits where the problem is stationary; no guarantee."""
    return OptPessPrimalDualConstants(radius_scale, pessimism_scale, dual_step_scale, pools=True)


@algorithm(
    "optpess-primal-dual",
    summary="OptPess-PrimalDual (Liu et al. 2021): greedy optimistic policies, decreasing pessimism of the multiplier",
    presets={"paper": _paper, "practical": _practical},
)
def optpess_primal_dual(task: Task, preset: Preset) -> CountingPeer:
    """Return the learner.

    Raises InvalidParameterError if states are continuous, there are several constraints, or the Slater gap is unknown.
    """
    refuse_continuous("optpess-primal-dual", task)
    refuse_several("optpess-primal-dual", task)
    if task.slater_gap is None:
        raise InvalidParameterError(
            "`optpess-primal-dual` needs to know by how much some policy keeps the constraint: give slater_gap=..., a "
            "lower bound on that slack."
        )
    constants: OptPessPrimalDualConstants = preset.constants(task)
    H, S, A = task.horizon, task.num_states, task.num_actions
    log_shift = math.log(16.0 * S * S * A * H / task.failure_probability)  # log(1 / delta')
    numbers = {
        "bonus": constants.radius_scale * (1.0 + S * H) * math.sqrt(log_shift + math.log(task.episodes)),
        "pessimism": constants.pessimism_scale * 5.0 * H**2 * math.sqrt(S**3 * A),
        "log_shift": log_shift,
        "price_scale": constants.dual_step_scale / (task.slater_gap * H),
    }
    counts = Counts(task, radius=PoolingRadius(pools=constants.pools), ridge=NO_RIDGE)
    peer = OptPess(
        policy=np.full((H, A, S), 1.0 / A),
        queue=np.zeros(1),
        dual=np.zeros(1),
        estimates=np.zeros(2),
        rows=room_for_rows(task, counts),
        threshold=float(task.thresholds[0]),
        initial=task.initial,
        **numbers,
    )
    return CountingPeer(task, counts, peer, told(task, preset, SOURCE, **numbers))

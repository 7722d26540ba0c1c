"""The regularised primal-dual method: entropy for the policy, a quadratic term for the multipliers, last iterate.

Mueller, Alatur, Cevher, Ramponi and He (2024), "Truly No-Regret Learning in Constrained MDPs". The arithmetic is in
`opdop.kernels.regularised`; docs/algorithms/regularised-primal-dual.md compares both line by line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opdop.algorithms.constants import Preset, bound_multipliers
from opdop.algorithms.counting_peer import CountingPeer, room_for_rows
from opdop.algorithms.counts import Counts
from opdop.algorithms.peers import NO_RIDGE, BonusRadius, refuse_continuous, told
from opdop.algorithms.registry import algorithm
from opdop.algorithms.task import Task
from opdop.kernels.regularised import Regularised

SOURCE = "Mueller et al. (2024)"


def row_width(task: Task) -> float:
    """Return sqrt(2 S + 2 ln(3 S A H K / p)), the L1 width of an empirical row after one visit."""
    pairs = task.num_states * task.num_actions * task.horizon * task.episodes
    return math.sqrt(2.0 * task.num_states + 2.0 * math.log(3.0 * pairs / task.failure_probability))


@dataclass(frozen=True)
class HoeffdingRadius(BonusRadius):
    """The bonus (sqrt(ln(6 (1+I) S A H K / p) / 2) + H sqrt(2 S + 2 ln(3 S A H K / p))) / sqrt(n).

    The first term covers the mean of a signal, the second H times the L1 distance of the empirical row.
    """

    def bonus(self, task: Task) -> float:
        """Return the bonus of a pair that was visited once."""
        H, pairs = task.horizon, task.num_states * task.num_actions * task.horizon * task.episodes
        signals = math.sqrt(math.log(6.0 * (1 + task.num_constraints) * pairs / task.failure_probability) / 2.0)
        return signals + H * row_width(task)


@dataclass(frozen=True)
class RegularisedConstants:
    """The steps eta of both players, the weight tau of both terms, the bound, and the bonus."""

    step_size: float
    dual_step_size: float
    regularisation: float
    dual_bound: float
    radius: HoeffdingRadius


def _paper(task: Task, dual_bound: float | None) -> RegularisedConstants:
    """Weights tau = K^(-1/7) and steps K^(-5/7) / (H^2 I), with a bonus for optimism; learns very slowly."""
    K, H, I = task.episodes, task.horizon, task.num_constraints
    tau = K ** (-1.0 / 7.0)
    eta = K ** (-5.0 / 7.0) / (H**2 * I)
    return RegularisedConstants(eta, eta, tau, _bound(task, dual_bound, tau), HoeffdingRadius())


def _practical(
    task: Task,
    dual_bound: float | None,
    step_scale: float = 1000.0,
    dual_step_scale: float = 5290.0,
    regularisation_scale: float = 0.000529,
    radius_scale: float = 0.0003,
) -> RegularisedConstants:
    """Steps of order 1 / sqrt(K), weights and bonus times factors, pooled visits; no guarantee."""
    tau = regularisation_scale * task.episodes ** (-1.0 / 7.0)
    bound = _bound(task, dual_bound, tau)
    eta = step_scale / (task.horizon * (1.0 + bound) * math.sqrt(task.episodes))
    most = 0.5 / tau  # the powers 1 - eta tau stay positive
    eta, dual_eta = min(eta, most), min(dual_step_scale * eta, most)
    return RegularisedConstants(eta, dual_eta, tau, bound, HoeffdingRadius(radius_scale, pools=True))


def _bound(task: Task, dual_bound: float | None, tau: float) -> float:
    """Return the largest multiplier: with regularisation the optimal ones add up to H (1 + tau log A) / gap at most."""
    bound = bound_multipliers(task, dual_bound)
    return bound if dual_bound is not None else bound * max(1.0, 0.5 * (1.0 + tau * math.log(task.num_actions)))


@algorithm(
    "regularised-primal-dual",
    summary="The regularised primal-dual of Mueller et al. (2024): entropy and decaying multipliers, last iterate",
    presets={"paper": _paper, "practical": _practical},
)
def regularised_primal_dual(task: Task, preset: Preset) -> CountingPeer:
    """Return the learner.

    Raises InvalidParameterError if states are continuous, or if neither `dual_bound` nor the Slater gap is known.
    """
    refuse_continuous("regularised-primal-dual", task)
    constants: RegularisedConstants = preset.constants(task)
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    numbers = {
        name: getattr(constants, name) for name in ("step_size", "dual_step_size", "regularisation", "dual_bound")
    }
    counts = Counts(task, radius=constants.radius, ridge=NO_RIDGE)
    q, v = np.zeros((J + 1, H, A, S)), np.zeros((J + 1, H + 1, S))
    q[:J], v[:J] = counts.q, counts.v
    peer = Regularised(
        policy=np.full((H, A, S), 1.0 / A),
        q=q,
        v=v,
        dual=np.zeros(J - 1),
        estimates=np.zeros(J),
        rows=room_for_rows(task, counts),
        touched=np.ones((H, S), dtype=np.bool_),
        thresholds=task.thresholds.copy(),
        initial=task.initial,
        entropy_bonus=constants.radius.scale * H * math.log(A) * row_width(task),
        **numbers,
    )
    described = told(task, preset, SOURCE, **numbers, **counts.described())
    return CountingPeer(task, counts, peer, described)

"""Posterior sampling: plan for a model drawn from the posterior, play the plan, and draw again as the data grow.

Agarwal, Bai and Aggarwal (2022), "Regret guarantees for model-based reinforcement learning with long-term average
constraints", and Provodin, Kaptein and Pechenizkiy (2024), "Efficient exploration in average-reward constrained
reinforcement learning", for average rewards; here for episodes, as Osband, Russo and Van Roy (2013) do without
constraints. docs/algorithms/posterior.md says what differs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.peers import refuse_continuous
from opdop.algorithms.registry import algorithm
from opdop.algorithms.replanning import GROWTH, Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations
from opdop.confidence.optimism import KernelOracle
from opdop.kernels.transitions import Dense, Sparse, Transitions
from opdop.model.validation import Floats, check_memory
from opdop.planning import solve_nearest
from opdop.planning.optimum import mix_corners

NEGLIGIBLE = 1e-12  # a smaller probability of a sampled row counts as 0
SPARSE_BELOW = 0.25  # the share of entries that are not 0, below which rows are stored as lists


@dataclass(frozen=True)
class PosteriorConstants:
    """The prior of each row, Dirichlet with this sum of concentrations, and how often a model is drawn."""

    prior_visits: float
    growth: float


def stream_of(data: Observations) -> np.random.Generator:
    """Return a random stream that depends on the data alone, so that a resumed run draws the same models."""
    digest = hashlib.sha256()
    for array in (data.starts, data.successors, data.seen, data.signal_sums):
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(digest.digest()[:16], "little")))


def draw_kernel(data: Observations, concentration: float, stream: np.random.Generator) -> Transitions:
    """Return transitions drawn from the posterior: each row from Dirichlet(concentration + visits of successors)."""
    rows, S = len(data.starts) - 1, data.num_states
    check_memory(3.0 * 8.0 * rows * S, f"a sampled kernel of {rows:,} rows and {S:,} states")
    counted = np.full((rows, S), concentration)
    counted[np.repeat(np.arange(rows), np.diff(data.starts)), data.successors] += data.seen
    sampled = stream.standard_gamma(counted)
    totals = sampled.sum(axis=1, keepdims=True)
    # With small concentrations all draws of a row may underflow; the largest concentration then has the mass.
    sampled = np.where(totals > 0.0, sampled, np.eye(S)[counted.argmax(axis=1)])
    sampled /= sampled.sum(axis=1, keepdims=True)
    kept = sampled > NEGLIGIBLE
    if kept.mean() >= SPARSE_BELOW:
        return Dense(sampled)
    sampled = np.where(kept, sampled, 0.0)
    sampled /= sampled.sum(axis=1, keepdims=True)
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
    return Sparse(starts, np.nonzero(kept)[1].astype(np.int32), sampled[kept])


def draw_signals(data: Observations, stream: np.random.Generator) -> Floats:
    """Return signals [1+I, M, S, A] drawn from the posterior.

    Random ones are drawn from Beta(1 + sum, 1 + n - sum), which is exact for signals of 0 or 1. Others are known after
    one visit, and uniform before it.
    """
    number, sums = data.signal_number, data.signal_sums
    if data.noisy:
        drawn = stream.beta(1.0 + sums, 1.0 + np.maximum(number - sums, 0.0))
    else:
        drawn = np.where(number > 0, data.signal_means(), stream.random(sums.shape))
    shape = (1 + data.num_constraints, data.signal_stages, data.num_states, data.num_actions)
    signals: Floats = np.clip(drawn, 0.0, 1.0).reshape(shape)
    return signals


class PosteriorPlanner:
    """Plans for a model that is drawn from the posterior; where it is infeasible, for the nearest thresholds."""

    def __init__(self, *, prior_visits: float) -> None:
        self.prior_visits = prior_visits

    def plan(self, data: Observations) -> Plan:
        """Return the plan for a new draw."""
        stream = stream_of(data)
        kernel = draw_kernel(data, self.prior_visits / data.num_states, stream)
        signals = draw_signals(data, stream)
        _, mixture = solve_nearest(lambda b: KernelOracle(kernel, signals, data, b), data.thresholds)
        policy = mix_corners(kernel, data.num_actions, data.initial, mixture)
        return Plan(policy, mixture.totals, mixture.dual)

    def described(self) -> dict[str, Any]:
        """Return the planner's name and the prior."""
        return {"planner": "posterior sampling", "prior_visits": self.prior_visits}


def _paper(task: Task, dual_bound: float | None) -> PosteriorConstants:
    """A uniform prior on rows, Dirichlet(1, ..., 1), and a draw whenever the episodes have doubled."""
    return PosteriorConstants(float(task.num_states), growth=1.0)


def _practical(
    task: Task, dual_bound: float | None, prior_visits: float = 0.01, growth: float = GROWTH
) -> PosteriorConstants:
    """A prior that counts as a few visits, and a draw whenever the episodes have grown by a share."""
    return PosteriorConstants(prior_visits, growth)


@algorithm(
    "posterior",
    summary="Posterior sampling: plans for a model drawn from the posterior, again as the data grow",
    presets={"paper": _paper, "practical": _practical},
)
def posterior(task: Task, preset: Preset) -> ReplanningLearner:
    """Return the learner; raises InvalidParameterError if states are continuous."""
    refuse_continuous("posterior", task)
    constants: PosteriorConstants = preset.constants(task)
    planner = PosteriorPlanner(prior_visits=constants.prior_visits)
    return ReplanningLearner(task, planner, growth=constants.growth, constants={"preset": preset.name})

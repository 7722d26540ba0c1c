"""The Markov policy of an optimistic plan, which attains the plan's values under one kernel of the confidence set.

A plan mixes a few corners, each a deterministic policy with a kernel of the set. The mixture of their occupancies is
the occupancy of one Markov policy under one kernel. Each row of that kernel is a mean of the corners' rows, and balls
and boxes are convex, so it is in the set too (Efroni, Mannor and Pirotta 2020 find the same policy by a linear
program).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from opdop.confidence.observations import Observations
from opdop.kernels import dynamic_programming
from opdop.kernels.ball_occupancy import visit_balls
from opdop.kernels.balls import Balls
from opdop.kernels.boxes import Boxes, visit_boxes
from opdop.model import InfeasibleError, TabularPolicy
from opdop.model.validation import Floats
from opdop.planning import Corner, MixedCorners, policy_with_occupancy, solve_by_oracle, solve_nearest
from opdop.planning.optimum import best_corner


class KernelSet(Protocol):
    """A set of kernels and signals, such as a `TabularSet`."""

    @property
    def observations(self) -> Observations:
        """The data."""
        ...

    @property
    def signal_up(self) -> Floats:
        """The largest signals in the set, [1+I, M, S, A]."""
        ...

    def balls(self, weights: Floats) -> Balls | Boxes:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        ...


class _RememberingOracle:
    """Answers as `OptimisticOracle` does, for thresholds of its own, and remembers each corner's weights."""

    def __init__(self, kernels: KernelSet, thresholds: Floats) -> None:
        self.thresholds, self.horizon = thresholds, kernels.observations.horizon
        self.kernels, self.balls = kernels, kernels.balls(np.zeros(1 + len(thresholds)))
        self.found: list[tuple[Corner, Floats]] = []

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        self.balls.weights[:] = weights
        initial, signals = self.kernels.observations.initial, self.kernels.signal_up
        corner = best_corner(self.balls, signals, self.horizon, initial, weights, second)
        self.found.append((corner, np.array(weights, dtype=np.float64)))
        return corner

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        message = f"no policy reaches the thresholds under any kernel of the set: short by {-gap:.6g}."
        return InfeasibleError(message, best_utilities=utilities, slater_gap=gap)

    def states(self, corner: Corner, table: Floats) -> Floats:
        """Return the probabilities [H, S] of a corner's states under its own kernel; table [H, S, A] is its policy."""
        data = self.kernels.observations
        self.balls.weights[:] = next(weights for known, weights in self.found if known is corner)
        v = np.empty((1 + data.num_constraints, data.horizon + 1, data.num_states))
        dynamic_programming.evaluate(self.balls, self.kernels.signal_up, table, v)
        visit: Callable[..., Any] = visit_boxes if isinstance(self.balls, Boxes) else visit_balls
        visited: Floats = visit(self.balls, v, corner.actions, data.num_actions, data.initial)
        return visited


def optimistic_policy(kernels: KernelSet, thresholds: Floats) -> tuple[TabularPolicy, MixedCorners]:
    """Return the policy of the optimistic plan over a set of kernels for thresholds [I], and the corners that it mixes.

    If no policy reaches the thresholds under any kernel of the set, they are lowered alike until one does.
    """
    return _markov_policy(*solve_nearest(lambda b: _RememberingOracle(kernels, b), thresholds))


def reaching_policy(kernels: KernelSet, thresholds: Floats) -> tuple[TabularPolicy, MixedCorners]:
    """Return the same for the set `kernels`; raises InfeasibleError if no policy of it reaches the thresholds."""
    oracle = _RememberingOracle(kernels, thresholds)
    return _markov_policy(oracle, solve_by_oracle(oracle))


def _markov_policy(oracle: _RememberingOracle, mixture: MixedCorners) -> tuple[TabularPolicy, MixedCorners]:
    data = oracle.kernels.observations
    visits = np.zeros((data.horizon, data.num_states, data.num_actions))
    tables = [TabularPolicy.deterministic(corner.actions, data.num_actions).table for corner in mixture.corners]
    for corner, share, table in zip(mixture.corners, mixture.shares, tables, strict=True):
        visits += share * oracle.states(corner, table)[:, :, None] * table
    return policy_with_occupancy(visits, unvisited=tables[int(np.argmax(mixture.shares))]), mixture

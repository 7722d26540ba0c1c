"""The reward-utility plane of a problem: the attainable set of values and its Pareto frontier, traced exactly.

The totals (V_g, V_r) of all policies form a convex polygon. Its corners belong to deterministic policies, and one
backward induction finds the corner that lies farthest in a given direction. An edge between two known corners is
therefore either an edge of the polygon, or is replaced by two edges that meet in the corner farthest beyond it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.model import InvalidModelError, TabularCMDP
from opdop.model.validation import Floats
from opdop.planning import Optimum, solve
from opdop.planning.optimum import ModelOracle

# No threshold may be 0, and every policy reaches this one.
_NO_THRESHOLD = 1e-300


@dataclass(frozen=True, eq=False)
class Plane:
    """The attainable set, in model units; a row is (utility, reward)."""

    hull: Floats  # [n, 2], corners of the attainable set, counterclockwise
    frontier: Floats  # [m, 2], corners of the Pareto frontier, from the largest reward to the largest utility
    complete: bool  # whether the frontier has no missing corner beyond the tolerance
    passes: int


def trace(cmdp: TabularCMDP, *, tolerance: float = 1e-4, passes: int = 400) -> Plane:
    """Trace the attainable set of a model with one constraint.

    Edges are split until every corner is found that lies more than `tolerance` of the extent beyond an edge, or until
    `passes` backward inductions are made. All corners are exact, and mixtures attain the edges between them.
    Raises InvalidModelError if the model has several constraints.
    """
    if cmdp.num_constraints != 1:
        raise InvalidModelError(f"the plane is for one constraint; this model has {cmdp.num_constraints}: use a slice.")
    oracle = ModelOracle(cmdp)
    # The frontier is traced first and on its own scale, as it can be small compared with the whole set.
    most_reward, most_utility = _corner(oracle, (0.0, 1.0), (1.0, 0.0)), _corner(oracle, (1.0, 0.0), (0.0, 1.0))
    best_side, complete = _refine(oracle, [most_utility, most_reward], tolerance, passes // 2)
    least_reward = _corner(oracle, (0.0, -1.0), (1.0, 0.0)), _corner(oracle, (0.0, -1.0), (-1.0, 0.0))
    least_utility = _corner(oracle, (-1.0, 0.0), (0.0, -1.0)), _corner(oracle, (-1.0, 0.0), (0.0, 1.0))
    left_top = _corner(oracle, (0.0, 1.0), (-1.0, 0.0))
    right_low = _corner(oracle, (1.0, 0.0), (0.0, -1.0))
    around = [most_reward, left_top, *least_utility[::-1], *least_reward[::-1], right_low, most_utility]
    rest, _ = _refine(oracle, around, tolerance, passes - oracle.passes)
    return Plane(np.array(best_side[:-1] + rest), np.array(best_side[::-1]), complete, oracle.passes)


def slices(cmdp: TabularCMDP, optimum: Optimum, constraint: int, *, points: int = 16) -> Floats:
    """Return the optimal reward for many values of one threshold: rows (threshold, reward), at least `points` of them.

    The other thresholds stay as they are. The first value is the utility of the optimum without this constraint, and
    the last one is nearly the largest utility that the other constraints allow.
    """
    others = np.where(np.arange(cmdp.num_constraints) == constraint, _NO_THRESHOLD, cmdp.thresholds)
    without = solve(_altered(cmdp, others))
    most = solve(_altered(cmdp, others, reward=cmdp.utilities[constraint])).value
    start = without.utility_values[constraint]
    levels = start + (most - start) * np.linspace(0.0, 1.0 - 1e-6, points)  # at the end itself the slack is 0
    levels = np.unique(np.append(levels, cmdp.thresholds[constraint]))
    curve = []
    for level in levels:
        wanted = np.where(np.arange(cmdp.num_constraints) == constraint, max(level, _NO_THRESHOLD), others)
        best = optimum if level == cmdp.thresholds[constraint] else solve(_altered(cmdp, wanted))
        curve.append((level, best.value))
    return np.array(curve)


def _corner(oracle: ModelOracle, direction: tuple[float, float], second: tuple[float, float]) -> Floats:
    """Return the attainable (utility, reward) farthest in a direction; among these, farthest in the second one."""
    totals: Floats = oracle.best(direction[::-1], second=second[::-1]).totals[::-1]
    return totals


def _refine(oracle: ModelOracle, path: list[Floats], tolerance: float, passes: int) -> tuple[list[Floats], bool]:
    """Split the edges of a counterclockwise path, longest first, until no corner lies beyond an edge.

    Return the path, and whether all its edges were examined.
    """
    extent = np.ptp(np.array(path), axis=0)
    extent = np.where(extent > 0.0, extent, 1.0)
    points, after = list(path), {k: k + 1 for k in range(len(path) - 1)}
    unseen: list[tuple[float, int]] = []

    def add(k: int) -> None:
        length = float(np.hypot(*((points[after[k]] - points[k]) / extent)))
        if length > tolerance:
            heapq.heappush(unseen, (-length, k))

    for k in list(after):
        add(k)
    last = oracle.passes + passes
    while unseen and oracle.passes < last:
        _, k = heapq.heappop(unseen)
        step = (points[after[k]] - points[k]) / extent
        outward = np.array([step[1], -step[0]]) / np.hypot(*step) / extent
        found = _corner(oracle, (outward[0], outward[1]), (step[0] / extent[0], step[1] / extent[1]))
        if outward @ (found - points[k]) > tolerance:
            points.append(found)
            new = len(points) - 1
            after[k], after[new] = new, after[k]
            add(k)
            add(new)
    ordered, k = [points[0]], 0
    while k in after:
        k = after[k]
        ordered.append(points[k])
    return ordered, not unseen


def _altered(cmdp: TabularCMDP, thresholds: Floats, reward: Any = None) -> TabularCMDP:
    """Return the model with other thresholds, and perhaps another reward."""
    S, A = cmdp.num_states, cmdp.num_actions
    kernels = [cmdp.transition_matrix(h) for h in range(1 if cmdp.is_stationary else cmdp.horizon)]
    if not cmdp.is_sparse:
        kernels = [kernel.reshape(S, A, S) for kernel in kernels]
    transitions: Any = kernels if cmdp.is_sparse else np.stack(kernels)
    return TabularCMDP(
        transitions[0] if cmdp.is_stationary else transitions,
        cmdp.rewards if reward is None else reward,
        cmdp.utilities,
        thresholds,
        cmdp.initial,
        cmdp.horizon,
        display=cmdp.display,
    )

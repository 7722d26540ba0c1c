"""Any number of constraints: the exact optimum by column generation.

The master problem is a small linear program that mixes the deterministic policies found so far. Its multipliers weight
the signals, and one backward induction finds the best policy for these weights. The method ends when that policy is no
better than the mixture. HiGHS solves the master; where its tolerances are too coarse, exact arithmetic does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from opdop.model import Problem, as_tabular
from opdop.model.validation import Floats
from opdop.planning.exact_simplex import best_mixture
from opdop.planning.optimum import (
    FEASIBILITY,
    ROUNDING,
    Corner,
    MixedCorners,
    ModelOracle,
    Optimum,
    Oracle,
    as_optimum,
    settle_slater_gap,
)

_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False}
# HiGHS's tolerances are absolute, and it takes coefficients below 1e-9 for zero: so rows are divided by their largest
# slack, however small, and shifted away from zero, which shares that sum to 1 allow.
_SHIFT = 2.0


def solve_by_column_generation(problem: Problem) -> Optimum:
    """Return the exact optimum of a problem with any number of constraints.

    Raises InfeasibleError if no policy satisfies all of them.
    """
    oracle = ModelOracle(as_tabular(problem))
    return as_optimum(oracle, generate_columns(oracle))


def generate_columns(oracle: Oracle) -> MixedCorners:
    """Return the optimum over what an oracle with any number of thresholds can answer.

    Raises InfeasibleError if no mixture of its policies reaches all of them.
    """
    I, H = len(oracle.thresholds), oracle.horizon
    reward = np.eye(1 + I)[0]
    greedy = oracle.best(reward, second=1.0 - reward)
    pool = [greedy, *(oracle.best(prices, second=reward) for prices in np.eye(1 + I)[1:])]

    weights = widen_gap(oracle, pool)
    slater = weights @ _totals(pool)
    slack = float((slater[1:] - oracle.thresholds).min())
    slater_gap = settle_slater_gap(oracle, slack, slater[1:])
    # Without slack the thresholds are attained only up to rounding, which must not make the master infeasible.
    thresholds = np.minimum(oracle.thresholds, slater[1:]) if slater_gap == 0.0 else oracle.thresholds

    if (greedy.totals[1:] >= thresholds).all():
        weights, dual = np.eye(len(pool))[0], np.zeros(I)
    else:
        weights, dual = _raise_reward(oracle, pool, thresholds, room=0.0 if slater_gap else FEASIBILITY * H)
    return MixedCorners.of(
        pool,
        weights,
        dual=dual,
        slater_gap=slater_gap,
        unconstrained=greedy,
        slater=slater,
        method="column generation",
    )


def widen_gap(oracle: Oracle, pool: list[Corner]) -> Floats:
    """Add columns to a pool until a mixture of it has the largest smallest slack; return the weights.

    `oracle` finds the columns.
    """
    thresholds, H = oracle.thresholds, oracle.horizon
    reward = np.eye(1 + len(thresholds))[0]
    exactly = False
    while True:
        slacks = _totals(pool)[:, 1:] - thresholds  # [M, I]
        scale = _scale(slacks)
        objective = np.append(np.zeros(len(pool)), -1.0)  # maximise the gap t
        rows = np.hstack([-_scaled(slacks, scale), np.ones((len(thresholds), 1))])  # t <= slack of each constraint
        shares = np.append(np.ones(len(pool)), 0.0)[None]
        free = [(0.0, None)] * len(pool) + [(None, None)]
        solved = None if exactly else _master(objective, rows, shares, free)
        exactly = solved is None
        weights, prices = best_mixture(slacks) if solved is None else (solved[0][:-1], solved[1])
        found = oracle.best(np.concatenate([[0.0], prices]), second=reward)
        gained = prices @ (found.totals[1:] - thresholds) - (weights @ slacks).min()
        known = _known(found, pool)
        if gained <= ROUNDING * H or (known and (exactly or gained <= FEASIBILITY * H)):
            return _clean(weights)
        if not known:
            pool.append(found)
        exactly = exactly or known


def _raise_reward(oracle: Oracle, pool: list[Corner], thresholds: Floats, room: float) -> tuple[Floats, Floats]:
    """Add columns until no policy beats the best feasible mixture; return weights and multipliers.

    Without slack the multipliers are not bounded. Exact arithmetic then needs `room` below the thresholds, as much as
    cannot be told from zero; HiGHS has its tolerance.
    """
    H, exactly = oracle.horizon, False
    while True:
        totals = _totals(pool)
        slacks = totals[:, 1:] - thresholds  # [M, I]
        scales = np.array([_scale(slacks[:, i]) for i in range(len(thresholds))])
        shares = np.ones((1, len(pool)))
        whole = [(0.0, None)] * len(pool)
        solved = None if exactly else _master(-totals[:, 0], -_scaled(slacks, scales), shares, whole)
        if solved is not None and (solved[0] @ slacks).min() < -FEASIBILITY * H:
            solved = None
        if solved is None and not exactly:
            exactly, thresholds, slacks = True, thresholds - room, slacks + room
        weights, dual = best_mixture(slacks, totals[:, 0]) if solved is None else (solved[0], solved[1] / scales)
        found = oracle.best(np.concatenate([[1.0], dual]), second=np.concatenate([[0.0], np.ones(len(dual))]))
        bound = found.totals[0] + dual @ (found.totals[1:] - thresholds)
        gained = bound - weights @ totals[:, 0]
        known, unit = _known(found, pool), H * (1.0 + dual.sum())
        if gained <= ROUNDING * unit or (known and (exactly or gained <= FEASIBILITY * unit)):
            return _clean(weights), dual
        if not known:
            pool.append(found)
        elif not exactly:
            exactly, thresholds = True, thresholds - room


def _master(
    objective: Floats, rows: Floats, shares: Floats, bounds: Sequence[tuple[float | None, float | None]]
) -> tuple[Floats, Floats] | None:
    """Minimise the objective subject to rows @ w <= -SHIFT and shares @ w = 1; return w and the rows' multipliers.

    None if HiGHS finds no solution, or one with negative shares: its tolerances are too coarse then.
    """
    limits = np.full(len(rows), -_SHIFT)
    result = linprog(objective, rows, limits, shares, [1.0], bounds, method="highs-ds", options=_TIGHT)
    if result.status != 0 or (result.x * shares < -FEASIBILITY).any():
        return None
    return result.x, np.maximum(-result.ineqlin.marginals, 0.0)


def _scale(slacks: Floats) -> float:
    """Return the largest slack or shortfall, by which a row of the master is divided; 1 if there is none."""
    return float(np.abs(slacks).max()) or 1.0


def _scaled(slacks: Floats, scale: float | Floats) -> Floats:
    """Return slacks [M, I] as rows [I, M] of the master, between SHIFT - 1 and SHIFT + 1."""
    return (slacks / scale + _SHIFT).T


def _totals(pool: list[Corner]) -> Floats:
    return np.array([corner.totals for corner in pool])


def _known(found: Corner, pool: list[Corner]) -> bool:
    """Whether a policy with these very totals is in the pool already: then the rest is rounding."""
    return any(np.array_equal(found.totals, corner.totals) for corner in pool)


def _clean(weights: Floats) -> Floats:
    """Drop weights that are rounding; the rest sums to 1."""
    kept = np.where(weights > 1e-14, weights, 0.0)
    shares: Floats = kept / kept.sum()
    return shares

"""Checks that are made in every episode of a run, at every stage, state and action."""

from __future__ import annotations

import math

import numpy as np

from opdop.model.validation import Floats
from opdop.theory.bounds import OPTIMISM_SHARE
from opdop.theory.checks import REGRESSION_ROUNDING, ROUNDING, Result, check
from opdop.theory.identities import (
    action_values,
    mixed,
    mixing_cost,
    performance_difference,
    pushback_difference,
    signal_totals,
)
from opdop.theory.simulation import SMALLEST_BONUS, EpisodeRecord


@check("Bellman equations", "eq. (bellman)", identity=True)
def bellman(record: EpisodeRecord) -> Result:
    """V = <Q, pi>, Q = signal + P V, and the totals are those of the occupancy."""
    cmdp, v = record.simulation.cmdp, record.true_v
    inside = np.einsum("jhxa,hxa->jhx", action_values(cmdp, v), record.policy.table) - v[:, :-1]
    totals = signal_totals(cmdp, record.policy) - record.totals
    return Result.identity(np.append(inside, totals), ROUNDING * cmdp.horizon)


@check("performance difference", "Lemma PDL", identity=True)
def difference(record: EpisodeRecord) -> Result:
    """V^pi* - V^pi^k = sum_h E_pi* <Q^pi^k, pi* - pi^k>."""
    cmdp, best = record.simulation.cmdp, record.simulation.optimum.policy
    apart = signal_totals(cmdp, best) - record.totals
    return Result.identity(apart - performance_difference(cmdp, best, record.policy), ROUNDING * cmdp.horizon)


def _decomposition(record: EpisodeRecord, signals: slice) -> Result:
    parts, cmdp = record.parts, record.simulation.cmdp
    before = parts.before - parts.policy_gap - parts.expected_error
    after = parts.after - parts.martingale + parts.path_error
    best = signal_totals(cmdp, record.simulation.optimum.policy)
    whole = parts.before + parts.after - (best - record.totals)
    return Result.identity(np.array([before, after, whole])[:, signals], ROUNDING * cmdp.horizon**2)


@check("regret decomposition", "eq. (RI), (RII)", identity=True)
def reward_decomposition(record: EpisodeRecord) -> Result:
    """V* - V^k and V^k - V^pi^k equal the sums of their parts."""
    return _decomposition(record, slice(0, 1))


@check("violation decomposition", "eq. (gRI), (CII)", identity=True)
def utility_decomposition(record: EpisodeRecord) -> Result:
    """The same for every utility."""
    return _decomposition(record, slice(1, None))


@check("estimates from the past only", "Algorithms 2, 3", identity=True)
def recomputed(record: EpisodeRecord) -> Result:
    """Q^k is what an independent re-implementation finds from episodes 1..k-1; V^k = <Q^k, pi^k>."""
    estimates = record.estimates
    expected = np.clip(record.centre + record.bonus, 0.0, record.tops)
    mean = np.einsum("jhxa,hxa->jhx", estimates.q, record.policy.table)
    parts = (estimates.q - expected, mean - estimates.v[:, :-1], estimates.v[:, -1])
    difference = np.concatenate([part.ravel() for part in parts])
    return Result.identity(difference, REGRESSION_ROUNDING * record.simulation.cmdp.horizon)


@check("0 <= Q <= H - h", "lines 11 and 7")
def clipped(record: EpisodeRecord) -> Result:
    """Estimates stay in the range of true values."""
    q, top = record.estimates.q, record.tops
    beyond = max(float((q - top).max()), float((-q).max()), 0.0)
    return Result(beyond, 0.0, ROUNDING, used=float((q / top).max()))


@check("optimism", "eq. (ucb-bandit), (ucb-full-t)", failure=OPTIMISM_SHARE)
def optimistic(record: EpisodeRecord) -> Result:
    """Iota <= 0 at every k, h, x, a and signal; tightness: the share of a bonus needed before the last stage."""
    # At the last stage no value is estimated: its bonus covers only the ridge's bias and the noise of random signals.
    used = float(record.needed[:-1].max(initial=-math.inf))
    clipped_everywhere = bool((record.estimates.q >= record.tops).all())
    share = used if math.isfinite(used) else None
    return Result(float(record.error.max()), 0.0, ROUNDING, used=share, vacuous=clipped_everywhere)


@check("not too optimistic", "eq. (ucb-bandit), (ucb-full-t)", failure=OPTIMISM_SHARE)
def two_sided(record: EpisodeRecord) -> Result:
    """Iota >= -(length of the confidence set): 2 (sum of bonuses) with least squares, 4 bonus with Algorithm 3."""
    below, allowed = -record.error, record.allowed
    worst = np.unravel_index(np.argmax(below - allowed), below.shape)
    return Result(
        float(below[worst]),
        float(allowed[worst]),
        ROUNDING * record.simulation.cmdp.horizon,
        used=float(np.divide(below, allowed, out=np.zeros_like(below), where=allowed > SMALLEST_BONUS).max()),
        vacuous=bool((allowed >= record.tops).all()),  # -iota cannot exceed H - h
    )


@check("KL pushback", "Lemma (pushback)", identity=True)
def pushback(record: EpisodeRecord) -> Result:
    """pi^{k+1} solves its subproblem: equality against every other policy."""
    c = record.setting.constants
    if c.step_size == 0.0:  # one action
        return Result.identity(record.following.table - record.policy.table, ROUNDING)
    direction: Floats = np.tensordot(np.append(1.0, record.dual), record.estimates.q, axes=1)
    start = mixed(record.policy.table, c.mixing)
    missing = pushback_difference(record.following.table, start, direction, c.step_size)
    return Result.identity(c.step_size * missing, ROUNDING)


@check("mixing", "Lemma (mix)")
def mixing(record: EpisodeRecord) -> Result:
    """D(z | mixed) - D(z | pi^k) <= theta log A for every z."""
    theta, table = record.setting.constants.mixing, record.policy.table
    A = table.shape[2]
    largest = -math.log1p(-theta * (1.0 - 1.0 / A))  # for any policy: it is that of a deterministic one
    return Result.inequality(float(mixing_cost(table, theta).max()), theta * math.log(A), largest, ROUNDING)


@check("multipliers in [0, chi]", "line 9")
def projected(record: EpisodeRecord) -> Result:
    """Y^k is the admissible point nearest to Y^{k-1} + eta (b - V_g^{k-1}): each in [0, chi], or also their sum."""
    c, Y = record.setting.constants, record.dual
    chi, short = c.dual_bound, record.setting.thresholds - record.estimated_before[1:]
    step = record.dual_before + c.dual_step_size * short
    if c.dual_total < math.inf:
        return _projected_on_sum(step, Y, c.dual_total)
    outside = np.maximum(Y - chi, -Y)
    # (step - Y)(y - Y) <= 0 for all y in [0, chi]; strictly inside that means Y = step.
    nearer = np.maximum((step - Y) * (0.0 - Y), (step - Y) * (chi - Y))
    missed = np.where((Y > 0.0) & (Y < chi), np.abs(step - Y), nearer)
    beyond = max(float(outside.max()), float(missed.max()), 0.0)
    return Result(beyond, 0.0, ROUNDING * max(chi, 1.0), used=float(Y.max()) / chi)


def _projected_on_sum(step: Floats, Y: Floats, total: float) -> Result:
    """Compare Y with the projection of step on {Y >= 0, sum Y <= total}: the vertices 0 and total e_i are enough."""
    away = step - Y
    nearer = np.append(away * total, 0.0) - float(away @ Y)
    kept = np.where(Y > 0.0, np.abs(away), np.maximum(away, 0.0)) if Y.sum() < total * (1.0 - ROUNDING) else 0.0
    beyond = max(float(Y.sum()) - total, float(-Y.min()), float(nearer.max()) / total, float(np.max(kept)), 0.0)
    return Result(beyond, 0.0, ROUNDING * max(total, 1.0), used=float(Y.sum()) / total)


EPISODE_CHECKS = (
    bellman,
    difference,
    recomputed,
    clipped,
    optimistic,
    two_sided,
    pushback,
    mixing,
    projected,
    reward_decomposition,
    utility_decomposition,
)

"""Statements that must hold in every episode of a run, at every stage, state and action."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opdop.model.validation import Floats
from opdop.theory import lemmas
from opdop.theory.bounds import OPTIMISM_SHARE
from opdop.theory.identities import action_values, performance_difference, signal_totals
from opdop.theory.simulation import Moment
from opdop.theory.statements import REGRESSION_ROUNDING, ROUNDING, Finding, Statement


@dataclass(frozen=True)
class Look:
    """One episode: what is measured should exceed the bound by no more than rounding."""

    measured: float
    bound: float
    rounding: float
    used: float | None = None  # how tight it was, if not measured / bound

    @classmethod
    def identity(cls, off: object, rounding: float) -> Look:
        """Return a look at something that should be 0 everywhere."""
        return cls(float(np.abs(off).max()), 0.0, rounding)  # type: ignore[call-overload]


def bellman(moment: Moment) -> Look:
    """Compare pi^k's values by backward induction with each other, and with those of its occupancy."""
    cmdp, v = moment.case.cmdp, moment.true_v
    inside = np.einsum("jhxa,hxa->jhx", action_values(cmdp, v), moment.policy.table) - v[:, :-1]
    totals = signal_totals(cmdp, moment.policy) - moment.totals
    return Look.identity(np.append(inside, totals), ROUNDING * cmdp.horizon)


def difference(moment: Moment) -> Look:
    """Compare V^pi* - V^pi^k with what the performance difference lemma says."""
    cmdp, best = moment.case.cmdp, moment.case.optimum.policy
    apart = signal_totals(cmdp, best) - moment.totals
    return Look.identity(apart - performance_difference(cmdp, best, moment.policy), ROUNDING * cmdp.horizon)


def _decomposition(moment: Moment, signals: slice) -> Look:
    parts, cmdp = moment.parts, moment.case.cmdp
    before = parts.before - parts.policy_gap - parts.expected_error
    after = parts.after - parts.martingale + parts.path_error
    best = signal_totals(cmdp, moment.case.optimum.policy)
    whole = parts.before + parts.after - (best - moment.totals)
    return Look.identity(np.array([before, after, whole])[:, signals], ROUNDING * cmdp.horizon**2)


def reward_decomposition(moment: Moment) -> Look:
    """Compare both sides of (RI) and (RII)."""
    return _decomposition(moment, slice(0, 1))


def utility_decomposition(moment: Moment) -> Look:
    """Compare both sides of (gRI) and (CII)."""
    return _decomposition(moment, slice(1, None))


def recomputed(moment: Moment) -> Look:
    """Compare Q^k with the second bookkeeper's, and V^k with <Q^k, pi^k>."""
    estimates = moment.estimates
    mean = np.einsum("jhxa,hxa->jhx", estimates.q, moment.policy.table)
    parts = (estimates.q - moment.account.q(), mean - estimates.v[:, :-1], estimates.v[:, -1])
    off = np.concatenate([part.ravel() for part in parts])
    return Look.identity(off, REGRESSION_ROUNDING * moment.case.cmdp.horizon)


def clipped(moment: Moment) -> Look:
    """See how far Q^k leaves [0, H - h]."""
    q, top = moment.estimates.q, moment.tops
    beyond = max(float((q - top).max()), float((-q).max()), 0.0)
    return Look(beyond, 0.0, ROUNDING, used=float((q / top).max()))


def optimistic(moment: Moment) -> Look:
    """See how far the largest prediction error is above 0, and which share of a bonus was needed where none clips."""
    account, free = moment.account, moment.estimates.q < moment.tops
    needed = moment.target - account.centre
    used = float((needed[free] / account.bonus[free]).max()) if free.any() else None
    return Look(float(moment.error.max()), 0.0, ROUNDING, used=used)


def two_sided(moment: Moment) -> Look:
    """Compare -iota with twice what was added for optimism."""
    below, allowed = -moment.error, 2.0 * moment.account.bonus
    worst = np.unravel_index(np.argmax(below - allowed), below.shape)
    used = float((below / allowed).max())
    return Look(float(below[worst]), float(allowed[worst]), ROUNDING * moment.case.cmdp.horizon, used=used)


def pushback(moment: Moment) -> Look:
    """See what is missing from the equality that makes pi^{k+1} the mirror descent step, in logarithms."""
    c = moment.constants
    if c.step_size == 0.0:  # one action
        return Look.identity(moment.following.table - moment.policy.table, ROUNDING)
    direction: Floats = np.tensordot(np.append(1.0, moment.dual), moment.estimates.q, axes=1)
    start = lemmas.mixed(moment.policy.table, c.mixing)
    missing = lemmas.pushback(moment.following.table, start, direction, c.step_size)
    return Look.identity(c.step_size * missing, ROUNDING)


def mixing(moment: Moment) -> Look:
    """Compare what mixing costs in divergence with theta log A."""
    theta, table = moment.constants.mixing, moment.policy.table
    cost = lemmas.mixing_cost(table, theta)
    return Look(float(cost.max()), lemmas.most_mixing_cost(table.shape[2], theta), ROUNDING)


def projected(moment: Moment) -> Look:
    """See whether Y^k is the point of [0, chi] nearest to where line 9 wants it: the projection's own inequality."""
    Y, chi = moment.dual, moment.constants.dual_bound
    wanted = moment.dual_before + moment.constants.dual_step_size * (
        moment.case.cmdp.thresholds - moment.believed_before[1:]
    )
    outside = np.maximum(Y - chi, -Y)
    # (wanted - Y)(y - Y) <= 0 for all y in [0, chi]; strictly inside that means Y = wanted.
    nearer = np.maximum((wanted - Y) * (0.0 - Y), (wanted - Y) * (chi - Y))
    missed = np.where((Y > 0.0) & (Y < chi), np.abs(wanted - Y), nearer)
    beyond = max(float(outside.max()), float(missed.max()), 0.0)
    return Look(beyond, 0.0, ROUNDING * max(chi, 1.0), used=float(Y.max()) / chi)


OPTIMISM = Statement(
    "optimism",
    "eq. (ucb-bandit), (ucb-full-t)",
    "iota <= 0 at every k, h, x, a and signal; tightness: the share of the bonus that was needed",
    failure=OPTIMISM_SHARE,
)
TWO_SIDED = Statement(
    "not too optimistic",
    "eq. (ucb-bandit), (ucb-full-t)",
    "iota >= -2 (sum of bonuses); with counts, -4 bonus",
    failure=OPTIMISM_SHARE,
)

EVERYWHERE: tuple[tuple[Statement, Callable[[Moment], Look]], ...] = (
    (
        Statement(
            "Bellman equations",
            "eq. (bellman)",
            "V = <Q, pi>, Q = signal + P V, and the totals are those of the occupancy",
            identity=True,
        ),
        bellman,
    ),
    (
        Statement(
            "performance difference", "Lemma PDL", "V^pi* - V^pi^k = sum_h E_pi* <Q^pi^k, pi* - pi^k>", identity=True
        ),
        difference,
    ),
    (
        Statement(
            "estimates from the past only",
            "Algorithms 2, 3",
            "Q^k is what episodes 1..k-1 and the preset's bonus give; V^k = <Q^k, pi^k>",
            identity=True,
        ),
        recomputed,
    ),
    (Statement("0 <= Q <= H - h", "lines 11 and 7", "estimates stay where true values can be"), clipped),
    (OPTIMISM, optimistic),
    (TWO_SIDED, two_sided),
    (
        Statement(
            "KL pushback",
            "Lemma (pushback)",
            "pi^{k+1} solves its subproblem: equality against every other policy",
            identity=True,
        ),
        pushback,
    ),
    (Statement("mixing", "Lemma (mix)", "D(z | mixed) - D(z | pi^k) <= theta log A for every z"), mixing),
    (
        Statement(
            "multipliers in [0, chi]",
            "line 9",
            "Y^k is the point of [0, chi] nearest to Y^{k-1} + eta (b - V_g^{k-1})",
        ),
        projected,
    ),
    (
        Statement(
            "regret decomposition",
            "eq. (RI), (RII)",
            "V* - V^k and V^k - V^pi^k are the sums that they split into",
            identity=True,
        ),
        reward_decomposition,
    ),
    (
        Statement("violation decomposition", "eq. (gRI), (CII)", "the same for every utility", identity=True),
        utility_decomposition,
    ),
)


class Worst:
    """Keeps the worst of many looks."""

    def __init__(self) -> None:
        self.excess = self.tightness = -math.inf
        self.look = Look(0.0, 0.0, 0.0)

    def note(self, look: Look) -> None:
        """Remember a look if it is the worst so far, or the tightest."""
        excess = look.measured - look.bound - look.rounding
        if not excess <= self.excess:  # what is not a number is worst of all
            self.excess, self.look = excess, look
        used = look.used
        if used is None and look.bound > 0.0:
            used = look.measured / look.bound
        if used is not None:
            self.tightness = max(self.tightness, used)

    def finding(self) -> Finding:
        """Say how it was where it was worst."""
        used = self.tightness if math.isfinite(self.tightness) else None
        return Finding(self.excess <= 0.0, self.look.measured, self.look.bound, used)

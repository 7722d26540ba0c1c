"""Statements about sums over a whole run: lemmas along it, and the theorem."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opdop.model.validation import Floats
from opdop.theory import bounds
from opdop.theory.bounds import OPTIMISM_SHARE, Setting
from opdop.theory.reference_evaluators import Potential
from opdop.theory.simulation import Moment
from opdop.theory.statements import ROUNDING, Finding, Statement


class Totals:
    """Adds up, over the episodes of a run, everything that the proofs add up."""

    def __init__(self, setting: Setting, optimal_dual: Floats) -> None:
        I = setting.task.num_constraints
        self.setting, self.optimal_dual = setting, optimal_dual
        self.prices: list[float] = []  # 1 + sum_i Y_i^k
        self.regret, self.shortfall = 0.0, np.zeros(I)
        self.policy_gap = 0.0  # sum_k E_pi* <Q_r + Y Q_g, pi* - pi^k>
        self.believed_short, self.weighted_short, self.squared_short = np.zeros(I), np.zeros(I), np.zeros(I)
        self.bonuses = np.zeros(1 + I)  # what the two-sided bound allows at the visited pairs
        self.martingale = np.zeros(1 + I)  # in episodes with optimistic estimates
        self.farthest = 0.0  # that any of them has been
        self._last: Moment | None = None

    def see(self, moment: Moment) -> None:
        """Add one episode."""
        b = moment.case.cmdp.thresholds
        self.prices.append(1.0 + float(moment.dual.sum()))
        self.regret += moment.case.optimum.value - float(moment.totals[0])
        self.shortfall += b - moment.totals[1:]
        self.policy_gap += float(moment.parts.policy_gap @ np.append(1.0, moment.dual))
        short = b - moment.believed[1:]
        self.believed_short += short
        self.weighted_short += moment.dual * short
        self.squared_short += short**2
        stages = np.arange(moment.case.cmdp.horizon)
        at = moment.allowed[:, stages, moment.episode.states[:-1], moment.episode.actions]
        self.bonuses += at.sum(axis=1)
        if moment.error.max() <= ROUNDING:
            self.martingale += moment.parts.martingale
            self.farthest = max(self.farthest, float(self.martingale.max()))
        self._last = moment

    @property
    def episodes(self) -> int:
        """How many were seen."""
        return len(self.prices)

    @property
    def violation(self) -> float:
        """The paper's violation, of the worst constraint."""
        return max(float(self.shortfall.max()), 0.0)

    @property
    def policy_bound(self) -> float:
        """The terms of Lemma 1 with the run's own multipliers."""
        return math.fsum(bounds.policy_terms(self.setting, np.array(self.prices), self.episodes).values())

    @property
    def dual_steps(self) -> float:
        """What the multipliers' steps cost: eta / 2 sum_i sum_k (b_i - V_gi^k)^2."""
        return self.setting.constants.dual_step_size / 2.0 * float(self.squared_short.sum())

    @property
    def potential(self) -> Potential:
        """Both sides of the potential lemma, once the last episode is in the books."""
        assert self._last is not None
        return self._last.ledger.potential()


def potential(totals: Totals) -> Finding:
    """Compare the sum of widths with the most it can be."""
    sides = totals.potential
    return Finding(sides.measured <= sides.bound * (1.0 + ROUNDING), sides.measured, sides.bound)


def bonus_sum(totals: Totals) -> Finding:
    """Compare what any signal's bonuses add up to at the visited pairs with the most they can, whatever happens."""
    most, bound = float(totals.bonuses.max()), totals.setting.bonuses.most(totals.episodes)
    return Finding(most <= bound * (1.0 + ROUNDING), most, bound)


def mirror_descent(totals: Totals) -> Finding:
    """Compare the policies' gap to pi* with the terms of Lemma 1."""
    gap, bound = totals.policy_gap, totals.policy_bound
    return Finding(gap <= bound + ROUNDING * totals.episodes, gap, bound)


def dual_lemma(totals: Totals) -> Finding:
    """Compare both sides for Y = 0 and Y = chi and every constraint; return the tightest."""
    c = totals.setting.constants
    findings = []
    for Y in (0.0, c.dual_bound):
        left = Y * totals.believed_short - totals.weighted_short
        right = Y**2 / (2.0 * c.dual_step_size) + c.dual_step_size / 2.0 * totals.squared_short
        for one, other in zip(left.tolist(), right.tolist(), strict=True):
            findings.append(Finding(one <= other + ROUNDING * max(1.0, abs(other)), one, other))
    return max(findings, key=lambda found: (not found.held, found.tightness or 0.0))


def martingale(totals: Totals) -> Finding:
    """Compare the farthest that a signal's martingale has been with Azuma's bound."""
    most, bound = totals.farthest, bounds.martingale(totals.setting)
    return Finding(most <= bound, most, bound)


def violation_lemma(totals: Totals) -> Finding:
    """Compare the reward beyond the optimum with what the broken promises are worth."""
    gained, allowed = -totals.regret, float(totals.optimal_dual @ totals.shortfall)
    rounding = ROUNDING * totals.setting.task.horizon * totals.episodes
    return Finding(gained <= allowed + rounding, gained, allowed)


def regret_along(totals: Totals) -> Finding:
    """Compare the regret with the theorem's terms, where the run's own are known."""
    wander = bounds.martingale(totals.setting)
    bound = totals.policy_bound + totals.dual_steps + float(totals.bonuses[0]) + wander
    return Finding(totals.regret <= bound, totals.regret, bound)


def violation_along(totals: Totals) -> Finding:
    """Compare the violation with the theorem's terms, where the run's own are known."""
    c = totals.setting.constants
    chi = c.dual_bound
    both = bounds.martingale(totals.setting) * (1.0 + chi)
    bonus = float(totals.bonuses[0] + chi * totals.bonuses[1:].max())
    inside = totals.policy_bound + totals.dual_steps + chi**2 / (2.0 * c.dual_step_size) + bonus + both
    bound = 2.0 / chi * inside
    return Finding(totals.violation <= bound, totals.violation, bound)


def regret_theorem(totals: Totals) -> Finding:
    """Compare the regret with the bound that was known before the run."""
    bound = bounds.regret(totals.setting, totals.episodes).total
    return Finding(totals.regret <= bound, totals.regret, bound)


def violation_theorem(totals: Totals) -> Finding:
    """Compare the violation with the bound that was known before the run."""
    bound = bounds.violation(totals.setting, totals.episodes).total
    return Finding(totals.violation <= bound, totals.violation, bound)


OVER_THE_RUN: tuple[tuple[Statement, Callable[[Totals], Finding]], ...] = (
    (
        Statement(
            "potential",
            "Lemma (bdsums)",
            "sum of min(1, width^2) <= information / log 2; with counts, the pigeonhole sum of 1/sqrt(n + ridge)",
        ),
        potential,
    ),
    (
        Statement(
            "sum of the bonuses",
            "eq. (ub1), (ub2)",
            "what a run's bonuses allow at the visited pairs, min(H - h, 2 b^k), adds up to at most the theorem's B",
        ),
        bonus_sum,
    ),
    (
        Statement(
            "policy improvement",
            "Lemma 1 (PDMD)",
            "sum_k E_pi* <Q_r + Y Q_g, pi* - pi^k> is at most its four terms, with the run's multipliers",
        ),
        mirror_descent,
    ),
    (
        Statement(
            "dual steps",
            "eq. (Yb), Lemma 5",
            "sum_k (Y - Y^k)(b - V_g^k) <= Y^2 / (2 eta) + eta / 2 sum_k (b - V_g^k)^2, for Y = 0 and Y = chi",
        ),
        dual_lemma,
    ),
    (
        Statement(
            "martingale",
            "Lemma 4 (M)",
            "every signal's martingale is at most its Azuma bound, after every episode",
            failure=1.0 - OPTIMISM_SHARE,
        ),
        martingale,
    ),
    (
        Statement(
            "price of violation",
            "Lemma (violationgeneral)",
            "-regret <= sum_i Y*_i shortfall_i: more reward than V* only by breaking promises",
        ),
        violation_lemma,
    ),
    (
        Statement(
            "regret, own bonuses",
            "Lemma 2 (reger)",
            "regret <= the theorem's terms with the run's own bonuses and multipliers",
            failure=1.0,
        ),
        regret_along,
    ),
    (
        Statement(
            "violation, own bonuses",
            "eq. (C0)",
            "violation of the worst constraint <= the same for the violation",
            failure=1.0,
        ),
        violation_along,
    ),
    (
        Statement("regret, theorem", "Theorems 1, 2", "regret <= the bound that was known before the run", failure=1.0),
        regret_theorem,
    ),
    (
        Statement(
            "violation, theorem",
            "Theorems 1, 2",
            "violation of the worst constraint <= the bound that was known before the run",
            failure=1.0,
        ),
        violation_theorem,
    ),
)

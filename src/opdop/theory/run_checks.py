"""Checks of sums over a whole run: the lemmas along it, and the theorem."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from opdop.theory import bounds
from opdop.theory.bounds import OPTIMISM_SHARE, Setting
from opdop.theory.checks import ROUNDING, Result, check
from opdop.theory.reference_evaluators import ReferenceEvaluator
from opdop.theory.simulation import EpisodeRecord, Simulation


class RunSums:
    """The sums over the episodes of one run that the proofs bound."""

    def __init__(self, simulation: Simulation, setting: Setting) -> None:
        I = setting.task.num_constraints
        self.simulation, self.setting = simulation, setting
        self.prices: list[float] = []  # 1 + sum_i Y_i^k
        self.regret, self.shortfall = 0.0, np.zeros(I)
        self.policy_gap = 0.0  # sum_k E_pi* <Q_r + Y Q_g, pi* - pi^k>
        self.estimated_short, self.weighted_short, self.squared_short = np.zeros(I), np.zeros(I), np.zeros(I)
        self.bonuses = np.zeros(1 + I)  # min(H - h, length of the confidence set) at the visited pairs
        self.martingale = np.zeros(1 + I)  # in episodes with optimistic estimates
        self.largest_martingale = 0.0  # of any signal, after any episode
        self.reference: ReferenceEvaluator | None = None  # holds all episodes when the run is over

    def add(self, record: EpisodeRecord) -> None:
        """Add one episode."""
        b = self.setting.task.thresholds
        aimed = self.setting.thresholds
        self.prices.append(1.0 + float(record.dual.sum()))
        self.regret += self.simulation.optimum.value - float(record.totals[0])
        self.shortfall += b - record.totals[1:]
        self.policy_gap += float(record.parts.policy_gap @ np.append(1.0, record.dual))
        short = aimed - record.estimated[1:]
        self.estimated_short += short
        self.weighted_short += record.dual * short
        self.squared_short += short**2
        stages = np.arange(self.setting.task.horizon)
        allowed = np.minimum(record.allowed, record.tops)
        self.bonuses += allowed[:, stages, record.episode.states[:-1], record.episode.actions].sum(axis=1)
        if record.error.max() <= ROUNDING:
            self.martingale += record.parts.martingale
            self.largest_martingale = max(self.largest_martingale, float(self.martingale.max()))
        self.reference = record.reference

    @property
    def episodes(self) -> int:
        """The number of episodes so far."""
        return len(self.prices)

    @property
    def violation(self) -> float:
        """The paper's violation, of the worst constraint."""
        return max(float(self.shortfall.max()), 0.0)

    @property
    def largest_regret(self) -> float:
        """K V*: what the regret is if no reward is ever earned."""
        return self.episodes * self.simulation.optimum.value

    @property
    def largest_violation(self) -> float:
        """K max_i b_i: what the violation is if no utility is ever earned."""
        return self.episodes * float(self.setting.task.thresholds.max())

    @property
    def policy_bound(self) -> float:
        """The terms of Lemma 1 with the run's own multipliers."""
        return math.fsum(bounds.policy_terms(self.setting, np.array(self.prices), self.episodes).values())

    @property
    def dual_steps(self) -> float:
        """What the multipliers' steps cost: eta / 2 sum_i sum_k (b_i - V_gi^k)^2."""
        return self.setting.constants.dual_step_size / 2.0 * float(self.squared_short.sum())


@check("potential", "Lemma (bdsums)")
def potential(sums: RunSums) -> Result:
    """Sum of min(1, width^2) <= information / log 2; with counts, the pigeonhole sum of the widths."""
    assert sums.reference is not None
    return sums.reference.potential()


@check("sum of the bonuses", "eq. (ub1), (ub2)")
def bonus_sum(sums: RunSums) -> Result:
    """min(H - h, length of the confidence set) at the visited pairs adds up to at most the theorem's B."""
    H, most, bound = sums.setting.task.horizon, float(sums.bonuses.max()), sums.setting.bonuses.most(sums.episodes)
    return Result.inequality(most, bound, sums.episodes * H * (H + 1) / 2, rounding=ROUNDING * bound)


@check("policy improvement", "Lemma 1 (PDMD)")
def mirror_descent(sums: RunSums) -> Result:
    """sum_k E_pi* <Q_r + Y Q_g, pi* - pi^k> is at most the four terms of Lemma 1, with the run's multipliers."""
    H = sums.setting.task.horizon
    largest = math.fsum(sums.prices) * H * (H + 1) / 2
    return Result.inequality(sums.policy_gap, sums.policy_bound, largest, rounding=ROUNDING * sums.episodes)


@check("dual steps", "eq. (Yb), Lemma 5")
def dual_lemma(sums: RunSums) -> Result:
    """sum_k <Y - Y^k, b - V_g^k> <= |Y|^2 / (2 eta) + eta / 2 sum_k |b - V_g^k|^2, for Y = 0 and Y = chi e_i."""
    c, K = sums.setting.constants, sums.episodes
    eta, chi, b = c.dual_step_size, c.dual_bound, sums.setting.thresholds
    most = chi * (sums.setting.task.horizon - b)  # of Y_i^k (V_gi^k - b_i)
    against = float(most.max() if c.dual_total < math.inf else most.sum())
    steps = -float(sums.weighted_short.sum()), eta / 2.0 * float(sums.squared_short.sum())
    results = [_dual_result(*steps, K * against)]
    for short, threshold in zip(sums.estimated_short.tolist(), b.tolist(), strict=True):
        left, right = chi * short + steps[0], chi**2 / (2.0 * eta) + steps[1]
        results.append(_dual_result(left, right, K * (chi * threshold + against)))
    return reduce(Result.joined, results)


def _dual_result(left: float, right: float, largest: float) -> Result:
    return Result.inequality(left, right, largest, rounding=ROUNDING * max(1.0, abs(right)))


@check("martingale", "Lemma 4 (M)", failure=1.0 - OPTIMISM_SHARE)
def martingale(sums: RunSums) -> Result:
    """Every signal's martingale is at most its Azuma bound, after every episode."""
    largest = float(sums.episodes) * sums.setting.task.horizon  # with optimistic estimates it is at most V^k - V^pi^k
    return Result.inequality(sums.largest_martingale, bounds.martingale(sums.setting), largest)


@check("price of violation", "Lemma (violationgeneral)")
def violation_lemma(sums: RunSums) -> Result:
    """-regret <= sum_i Y*_i shortfall_i: only by violating constraints is there more reward than V*."""
    optimum, most = sums.simulation.optimum, float(sums.episodes) * sums.setting.task.horizon
    allowed = float(optimum.dual @ sums.shortfall)
    return Result.inequality(-sums.regret, allowed, most - sums.largest_regret, rounding=ROUNDING * most)


@check("regret, own bonuses", "Lemma 2 (reger)", failure=1.0)
def regret_along(sums: RunSums) -> Result:
    """Regret <= the theorem's terms with the run's own bonuses and multipliers."""
    bound = sums.policy_bound + sums.dual_steps + float(sums.bonuses[0]) + bounds.martingale(sums.setting)
    return Result.inequality(sums.regret, bound, sums.largest_regret)


@check("violation, own bonuses", "eq. (C0)", failure=1.0)
def violation_along(sums: RunSums) -> Result:
    """Violation of the worst constraint <= the theorem's terms with the run's own bonuses and multipliers."""
    c = sums.setting.constants
    chi = c.dual_bound
    both = bounds.martingale(sums.setting) * (1.0 + chi)
    bonus = float(sums.bonuses[0] + chi * sums.bonuses[1:].max())
    inside = sums.policy_bound + sums.dual_steps + chi**2 / (2.0 * c.dual_step_size) + bonus + both
    return Result.inequality(sums.violation, 2.0 / chi * inside, sums.largest_violation)


@check("regret, theorem", "Theorems 1, 2", failure=1.0)
def regret_theorem(sums: RunSums) -> Result:
    """Regret <= the theorem's bound, known before the run."""
    return Result.inequality(sums.regret, bounds.regret(sums.setting, sums.episodes).total, sums.largest_regret)


@check("violation, theorem", "Theorems 1, 2", failure=1.0)
def violation_theorem(sums: RunSums) -> Result:
    """Violation of the worst constraint <= the theorem's bound, known before the run."""
    bound = bounds.violation(sums.setting, sums.episodes).total
    return Result.inequality(sums.violation, bound, sums.largest_violation)


RUN_CHECKS = (
    potential,
    bonus_sum,
    mirror_descent,
    dual_lemma,
    martingale,
    violation_lemma,
    regret_along,
    violation_along,
    regret_theorem,
    violation_theorem,
)

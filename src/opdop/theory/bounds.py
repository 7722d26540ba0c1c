"""The theorem's bounds on regret and violation with every constant explicit; docs/guarantees.md derives each term.

A bound is a sum of named terms, so that each can be printed beside what was measured.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.constants import Constants, Preset, choose
from opdop.algorithms.radius_rules import FeatureSizes
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError
from opdop.model.validation import Floats
from opdop.theory.potential import Bonuses, bonuses_of

# Of the failure probability p the confidence rules spend this share on optimism; the martingales have the rest.
OPTIMISM_SHARE = 0.5
LARGEST_PLAN = 10**60
MOST_OF_GAP = 0.9  # a margin above this share of the Slater gap costs almost all that a policy can earn


@dataclass(frozen=True)
class Bound:
    """An upper bound on a sum over the episodes, as a sum of terms."""

    name: str
    terms: Mapping[str, float]
    episodes: int
    horizon: int

    @property
    def total(self) -> float:
        """The bound itself, at least 0."""
        return max(math.fsum(self.terms.values()), 0.0)

    @property
    def trivial(self) -> float:
        """K H, the trivial bound: it needs no proof."""
        return float(self.episodes) * self.horizon

    @property
    def vacuous(self) -> bool:
        """Whether it is no smaller than the trivial bound K H, and so says nothing."""
        return self.total >= self.trivial


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything that a bound depends on: task, constants and, for least squares, the sizes of the features."""

    task: Task
    constants: Constants
    sizes: FeatureSizes | None = None  # None: counts

    @classmethod
    def of(
        cls,
        task: Task,
        *,
        preset: str | Preset = "certified",
        sizes: FeatureSizes | None = None,
        constrained: bool = True,
    ) -> Setting:
        """Return the setting of a preset for a task; `sizes` are those of the features, None for counts.

        Without `constrained` it is that of OPPO: no multipliers and no mixing. Raises InvalidParameterError as `Preset`
        does.
        """
        constants = choose(task, preset)
        return cls(task, constants if constrained else constants.unconstrained(task), sizes)

    @property
    def constrained(self) -> bool:
        """Whether there are multipliers."""
        return self.constants.dual_bound > 0.0

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the multipliers' steps [I]: those of the task plus the preset's margin."""
        return self.task.thresholds + self.constants.margin

    @property
    def bonuses(self) -> Bonuses:
        """The bonuses of the setting's confidence rule."""
        return bonuses_of(self.task, self.constants.radius, self.constants.ridge, self.sizes)

    def replanned(self, episodes: int) -> Setting:
        """Return the same preset for another number of episodes, also for more than a learner can count."""
        task = copy.copy(self.task)
        object.__setattr__(task, "episodes", episodes)
        now = self.constants
        preset = Preset(now.preset, now.parameters, now.dual_bound or 1.0)
        return Setting.of(task, preset=preset, sizes=self.sizes, constrained=self.constrained)


def policy_terms(setting: Setting, prices: Floats | None = None, episodes: int | None = None) -> dict[str, float]:
    """Return the terms of the primal-dual mirror descent lemma (Lemma 1).

    prices [K] are 1 + sum_i Y_i^k along a run; by default each is at its largest, 1 + chi or, with the paper's
    multipliers, 1 + I chi.
    """
    task, c = setting.task, setting.constants
    H, A = task.horizon, task.num_actions
    K, most = _episodes(setting, episodes), 1.0 + min(task.num_constraints * c.dual_bound, c.dual_total)
    once, squares = (K * most, K * most**2) if prices is None else (float(prices.sum()), float((prices**2).sum()))
    if A == 1:
        return dict.fromkeys(("first policy", "mixing, divergence", "mixing, value", "policy steps"), 0.0)
    return {
        "first policy": H * math.log(A) / c.step_size,
        "mixing, divergence": c.mixing * K * H * math.log(A) / c.step_size,
        "mixing, value": c.mixing * once * H * (H + 1) / 2,
        "policy steps": c.step_size / 8.0 * squares * H * (H + 1) * (2 * H + 1) / 6,
    }


def dual_steps(setting: Setting, episodes: int | None = None) -> float:
    """Return sum_i eta K max(b_i, H - b_i)^2 / 2, the largest cost of the multipliers' steps."""
    reach = np.maximum(setting.thresholds, setting.task.horizon - setting.thresholds)
    return setting.constants.dual_step_size * _episodes(setting, episodes) * float((reach**2).sum()) / 2.0


def martingale(setting: Setting) -> float:
    """Return the bound on one signal's martingale after every episode of the plan, which fails with p / (2 (1 + I)).

    This is the inequality of Azuma and Hoeffding with one difference for each stage, of range H - h, in every episode
    with optimistic estimates. Its maximal form holds after all episodes at once, and so does a whole curve of bounds.
    """
    task = setting.task
    H = task.horizon
    share = (1.0 - OPTIMISM_SHARE) * task.failure_probability / (1 + task.num_constraints)
    squares = H * (H + 1) * (2 * H + 1) / 6
    return math.sqrt(task.episodes * squares / 2.0 * math.log(1.0 / share))


def regret(setting: Setting, episodes: int | None = None) -> Bound:
    """Return the bound on the regret; with probability 1 - p it and the violation's hold after all episodes.

    A margin lowers the optimum by at most margin H / gap for each episode; where the gap is unknown, by margin chi / 2.
    """
    K = _episodes(setting, episodes)
    terms = {
        **policy_terms(setting, episodes=K),
        "multiplier steps": dual_steps(setting, K),
        "bonuses": setting.bonuses.most(K),
        "martingale": martingale(setting),
    }
    if setting.constrained and (margin := setting.constants.margin):
        task = setting.task
        price = setting.constants.dual_bound / 2.0 if task.slater_gap is None else task.horizon / task.slater_gap
        terms["margin"] = K * margin * price
    return Bound("regret", terms, K, setting.task.horizon)


def violation(setting: Setting, episodes: int | None = None) -> Bound:
    """Return the bound on the violation of the worst constraint; it needs chi >= 2 |Y*|_1, as chi = 2 H / gap is.

    With a margin Y* is that of the thresholds plus margin, and the term `margin` is negative: no less than 0 in total.
    """
    K, chi, margin = _episodes(setting, episodes), setting.constants.dual_bound, setting.constants.margin
    if chi <= 0.0 or setting.constants.dual_step_size <= 0.0:
        raise InvalidParameterError("without multipliers there is no bound on the violation.")
    bonus, wander = setting.bonuses.most(K), martingale(setting)
    inside = {
        **policy_terms(setting, episodes=K),
        "multiplier steps": dual_steps(setting, K),
        "first multiplier": chi**2 / (2.0 * setting.constants.dual_step_size),
        "bonuses": (1.0 + chi) * bonus,
        "martingale": (1.0 + chi) * wander,
    }
    terms = {name: 2.0 / chi * value for name, value in inside.items()}
    return Bound("violation", {**terms, **({"margin": -K * margin} if margin else {})}, K, setting.task.horizon)


def zero_violation_margin(task: Task, *, sizes: FeatureSizes | None = None) -> float:
    """Return the smallest margin with which the preset `certified` has no violation after K episodes.

    With probability 1 - p, thresholds b + margin are violated by at most `violation` in total; if that is at most
    K margin, the thresholds b are not violated. Raises InvalidParameterError if the Slater gap is unknown, or if K is
    too small for such a margin below the gap.
    """
    gap = task.slater_gap
    if gap is None:
        raise InvalidParameterError("zero violation needs the Slater gap or a lower bound on it (slater_gap=...).")
    if not _is_enough(task, sizes, MOST_OF_GAP * gap):
        raise InvalidParameterError(
            f"{task.episodes:,} episodes are too few for zero violation: the bound on the violation, per episode, "
            f"exceeds the Slater gap {gap:.4g}; expected at least {_zero_violation_from(task, sizes)} episodes."
        )
    low, high = 0.0, MOST_OF_GAP * gap
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _is_enough(task, sizes, middle) else (middle, high)
    return high


def _is_enough(task: Task, sizes: FeatureSizes | None, margin: float) -> bool:
    preset = Preset("certified", {"margin": margin})
    return violation(Setting.of(task, preset=preset, sizes=sizes)).total <= 0.0


def _zero_violation_from(task: Task, sizes: FeatureSizes | None) -> str:
    """Return the first power of two from which on there is a margin, in words."""
    plan, planned = task.episodes, copy.copy(task)
    while plan <= LARGEST_PLAN:
        object.__setattr__(planned, "episodes", plan)
        if _is_enough(planned, sizes, MOST_OF_GAP * float(task.slater_gap or 0.0)):
            return f"about {plan:.2g}"
        plan *= 2
    return "more than 1e60"


def useful_from(setting: Setting, bound: Callable[[Setting], Bound]) -> int | None:
    """Return a K from which on a preset's bound is below the trivial K H, each K with constants of its own.

    It is the first from `settled_from` on, where the bound divided by K is known not to increase. None if that is
    beyond 10^60.
    """

    def useful(plan: int) -> bool:
        return not bound(setting.replanned(plan)).vacuous

    settled = setting.bonuses.settled_from
    if settled > LARGEST_PLAN:
        return None
    high = math.ceil(settled)
    low = high - 1
    while not useful(high):
        low, high = high, 2 * high
        if high > LARGEST_PLAN:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if useful(middle) else (middle, high)
    return high


def _episodes(setting: Setting, episodes: Any) -> int:
    """Return K: as many episodes as were planned, or fewer."""
    planned = setting.task.episodes
    if episodes is None:
        return planned
    if not 0 <= episodes <= planned:
        raise InvalidParameterError(
            f"episodes is {episodes}; a bound for a plan of {planned} episodes holds for 0 to {planned} of them."
        )
    return int(episodes)

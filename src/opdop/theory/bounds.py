"""The theorem's bounds on regret and violation with every constant explicit; docs/guarantees.md derives each term.

A bound is a sum of named terms, so that each can be printed beside what was measured.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdop.algorithms.constants import Constants, FeatureSizes, Preset, choose
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError
from opdop.model.validation import Floats
from opdop.theory.potential import Bonuses, bonuses_of

# Of the failure probability p the confidence rules spend this share on optimism; the martingales have the rest.
OPTIMISM_SHARE = 0.5
LARGEST_PLAN = 10**60
SWITCHES = "dual_step_size", "mixing", "dual_bound"  # constants that are 0 where Algorithm 1 runs without constraints


@dataclass(frozen=True)
class Bound:
    """An upper bound on a sum over the episodes, as a sum of terms."""

    name: str
    terms: Mapping[str, float]
    episodes: int
    horizon: int

    @property
    def total(self) -> float:
        """The bound itself."""
        return math.fsum(self.terms.values())

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
    def of(cls, task: Task, *, preset: str | Preset = "certified", sizes: FeatureSizes | None = None) -> Setting:
        """Return the setting of a preset for a task; `sizes` are those of the features, None for counts.

        Raises InvalidParameterError as `Preset` does.
        """
        return cls(task, choose(task, preset), sizes)

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
        planned = Setting.of(task, preset=preset, sizes=self.sizes)
        return planned.without(name for name in SWITCHES if getattr(now, name) == 0.0)

    def without(self, names: Iterable[str]) -> Setting:
        """Return the setting with some constants, `names` out of `SWITCHES`, at 0.

        OPPO has all of them at 0: no multipliers, no mixing.
        """
        off: dict[str, Any] = dict.fromkeys(names, 0.0)
        return replace(self, constants=replace(self.constants, **off))


def policy_terms(setting: Setting, prices: Floats | None = None, episodes: int | None = None) -> dict[str, float]:
    """Return the terms of the primal-dual mirror descent lemma (Lemma 1).

    prices [K] are 1 + sum_i Y_i^k along a run; by default each is at its largest, 1 + I chi.
    """
    task, c = setting.task, setting.constants
    H, A = task.horizon, task.num_actions
    K, most = _episodes(setting, episodes), 1.0 + task.num_constraints * c.dual_bound
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
    task = setting.task
    reach = np.maximum(task.thresholds, task.horizon - task.thresholds)
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
    """Return the bound on the regret; with probability 1 - p it and the violation's hold after all episodes."""
    K = _episodes(setting, episodes)
    terms = {
        **policy_terms(setting, episodes=K),
        "multiplier steps": dual_steps(setting, K),
        "bonuses": setting.bonuses.most(K),
        "martingale": martingale(setting),
    }
    return Bound("regret", terms, K, setting.task.horizon)


def violation(setting: Setting, episodes: int | None = None) -> Bound:
    """Return the bound on the violation of the worst constraint; it needs chi >= 2 |Y*|_1, as chi = 2 H / gap is."""
    K, chi = _episodes(setting, episodes), setting.constants.dual_bound
    if chi <= 0.0 or setting.constants.dual_step_size <= 0.0:
        raise InvalidParameterError("without multipliers there is no bound on the violation.")
    bonus, wander = setting.bonuses.most(K), martingale(setting)
    terms = {
        **policy_terms(setting, episodes=K),
        "multiplier steps": dual_steps(setting, K),
        "first multiplier": chi**2 / (2.0 * setting.constants.dual_step_size),
        "bonuses": (1.0 + chi) * bonus,
        "martingale": (1.0 + chi) * wander,
    }
    return Bound("violation", {name: 2.0 / chi * value for name, value in terms.items()}, K, setting.task.horizon)


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

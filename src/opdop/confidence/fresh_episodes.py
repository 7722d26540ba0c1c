"""Certificates without any structure: a frozen policy plays fresh episodes, and bets bound its mean totals.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.confidence.certificate import Certificate
from opdop.kernels.transitions import draw
from opdop.model import Display, Episode, InvalidModelError, PolicyMixture, Simulator
from opdop.model.html_tables import html_table
from opdop.model.rounding import digits_for
from opdop.model.validation import Floats, as_size, call, check_failure_probability, shown

_LARGEST_BET = 0.75  # of what a bet may lose at most
_STEPS = 60  # of the bisection


def lower_mean(observed: Floats, failure_probability: float) -> float:
    """Return a lower bound on the mean of independent observations [n] in [0, 1], wrong with a given probability.

    Who bets on observations above m, with a stake that depends on earlier ones only, has a capital
    prod_t (1 + stake_t (X_t - m)) that is a nonnegative martingale if m is the mean. By Ville's inequality it exceeds
    1/p at any time with probability at most p, so every m for which it does is refuted; it falls with m. The stakes are
    those that suit the variance so far: sqrt(2 log(1/p) / (n variance)), at most 3/4 of what keeps it positive.
    """
    n = len(observed)
    times = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(observed)) / (times + 1.0)
    variances = (0.25 + np.cumsum((observed - means) ** 2)) / (times + 1.0)
    before = np.concatenate([[0.25], variances[:-1]])
    wanted = np.sqrt(2.0 * math.log(1.0 / failure_probability) / (n * before))
    refuted, allowed = 0.0, 1.0
    for _ in range(_STEPS):
        m = (refuted + allowed) / 2.0
        stakes = np.minimum(wanted, _LARGEST_BET / m)
        wealth = np.cumsum(np.log1p(stakes * (observed - m)))
        if wealth.max() > math.log(1.0 / failure_probability):
            refuted = m
        else:
            allowed = m
    return refuted


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What fresh episodes of a frozen policy have shown: mean totals, and intervals that hold with a probability.

    The numbers are totals of an episode in model units; `text` has them in the problem's own units.
    """

    name: str  # of the policy: "final", "average" or "recommended", or another
    episodes: int
    means: Floats  # [1+I]
    lower: Floats  # [1+I]
    upper: Floats  # [1+I]
    thresholds: Floats  # [I]
    failure_probability: float
    display: Display
    horizon: int

    def interval(self, signal: int) -> tuple[float, float, float]:
        """Return the mean of a signal and the limits of its interval, in own units; signal 0 is the reward."""
        quantity = self.display.quantities[signal]
        shown_values = [quantity.shown(float(each[signal])) for each in (self.means, self.lower, self.upper)]
        return shown_values[0], min(shown_values[1:]), max(shown_values[1:])

    @property
    def lead(self) -> str:
        """The words before the numbers."""
        chance = f"{100.0 * (1.0 - self.failure_probability):g} %"
        many = f"{self.episodes:,} fresh episode{'' if self.episodes == 1 else 's'}"
        return f"{many} of the {self.name} policy, all intervals at once with probability at least {chance}"

    @property
    def lines(self) -> list[str]:
        """The mean and the interval of each signal with its limit, in own units."""
        found = []
        for j, quantity in enumerate(self.display.quantities):
            mean, low, high = self.interval(j)
            digits = digits_for(high - low)
            words = quantity.name if j == 0 else quantity.constraint(float(self.thresholds[j - 1]))
            unit = f" {quantity.unit}".rstrip()
            found.append(f"{words}: {mean:,.{digits}f}{unit}, between {low:,.{digits}f} and {high:,.{digits}f}")
        return found

    @property
    def text(self) -> str:
        """The evaluation in one sentence."""
        return f"{self.lead}: {'; '.join(self.lines)}"

    def record(self) -> dict[str, Any]:
        """Return the evaluation as plain data, in model units, and in own units under `own`."""
        keys = ("mean", "lower", "upper")
        own = [dict(zip(keys, self.interval(j), strict=True)) for j in range(len(self.means))]
        return {
            "policy": self.name,
            "episodes": self.episodes,
            "failure_probability": self.failure_probability,
            **{key: each.tolist() for key, each in zip(keys, (self.means, self.lower, self.upper), strict=True)},
            "own": {"reward": own[0], "constraints": own[1:]},
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Evaluation({self.name} policy, {self.episodes:,} episodes of {self.display.name!r})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), [line.split(": ", 1) for line in self.lines], self.lead)


def certify_by_episodes(
    simulator: Simulator,
    policy: Any,
    *,
    episodes: int,
    horizon: int,
    thresholds: Floats,
    display: Display,
    failure_probability: float = 0.05,
    generator: np.random.Generator | None = None,
) -> Certificate:
    """Play fresh episodes with a policy, and return what their totals prove about it.

    Each of the 1 + I signals has a lower and an upper bound; each of these may fail with p / (2 (1 + I)). Nothing is
    said about other policies, so `optimum_upper` is infinite.

    Args:
        simulator: plays the episodes; they must not be those from which the policy was learnt.
        policy: anything that the simulator plays; or a PolicyMixture, of which `generator` draws a part each time.
        episodes: how many, at least 1.
        horizon: H, so that totals are in [0, H].
        thresholds: of the utilities, [I].
        display: the words and units.
        failure_probability: the probability with which the certificate may be wrong.
        generator: draws the parts of a mixture.

    Raises InvalidModelError if an episode does not have signals [1+I, H] in [0, 1].
    """
    found = evaluate_by_episodes(
        simulator,
        policy,
        episodes=episodes,
        horizon=horizon,
        thresholds=thresholds,
        display=display,
        failure_probability=failure_probability,
        generator=generator,
    )
    return Certificate(
        policy=policy,
        reward_lower=float(found.lower[0]),
        reward_upper=float(found.upper[0]),
        utility_lower=found.lower[1:],
        utility_upper=found.upper[1:],
        optimum_upper=math.inf,
        thresholds=found.thresholds,
        failure_probability=found.failure_probability,
        display=display,
        basis=f"{found.episodes:,} fresh episodes",
        horizon=horizon,
    )


def evaluate_by_episodes(
    simulator: Simulator,
    policy: Any,
    *,
    episodes: int,
    horizon: int,
    thresholds: Floats,
    display: Display,
    failure_probability: float = 0.05,
    generator: np.random.Generator | None = None,
    name: str = "policy",
) -> Evaluation:
    """Play fresh episodes with a policy, and return their mean totals with intervals; `name` is what it is called.

    The other arguments and the errors are those of `certify_by_episodes`.
    """
    n, risk = as_size("episodes", episodes), check_failure_probability("failure_probability", failure_probability)
    generator = generator or np.random.default_rng(0)
    totals = _play(simulator, policy, n, (1 + len(thresholds), horizon), generator)
    each = risk / (2.0 * totals.shape[1])
    return Evaluation(
        name=name,
        episodes=n,
        means=horizon * totals.mean(axis=0),
        lower=horizon * np.array([lower_mean(total, each) for total in totals.T]),
        upper=horizon * (1.0 - np.array([lower_mean(1.0 - total, each) for total in totals.T])),
        thresholds=np.array(thresholds),
        failure_probability=risk,
        display=display,
        horizon=horizon,
    )


def _play(simulator: Simulator, policy: Any, n: int, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Return the totals [n, 1+I] of n episodes, each divided by H, for signals of a shape [1+I, H]."""
    horizon = shape[1]
    totals = np.empty((n, shape[0]))
    for k in range(n):
        part = policy
        if isinstance(policy, PolicyMixture):
            part = policy.parts[draw(policy.weights, generator.random())]
        episode = call("play() of the simulator", simulator.play, part)
        signals = np.asarray(episode.signals) if isinstance(episode, Episode) else np.zeros(0)
        if signals.shape != shape or not (signals.min() >= 0.0 and signals.max() <= 1.0):
            raise InvalidModelError(
                f"play() has returned {shown(episode)}; expected an Episode with signals [1+I,H] = {list(shape)} in "
                "[0, 1]."
            )
        totals[k] = signals.sum(axis=1) / horizon
    return totals

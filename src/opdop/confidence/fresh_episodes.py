"""Certificates without any structure: a frozen policy plays fresh episodes, and bets bound its mean totals.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opdop.confidence.certificate import Certificate
from opdop.kernels.transitions import draw
from opdop.model import Display, Episode, InvalidModelError, PolicyMixture, Simulator
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
    n, risk = as_size("episodes", episodes), check_failure_probability("failure_probability", failure_probability)
    shape = (1 + len(thresholds), horizon)
    generator = generator or np.random.default_rng(0)
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
    each = risk / (2.0 * shape[0])
    low = horizon * np.array([lower_mean(total, each) for total in totals.T])
    up = horizon * (1.0 - np.array([lower_mean(1.0 - total, each) for total in totals.T]))
    return Certificate(
        policy=policy,
        reward_lower=float(low[0]),
        reward_upper=float(up[0]),
        utility_lower=low[1:],
        utility_upper=up[1:],
        optimum_upper=math.inf,
        thresholds=np.array(thresholds),
        failure_probability=risk,
        display=display,
        basis=f"{n:,} fresh episodes",
        horizon=horizon,
    )

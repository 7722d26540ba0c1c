"""The radii of confidence ellipsoids of linear kernels."""

from __future__ import annotations

import math

import numpy as np

from opdop.kernels.lstd import Radii


def self_normalised_radii(
    *,
    horizon: int,
    signals: int,
    blocks: int,
    share: float,
    noisy: bool,
    ridge: float,
    kernel_norm: float,
    signal_norm: float,
    scale: float = 1.0,
) -> Radii:
    """Return the rule of `SelfNormalisedRadius`, which derives it, as the kernels use it.

    Args:
        horizon: H.
        signals: 1 + I.
        blocks: the number of independent regressions for the kernel: S A for one-hot features, otherwise 1.
        share: the probability with which the kernels' ellipsoids may fail, and, if signals are random, the signals'.
        noisy: whether signals are random.
        ridge: of all regressions.
        kernel_norm: B, at least the norm of the kernel's weights.
        signal_norm: B_2, at least the norm of a signal's weights.
        scale: multiplies the whole; only 1 is certified.
    """
    slack = 2.0 * math.log(signals * horizon * blocks / share)
    span = np.arange(horizon - 1, -1, -1.0)
    return Radii(
        noise=scale * span / 2.0,
        slack=slack,
        bias=np.full(horizon, scale * math.sqrt(ridge) * kernel_norm),
        signal_noise=scale * (0.5 if noisy else 0.0),
        signal_slack=slack,
        signal_bias=scale * math.sqrt(ridge) * signal_norm,
    )

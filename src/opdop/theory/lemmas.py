"""The paper's lemmas on one policy step, as residuals and margins at every stage, state and action."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import rel_entr

from opdop.model.validation import Floats


def mixed(policy: Floats, mixing: float) -> Floats:
    """Return the policy mixed with the uniform one (line 5 of Algorithm 1), [H, S, A]."""
    table: Floats = (1.0 - mixing) * policy + mixing / policy.shape[-1]
    return table


def divergence(p: Floats, q: Floats) -> Floats:
    """Return D(p | q), the Kullback-Leibler divergence over the last axis."""
    total: Floats = rel_entr(p, q).sum(axis=-1)
    return total


def pushback(improved: Floats, start: Floats, direction: Floats, step_size: float) -> Floats:
    """Return what is missing from the pushback property of the KL-divergence, [H, S, A].

    For x = argmax f(x) - D(x | y) / alpha and every z, f(x) - D(x | y) / alpha = f(z) - D(z | y) / alpha + D(z | x) /
    alpha: the paper's inequality is an equality, as f is linear. Both sides are linear in z too, so it is enough to try
    the z that take one action. improved is x, start is y, direction is f.
    """
    reached = (direction * improved).sum(axis=-1) - divergence(improved, start) / step_size
    other = direction + np.log(start) / step_size - np.log(improved) / step_size
    missing: Floats = reached[..., None] - other
    return missing


def mixing_cost(policy: Floats, mixing: float) -> Floats:
    """Return D(z | mixed policy) - D(z | policy) for every z that takes one action, [H, S, A]; linear in z."""
    cost: Floats = np.log(policy) - np.log(mixed(policy, mixing))
    return cost


def most_mixing_cost(num_actions: int, mixing: float) -> float:
    """Return theta log A, which the lemma on mixing allows."""
    return mixing * math.log(num_actions)

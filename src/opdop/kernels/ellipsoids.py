"""Confidence ellipsoids of linear kernels, and the best kernel in them, row by row.

At stage h the weights theta_h of the kernel are in || theta_h - theta^_h ||_Gram <= radius. The expectation of v is
phi_v theta_h, with phi_v(x, a) = sum_y psi(x, a, y) v(y). It is not above the largest value nor below the smallest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.features import Form, integrate_all
from opdop.kernels.records import as_record

_EXACT = {"contract"}  # see features.py


@as_record
class Ellipsoids(NamedTuple):
    """One ellipsoid for each stage; the expectation is that of the member that maximises weights @ v, for each pair."""

    form: Form
    theta: np.ndarray  # [H, d]
    inverse: np.ndarray  # [H, d, d], of the Gram matrix
    radii: np.ndarray  # [H]
    weights: np.ndarray  # [J]
    values: np.ndarray  # [J, 1, S], room
    phi: np.ndarray  # [J, d, A*S], room
    num_actions: int


@as_record
class BlockEllipsoids(NamedTuple):
    """One-hot features: an ellipsoid for each stage and pair a*S + x, in which theta is the row of the kernel."""

    theta: np.ndarray  # [H, A*S, S]
    inverse: np.ndarray  # [H, A*S, S, S]
    radii: np.ndarray  # [H, A*S]
    weights: np.ndarray  # [J]
    values: np.ndarray  # [J, 1, S], room
    num_actions: int


@njit(cache=True, allocates=False, fastmath=_EXACT)
def integrate_values(ellipsoids, v):
    """Store v [J, S] and the features phi_v of all pairs."""
    store_values(ellipsoids.values, v)
    integrate_all(ellipsoids.form, ellipsoids.values, ellipsoids.phi)


@njit(cache=True, allocates=False, fastmath=_EXACT)
def store_values(values, v):
    """Copy v [J, S] into values [J, 1, S]."""
    for j in range(v.shape[0]):
        for y in range(v.shape[1]):
            values[j, 0, y] = v[j, y]


@njit(cache=True, fastmath=_EXACT)
def expect_in_ellipsoids(ellipsoids, first_row, count, out):
    """Write the expectations of the stored values into out [J, count], for rows (h*S + x)*A + a from the first on."""
    theta, inverse, radii, weights = ellipsoids.theta, ellipsoids.inverse, ellipsoids.radii, ellipsoids.weights
    values, phi, A = ellipsoids.values, ellipsoids.phi, ellipsoids.num_actions
    J, d, S = values.shape[0], phi.shape[1], values.shape[2]
    best, worst, largest, smallest = find_extremes(weights, values)
    x, features = np.empty(d), np.empty((J, d))
    for n in range(count):
        h, pair = stage_and_pair(first_row + n, A, S)
        for i in range(d):
            for j in range(J):
                features[j, i] = phi[j, i, pair]
        _expect(features, theta[h], inverse[h], radii[h], weights, x, out, n)
        keep_in_range(weights, values, best, worst, largest, smallest, out, n)


@njit(cache=True, fastmath=_EXACT)
def expect_in_blocks(blocks, first_row, count, out):
    """The same for one-hot features."""
    weights, values, A = blocks.weights, blocks.values, blocks.num_actions
    S = values.shape[2]
    best, worst, largest, smallest = find_extremes(weights, values)
    x = np.empty(S)
    for n in range(count):
        h, pair = stage_and_pair(first_row + n, A, S)
        _expect(values[:, 0], blocks.theta[h, pair], blocks.inverse[h, pair], blocks.radii[h, pair], weights, x, out, n)
        keep_in_range(weights, values, best, worst, largest, smallest, out, n)


@njit(cache=True, allocates=False, fastmath=_EXACT)
def stage_and_pair(row, A, S):
    """Return the stage of row (h*S + x)*A + a, and its pair by action, a*S + x."""
    h, pair = row // (S * A), row % (S * A)
    return h, (pair % A) * S + pair // A


@njit(cache=True, allocates=False, fastmath=_EXACT)
def find_extremes(weights, values):
    """Return the best and the worst state by the weighted sum of values [J, 1, S], and the sums there."""
    best, worst, largest, smallest = 0, 0, -math.inf, math.inf
    for y in range(values.shape[2]):
        total = 0.0
        for j in range(values.shape[0]):
            total += weights[j] * values[j, 0, y]
        if total > largest:
            best, largest = y, total
        if total < smallest:
            worst, smallest = y, total
    return best, worst, largest, smallest


@njit(cache=True, allocates=False, fastmath=_EXACT)
def _expect(features, theta, inverse, radius, weights, x, out, n):
    """Write features [J, d] @ theta~ for the member theta~ of the ellipsoid that is best for the weighted sum."""
    J, d = features.shape
    form = 0.0
    for i in range(d):  # x = inverse @ (weights @ features)
        total = 0.0
        for k in range(d):
            weighted = 0.0
            for j in range(J):
                weighted += weights[j] * features[j, k]
            total += inverse[i, k] * weighted
        x[i] = total
    for i in range(d):
        for j in range(J):
            form += weights[j] * features[j, i] * x[i]
    step = radius / math.sqrt(form) if form > 0.0 else 0.0
    for j in range(J):
        total = 0.0
        for i in range(d):
            total += features[j, i] * (theta[i] + step * x[i])
        out[j, n] = total


@njit(cache=True, allocates=False, fastmath=_EXACT)
def keep_in_range(weights, values, best, worst, largest, smallest, out, n):
    """Replace an expectation beyond the largest or the smallest value by that value: all mass on one state."""
    total = 0.0
    for j in range(weights.shape[0]):
        total += weights[j] * out[j, n]
    if smallest <= total <= largest:
        return
    y = best if total > largest else worst
    for j in range(weights.shape[0]):
        out[j, n] = values[j, 0, y]

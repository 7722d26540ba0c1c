"""Ridge regressions kept up to date one observation at a time, with an inverse that cannot drift away."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# The inverse is updated by Sherman and Morrison's formula, and computed anew from the Gram matrix after so many
# updates: its error stays that of a few hundred updates, however long the run.
REFRESH = 256


@njit(cache=True, fastmath={"contract"})
def multiply(matrix, x, out):
    """Write the symmetric matrix [d, d] times x [d] into out [d]."""
    d = x.shape[0]
    for i in range(d):
        out[i] = 0.0
    for k in range(d):
        row, factor = matrix[k], x[k]
        for i in range(d):
            out[i] += row[i] * factor


@njit(cache=True, fastmath={"contract"})
def invert(gram, inverse):
    """Write the inverse of a positive definite gram [d, d]; return its log determinant (Cholesky)."""
    d = gram.shape[0]
    root = np.zeros((d, d))
    logdet = 0.0
    for i in range(d):
        for k in range(i + 1):
            total = gram[i, k]
            for n in range(k):
                total -= root[i, n] * root[k, n]
            if i == k:
                root[i, i] = math.sqrt(total)
                logdet += 2.0 * math.log(root[i, i])
            else:
                root[i, k] = total / root[k, k]
    column = np.empty(d)
    for k in range(d):
        for i in range(d):
            total = 1.0 if i == k else 0.0
            for n in range(i):
                total -= root[i, n] * column[n]
            column[i] = total / root[i, i]
        for i in range(d - 1, -1, -1):
            total = column[i]
            for n in range(i + 1, d):
                total -= root[n, i] * column[n]
            column[i] = total / root[i, i]
        for i in range(d):
            inverse[i, k] = column[i]
    for i in range(d):
        for k in range(i):
            mean = 0.5 * (inverse[i, k] + inverse[k, i])
            inverse[i, k] = mean
            inverse[k, i] = mean
    return logdet


@njit(cache=True, fastmath={"contract"})
def add_row(x, gram, inverse, direction):
    """Add the outer product of x [d] to gram and update its inverse; return the growth of the determinant.

    direction [d] becomes inverse @ x as it was before.
    """
    d = x.shape[0]
    multiply(inverse, x, direction)
    growth = 1.0
    for i in range(d):
        growth += x[i] * direction[i]
    for i in range(d):
        for k in range(d):
            gram[i, k] += x[i] * x[k]
            inverse[i, k] -= direction[i] * direction[k] / growth
    return growth


@njit(cache=True, fastmath={"contract"})
def quadratic_forms(matrix, phi, pairs, out):
    """Write phi^T matrix phi of every pair, phi [d, pairs], matrix [d, d] symmetric."""
    d = phi.shape[0]
    inner = np.zeros(pairs)
    for pair in range(pairs):
        out[pair] = 0.0
    for i in range(d):
        # The last four components at most are multiplied in one pass with the sum; those before them come first.
        last = d - 1 - (d - 2 - i) % 4 if i < d - 1 else d
        if d > 5:
            for pair in range(pairs):
                inner[pair] = 0.0
            predict(matrix[i, i + 1 : last], phi[i + 1 : last], 0, pairs, inner)
        row, half = phi[i], 0.5 * matrix[i, i]
        k0, k1, k2, k3 = min(last, d - 1), min(last + 1, d - 1), min(last + 2, d - 1), min(last + 3, d - 1)
        r0, r1, r2, r3 = phi[k0], phi[k1], phi[k2], phi[k3]
        m0 = matrix[i, k0] if last < d else 0.0
        m1 = matrix[i, k1] if last + 1 < d else 0.0
        m2 = matrix[i, k2] if last + 2 < d else 0.0
        m3 = matrix[i, k3] if last + 3 < d else 0.0
        for pair in range(pairs):
            here = inner[pair] + half * row[pair] + m0 * r0[pair] + m1 * r1[pair] + m2 * r2[pair] + m3 * r3[pair]
            out[pair] += 2.0 * row[pair] * here


@njit(cache=True, fastmath={"contract"})
def predict(weights, phi, first, pairs, out):
    """Add phi^T weights of the pairs from `first` on to out [pairs], phi [d, ...]."""
    d = phi.shape[0]
    whole = d - d % 4  # four components at a time, so that `out` is read and written a quarter as often
    for i in range(0, whole, 4):
        r0, r1 = phi[i, first : first + pairs], phi[i + 1, first : first + pairs]
        r2, r3 = phi[i + 2, first : first + pairs], phi[i + 3, first : first + pairs]
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for pair in range(pairs):
            out[pair] = (((out[pair] + w0 * r0[pair]) + w1 * r1[pair]) + w2 * r2[pair]) + w3 * r3[pair]
    for i in range(whole, d):
        row, weight = phi[i, first : first + pairs], weights[i]
        for pair in range(pairs):
            out[pair] += weight * row[pair]

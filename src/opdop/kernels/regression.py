"""Ridge regressions that are updated one observation at a time; the error of the inverse stays bounded."""

from __future__ import annotations

import math

import numpy as np

from opdop.kernels.caching import njit

# The inverse is updated by Sherman and Morrison's formula, and computed anew from the Gram matrix after this many
# updates. So its error is that of a few hundred updates, however long the run is.
REFRESH = 256


@njit(cache=True, fastmath={"contract"}, allocates=False)
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


@njit(cache=True, fastmath={"contract"}, allocates=False)
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


@njit(cache=True, fastmath={"contract"}, allocates=False)
def observe_row(x, ridge, n, gram, inverse, information, updates, direction):
    """Add the observation x [d] to regression n of N; return the growth of its determinant.

    Updates gram and inverse [N, d, d], information [N] = log det(gram / ridge) and the number of updates [N].
    direction [d] becomes the old inverse @ x.
    """
    growth = add_row(x, gram[n], inverse[n], direction)
    updates[n] += 1
    if updates[n] % REFRESH == 0:
        information[n] = invert(gram[n], inverse[n]) - x.shape[0] * math.log(ridge)
    else:
        information[n] += math.log(growth)
    return growth


@njit(cache=True, fastmath={"contract"}, allocates=False)
def quadratic_forms(matrix, phi, pairs, out):
    """Write phi^T matrix phi of every pair, phi [d, pairs], matrix [d, d] symmetric."""
    d = phi.shape[0]
    for pair in range(pairs):
        out[pair] = 0.0
    for i in range(0, d, 2):  # two components at a time, alone and with four others, so that phi is read less often
        _add_square(matrix, i, phi, pairs, out)
        for k in range(i + 2, d, 4):
            _add_products(matrix, i, k, phi, pairs, out)


@njit(cache=True, fastmath={"contract"}, allocates=False)
def _add_square(matrix, i, phi, pairs, out):
    """Add the terms of components i and i + 1 alone; the last component may have no neighbour."""
    k = min(i + 1, phi.shape[0] - 1)
    one, two, own = phi[i], phi[k], matrix[i, i]
    both, other = (2.0 * matrix[i, k], matrix[k, k]) if k > i else (0.0, 0.0)
    for pair in range(pairs):
        out[pair] += one[pair] * (own * one[pair] + both * two[pair]) + other * two[pair] * two[pair]


@njit(cache=True, fastmath={"contract"}, allocates=False)
def _add_products(matrix, i, k, phi, pairs, out):
    """Add the products of components i and i + 1 with those from k to k + 3, as far as they exist."""
    last = phi.shape[0] - 1
    k1, k2, k3 = min(k + 1, last), min(k + 2, last), min(k + 3, last)
    twice1, twice2, twice3 = 2.0 * (k1 == k + 1), 2.0 * (k2 == k + 2), 2.0 * (k3 == k + 3)
    a, b = matrix[i], matrix[i + 1]
    a0, a1, a2, a3 = 2.0 * a[k], twice1 * a[k1], twice2 * a[k2], twice3 * a[k3]
    b0, b1, b2, b3 = 2.0 * b[k], twice1 * b[k1], twice2 * b[k2], twice3 * b[k3]
    one, two, r0, r1, r2, r3 = phi[i], phi[i + 1], phi[k], phi[k1], phi[k2], phi[k3]
    for pair in range(pairs):
        with_one = ((a0 * r0[pair] + a1 * r1[pair]) + a2 * r2[pair]) + a3 * r3[pair]
        with_two = ((b0 * r0[pair] + b1 * r1[pair]) + b2 * r2[pair]) + b3 * r3[pair]
        out[pair] = (out[pair] + one[pair] * with_one) + two[pair] * with_two


@njit(cache=True, fastmath={"contract"}, allocates=False)
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

"""Integrals of value functions against linear kernels: phi(x, a) = sum_y psi(x, a, y) V(y), one form for each family.

Features are laid out by component, [d, pairs], pairs being a*S + x: loops run over the pairs, which vectorises them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from opdop.kernels.caching import njit
from opdop.kernels.parts import overload
from opdop.kernels.records import as_record

# Products may be fused with sums but nothing may be reordered: the same bits wherever a kernel is inlined.
_EXACT = {"contract"}


@as_record
class Table(NamedTuple):
    """psi for every successor; for small state spaces and plain arrays."""

    psi: np.ndarray  # [S, d, A*S]


@as_record
class Listed(NamedTuple):
    """psi for the successors where it is not zero: mixtures of sparse base kernels."""

    starts: np.ndarray  # [d, A*S + 1] int64: one component after the other
    successors: np.ndarray  # [entries] int32
    psi: np.ndarray  # [entries]


@as_record
class Embedded(NamedTuple):
    """psi(x, a, y) = left(x, a) outer right(y), component l * dr + r."""

    left: np.ndarray  # [dl, A*S]
    right: np.ndarray  # [dr, S]


Form = Table | Listed | Embedded


def _by_form(form, table, listed, embedded):
    """Choose an implementation by the form of the features, at compile time."""
    if isinstance(form, types.BaseNamedTuple):
        return {"Table": table, "Listed": listed, "Embedded": embedded}[form.instance_class.__name__]
    return None


def dimension(form):
    """Return d."""
    return _pick(form, _table_dimension, _listed_dimension, _embedded_dimension)(form)


def _pick(form, table, listed, embedded):
    return {Table: table, Listed: listed, Embedded: embedded}[type(form)]


def _table_dimension(form):
    return form.psi.shape[1]


def _listed_dimension(form):
    return form.starts.shape[0]


def _embedded_dimension(form):
    return form.left.shape[0] * form.right.shape[0]


@overload(dimension, allocates=False)
def _overload_dimension(form):
    return _by_form(form, _table_dimension, _listed_dimension, _embedded_dimension)


def pieces(form, A, S):
    """Return how a stage is divided: (1, S) if all its pairs are one piece, or (A, n) for n states, action by action.

    A table is read from start to end. Otherwise the features of a piece should fit into a fast cache.
    """
    return _pick(form, _table_pieces, _other_pieces, _other_pieces)(form, A, S)


def _table_pieces(form, A, S):
    return 1, S


def _other_pieces(form, A, S):
    return (1, S) if A * S <= 512 else (A, min(S, 256))


@overload(pieces, allocates=False)
def _overload_pieces(form, A, S):
    return _by_form(form, _table_pieces, _other_pieces, _other_pieces)


def empty_common(form, J, S):
    """Return room for what the integrals of all pairs have in common (`find_common`)."""
    return _pick(form, _table_empty_common, _listed_empty_common, _embedded_empty_common)(form, J, S)


def _table_empty_common(form, J, S):
    return np.empty((0, 0))


def _listed_empty_common(form, J, S):
    return np.zeros(((J + 1) // 2, 2 * S))


def _embedded_empty_common(form, J, S):
    return np.empty((J, form.right.shape[0]))


@overload(empty_common)
def _overload_empty_common(form, J, S):
    return _by_form(form, _table_empty_common, _listed_empty_common, _embedded_empty_common)


@njit(cache=True, fastmath=False, allocates=False)
def _lay_in_pairs(v, h, pairs):
    """Write the signals v [J, :, S] at h into pairs [(J+1)//2, 2*S]: two signals of a state side by side."""
    for j in range(v.shape[0]):
        signal, pair = v[j, h], pairs[j // 2]
        for x in range(signal.shape[0]):
            pair[2 * x + j % 2] = signal[x]


@njit(cache=True, fastmath=_EXACT, allocates=False, forceinline=True)
def look_up(weights, places, first, last, values):
    """Return sum_e weights[e] values[places[e]] over the entries from first to last; values [S, 2], so two sums."""
    one, two = 0.0, 0.0
    for entry in range(np.uint64(first), np.uint64(last)):  # unsigned indices save a test of the sign
        y = np.uint32(places[entry])
        one += weights[entry] * values[y, 0]
        two += weights[entry] * values[y, 1]
    return one, two


def find_common(form, v, h, common):
    """Write what the integrals of all pairs have in common, for V = v[:, h]: moments, or two signals side by side."""
    _pick(form, _no_common, _listed_common, _embedded_moments)(form, v, h, common)


def _no_common(form, v, h, common):
    pass


def _listed_common(form, v, h, common):
    _lay_in_pairs(v, h, common)


def _embedded_moments(form, v, h, common):
    for j in range(v.shape[0]):
        for r in range(form.right.shape[0]):
            total = 0.0
            for y in range(v.shape[2]):
                total += form.right[r, y] * v[j, h, y]
            common[j, r] = total


@overload(find_common, fastmath=_EXACT, allocates=False)
def _overload_find_common(form, v, h, common):
    return _by_form(form, _no_common, _listed_common, _embedded_moments)


def integrate(form, v, h, common, first, pairs, phi):
    """Write phi [J, d, pairs] of the pairs from `first` on, for V = v[:, h] of v [J, H+1, S]; `common`: `find_common`.

    Signals are integrated two at a time: psi is read once for both.
    """
    _pick(form, _table_integrate, _listed_integrate, _embedded_integrate)(form, v, h, common, first, pairs, phi)


def _table_integrate(form, v, h, common, first, pairs, phi):
    S, d, _ = form.psi.shape
    J = v.shape[0]
    whole = S - S % 4  # four successors at a time, so that phi is read and written a quarter as often
    last = first + pairs
    for i in range(d):
        for j in range(J):
            row = phi[j, i]
            for pair in range(pairs):
                row[pair] = 0.0
        for y in range(0, whole, 4):
            p0, p1 = form.psi[y, i, first:last], form.psi[y + 1, i, first:last]
            p2, p3 = form.psi[y + 2, i, first:last], form.psi[y + 3, i, first:last]
            for j in range(0, J - 1, 2):
                one, two, a, b = phi[j, i], phi[j + 1, i], v[j, h], v[j + 1, h]
                a0, a1, a2, a3 = a[y], a[y + 1], a[y + 2], a[y + 3]
                b0, b1, b2, b3 = b[y], b[y + 1], b[y + 2], b[y + 3]
                for pair in range(pairs):
                    m0, m1, m2, m3 = p0[pair], p1[pair], p2[pair], p3[pair]
                    one[pair] = (((one[pair] + m0 * a0) + m1 * a1) + m2 * a2) + m3 * a3
                    two[pair] = (((two[pair] + m0 * b0) + m1 * b1) + m2 * b2) + m3 * b3
            if J % 2 == 1:
                one, a = phi[J - 1, i], v[J - 1, h]
                a0, a1, a2, a3 = a[y], a[y + 1], a[y + 2], a[y + 3]
                for pair in range(pairs):
                    one[pair] = (((one[pair] + p0[pair] * a0) + p1[pair] * a1) + p2[pair] * a2) + p3[pair] * a3
        for y in range(whole, S):
            p0 = form.psi[y, i, first:last]
            for j in range(J):
                row, value = phi[j, i], v[j, h, y]
                for pair in range(pairs):
                    row[pair] += p0[pair] * value


def _listed_integrate(form, v, h, common, first, pairs, phi):
    J = v.shape[0]
    for i in range(form.starts.shape[0]):
        starts = form.starts[i, first : first + pairs + 1]
        for j in range(0, J, 2):
            values, one, two = common[j // 2].reshape(-1, 2), phi[j, i], phi[min(j + 1, J - 1), i]
            for pair in range(pairs):
                here, beside = look_up(form.psi, form.successors, starts[pair], starts[pair + 1], values)
                two[pair] = beside
                one[pair] = here  # after: a last signal without a neighbour has only this one


def _embedded_integrate(form, v, h, common, first, pairs, phi):
    dr = form.right.shape[0]
    for j in range(v.shape[0]):
        for left in range(form.left.shape[0]):
            row = form.left[left, first : first + pairs]
            for r in range(dr):
                out, factor = phi[j, left * dr + r], common[j, r]
                for pair in range(pairs):
                    out[pair] = row[pair] * factor


@overload(integrate, fastmath=_EXACT, allocates=False)
def _overload_integrate(form, v, h, common, first, pairs, phi):
    return _by_form(form, _table_integrate, _listed_integrate, _embedded_integrate)


@njit(cache=True, fastmath=False)
def integrate_all(form, v, phi):
    """Write phi [J, d, A*S] of every pair for v [J, 1, S]."""
    common = empty_common(form, v.shape[0], v.shape[2])
    find_common(form, v, 0, common)
    integrate(form, v, 0, common, 0, phi.shape[2], phi)

"""Integrals of value functions against linear kernels: phi(x, a) = sum_y psi(x, a, y) V(y), one form for each family.

Features are laid out by component, [d, pairs], pairs being x*A + a: loops run over the pairs, which vectorises them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

# Products may be fused with sums, nothing may be reordered: the same bits wherever a kernel is inlined (see known.py).
_EXACT = {"contract"}


class Table(NamedTuple):
    """psi for every successor; for small state spaces and plain arrays."""

    psi: np.ndarray  # [S, d, S*A]


class Listed(NamedTuple):
    """psi for the successors where it is not zero: mixtures of sparse base kernels."""

    starts: np.ndarray  # [d, S*A + 1] int64: one component after the other
    successors: np.ndarray  # [entries] int32
    psi: np.ndarray  # [entries]


class Embedded(NamedTuple):
    """psi(x, a, y) = left(x, a) outer right(y), component l * dr + r."""

    left: np.ndarray  # [dl, S*A]
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


@overload(dimension)
def _overload_dimension(form):
    return _by_form(form, _table_dimension, _listed_dimension, _embedded_dimension)


def states_at_once(form, S):
    """Return how many states are integrated together: all of a table's, which is read from start to end, or a block."""
    return _pick(form, _table_states_at_once, _other_states_at_once, _other_states_at_once)(form, S)


def _table_states_at_once(form, S):
    return S


def _other_states_at_once(form, S):
    return min(64, S)


@overload(states_at_once)
def _overload_states_at_once(form, S):
    return _by_form(form, _table_states_at_once, _other_states_at_once, _other_states_at_once)


def moments(form, v, out):
    """Write what every pair's integral has in common into out [dr]; only embeddings have anything."""
    _pick(form, _no_moments, _no_moments, _embedded_moments)(form, v, out)


def _no_moments(form, v, out):
    pass


def _embedded_moments(form, v, out):
    for r in range(form.right.shape[0]):
        total = 0.0
        for y in range(v.shape[0]):
            total += form.right[r, y] * v[y]
        out[r] = total


@overload(moments, jit_options={"fastmath": _EXACT})
def _overload_moments(form, v, out):
    return _by_form(form, _no_moments, _no_moments, _embedded_moments)


def integrate(form, v, common, first, pairs, phi):
    """Write phi [d, pairs] of the pairs from `first` on, for v [S]; `common` is from `moments`."""
    _pick(form, _table_integrate, _listed_integrate, _embedded_integrate)(form, v, common, first, pairs, phi)


def _table_integrate(form, v, common, first, pairs, phi):
    S, d, _ = form.psi.shape
    for i in range(d):
        row = phi[i]
        for pair in range(pairs):
            row[pair] = 0.0
        whole = S - S % 4  # four successors at a time, so that phi is read and written a quarter as often
        for y in range(0, whole, 4):
            v0, v1, v2, v3 = v[y], v[y + 1], v[y + 2], v[y + 3]
            p0, p1 = form.psi[y, i, first : first + pairs], form.psi[y + 1, i, first : first + pairs]
            p2, p3 = form.psi[y + 2, i, first : first + pairs], form.psi[y + 3, i, first : first + pairs]
            for pair in range(pairs):
                row[pair] += p0[pair] * v0 + p1[pair] * v1 + p2[pair] * v2 + p3[pair] * v3
        for y in range(whole, S):
            p0 = form.psi[y, i, first : first + pairs]
            for pair in range(pairs):
                row[pair] += p0[pair] * v[y]


def _listed_integrate(form, v, common, first, pairs, phi):
    successors, psi = form.successors, form.psi
    for i in range(form.starts.shape[0]):
        starts, row = form.starts[i, first : first + pairs + 1], phi[i]
        for pair in range(pairs):
            total = 0.0
            for entry in range(starts[pair], starts[pair + 1]):
                total += psi[entry] * v[np.uint32(successors[entry])]
            row[pair] = total


def _embedded_integrate(form, v, common, first, pairs, phi):
    dr = form.right.shape[0]
    for left in range(form.left.shape[0]):
        row = form.left[left, first : first + pairs]
        for r in range(dr):
            for pair in range(pairs):
                phi[left * dr + r, pair] = row[pair] * common[r]


@overload(integrate, jit_options={"fastmath": _EXACT})
def _overload_integrate(form, v, common, first, pairs, phi):
    return _by_form(form, _table_integrate, _listed_integrate, _embedded_integrate)


@njit(cache=True)
def integrate_all(form, v, phi):
    """Write phi [d, S*A] of every pair for v [S]."""
    common = np.empty(dimension(form))
    moments(form, v, common)
    integrate(form, v, common, 0, phi.shape[1], phi)

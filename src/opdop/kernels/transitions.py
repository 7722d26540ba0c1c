"""Transition rows in several forms, and what backward and forward passes do with them.

`Dense` and `Sparse` rows are a known kernel. The others are what data allow: each row of `Balls` is the centre of an L1
ball, each probability of `Boxes` has two ends, and `Ellipsoids` are about the weights of a linear kernel. The
expectation is then taken under the member of the set that is best for a weighted sum of the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from opdop.kernels.balls import Balls, move_mass, rank_states
from opdop.kernels.boxes import Boxes, expect_in_boxes
from opdop.kernels.caching import njit
from opdop.kernels.ellipsoids import (
    BlockEllipsoids,
    Ellipsoids,
    expect_in_blocks,
    expect_in_ellipsoids,
    integrate_values,
    store_values,
)
from opdop.kernels.parts import overload
from opdop.kernels.records import as_record
from opdop.kernels.simd import LANES, add_four_scaled, add_scaled

# In planning, sums may be reordered and fused, which is what vectorises them; NaN and infinity keep their meaning.
# In what learning uses nothing is reordered, so that a kernel gives the same bits wherever it is inlined.
_SUMS = {"reassoc", "contract", "nsz"}


@as_record
class Dense(NamedTuple):
    """Transition rows as one table."""

    rows: np.ndarray  # [L*S*A, S]; row (h*S + x)*A + a


@as_record
class Sparse(NamedTuple):
    """Transition rows in compressed form."""

    starts: np.ndarray  # [L*S*A + 1] int64
    successors: np.ndarray  # [entries] int32
    probabilities: np.ndarray  # [entries]


Transitions = Dense | Sparse

# Arrays are copied by loops here, never as a[:] = b: Numba needs seconds to compile the latter.


def _by_form(transitions, dense, sparse, balls=None, ellipsoids=None, blocks=None, boxes=None):
    """Choose an implementation by the form of the transitions, at compile time; balls are stored as sparse rows are."""
    if isinstance(transitions, types.BaseNamedTuple):
        by_form = _forms(dense, sparse, balls or sparse, ellipsoids, blocks, boxes)
        return by_form[transitions.instance_class]
    return None


def _forms(dense, sparse, balls, ellipsoids, blocks, boxes):
    forms = {Dense: dense, Sparse: sparse, Balls: balls, Ellipsoids: ellipsoids, BlockEllipsoids: blocks}
    return {**forms, Boxes: boxes}


def count_rows(transitions):
    """Return L*S*A."""
    lists, set_rows = _sparse_count_rows, _ellipsoids_count_rows
    by_form = _forms(_dense_count_rows, lists, lists, set_rows, set_rows, _boxes_count_rows)
    return by_form[type(transitions)](transitions)


def _dense_count_rows(transitions):
    return transitions.rows.shape[0]


def _sparse_count_rows(transitions):
    return transitions.starts.shape[0] - 1


def _boxes_count_rows(transitions):
    return transitions.lower.shape[0]


def _ellipsoids_count_rows(transitions):
    return transitions.theta.shape[0] * transitions.num_actions * transitions.values.shape[2]


@overload(count_rows, allocates=False)
def _overload_count_rows(transitions):
    set_rows = _ellipsoids_count_rows
    return _by_form(transitions, _dense_count_rows, _sparse_count_rows, None, set_rows, set_rows, _boxes_count_rows)


def expect(transitions, first_row, count, v, out):
    """Write the expectation of v [J, S] over the next state of some rows into out [J, count].

    A set must have been prepared with this very v.
    """
    sets = _balls_expect, _ellipsoids_expect, _blocks_expect, _boxes_expect
    by_form = _forms(_dense_expect, _sparse_expect, *sets)
    by_form[type(transitions)](transitions, first_row, count, v, out)


def _dense_expect(transitions, first_row, count, v, out):
    for n in range(count):
        p = transitions.rows[first_row + n]
        for j in range(v.shape[0]):
            total = 0.0
            for y in range(p.shape[0]):
                total += p[y] * v[j, y]
            out[j, n] = total


def _sparse_expect(transitions, first_row, count, v, out):
    # Two signals at a time: each successor is looked up once for both.
    starts, J = transitions.starts[first_row : first_row + count + 1], v.shape[0]
    successors, probabilities = transitions.successors, transitions.probabilities
    for n in range(count):
        for j in range(0, J - 1, 2):
            one, two = 0.0, 0.0
            for entry in range(starts[n], starts[n + 1]):
                y, p = np.uint32(successors[entry]), probabilities[entry]
                one += p * v[j, y]
                two += p * v[j + 1, y]
            out[j, n] = one
            out[j + 1, n] = two
        if J % 2 == 1:
            one = 0.0
            for entry in range(starts[n], starts[n + 1]):
                one += probabilities[entry] * v[J - 1, np.uint32(successors[entry])]
            out[J - 1, n] = one


def _balls_expect(transitions, first_row, count, v, out):
    starts, successors, probabilities = transitions.starts, transitions.successors, transitions.probabilities
    expect(Sparse(starts, successors, probabilities), first_row, count, v, out)
    move_mass(transitions, first_row, count, v, out)


def _ellipsoids_expect(transitions, first_row, count, v, out):
    expect_in_ellipsoids(transitions, first_row, count, out)


def _blocks_expect(transitions, first_row, count, v, out):
    expect_in_blocks(transitions, first_row, count, out)


def _boxes_expect(transitions, first_row, count, v, out):
    expect_in_boxes(transitions, first_row, count, v, out)


@overload(expect, fastmath=_SUMS, allocates=False)
def _overload_expect(transitions, first_row, count, v, out):
    sets = _balls_expect, _ellipsoids_expect, _blocks_expect, _boxes_expect
    return _by_form(transitions, _dense_expect, _sparse_expect, *sets)


def prepare(transitions, v):
    """Prepare the expectations of v [J, S] under sets: sort the states, or integrate v; known kernels do nothing."""
    sets = _balls_prepare, _ellipsoids_prepare, _blocks_prepare, _balls_prepare
    by_form = _forms(_nothing_to_prepare, _nothing_to_prepare, *sets)
    by_form[type(transitions)](transitions, v)


def _nothing_to_prepare(transitions, v):
    pass


def _balls_prepare(transitions, v):
    rank_states(transitions, v)


def _ellipsoids_prepare(transitions, v):
    integrate_values(transitions, v)


def _blocks_prepare(transitions, v):
    store_values(transitions.values, v)


@overload(prepare, allocates=False)
def _overload_prepare(transitions, v):
    sets = _balls_prepare, _ellipsoids_prepare, _blocks_prepare, _balls_prepare
    return _by_form(transitions, _nothing_to_prepare, _nothing_to_prepare, *sets)


def empty_values(transitions, J, S):
    """Return room for v [J, S], laid out as `expect` and `push` use it: by state where successors are listed."""
    listed = isinstance(transitions, (Sparse, Balls))
    return (_sparse_empty_values if listed else _dense_empty_values)(transitions, J, S)


def _dense_empty_values(transitions, J, S):
    return np.empty((J, S))


def _sparse_empty_values(transitions, J, S):
    return np.empty((S, J)).T


@overload(empty_values)
def _overload_empty_values(transitions, J, S):
    dense = _dense_empty_values
    return _by_form(transitions, dense, _sparse_empty_values, None, dense, dense, dense)


def push(transitions, first_row, masses, out):
    """Add sum_n masses[n, b] P(. | first_row + n) to out[b] [S], for several sets b of masses in one reading of P.

    What is added to one set, and in which order, does not depend on the others. Room for `LANES` sets from
    `empty_values` is filled fastest.
    """
    (_dense_push if isinstance(transitions, Dense) else _sparse_push)(transitions, first_row, masses, out)


def _dense_push(transitions, first_row, masses, out):
    rows, count = transitions.rows, masses.shape[0]
    whole = count - count % 4  # four rows at a time, so that `out` is read and written a quarter as often
    for n in range(0, whole, 4):
        row = first_row + n
        for b in range(masses.shape[1]):
            m0, m1, m2, m3 = masses[n, b], masses[n + 1, b], masses[n + 2, b], masses[n + 3, b]
            for y in range(out.shape[1]):
                out[b, y] += m0 * rows[row, y] + m1 * rows[row + 1, y] + m2 * rows[row + 2, y] + m3 * rows[row + 3, y]
    for n in range(whole, count):
        for b in range(masses.shape[1]):
            for y in range(out.shape[1]):
                out[b, y] += masses[n, b] * rows[first_row + n, y]


def _sparse_push(transitions, first_row, masses, out):
    for b in range(masses.shape[1]):
        for n in range(masses.shape[0]):
            mass = masses[n, b]
            if mass > 0.0:
                for entry in range(transitions.starts[first_row + n], transitions.starts[first_row + n + 1]):
                    out[b, transitions.successors[entry]] += mass * transitions.probabilities[entry]


@overload(push, fastmath={"contract"}, allocates=False)
def _overload_push(transitions, first_row, masses, out):
    return _by_form(transitions, _dense_push, _sparse_push)


def push_lanes(transitions, first_row, count, masses, out):
    """Add sum_n masses[n] P(y | first_row + n) to out[y], for `LANES` sets of masses [count, LANES] side by side."""
    lanes = _dense_push_lanes if isinstance(transitions, Dense) else _sparse_push_lanes
    lanes(transitions, first_row, count, masses, out)


def _dense_push_lanes(transitions, first_row, count, masses, out):
    rows = transitions.rows
    whole = count - count % 4  # four rows at a time, so that `out` is read and written a quarter as often
    for n in range(0, whole, 4):
        row = first_row + n
        for y in range(out.shape[0]):
            p0, p1, p2, p3 = rows[row, y], rows[row + 1, y], rows[row + 2, y], rows[row + 3, y]
            add_four_scaled(masses, n, p0, p1, p2, p3, out, y)
    for n in range(whole, count):
        for y in range(out.shape[0]):
            add_scaled(masses, n, rows[first_row + n, y], out, y)


def _sparse_push_lanes(transitions, first_row, count, masses, out):
    starts, successors, probabilities = transitions.starts, transitions.successors, transitions.probabilities
    for n in range(count):
        total = 0.0
        for b in range(LANES):
            total += masses[n, b]
        if total > 0.0:
            for entry in range(np.uint64(starts[first_row + n]), np.uint64(starts[first_row + n + 1])):
                add_scaled(masses, n, probabilities[entry], out, np.uint32(successors[entry]))


@overload(push_lanes, fastmath={"contract"}, allocates=False)
def _overload_push_lanes(transitions, first_row, count, masses, out):
    return _by_form(transitions, _dense_push_lanes, _sparse_push_lanes)


def draw_next(transitions, row, uniform):
    """Return the next state that a uniform in [0, 1) selects; never one of probability zero."""
    return (_dense_draw_next if isinstance(transitions, Dense) else _sparse_draw_next)(transitions, row, uniform)


def _dense_draw_next(transitions, row, uniform):
    return draw(transitions.rows[row], uniform)


def _sparse_draw_next(transitions, row, uniform):
    first, last = transitions.starts[row], transitions.starts[row + 1]
    return np.int64(transitions.successors[first + draw(transitions.probabilities[first:last], uniform)])


@overload(draw_next, allocates=False)
def _overload_draw_next(transitions, row, uniform):
    return _by_form(transitions, _dense_draw_next, _sparse_draw_next)


@njit(cache=True, allocates=False, forceinline=True, fastmath=False)
def draw(probabilities, uniform):
    """Return the index that a uniform in [0, 1) selects from probabilities [n]; never one of probability zero."""
    total, last = 0.0, 0
    for n in range(probabilities.shape[0]):
        if probabilities[n] > 0.0:
            total += probabilities[n]
            last = n
            if uniform < total:
                return n
    return last  # the probabilities sum to a hair less than the uniform

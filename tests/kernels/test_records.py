"""Records, and the code that is written for elements, views, ranges and operators, against plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError

from opdop.kernels.caching import njit
from opdop.kernels.records import as_record


@as_record
class Inner(NamedTuple):
    """A record in a record."""

    numbers: np.ndarray  # [n]
    factor: float


@as_record
class Outer(NamedTuple):
    """Arrays, numbers, a truth value and a record."""

    table: np.ndarray  # [m, n]
    inner: Inner
    count: int
    is_doubled: bool


@njit(allocates=False, fastmath=False)
def total(inner: Any, count: int) -> Any:
    """Return the sum of some numbers."""
    result = 0.0
    for n in range(count):
        result += inner.numbers[n] * inner.factor
    return result


@njit(allocates=False, fastmath=False)
def read(outer: Any) -> Any:
    """Read every field, by name, by place, and by unpacking; make a plain tuple, and change an array."""
    table, inner, count, is_doubled = outer
    result = total(inner, count) + total(outer.inner, count) + total(Inner(table[0], 3.0), count) + outer[2]
    for row in range(table.shape[0]):
        outer.table[row, -1] += 1.0
        result += table[row, -1]
    return 2.0 * result if is_doubled else result


@njit(allocates=False, fastmath=False)
def in_turn(numbers: Any) -> Any:
    """Make a tuple in each turn of a loop."""
    result = 0.0
    for n in range(numbers.shape[0]):
        result += total(Inner(numbers, float(n)), n + 1)
    return result


@njit(allocates=False, fastmath=False)
def walk(table: Any, first: Any, last: Any) -> Any:
    """Read rows, elements from both ends, and ranges that may be empty."""
    result = 0.0
    for n in range(first, last):
        row = table[n % table.shape[0]]
        row[0] = row[-1] + n
        for m in range(row.shape[0]):
            result += row[m] * table[-1, m]
    for n in range(last):
        result -= table[0, n % table.shape[1]] / (n + 1)
    for n in range(last, first, -2):
        result += n**2 // 3
    return result


def outer(seed: int, rows: int, columns: int, is_doubled: bool) -> Outer:
    """Return a random record."""
    rng = np.random.default_rng(seed)
    return Outer(rng.random((rows, columns)), Inner(rng.random(columns), 0.5), columns, is_doubled)


@pytest.mark.parametrize("is_doubled", [False, True])
def test_a_kernel_reads_a_record_as_python_does(is_doubled: bool) -> None:
    one, two = outer(0, 3, 5, is_doubled), outer(0, 3, 5, is_doubled)
    assert read(one) == pytest.approx(read.py_func(two), rel=1e-14)
    np.testing.assert_array_equal(one.table, two.table)


def test_tuples_are_made_anew_in_each_turn_of_a_loop() -> None:
    numbers = np.arange(6.0)
    assert in_turn(numbers) == in_turn.py_func(numbers)


def test_a_record_cannot_be_returned() -> None:
    @njit(allocates=False, fastmath=False)
    def first(given):
        return given.inner

    with pytest.raises(NotImplementedError, match="first returns a record"):
        first(outer(0, 2, 2, False))


def test_a_wrong_field_is_an_error_and_not_a_crash() -> None:
    broken = outer(0, 2, 2, False)._replace(count="two")
    with pytest.raises(TypingError):
        read(broken)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(-3, 6), st.integers(-3, 6))
def test_elements_views_and_ranges_are_those_of_python(rows: int, columns: int, first: int, last: int) -> None:
    one = np.arange(1.0, 1.0 + rows * columns).reshape(rows, columns)
    two = one.copy()
    assert walk(one, first, last) == pytest.approx(walk.py_func(two, first, last), rel=1e-12)
    np.testing.assert_array_equal(one, two)


def test_arrays_with_gaps_are_left_to_numba() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    one, two = whole.copy()[:, ::2], whole.copy()[:, ::2]
    assert walk(one, 0, 5) == pytest.approx(walk.py_func(two, 0, 5), rel=1e-12)
    np.testing.assert_array_equal(one, two)

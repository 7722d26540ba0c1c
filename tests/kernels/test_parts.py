"""Facts about functions that kernels call: chosen by the types of the arguments, or plain in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types

from opdop.kernels import parts
from opdop.kernels.caching import njit
from opdop.kernels.parts import in_kernels, overload


@njit(allocates=False, fastmath=False)
def of_number(x: Any) -> Any:
    """Return the number and 1."""
    return x + 1.0


def of_array(x: Any) -> Any:
    """Return the sum and 2."""
    total = 2.0
    for n in range(x.shape[0]):
        total += x[n]
    return total


def inner(x: Any) -> Any:
    """Choose in Python, as the compiled choice does."""
    return (of_array if isinstance(x, np.ndarray) else of_number)(x)


@overload(inner, allocates=False)
def _overload_inner(x: Any) -> Any:
    return of_array if isinstance(x, types.Array) else of_number


def outer(x: Any) -> Any:
    """Choose what chooses."""
    return inner(x)


@overload(outer)
def _overload_outer(x: Any) -> Any:
    return inner if isinstance(x, types.Array | types.Float) else None


@in_kernels()
def room(n: int) -> Any:
    """Return n ones."""
    return np.ones(n)


@njit(fastmath=False)
def call(x: Any, n: int) -> Any:
    """Call all of them."""
    return outer(x) + outer(room(n))


@njit(fastmath=False)
def call_again(x: Any, n: int) -> Any:
    """Do the same."""
    return call(x, n)


def test_a_choice_leads_to_a_kernel_to_another_choice_and_to_a_plain_function():
    truth = outer(0.5) + outer(room(3))
    assert truth == 1.5 + 5.0
    assert call(0.5, 3) == truth
    assert call(np.arange(4.0), 3) == 8.0 + 5.0
    assert call_again(0.5, 3) == truth


def test_a_kernel_that_only_kernels_call_has_no_machine_code_of_its_own():
    @njit(allocates=False, fastmath=False)
    def part(x: Any) -> Any:
        return x + 1.0

    @njit(allocates=False, fastmath=False)
    def whole(x: Any) -> Any:
        return 2.0 * part(x)

    assert whole(0.5) == 3.0
    assert part.nopython_signatures == []
    assert part(0.5) == 1.5
    assert len(part.nopython_signatures) == 1


def test_kernels_of_the_package_take_arrays_that_are_only_read_as_one_type():
    from opdop.kernels.dynamic_programming import for_reading

    table = np.arange(6.0).reshape(2, 3)
    for array in (table, table.T.copy().T, table[:, ::-1]):
        view = for_reading(array)
        assert view.flags.c_contiguous
        assert not view.flags.writeable
        np.testing.assert_array_equal(view, array)
    assert table.flags.writeable
    assert np.shares_memory(for_reading(table), table)


def reciprocals(x: Any) -> Any:
    """Return a sum of reciprocals."""
    total = 0.0
    for n in range(x):
        total += 1.0 / (n + 1.0)
    return total


alone = njit(allocates=False, kind="apart", fastmath=False)(reciprocals)
short = njit(allocates=False, kind="compact", fastmath=False)(reciprocals)


@njit(allocates=False, forceinline=True, fastmath=False)
def between(x: Any) -> Any:
    """Call it from a function that is inlined itself."""
    return alone(x) + alone(x + 1)


@njit(allocates=False, fastmath=False)
def calls_all(x: Any) -> Any:
    """Call all."""
    return between(x) + alone(x) + short(x)


def test_parts_that_stay_apart_are_functions_of_their_callers():
    expected = 3 * reciprocals(7) + reciprocals(8)
    assert calls_all(7) == pytest.approx(expected, rel=1e-14)
    assert alone(7) == short(7) == reciprocals(7)
    (code,) = calls_all.inspect_llvm().values()
    own = [line for line in code.splitlines() if line.startswith("define linkonce_odr") and "reciprocals" in line]
    assert len(own) == 2 or not parts.HAS_ATTRIBUTES

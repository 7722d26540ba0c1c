"""A vector computes in each lane what a number does, to the last bit, and reads and writes nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numba import TypingError, njit

from opdop.kernels import counts, vectors
from opdop.kernels.simd import LANES
from tests.support.strategies import SEEDS


@njit(fastmath={"contract"})
def in_vector(seen, given, at, scale, out):
    n, x = vectors.load(vectors.zeros(), seen, at), vectors.load(vectors.zeros(), given, at)
    value = vectors.where_positive(n, min(max(x - scale, 0.25 * n), 2.0 - x), scale) + n * x
    vectors.store(out, at, value)


@njit(fastmath={"contract"})
def one_by_one(seen, given, at, scale, out):
    for place in range(at, at + LANES):
        n, x = vectors.load(0.0, seen, place), vectors.load(0.0, given, place)
        value = vectors.where_positive(n, min(max(x - scale, 0.25 * n), 2.0 - x), scale) + n * x
        vectors.store(out, place, value)


@njit(fastmath={"contract"})
def in_wide_vector(seen, given, at, scale, out):
    n, x = vectors.load(vectors.wide_zeros(), seen, at), vectors.load(vectors.wide_zeros(), given, at)
    vectors.store(out, at, min(max(x - scale, 0.25 * n), 2.0 - x) + n * x)


@njit(fastmath={"contract"})
def each_of_wide_vector(seen, given, at, scale, out):
    for place in range(at, at + vectors.WIDE):
        n, x = vectors.load(0.0, seen, place), vectors.load(0.0, given, place)
        vectors.store(out, place, min(max(x - scale, 0.25 * n), 2.0 - x) + n * x)


@njit
def gathered(array, count, h, a, x, out):
    vectors.store(out, 0, vectors.gather(array, count, h, a, x))


@njit
def some_in_vector(array, at, count, out):
    vectors.store_some(out, at, vectors.load_some(array, at, count) * 3.0, count)


@njit
def averaged(q, policy, first, last, v):
    counts.average(q, policy, first, last, v)


@njit
def filled(array, at, count, out):
    vectors.store(out, 0, vectors.load_some(array, at, count))


@njit
def powers(array, out):
    vectors.store(out, 0, vectors.power_of_two(vectors.load(vectors.zeros(), array, 0)))


@njit
def power(number):
    return vectors.power_of_two(number)


@settings(max_examples=50)
@given(SEEDS)
def test_lanes_have_the_bits_of_numbers(seed: int):
    rng = np.random.default_rng(seed)
    seen, values = rng.integers(0, 3, (3, 7), dtype=np.int32), rng.normal(size=(3, 7))
    at, scale = int(rng.integers(0, 21 - LANES + 1)), float(rng.normal())
    wide, alone = np.full((3, 7), 9.0), np.full((3, 7), 9.0)
    in_vector(seen, values, at, scale, wide)
    one_by_one(seen, values, at, scale, alone)
    np.testing.assert_array_equal(wide, alone)
    n, x = (vectors.load(vectors.zeros(), array, at) for array in (seen, values))
    expected = np.where(n > 0, np.minimum(np.maximum(x - scale, 0.25 * n), 2.0 - x), scale) + n * x
    np.testing.assert_allclose(wide.ravel()[at : at + LANES], expected, rtol=0, atol=1e-15)
    assert (np.delete(wide.ravel(), range(at, at + LANES)) == 9.0).all()


@settings(max_examples=20)
@given(SEEDS)
def test_lanes_of_wide_vectors_have_the_bits_of_numbers(seed: int):
    rng, size = np.random.default_rng(seed), vectors.WIDE + 5
    seen, values = rng.integers(0, 3, size, dtype=np.int32), rng.normal(size=size)
    at, scale = int(rng.integers(0, 6)), float(rng.normal())
    wide, alone = np.full(size, 9.0), np.full(size, 9.0)
    in_wide_vector(seen, values, at, scale, wide)
    each_of_wide_vector(seen, values, at, scale, alone)
    np.testing.assert_array_equal(wide, alone)
    n, x = (vectors.load(vectors.wide_zeros(), array, at) for array in (seen, values))
    inside = slice(at, at + vectors.WIDE)
    np.testing.assert_allclose(wide[inside], np.minimum(np.maximum(x - scale, 0.25 * n), 2.0 - x) + n * x, 0, 4e-15)
    assert (np.delete(wide, range(at, at + vectors.WIDE)) == 9.0).all()


def test_wide_vectors_are_as_wide_as_the_registers_allow(monkeypatch: pytest.MonkeyPatch):
    for features, expected in (("+sse2,+avx512f", True), ("+sse2,-avx512f", False), ("", False)):
        monkeypatch.setattr(vectors.config, "CPU_FEATURES", features)
        assert vectors._has_wide_registers() is expected


@settings(max_examples=30)
@given(SEEDS)
def test_a_gathered_vector_has_a_number_of_each_array_in_any_layout(seed: int):
    rng = np.random.default_rng(seed)
    count, sizes = int(rng.integers(1, LANES + 1)), rng.integers(1, 5, 3)
    array = rng.normal(size=(count, *sizes))
    h, a, x = (int(rng.integers(size)) for size in sizes)
    for layout in (array, np.asfortranarray(array), np.ascontiguousarray(array[..., ::-1])[..., ::-1]):
        out = np.empty(LANES)
        gathered(layout, count, h, a, x, out)
        np.testing.assert_array_equal(out, vectors.gather(array, count, h, a, x))
        np.testing.assert_array_equal(out[:count], array[:, h, a, x])


@pytest.mark.parametrize("count", range(1, LANES + 1))
def test_some_lanes_are_read_and_written_and_no_others(count: int):
    array, at = np.arange(1.0, 12.0), 11 - count  # up to the end of the array
    out, lanes = np.full(11, 9.0), np.empty(LANES)
    some_in_vector(array, at, count, out)
    np.testing.assert_array_equal(out, [*[9.0] * at, *(3.0 * array[at:])])
    filled(array, at, count, lanes)
    np.testing.assert_array_equal(lanes, [*array[at:], *[0.0] * (LANES - count)])
    np.testing.assert_array_equal(lanes, vectors.load_some(array, at, count))
    written = np.full(11, 9.0)
    vectors.store_some(written, at, 3.0 * lanes, count)
    np.testing.assert_array_equal(written, out)


@pytest.mark.parametrize("states", [1, 4, LANES - 1, LANES, LANES + 3])
def test_averages_have_the_same_bits_together_and_one_by_one(states: int):
    rng = np.random.default_rng(states)
    q, policy, together, alone = rng.random((3, states)), rng.random((3, states)), np.zeros(states), np.zeros(states)
    averaged(q, policy, 0, states, together)
    for x in range(states):
        averaged(q, policy, x, x + 1, alone)
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(alone, (q * policy).sum(axis=0), rtol=1e-14)


def test_powers_of_two_are_exact_in_numbers_and_vectors():
    rounder = 1.5 * 2.0**52
    for k in (-1000.0, -1.0, 0.0, 1.0, 1000.0):
        out = np.zeros(LANES)
        powers(np.full(LANES, k + rounder), out)
        np.testing.assert_array_equal(out, np.full(LANES, 2.0**k))
        assert power(k + rounder) == vectors.power_of_two(k + rounder) == 2.0**k
        np.testing.assert_array_equal(vectors.power_of_two(np.full(LANES, k + rounder)), out)


def test_vectors_of_arrays_with_gaps_or_of_other_numbers_do_not_compile():
    rows, out = np.zeros((4, 8)), np.zeros((4, 8))
    for bad in (rows[:, ::2], rows.astype(np.float32)):
        with pytest.raises(TypingError):
            in_vector(np.zeros((4, 8), dtype=np.int32), bad, 0, 1.0, out)


@pytest.mark.parametrize("n", [1, LANES - 1, LANES, LANES + 1, 3 * LANES])
def test_blocks_cover_all_numbers_and_no_more(n: int):
    whole, last = counts.blocks(n)
    covered = {min(place, last) + lane for place in range(0, whole, LANES) for lane in range(LANES)}
    assert covered | set(range(whole, n)) == set(range(n))

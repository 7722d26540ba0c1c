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


@njit
def gathered(array, count, h, a, x, out):
    vectors.store(out, 0, vectors.gather(array, count, h, a, x))


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

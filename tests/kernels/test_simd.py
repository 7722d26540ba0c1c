"""Vector instructions do in every lane what the plain loops beside them say, and no lane feels its neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import TypingError, njit

from opdop.kernels import dynamic_programming, features, loops, simd
from opdop.planning import evaluate
from tests.support.strategies import SEEDS, Array, Sketch, policy_table, sketches


@njit
def add_scaled(source, i, scale, target, k):
    simd.add_scaled(source, i, scale, target, k)


@njit
def push(transitions, first_row, masses, out):
    dynamic_programming.push(transitions, first_row, masses, out)


@given(SEEDS, st.integers(1, 5), st.integers(1, 5))
def test_adding_a_row_is_eight_plain_sums(seed: int, n: int, m: int):
    rng = np.random.default_rng(seed)
    source, scale, i, k = rng.normal(size=(n, 8)), float(rng.normal()), int(rng.integers(n)), int(rng.integers(m))
    before = rng.normal(size=(m, 8))
    expected = before.copy()
    expected[k] += scale * source[i]
    for function in (simd.add_scaled, add_scaled):
        target = before.copy()
        function(source, i, scale, target, k)
        np.testing.assert_allclose(target, expected, rtol=0, atol=1e-15)


@given(SEEDS, st.integers(1, 6), st.integers(0, 12))
def test_looking_up_is_a_product_with_a_sparse_row(seed: int, states: int, entries: int):
    rng = np.random.default_rng(seed)
    weights, places = rng.normal(size=entries), rng.integers(0, states, entries).astype(np.int32)
    values = rng.normal(size=(states, 2))
    first, last = sorted(rng.integers(0, entries + 1, 2).tolist())
    expected = weights[first:last] @ values[places[first:last]]
    for function in (features.look_up.py_func, features.look_up):
        np.testing.assert_allclose(function(weights, places, first, last, values), expected, rtol=0, atol=1e-14)


def test_arrays_with_gaps_or_of_other_numbers_do_not_compile():
    rows = np.ones((3, 8))
    refused: list[Callable[[], object]] = [
        lambda: add_scaled(np.ones((8, 3)).T, 0, 1.0, rows, 0),
        lambda: add_scaled(rows, 0, 1.0, rows.astype(np.float32), 0),
    ]
    for call in refused:
        with pytest.raises(TypingError):
            call()


@settings(max_examples=40)
@given(sketches(), SEEDS)
def test_masses_pushed_in_lanes_have_the_bits_of_those_pushed_alone(sketch: Sketch, seed: int):
    H, S, A, _ = sketch.sizes
    rng = np.random.default_rng(seed)
    masses = rng.random((S * A, simd.LANES)) * (rng.random((S * A, 1)) < 0.7) * (rng.random((S * A, 8)) < 0.7)
    h, start = int(rng.integers(H)), rng.random((simd.LANES, S))
    for form in (sketch.build().dense(), sketch.build().sparse()):
        together = dynamic_programming.empty_values(form.transitions, simd.LANES, S)
        together[:] = start
        first_row = (h * S * A) % dynamic_programming.count_rows(form.transitions)
        push(form.transitions, first_row, masses, together)
        for lane in range(simd.LANES):
            alone = start[lane : lane + 1].copy()
            push(form.transitions, first_row, masses[:, lane : lane + 1].copy(), alone)
            np.testing.assert_array_equal(together[lane], alone[0])


@settings(max_examples=25)
@given(sketches(), SEEDS, st.integers(1, simd.LANES))
def test_policies_measured_together_have_the_numbers_of_each_alone(sketch: Sketch, seed: int, count: int):
    H, S, A, I = sketch.sizes
    tables = [policy_table(seed + n, sketch) for n in range(count)]
    policies = np.stack([table.transpose(0, 2, 1) for table in tables])
    for form in (sketch.build().dense(), sketch.build().sparse()):
        model = loops.Model(form.transitions, form.signals, form.initial, False)
        together, visited = np.empty((count, 1 + I)), np.zeros((H, S, A))
        loops.measure(model, policies, 0.5, visited, together)
        one_by_one: Array = np.zeros((H, S, A))
        for table, policy, totals in zip(tables, policies, together, strict=True):
            alone = np.empty((1, 1 + I))
            loops.measure(model, policy[None], 0.5, one_by_one, alone)
            np.testing.assert_array_equal(alone[0], totals)
            exact = evaluate(form, table)
            np.testing.assert_allclose(totals, [exact.reward, *exact.utilities], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(visited, one_by_one)
        np.testing.assert_allclose(visited.sum(axis=(1, 2)), 0.5 * count, rtol=1e-12)

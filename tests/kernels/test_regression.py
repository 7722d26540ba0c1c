"""Ridge regressions kept up to date row by row are those of a fresh factorisation, however many rows there are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from opdop.kernels import lstd
from opdop.kernels.regression import REFRESH, add_row, invert, multiply, predict, quadratic_forms
from tests.support.strategies import SEEDS, Array

DIMENSIONS = st.integers(1, 12)


def compiled(function: Any) -> Any:
    return function


def source(function: Any) -> Any:
    return function.py_func


both_ways = pytest.mark.parametrize("way", [compiled, source])


def positive(rng: np.random.Generator, d: int, ridge: float = 0.5, rows: int = 20) -> Array:
    x = rng.normal(size=(rows, d))
    return ridge * np.eye(d) + x.T @ x


@both_ways
@settings(max_examples=40)
@given(SEEDS, DIMENSIONS)
def test_invert_returns_inverse_and_log_determinant(way: Any, seed: int, d: int):
    gram = positive(np.random.default_rng(seed), d)
    inverse, before = np.full((d, d), np.nan), gram.copy()
    logdet = way(invert)(gram, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(gram), rtol=1e-9, atol=1e-12)
    assert logdet == pytest.approx(np.linalg.slogdet(gram)[1], rel=1e-12, abs=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_array_equal(gram, before)


@both_ways
@settings(max_examples=40)
@given(SEEDS, DIMENSIONS)
def test_a_row_updates_gram_inverse_and_determinant(way: Any, seed: int, d: int):
    rng = np.random.default_rng(seed)
    gram = positive(rng, d)
    inverse, direction, x = np.linalg.inv(gram), np.full(d, np.nan), 3.0 * rng.normal(size=d)
    new, old = gram + np.outer(x, x), inverse.copy()
    growth = way(add_row)(x, gram, inverse, direction)
    np.testing.assert_allclose(gram, new, rtol=1e-13)
    np.testing.assert_allclose(inverse, np.linalg.inv(new), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(direction, old @ x, rtol=1e-9, atol=1e-12)
    before = new - np.outer(x, x)
    assert growth == pytest.approx(np.linalg.det(new) / np.linalg.det(before), rel=1e-9)


def test_a_row_of_zeros_changes_no_bit():
    gram = positive(np.random.default_rng(0), 4)
    inverse = np.linalg.inv(gram)
    both = gram.copy(), inverse.copy()
    assert add_row(np.zeros(4), gram, inverse, np.empty(4)) == 1.0
    np.testing.assert_array_equal(gram, both[0])
    np.testing.assert_array_equal(inverse, both[1])


@both_ways
@settings(max_examples=40)
@given(SEEDS, DIMENSIONS, st.integers(1, 30), st.integers(0, 5))
def test_products_predictions_and_quadratic_forms(way: Any, seed: int, d: int, pairs: int, more: int):
    # phi may be wider than the pairs that are asked for: the rest is not read, and out is not written there.
    rng = np.random.default_rng(seed)
    matrix, x, phi = positive(rng, d), rng.normal(size=d), rng.normal(size=(d, pairs + more))
    out = np.full(d, np.nan)
    way(multiply)(matrix, x, out)
    np.testing.assert_allclose(out, matrix @ x, rtol=1e-10, atol=1e-12)

    forms = np.full(pairs + more, -7.0)
    way(quadratic_forms)(matrix, phi, pairs, forms)
    np.testing.assert_allclose(forms[:pairs], np.einsum("ip,ik,kp->p", phi, matrix, phi)[:pairs], rtol=1e-11)
    np.testing.assert_array_equal(forms[pairs:], -7.0)
    products, quadratic = np.empty(d * (d + 1) // 2), np.empty((d * (d + 1) // 2, 2))
    way(lstd._multiply_pairs)(x, products)
    way(lstd.write_quadratic)(matrix, 1, quadratic)
    assert products @ quadratic[:, 1] == pytest.approx(x @ matrix @ x, rel=1e-11)

    sums = np.ones(pairs + more)
    way(predict)(x, phi, more, pairs, sums)
    np.testing.assert_allclose(sums[:pairs], 1.0 + (x @ phi)[more:], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(sums[pairs:], 1.0)


# Long runs


@njit
def update_often(rows, gram, inverse, ridge, varphi, width):
    """Add every row as the evaluators do; return the largest relative error of the inverse just before a refresh."""
    d = gram.shape[0]
    direction = np.empty(d)
    fresh = np.empty((d, d))
    reach = np.empty(width.shape[0])
    information, worst = 0.0, 0.0
    for n in range(rows.shape[0]):
        growth = add_row(rows[n], gram, inverse, direction)
        information += math.log(growth)
        if (n + 1) % REFRESH == 0:
            invert(gram, fresh)
            worst = max(worst, np.abs(inverse - fresh).max() / np.abs(fresh).max())
            information = invert(gram, inverse) - d * math.log(ridge)
            quadratic_forms(inverse, varphi, width.shape[0], width)
        else:
            reach[:] = 0.0
            predict(direction, varphi, 0, width.shape[0], reach)
            for pair in range(width.shape[0]):
                width[pair] -= reach[pair] * reach[pair] / growth
    return information, worst


@pytest.mark.parametrize("ridge", [1.0, 1e-3])
@pytest.mark.parametrize("kind", ["any direction", "nearly one direction"])
def test_a_million_updates_leave_inverse_widths_and_information_those_of_a_fresh_factorisation(kind: str, ridge: float):
    d, times = 6, 10**6 + 100  # the last hundred after the last refresh
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(times, d))
    if kind == "nearly one direction":
        rows = np.ones(d) + 1e-3 * rows
    rows *= 10.0 * rng.random((times, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    gram, inverse = ridge * np.eye(d), np.eye(d) / ridge
    varphi = rng.normal(size=(d, 40))
    width = (varphi**2).sum(axis=0) / ridge
    information, worst = update_often(rows, gram, inverse, ridge, varphi, width)

    exact = ridge * np.eye(d) + rows.T @ rows
    np.testing.assert_allclose(gram, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
    fresh = np.linalg.inv(gram)
    assert np.abs(inverse - fresh).max() < 1e-8 * np.abs(fresh).max()
    assert worst < 1e-8
    logdet = np.linalg.slogdet(gram / ridge)[1]
    assert abs(information - logdet) < 1e-8 * logdet
    np.testing.assert_allclose(width, np.einsum("ip,ik,kp->p", varphi, fresh, varphi), rtol=1e-8)


def test_without_a_refresh_the_inverse_would_drift_further():
    # What the refresh is for: the same rows, the same updates, and never a factorisation.
    d = 6
    rng = np.random.default_rng(1)
    rows = np.ones(d) + 1e-3 * rng.normal(size=(200_000, d))
    gram, inverse, direction = 1e-3 * np.eye(d), 1e3 * np.eye(d), np.empty(d)
    add_all(rows, gram, inverse, direction)
    drifted = np.abs(inverse - np.linalg.inv(gram)).max() / np.abs(inverse).max()
    refreshed, renewed = 1e-3 * np.eye(d), 1e3 * np.eye(d)
    update_often(rows, refreshed, renewed, 1e-3, np.eye(d), np.full(d, 1e3))
    kept = np.abs(renewed - np.linalg.inv(refreshed)).max() / np.abs(renewed).max()
    assert kept < 0.1 * drifted, (kept, drifted)


@njit
def add_all(rows, gram, inverse, direction):
    for n in range(rows.shape[0]):
        add_row(rows[n], gram, inverse, direction)


@settings(max_examples=30)
@given(SEEDS, DIMENSIONS, st.sampled_from([0.1, 1.0, 5.0]))
def test_widths_narrowed_row_by_row_are_fresh_quadratic_forms(seed: int, d: int, ridge: float):
    rng = np.random.default_rng(seed)
    varphi = rng.normal(size=(d, 15))
    gram, inverse, direction = ridge * np.eye(d), np.eye(d) / ridge, np.empty(d)
    width = (varphi**2).sum(axis=0) / ridge
    for _ in range(50):
        x = rng.normal(size=d)
        growth = add_row(x, gram, inverse, direction)
        lstd._narrow(varphi, direction, growth, np.empty_like(width), width)
    fresh = np.einsum("ip,ik,kp->p", varphi, np.linalg.inv(gram), varphi)
    np.testing.assert_allclose(width, fresh, rtol=1e-9, atol=1e-12)

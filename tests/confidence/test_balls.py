"""The best kernel in an L1 ball equals a linear program's, and the widths are those of the derivation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdop.kernels import balls, transitions
from opdop.kernels.caching import njit
from tests.support.data_sets import worst_case
from tests.support.strategies import SEEDS, Array


@njit(cache=False, fastmath=False)
def _expect(rows, v, out):
    transitions.prepare(rows, v)
    transitions.expect(rows, 0, out.shape[1], v, out)


def rows_of(P: Array, widths: Array, weights: Array, possible: Any = None, unseen: Any = None) -> balls.Balls:
    rows, S = P.shape
    row, successor = np.nonzero(P)
    listed = np.zeros((0, S), dtype=bool) if possible is None else possible
    starts = [0] if possible is None else np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
    return balls.Balls(
        starts=np.searchsorted(row, np.arange(rows + 1)),
        successors=successor.astype(np.int32),
        probabilities=P[row, successor],
        widths=widths,
        unseen=np.ones(rows) if unseen is None else unseen,
        possible_starts=np.array(starts, dtype=np.int64),
        possible=np.nonzero(listed)[1].astype(np.int32),
        weights=weights,
        **balls.room_for_ranks(S),
        slots=np.full(S, -1, dtype=np.int64),
    )


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from([1.0, -1.0]))
def test_the_best_kernel_in_the_ball_is_the_linear_programs(
    seed: int, S: int, declared: bool, few: bool, direction: float
):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), 4)
    if few:
        P *= rng.random((4, S)) < min(1.0, 4.0 / S)
        P[P.sum(axis=1) == 0.0, int(rng.integers(S))] = 1.0
        P /= P.sum(axis=1, keepdims=True)
    P[3] = 0.0  # never visited
    widths = np.array([*(2.0 * rng.random(3) ** 2 * (rng.random(3) < 0.9)), 2.0])
    possible = (P > 0.0) | (rng.random((4, S)) < 0.3)
    possible[:, int(rng.integers(S))] = True
    v = np.round(rng.random((2, S)), int(rng.integers(1, 4)))  # with ties
    weights = direction * np.array([1.0, 0.0])
    unseen = np.where(rng.random(4) < 0.5, rng.random(4) ** 3, 1.0)
    unseen[3] = 1.0
    found = rows_of(P, widths, weights, possible if declared else None, unseen)
    out = np.empty((2, 4))
    _expect(found, v, out)
    for n in range(4):
        centre = P[n] if n < 3 else np.eye(S)[int(np.argmax(possible[n]))]  # any centre: the ball is the whole simplex
        allowed = possible[n] if declared else np.ones(S, dtype=bool)
        truth = direction * -worst_case(centre, widths[n], -direction * v[0], allowed, unseen[n])
        assert out[0, n] == pytest.approx(truth, abs=1e-9)
    assert (found.slots == -1).all()
    plain = np.empty((2, 4))
    _expect.py_func(found, v, plain)
    np.testing.assert_allclose(out, plain, rtol=0, atol=1e-12)


@given(SEEDS, st.integers(2, 30))
def test_every_signal_is_expected_under_the_one_kernel_that_is_chosen(seed: int, S: int):
    # The weighted sum of the expectations must be the expectation of the weighted sum, maximised.
    rng = np.random.default_rng(seed)
    P, v, weights = rng.dirichlet(np.ones(S), 5), rng.random((3, S)), rng.random(3)
    widths = 2.0 * rng.random(5)
    several, one = np.empty((3, 5)), np.empty((1, 5))
    _expect(rows_of(P, widths, weights), v, several)
    _expect(rows_of(P, widths, np.ones(1)), (weights @ v)[None], one)
    np.testing.assert_allclose(weights @ several, one[0], rtol=0, atol=1e-12)
    assert (several >= v.min(axis=1)[:, None] - 1e-12).all()
    assert (several <= v.max(axis=1)[:, None] + 1e-12).all()


def test_long_lists_are_sorted_by_rank_and_short_ones_by_insertion_with_the_same_result():
    rng = np.random.default_rng(0)
    P, v = rng.dirichlet(np.ones(64), 6), rng.random((1, 64))
    widths = np.linspace(0.0, 2.0, 6)
    whole, padded = np.empty((1, 6)), np.empty((1, 6))
    _expect(rows_of(P, widths, np.ones(1)), v, whole)  # 64^2 > 4 * 64: by rank
    more = 64 * 64
    P_more, v_more = np.pad(P, ((0, 0), (0, more))), np.pad(v, ((0, 0), (0, more)))
    _expect(rows_of(P_more, widths, np.ones(1)), v_more, padded)  # among 4160 states: by insertion
    np.testing.assert_allclose(whole, padded, rtol=0, atol=1e-14)


def test_the_widths_are_those_of_the_specification():
    n, m, delta = 37, 5, 0.01 / 24
    expected = (2.0 / n) * math.sqrt((n + 1) / 2.0 * math.log((2 ** (m - 1) - 1) * math.sqrt(n + 1) / delta))
    found = balls.l1_width(float(n), balls.log_pairs_of_sets(m) - math.log(delta))
    assert found == pytest.approx(expected, rel=1e-14)
    assert balls.l1_width(1.0, 100.0) == 2.0
    assert balls.l1_width(5.0, balls.log_pairs_of_sets(1) + 3.0) == 0.0
    assert balls.mean_width(0.0, 1.0) == math.inf
    assert balls.log_pairs_of_sets(2) == 0.0
    assert balls.log_pairs_of_sets(2000) == pytest.approx(1999 * math.log(2.0))

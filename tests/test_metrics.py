"""Regret, violation and hard violation are what their definitions say, and every episode is in them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdop.metrics import Sums, increments, loglog_slope, violation
from opdop.runs.recorder import Recorder, recorded_episodes
from tests.support.strategies import SEEDS, Array


@st.composite
def measured(draw: st.DrawFn) -> tuple[Array, float, Array]:
    """Draw true totals [n, 1+I] of n episodes, an optimal value and thresholds [I]."""
    rng = np.random.default_rng(draw(SEEDS))
    n, I = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    return 5.0 * rng.random((n, 1 + I)), 5.0 * rng.random(), 5.0 * rng.random(I)


# Definitions


@given(measured())
def test_increments_are_their_definitions(case: tuple[Array, float, Array]):
    totals, best, thresholds = case
    found = increments(totals, best, thresholds)
    for row, (reward, *utilities) in zip(found.tolist(), totals.tolist(), strict=True):
        shortfalls = [b - u for b, u in zip(thresholds.tolist(), utilities, strict=True)]
        each = [max(0.0, shortfall) for shortfall in shortfalls] if len(shortfalls) > 1 else []
        assert row == [reward, *utilities, best - reward, *shortfalls, max(0.0, *shortfalls), *each]


def test_regret_violation_and_hard_violation_by_hand():
    # Optimum 2, threshold 1. Utilities .5, 2, .75: shortfalls +.5, -1, +.25; slack pays back in the first sum only.
    totals = np.array([[3.0, 0.5], [1.0, 2.0], [1.5, 0.75]])
    running = Sums(1).add(increments(totals, 2.0, np.array([1.0])))
    np.testing.assert_array_equal(running[:, 0], [3.0, 4.0, 5.5])  # reward
    np.testing.assert_array_equal(running[:, 1], [0.5, 2.5, 3.25])  # utility
    np.testing.assert_array_equal(running[:, 2], [-1.0, 0.0, 0.5])  # regret
    np.testing.assert_array_equal(running[:, 3], [0.5, -0.5, -0.25])  # signed shortfall
    np.testing.assert_array_equal(violation(running[:, 3:4]), [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(running[:, 4], [0.5, 0.5, 0.75])  # hard violation


def test_violation_is_that_of_the_worst_constraint():
    np.testing.assert_array_equal(violation(np.array([[1.0, 3.0], [-1.0, -2.0], [-1.0, 0.5]])), [3.0, 0.0, 0.5])


@given(measured())
def test_sums_are_exact_to_the_last_bits(case: tuple[Array, float, Array]):
    steps = increments(*case)
    running = Sums(len(case[2])).add(steps)
    for m in range(steps.shape[1]):
        exact = Fraction(0)
        for n, step in enumerate(steps[:, m].tolist()):
            exact += Fraction(step)
            scale = float(np.abs(steps[: n + 1, m]).sum())
            assert abs(float(Fraction(running[n, m]) - exact)) <= 4e-16 * scale


def test_a_million_steps_do_not_drift():
    running = Sums(1).add(np.full((10**6, 5), 0.1))
    exact = Fraction(0.1) * 10**6
    assert abs(Fraction(running[-1, 0]) / exact - 1) <= 1e-15
    assert abs(Fraction(np.cumsum(np.full(10**6, 0.1))[-1]) / exact - 1) > 1e-12  # a plain sum does


@given(measured(), st.lists(st.integers(1, 7), min_size=1))
def test_sums_do_not_depend_on_the_pieces_in_which_they_are_added(case: tuple[Array, float, Array], sizes: list[int]):
    steps = increments(*case)
    whole = Sums(len(case[2]))
    expected = whole.add(steps)
    pieces, found, first = Sums(len(case[2])), [], 0
    while first < len(steps):
        size = sizes[len(found) % len(sizes)]
        found.append(pieces.add(steps[first : first + size]))
        first += size
    assert np.concatenate(found).tobytes() == expected.tobytes()
    assert pieces.sums.tobytes() == whole.sums.tobytes()
    assert pieces.lost.tobytes() == whole.lost.tobytes()


@pytest.mark.parametrize("power", [0.5, 1.0, -0.25])
def test_loglog_slope_is_the_power_of_a_power_law(power: float):
    K = np.array([10.0, 100.0, 5000.0, 1e6])
    assert loglog_slope(K, 7.0 * K**power) == pytest.approx(power, abs=1e-12)


# The recorder


def record(recorder: Recorder, case: tuple[Array, float, Array], sizes: list[int]) -> None:
    """Add all episodes in pieces of the given sizes; estimates and multipliers are functions of the episode."""
    totals, I = case[0], len(case[2])
    number = np.arange(1, len(totals) + 1)[:, None]
    estimates, dual = number + np.arange(1 + I) / 10.0, -number - np.arange(I) / 10.0
    first, turn = 0, 0
    while first < len(totals):
        piece = slice(first, first + sizes[turn % len(sizes)])
        recorder.add(totals[piece], estimates[piece], dual[piece])
        first, turn = piece.stop, turn + 1


@given(measured(), st.integers(2, 30), st.lists(st.integers(1, 7), min_size=1), st.integers(1, 60))
def test_history_holds_the_chosen_episodes_and_the_sums_of_all(
    case: tuple[Array, float, Array], records: int, sizes: list[int], planned: int
):
    totals, best, thresholds = case
    n, I = len(totals), len(thresholds)
    recorder = Recorder(thresholds, best, planned, records)
    record(recorder, case, sizes)
    history = pl.DataFrame(recorder.history())

    kept = set(recorded_episodes(planned, records).tolist())
    last, every = max(kept), max(planned // records, 1)
    while (n - last) // every >= records:  # fewer than `records` episodes after the plan are kept
        every *= 2
    expected = [k for k in range(1, n + 1) if k in kept or (k > last and (k - last) % every == 0) or k == n]
    assert history["episode"].to_list() == expected

    running = Sums(I).add(increments(totals, best, thresholds))
    rows = np.array(expected) - 1
    for i in range(I):
        np.testing.assert_array_equal(history[f"utility_{i}"], totals[rows, 1 + i])
        np.testing.assert_array_equal(history[f"total_utility_{i}"], running[rows, 1 + i])
        np.testing.assert_array_equal(history[f"shortfall_{i}"], running[rows, 2 + I + i])
        np.testing.assert_array_equal(history[f"estimated_utility_{i}"], rows + 1 + (1 + i) / 10.0)
        np.testing.assert_array_equal(history[f"dual_{i}"], -(rows + 1) - i / 10.0)
    np.testing.assert_array_equal(history["reward"], totals[rows, 0])
    np.testing.assert_array_equal(history["estimated_reward"], rows + 1.0)
    np.testing.assert_array_equal(history["total_reward"], running[rows, 0])
    np.testing.assert_array_equal(history["regret"], running[rows, 1 + I])
    np.testing.assert_array_equal(history["hard_violation"], running[rows, 2 + 2 * I])
    np.testing.assert_array_equal(history["violation"], violation(running[rows, 2 + I : 2 + 2 * I]))
    if I > 1:
        for i in range(I):
            np.testing.assert_array_equal(history[f"hard_violation_{i}"], running[rows, 3 + 2 * I + i])
    assert history.width == 7 + (5 if I == 1 else 6) * I
    assert recorder.current("regret") == running[-1, 1 + I]


@settings(max_examples=50)
@given(measured(), st.lists(st.integers(1, 7), min_size=1))
def test_history_does_not_depend_on_the_pieces(case: tuple[Array, float, Array], sizes: list[int]):
    recorders = [Recorder(case[2], case[1], 20, 8) for _ in range(2)]
    record(recorders[0], case, [1000])
    record(recorders[1], case, sizes)
    one, two = recorders[0].state(), recorders[1].state()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name
    assert pl.DataFrame(recorders[0].history()).equals(pl.DataFrame(recorders[1].history()))


@given(st.integers(1, 10**9), st.integers(2, 3000))
def test_as_many_episodes_are_recorded_as_asked_for_from_the_first_to_the_last_of_the_plan(planned: int, records: int):
    kept = recorded_episodes(planned, records)
    assert len(kept) == min(planned, records)
    assert kept[0] == 1
    assert kept[-1] == planned
    assert (np.diff(kept) > 0).all()


def test_recorded_episodes_are_half_even_and_half_logarithmic():
    kept = recorded_episodes(10**6, 1000)
    assert np.isin(np.arange(2000, 10**6 + 1, 2000), kept).mean() > 0.99  # 500 evenly spaced ones
    assert np.count_nonzero(kept <= 1000) > 200  # half of the logarithmic scale
    np.testing.assert_array_equal(recorded_episodes(7, 7), np.arange(1, 8))
    np.testing.assert_array_equal(recorded_episodes(7, 100), np.arange(1, 8))


@given(measured(), st.integers(1, 5), st.lists(st.integers(1, 7), min_size=1))
def test_an_unmeasured_episode_has_the_values_measured_last(
    case: tuple[Array, float, Array], every: int, sizes: list[int]
):
    totals, best, thresholds = case
    n = len(totals)
    source = np.arange(n) // every * every
    gaps = np.where((np.arange(n) % every == 0)[:, None], totals, np.nan)
    with_gaps, filled = (Recorder(thresholds, best, n, 2 * n + 2) for _ in range(2))
    record(with_gaps, (gaps, best, thresholds), sizes)
    record(filled, (totals[source], best, thresholds), sizes)
    assert pl.DataFrame(with_gaps.history()).equals(pl.DataFrame(filled.history()))
    assert len(with_gaps.history()["episode"]) == n


@given(measured(), st.integers(1, 39), st.lists(st.integers(1, 7), min_size=1))
def test_a_restored_recorder_goes_on_bitwise(case: tuple[Array, float, Array], stop: int, sizes: list[int]):
    totals, best, thresholds = case
    whole = Recorder(thresholds, best, 25, 10)
    record(whole, case, sizes)
    I = len(thresholds)
    half, other = (Recorder(thresholds, best, 25, 10) for _ in range(2))
    stop = min(stop, len(totals))
    record(half, (totals[:stop], best, thresholds), sizes)
    other.restore(half.state())
    number = np.arange(stop + 1, len(totals) + 1)[:, None]
    if len(number):
        other.add(totals[stop:], number + np.arange(1 + I) / 10.0, -number - np.arange(I) / 10.0)
    state, expected = other.state(), whole.state()
    for name in expected:
        assert state[name].tobytes() == expected[name].tobytes(), name


def test_without_an_optimum_the_history_has_realised_totals_and_no_exact_measures():
    recorder = Recorder(np.array([1.0]), np.nan, 3, 10)
    recorder.add(np.array([[3.0, 0.5], [1.0, 2.0], [1.5, 0.75]]), np.zeros((3, 2)), np.zeros((3, 1)))
    history: Any = pl.DataFrame(recorder.history())
    assert not {"regret", "violation", "hard_violation", "reward"} & {*history.columns}
    np.testing.assert_array_equal(history["total_realised_reward"], [3.0, 4.0, 5.5])
    np.testing.assert_array_equal(history["realised_shortfall_0"], [0.5, -0.5, -0.25])

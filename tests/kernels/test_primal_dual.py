"""The policy and dual steps of Algorithm 1 do what the paper writes, to the last bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opdop.algorithms.task import by_action
from opdop.kernels.primal_dual import (
    LEAST_SCALE,
    PROBABILITY_FLOOR,
    SCALE_MEMORY,
    Seen,
    Steps,
    damping_for,
    exponential,
    find_rates,
    find_targets,
    improve,
    move_dual,
    update_dual,
    update_scales,
    update_variances,
)
from tests.support.sources import source_of
from tests.support.strategies import SEEDS, Array

E = math.e


def both(kernel: Any) -> list[Any]:
    """Return a kernel as compiled and as the Python function it was compiled from."""
    return [pytest.param(kernel, id="compiled"), pytest.param(source_of(kernel), id="source")]


def improved(
    policy: Any, q: Any, dual: Any, step_size: float, mixing: float, touched: Any = None, kernel: Any = improve
) -> Array:
    """Return the improved policy of one stage: policy [S, A], q [1+I, S, A]."""
    table = by_action(np.array(policy, dtype=float)[None])
    seen = np.ones((1, table.shape[2]), dtype=bool) if touched is None else np.array([touched])
    kernel(table, by_action(np.array(q, dtype=float)[:, None]), np.array(dual, dtype=float), step_size, mixing, seen)
    return by_action(table)[0]


def improved_plainly(policy: Array, q: Array, dual: Array, step_size: float, mixing: float) -> Array:
    """Return the same from exact fractions and math.exp, which is held at exp(-690) from below."""
    out = np.empty_like(policy)
    S, A = policy.shape
    for x in range(S):
        weights = []
        for a in range(A):
            mixed = (1 - Fraction(mixing)) * Fraction(policy[x, a]) + Fraction(mixing) / A
            score = Fraction(q[0, x, a]) + sum(
                (Fraction(y) * Fraction(q[1 + i, x, a]) for i, y in enumerate(dual)), Fraction(0)
            )
            weights.append((mixed, score))
        best = max(score for _, score in weights)
        exponents = [max(float(Fraction(step_size) * (score - best)), -690.0) for _, score in weights]
        exponentials = [float(mixed) * math.exp(e) for (mixed, _), e in zip(weights, exponents, strict=True)]
        out[x] = [weight / math.fsum(exponentials) for weight in exponentials]
    return out


def assert_few_ulps(found: Array, expected: Array, ulps: int) -> None:
    assert (np.abs(found - expected) <= ulps * np.spacing(np.abs(expected))).all(), (found, expected)


# The exponential


@pytest.mark.parametrize("kernel", both(exponential))
@given(st.lists(st.floats(-690.0, 0.0), min_size=1, max_size=9))
@example([-690.0, -689.9999999, -345.0, -1.0, -5e-324, -0.0, 0.0])
@example([-math.log(2) / 2, -math.log(2), math.nextafter(-math.log(2) / 2, 0), -708 * math.log(2)])
def test_it_is_the_exponential_to_two_ulps(kernel: Any, values: list[float]):
    x = np.array([kernel(value) for value in values])
    assert_few_ulps(x, np.array([math.exp(value) for value in values]), 2)


@pytest.mark.parametrize("kernel", both(exponential))
def test_it_keeps_a_floor_below_minus_690(kernel: Any):
    x = np.array([kernel(value) for value in (-690.0, -690.0000001, -745.2, -1e10, -1e308, -np.inf)])
    assert (x == x[0]).all()
    assert_few_ulps(x[:1], np.array([math.exp(-690.0)]), 2)


@pytest.mark.parametrize("kernel", both(exponential))
def test_exp_of_zero_is_exactly_one(kernel: Any):
    assert kernel(0.0) == 1.0


# Lines 5 and 6: mixing and the mirror step


@pytest.mark.parametrize("kernel", both(improve))
def test_mixing_alone_is_exact_by_hand(kernel: Any):
    # Equal scores: only (1 - 1/4) pi + 1/4 * 1/4 acts, and all numbers are exact in binary.
    found = improved([[0.5, 0.25, 0.25, 0.0]], [[[3.0] * 4], [[7.0] * 4]], [2.0], 0.125, 0.25, kernel=kernel)
    np.testing.assert_array_equal(found, [[0.4375, 0.25, 0.25, 0.0625]])


@pytest.mark.parametrize("kernel", both(improve))
def test_mixing_and_mirror_step_by_hand(kernel: Any):
    # Mixed: .8 * (.7, .3) + .1 = (.66, .34). Scores: 1 + .25 * 0 = 1 and 0 + .25 * 2 = .5, times alpha = 2: 2 and 1.
    found = improved([[0.7, 0.3]], [[[1.0, 0.0]], [[0.0, 2.0]]], [0.25], 2.0, 0.2, kernel=kernel)
    total = 0.66 * E**2 + 0.34 * E
    assert_few_ulps(found, np.array([[0.66 * E**2 / total, 0.34 * E / total]]), 8)


@pytest.mark.parametrize("kernel", both(improve))
def test_mirror_step_adds_up_all_constraints_by_hand(kernel: Any):
    # Scores: 1 + 2*1 + .5*0 = 3, 0 + 2*.5 + .5*4 = 3, 2 + 2*0 + .5*0 = 2; without mixing from (1/2, 1/4, 1/4).
    q = [[[1.0, 0.0, 2.0]], [[1.0, 0.5, 0.0]], [[0.0, 4.0, 0.0]]]
    found = improved([[0.5, 0.25, 0.25]], q, [2.0, 0.5], 1.0, 0.0, kernel=kernel)
    total = 0.75 + 0.25 / E
    assert_few_ulps(found, np.array([[0.5 / total, 0.25 / total, 0.25 / E / total]]), 8)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Array, Array, Array, float, float]:
    """Draw one stage's policy [S, A], q [1+I, S, A], dual [I], step size and mixing."""
    rng = np.random.default_rng(draw(SEEDS))
    S = draw(st.sampled_from([1, 2, 3, 63, 127, 128, 129, 261]))
    A, I = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    policy = rng.dirichlet(np.full(A, draw(st.sampled_from([0.1, 1.0]))), S)
    q = rng.random((1 + I, S, A)) * draw(st.sampled_from([1.0, 30.0]))
    dual = rng.random(I) * draw(st.sampled_from([0.0, 1.0, 50.0]))
    return policy, q, dual, draw(st.sampled_from([0.0, 1e-3, 0.3, 2.0])), draw(st.sampled_from([0.0, 1e-4, 0.1, 1.0]))


@given(steps())
def test_improve_equals_exact_fractions(step: tuple[Array, Array, Array, float, float]):
    # The exponent alpha * (score - best) carries a rounding of about 1e-16 times its own size, up to 9060 here.
    policy, q, dual, step_size, mixing = step
    largest = step_size * (q[0].max() + dual @ q[1:].max(axis=(1, 2)))
    np.testing.assert_allclose(
        improved(*step),
        np.maximum(improved_plainly(policy, q, dual, step_size, mixing), PROBABILITY_FLOOR),
        rtol=1e-14 + 1e-15 * largest,
        atol=1e-298,
    )


@given(steps())
def test_compiled_improve_equals_its_source(step: tuple[Array, Array, Array, float, float]):
    np.testing.assert_allclose(improved(*step), improved(*step, kernel=source_of(improve)), rtol=1e-14, atol=1e-300)


@given(steps())
def test_mirror_step_meets_its_optimality_condition(step: tuple[Array, Array, Array, float, float]):
    # pi^k maximises alpha <Q, pi> - KL(pi, mixed), so log(pi^k / mixed) - alpha Q is the same for all actions.
    policy, q, dual, step_size, mixing = step
    mixing = max(mixing, 1e-4)
    A = policy.shape[1]
    new = improved(policy, q, dual, step_size, mixing)
    scores = step_size * (q[0] + np.tensordot(dual, q[1:], 1))
    gradient = np.log(new) - np.log((1 - mixing) * policy + mixing / A) - scores
    reached = new > 1e-290  # above the floor
    spread = np.where(reached, gradient, -np.inf).max(axis=1) - np.where(reached, gradient, np.inf).min(axis=1)
    assert (spread <= 1e-13 * (1.0 + np.abs(scores).max())).all()


@pytest.mark.parametrize("kernel", both(improve))
def test_blocks_without_a_touched_state_keep_every_bit(kernel: Any):
    rng = np.random.default_rng(0)
    S, A = 300, 3
    policy, q = rng.dirichlet(np.ones(A), S), rng.random((2, S, A))
    touched = np.zeros(S, dtype=bool)
    touched[130] = True  # the second block of 128
    found = improved(policy, q, [1.0], 1.0, 0.1, touched, kernel=kernel)
    np.testing.assert_array_equal(found[:128], policy[:128])
    np.testing.assert_array_equal(found[256:], policy[256:])
    assert (found[128:256] != policy[128:256]).any(axis=1).all()


@given(SEEDS, st.integers(1, 5), st.sampled_from([0.0, 1e-9, 1.0]), st.sampled_from([1e-3, 1.0, 1e3, 1e9]))
def test_policy_stays_a_distribution_whatever_the_scores(seed: int, A: int, mixing: float, step_size: float):
    rng = np.random.default_rng(seed)
    table = np.full((1, A, 3), 1.0 / A)
    for _ in range(50):
        q = rng.random((2, 1, A, 3)) * 10.0
        improve(table, q, np.array([100.0]), step_size, mixing, np.ones((1, 3), dtype=bool))
        assert np.abs(table.sum(axis=1) - 1.0).max() <= 1e-15 * (2 + A)
        assert (table >= PROBABILITY_FLOOR).all()


def test_a_dead_action_comes_back_without_mixing():
    # Action 1 loses until it is at the floor; then it wins by 1 each time: 1e-300 e^k passes 1/2 at k = 691.
    table = np.full((1, 2, 1), 0.5)
    q = np.zeros((2, 1, 2, 1))
    q[0, 0, 0, 0] = 1.0
    everywhere = np.ones((1, 1), dtype=bool)
    for _ in range(2000):
        improve(table, q, np.zeros(1), 1.0, 0.0, everywhere)
    assert table[0, 1, 0] == PROBABILITY_FLOOR
    q[0, 0, :, 0] = 0.0, 1.0
    for _ in range(690):
        improve(table, q, np.zeros(1), 1.0, 0.0, everywhere)
    assert table[0, 1, 0] < 0.5
    improve(table, q, np.zeros(1), 1.0, 0.0, everywhere)
    assert table[0, 1, 0] > 0.5


# Line 9: the dual step


@pytest.mark.parametrize("kernel", both(update_dual))
@pytest.mark.parametrize(
    ("before", "threshold", "estimate", "after"),
    [
        (1.0, 3.0, 2.5, 1.125),  # 1 + 1/4 * (3 - 2.5)
        (1.0, 3.0, 5.0, 0.5),  # 1 + 1/4 * (3 - 5)
        (0.25, 1.0, 4.0, 0.0),  # 1/4 - 3/4, clipped from below
        (7.75, 4.0, 1.0, 8.0),  # 31/4 + 3/4, clipped from above at chi = 8
        (0.0, 2.0, 2.0, 0.0),  # V^0 = b: Y^1 = Y^0
        (8.0, 4.0, 4.0, 8.0),
    ],
)
def test_dual_step_by_hand(kernel: Any, before: float, threshold: float, estimate: float, after: float):
    dual = np.array([before])
    kernel(dual, np.array([threshold]), np.array([estimate]), 0.25, 8.0, math.inf)
    assert dual[0] == after
    dual[0] = before
    kernel(dual, np.array([threshold]), np.array([estimate]), 0.25, 8.0, 8.0)  # one multiplier is its own sum
    assert dual[0] == after


@pytest.mark.parametrize("kernel", both(update_dual))
def test_each_multiplier_moves_along_its_own_violation(kernel: Any):
    dual = np.array([1.0, 0.25, 7.75])
    kernel(dual, np.array([3.0, 1.0, 4.0]), np.array([2.5, 4.0, 1.0]), 0.25, 8.0, math.inf)
    np.testing.assert_array_equal(dual, [1.125, 0.0, 8.0])


@pytest.mark.parametrize("kernel", both(update_dual))
@pytest.mark.parametrize(
    ("moved", "after"),
    [
        ([1.0, 0.5, 0.25], [1.0, 0.5, 0.25]),  # their sum is less than 2
        ([3.0, 1.0, 0.0], [2.0, 0.0, 0.0]),  # lowered by 1
        ([2.0, 1.5, 0.25], [1.25, 0.75, 0.0]),  # by 3/4, and the third not below 0
        ([-1.0, 4.0, 4.0], [0.0, 1.0, 1.0]),
    ],
)
def test_multipliers_with_a_bounded_sum_move_to_the_nearest_such_point(
    kernel: Any, moved: list[float], after: list[float]
):
    dual = np.zeros(3)
    kernel(dual, np.array(moved), np.zeros(3), 1.0, 2.0, 2.0)
    np.testing.assert_array_equal(dual, after)


@given(st.integers(1, 6), st.floats(0.1, 5.0), st.integers(0, 2**32 - 1))
def test_no_point_with_a_bounded_sum_is_nearer(constraints: int, total: float, seed: int):
    rng = np.random.default_rng(seed)
    dual, aim = np.zeros(constraints), 4.0 * rng.standard_normal(constraints)
    update_dual(dual, aim, np.zeros(constraints), 1.0, total, total)
    assert dual.min() >= 0.0
    assert dual.sum() <= total * (1 + 1e-12)
    others = total * rng.dirichlet(np.ones(constraints + 1), size=50)[:, 1:]
    distances = np.linalg.norm(np.vstack([others, total * np.eye(constraints), np.zeros(constraints)]) - aim, axis=1)
    assert np.linalg.norm(dual - aim) <= distances.min() + 1e-9


# Relative steps and the damped multiplier

CONSTANT = Steps(0.5, 0.25, 0.125, 0.0, False)
RELATIVE = Steps(0.5, 0.25, 1.0, 0.75, True)


def rates_of(kernel: Any, steps: Steps, scales: list[float], integral: list[float], dual: list[float], **other: Any):
    I = len(dual)
    b, v = np.array(other.get("thresholds", [1.0] * I)), np.array(other.get("estimates", [1.0] * I))
    rates, responses = np.full(2 + 2 * I, np.nan), np.array(other.get("responses", [0.0] * I))
    seen = Seen(np.array(scales), responses, np.full(I, np.nan))
    kernel(steps, seen, np.array(integral), np.array(dual), b, v, other.get("played", 0), rates)
    return rates


@pytest.mark.parametrize("kernel", both(find_rates))
def test_constant_steps_are_the_constants_to_the_last_bit(kernel: Any):
    rates = rates_of(kernel, CONSTANT, [3.0, 0.1, 7.0], [1.0, 2.0], [1.0, 2.0], estimates=[0.0, 9.0], played=50)
    np.testing.assert_array_equal(rates, [0.5, 0.125, 0.25, 0.25, 0.0, 0.0])


@pytest.mark.parametrize("kernel", both(find_rates))
def test_relative_steps_by_hand(kernel: Any):
    # alpha 1/2 / (4 + 3 * 2); theta 1 / 8; units (4 + 1 * 2) / 2^2 = 3/2 without a violation
    rates = rates_of(kernel, RELATIVE, [4.0, 2.0], [1.0], [3.0], played=7)
    np.testing.assert_allclose(rates, [0.05, 0.125, 0.25 * 1.5, 0.75 * 1.5], rtol=1e-15)
    # a violation of 20 counts as 20 / (1 + 20 / (10 * 2)) = 10: the unit is halved
    rates = rates_of(kernel, RELATIVE, [4.0, 2.0], [1.0], [3.0], played=7, estimates=[21.0])
    np.testing.assert_allclose(rates, [0.05, 0.125, 0.25 * 0.75, 0.75 * 0.75], rtol=1e-15)
    # where the policy reacts by 40 / 3, the unit is 6 / (4 + 0.3 * 40 / 3)
    rates = rates_of(kernel, RELATIVE, [4.0, 2.0], [1.0], [3.0], played=7, responses=[40.0 / 3.0])
    np.testing.assert_allclose(rates, [0.05, 0.125, 0.25 * 0.75, 0.75 * 0.75], rtol=1e-15)


@pytest.mark.parametrize("kernel", both(find_rates))
def test_kappa_is_raised_where_the_policy_reacts_little(kernel: Any):
    def rates(ratio: float = 0.7, **other: Any) -> Array:
        steps = RELATIVE._replace(damping_ratio=ratio)
        return rates_of(kernel, steps, [4.0, 2.0], [1.0], [3.0], played=7, **other)

    # With alpha = 1 / 20 and G = 5 / 4 the response is 1 / 16, and the unit is 6 / (4 + 0.3 * 5 / 4).
    unit = 6.0 / 4.375
    expected = [0.05, 0.125, 0.25 * unit, 1.4 * math.sqrt(0.25 * unit / 0.0625)]
    np.testing.assert_allclose(rates(responses=[1.25]), expected, rtol=1e-15)
    # With a violation of 1 it is at most 0.5 * 6 / (2 * 1); with one of 20 the other kappa is larger.
    np.testing.assert_allclose(rates(estimates=[2.0], responses=[1e-9])[3], 1.5, rtol=1e-15)
    np.testing.assert_allclose(rates(estimates=[21.0], responses=[1e-9])[3], 0.75 * 0.75, rtol=1e-9)
    # Where the ratio is large enough already, nothing changes.
    usual, enough = (rates(ratio, responses=[40.0 / 3.0]) for ratio in (0.0, 0.01))
    np.testing.assert_array_equal(enough, usual)


@pytest.mark.parametrize(("ratio", "overshoot"), [(0.2, 0.5266), (0.7, 0.0460), (1.5, 0.0)])
def test_policy_and_multiplier_settle_as_an_oscillator_with_this_damping_ratio(ratio: float, overshoot: float):
    # The closed form: from v = 1 at rest, v falls below 0 by exp(-pi ratio / sqrt(1 - ratio^2)), or not at all.
    if ratio < 1.0:
        assert overshoot == pytest.approx(math.exp(-math.pi * ratio / math.sqrt(1.0 - ratio**2)), rel=1e-3)
    eta, response, v, lowest = 1e-3, 1e-3, 1.0, 0.0
    kappa = damping_for(ratio, eta, response)
    integral = -kappa  # so that v is at rest at first
    for _ in range(40_000):
        integral += eta * v
        v -= response * (integral + kappa * v)
        lowest = min(lowest, v)
    assert -lowest == pytest.approx(overshoot, abs=0.005)
    assert abs(v) < 1e-3


@pytest.mark.parametrize("kernel", both(find_targets))
def test_thresholds_are_raised_by_standard_errors_up_to_a_share_of_the_gap(kernel: Any):
    b, variances = np.array([1.0, 2.0]), np.array([9.0, 400.0])
    cautious = Steps(0.5, 0.25, 1.0, 0.75, True, caution=2.0, most_margin=0.75)
    for steps, played, expected in [
        (cautious, 144, [1.5, 2.75]),  # 2 sqrt(9 / 144), and 0.75 instead of 2 sqrt(400 / 144)
        (cautious, 14400, [1.05, 2.0 + 1.0 / 3.0]),
        (cautious, 0, [1.0, 2.0]),  # nothing was seen yet
        (RELATIVE, 144, [1.0, 2.0]),
    ]:
        targets = np.full(2, np.nan)
        kernel(steps, b, variances, played, targets)
        np.testing.assert_allclose(targets, expected, rtol=1e-15)


@pytest.mark.parametrize(("reward", "utility"), [(10.0, 1.0), (1.0, 0.01), (0.1, 30.0)])
def test_relative_steps_do_not_depend_on_the_units_of_signals(reward: float, utility: float):
    # In other units scores and multipliers change as reward and reward / utility do, and nothing else.
    price = reward / utility
    one = rates_of(find_rates, RELATIVE, [0.7, 0.2], [0.5], [0.9], thresholds=[2.0], estimates=[1.7], responses=[0.4])
    other = rates_of(
        find_rates,
        RELATIVE,
        [0.7 * reward, 0.2 * utility],
        [0.5 * price],
        [0.9 * price],
        thresholds=[2.0 * utility],
        estimates=[1.7 * utility],
        responses=[0.4 * utility**2],
    )
    assert other[0] * reward == pytest.approx(one[0], rel=1e-12)
    assert other[1] == one[1]
    np.testing.assert_allclose(other[2:] * utility / price, one[2:], rtol=1e-12)


@pytest.mark.parametrize("kernel", both(update_scales))
def test_scales_are_root_mean_squares_of_the_ranges_at_visited_states(kernel: Any):
    q = np.zeros((2, 2, 3, 4))  # [J, H, A, S]
    q[0, 0, :, 1], q[0, 1, :, 3] = [1.0, 4.0, 2.0], [0.0, 4.0, 1.0]  # ranges 3 and 4
    q[1, 0, :, 2] = 9.0, 0.0, 0.0  # not visited
    policy = np.full((2, 3, 4), 1.0 / 3.0)
    seen = nothing_seen(1)
    kernel(q, policy, np.array([1, 3, 0]), 0, seen)
    np.testing.assert_allclose(seen.scales, [math.sqrt(12.5), LEAST_SCALE], rtol=1e-15)
    kernel(q, policy, np.array([2, 0, 0]), 1, seen)  # the mean of two episodes
    np.testing.assert_allclose(seen.scales, [math.sqrt(12.5) / 2.0, (LEAST_SCALE + math.sqrt(40.5)) / 2.0], rtol=1e-15)
    before = seen.scales.copy()
    kernel(q, policy, np.array([0, 0, 0]), 10**6, seen)
    np.testing.assert_allclose(seen.scales, before * (1.0 - 1.0 / SCALE_MEMORY), rtol=1e-12)


def nothing_seen(I: int) -> Seen:
    return Seen(np.ones(1 + I), np.ones(I), np.ones(I))


@pytest.mark.parametrize("kernel", both(update_scales))
@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_response_is_how_much_a_step_along_the_utility_raises_it(kernel: Any, seed: int):
    # One state a stage, so that the response of V is the sum of those of the stages. The score is Q_1 alone.
    rng = np.random.default_rng(seed)
    H, A, step = 3, 4, 1e-5
    q, policy = rng.random((2, H, A, 1)), rng.dirichlet(np.ones(A), size=(H, 1)).transpose(0, 2, 1).copy()
    q[0] = 0.0
    moved, seen = policy.copy(), nothing_seen(1)
    improve(moved, q, np.array([1.0]), step, 0.0, np.ones((H, 1), dtype=np.bool_))
    kernel(q, policy, np.zeros(H + 1, dtype=np.int64), 0, seen)
    risen = float(((moved - policy) * q[1]).sum()) / step
    np.testing.assert_allclose(seen.responses, [risen], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kernel", both(update_variances))
def test_variances_are_squared_errors_after_one_stage(kernel: Any):
    J, H, A, S = 2, 2, 2, 3
    q, v = np.full((J, H, A, S), np.nan), np.full((J, H + 1, S), np.nan)
    q[1, 0, 1, 2], q[1, 1, 0, 0] = 1.5, 0.25
    v[1, 1, 0], v[1, 2, 1] = 0.5, 0.0
    states, actions, observed = np.array([2, 0, 1]), np.array([1, 0]), np.array([[np.nan, np.nan], [0.75, 1.0]])
    seen = nothing_seen(1)
    kernel(q, v, states, actions, observed, 0, seen)
    expected = (0.75 + 0.5 - 1.5) ** 2 + (1.0 - 0.25) ** 2
    np.testing.assert_allclose(seen.variances, [expected], rtol=1e-15)
    kernel(q, v, states, actions, 0.0 * observed + observed, 1, seen)  # the mean of two equal episodes
    np.testing.assert_allclose(seen.variances, [expected], rtol=1e-15)
    observed[1, 1] = 0.25
    kernel(q, v, states, actions, observed, 10**6, seen)
    np.testing.assert_allclose(seen.variances, [expected - 0.75**2 / SCALE_MEMORY], rtol=1e-12)


@pytest.mark.parametrize("kernel", both(move_dual))
@pytest.mark.parametrize(
    ("integral", "estimate", "damping", "summed", "after"),
    [
        (1.0, 2.5, 0.0, 1.125, 1.125),  # line 9 alone: 1 + 1/4 * (3 - 2.5)
        (1.0, 2.5, 2.0, 1.125, 2.125),  # and 2 * (3 - 2.5) on top
        (1.0, 5.0, 2.0, 0.5, 0.0),  # slack takes the multiplier to 0, the sum keeps 1/2
        (7.75, 1.0, 2.0, 8.0, 8.0),  # both are clipped at chi = 8
    ],
)
def test_damped_dual_step_by_hand(
    kernel: Any, integral: float, estimate: float, damping: float, summed: float, after: float
):
    total, dual = np.array([integral]), np.array([np.nan])
    kernel(total, np.array([3.0]), np.array([estimate]), np.array([9.0, 9.0, 0.25, damping]), 8.0, math.inf, dual)
    assert (total[0], dual[0]) == (summed, after)


def test_damping_settles_what_otherwise_circles():
    # One state, two actions: reward 1 or 0, utility 0 or 1, threshold 1/2, so that Y* = 1 and half of each is optimal.
    def spread(damping: float) -> float:
        policy, dual, integral = np.full((1, 2, 1), 0.5), np.zeros(1), np.zeros(1)
        q = np.array([1.0, 0.0, 0.0, 1.0]).reshape(2, 1, 2, 1)
        b, estimate, late = np.array([0.5]), np.array([0.5]), []
        for k in range(3000):
            improve(policy, q, dual, 0.5, 1e-6, np.ones((1, 1), dtype=np.bool_))
            move_dual(integral, b, estimate, np.array([0.5, 1e-6, 0.02, damping]), 10.0, math.inf, dual)
            estimate[0] = policy[0, 1, 0]
            late += [dual[0]] if k >= 1500 else []
        assert np.mean(late) == pytest.approx(1.0, abs=0.1)
        return float(np.std(late))

    assert spread(0.0) > 0.2
    assert spread(0.5) < 1e-6

"""If the truth is in the confidence set, lower and upper values enclose every policy's, and no optimum exceeds U."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opdop import InfeasibleError, InvalidParameterError, solve
from opdop.confidence import Observations, OptimisticOracle, TabularSet, plan_optimistically
from tests.support.data_sets import KINDS, contains, observe, worst_case
from tests.support.strategies import (
    INFEASIBLE,
    POLICY_KINDS,
    SEEDS,
    Sketch,
    evaluate_plainly,
    policy_table,
    sketch_of,
    sketches,
)


@given(sketches(), SEEDS, KINDS, POLICY_KINDS, st.sampled_from([0.001, 0.05, 0.5]))
def test_lower_and_upper_values_enclose_those_of_every_policy(
    sketch: Sketch, seed: int, kinds: dict[str, Any], policy: str, p: float
):
    data = observe(sketch, seed, **kinds)
    confidence = TabularSet(data.pooled() if sketch.stationary and sketch.sizes[0] > 1 else data, p)
    assume(contains(confidence, sketch))
    table = policy_table(seed, sketch, policy)
    v = evaluate_plainly(sketch.P, sketch.signals, table)
    low, up = confidence.lower_values(table), confidence.upper_values(table)
    assert (low <= v + 1e-9).all()
    assert (v <= up + 1e-9).all()
    assert (low >= 0.0).all()
    assert (up[:, :-1] <= np.arange(sketch.sizes[0], 0, -1.0)[:, None] + 1e-9).all()


@settings(max_examples=60)
@given(sketches(), SEEDS, KINDS)
def test_no_policy_that_keeps_the_constraints_exceeds_the_optimistic_optimum(
    sketch: Sketch, seed: int, kinds: dict[str, Any]
):
    data = observe(sketch, seed, **kinds)
    confidence = TabularSet(data.pooled() if sketch.stationary and sketch.sizes[0] > 1 else data, 0.3)
    assume(contains(confidence, sketch))
    plan = plan_optimistically(OptimisticOracle(confidence))
    optimum = solve(sketch.build())
    assert plan.upper >= optimum.value - 1e-8
    # Weak duality: any other multipliers give a bound that is no better than the one found.
    oracle = OptimisticOracle(confidence)
    for dual in np.random.default_rng(seed).exponential(1.0, (3, sketch.sizes[3])):
        corner = oracle.best(np.append(1.0, dual), second=np.zeros(1 + len(dual)))
        bound = np.append(1.0, dual) @ corner.totals - dual @ sketch.thresholds
        assert bound >= plan.upper - 1e-8 * (1.0 + dual.sum())


@given(sketches())
def test_without_width_the_optimistic_optimum_is_the_optimum_of_the_empirical_model(sketch: Sketch):
    H, S, A, I = sketch.sizes
    row, successor = np.nonzero(sketch.P.reshape(-1, S))
    exact = Observations.from_rows(
        H, S, A, row=row, successor=successor, seen=np.ones_like(row), signal_number=np.ones(H * S * A),
        signal_sums=sketch.signals.reshape(1 + I, -1), thresholds=sketch.thresholds, initial=sketch.initial,
    )  # fmt: skip
    confidence = TabularSet(exact)
    object.__setattr__(confidence, "widths", np.zeros(H * S * A))
    probabilities = sketch.P.reshape(-1, S)[row, successor]
    probabilities.setflags(write=False)
    oracle = OptimisticOracle(confidence)
    oracle._balls = confidence.balls(np.zeros(1 + I))._replace(probabilities=probabilities)
    assert plan_optimistically(oracle).upper == pytest.approx(solve(sketch.build()).value, abs=1e-7)


def test_one_stage_of_the_lower_value_is_the_linear_programs():
    sketch = sketch_of(5, states=6, actions=2, horizon=3)
    data = observe(sketch, 1, most=200)
    confidence = TabularSet(data)
    table = policy_table(1, sketch, "one action")
    v = confidence.lower_values(table)
    centre = np.zeros((3 * 6 * 2, 6))
    centre[np.repeat(np.arange(36), np.diff(data.starts)), data.successors] = data.kernel().probabilities
    everything = np.ones(6, dtype=bool)
    for h in range(2):
        for x in range(6):
            a = int(np.argmax(table[h, x]))
            row = (h * 6 + x) * 2 + a
            visited = data.number[row] > 0
            middle = centre[row] if visited else np.eye(6)[0]
            width, unseen = (confidence.widths[row], confidence.unseen[row]) if visited else (2.0, 1.0)
            worst = worst_case(middle, width, v[0, h + 1], everything, unseen)
            signal = sketch.signals[0, h, x, a] if visited else 0.0
            assert v[0, h, x] == pytest.approx(signal + worst, abs=1e-9)


@given(sketches(horizon=(2, 4), forms=["dense stationary", "sparse stationary"]), SEEDS)
def test_pooled_stages_narrow_the_set_of_a_stationary_kernel(sketch: Sketch, seed: int):
    data = observe(sketch, seed, most=50)
    pooled = data.pooled()
    number = data.number.reshape(data.horizon, -1)
    np.testing.assert_array_equal(pooled.number, number.sum(axis=0))
    narrow, wide = TabularSet(pooled).widths, TabularSet(data).widths.reshape(data.horizon, -1)
    assert (narrow <= wide.min(axis=0) + 1e-12).all()
    assert (narrow <= 2.0).all()


def test_the_union_is_over_all_rows_and_signals():
    sketch = sketch_of(0, states=3, actions=2, horizon=4, constraints=2)
    n = 4 * 3 * 2
    data, noisy = observe(sketch, 0, most=500), observe(sketch, 0, most=500, noisy=True)
    k = int(np.argmax(data.number))
    visits = int(data.number[k])

    def eps(delta: float) -> float:
        return 2.0 / visits * math.sqrt((visits + 1) / 2 * math.log(3.0 * math.sqrt(visits + 1) / delta))

    assert TabularSet(data, 0.1).widths[k] == pytest.approx(eps(0.09 / n), rel=1e-12)
    assert TabularSet(data, 0.1).unseen[k] == pytest.approx(1.0 - (0.01 / (6 * n)) ** (1 / visits), rel=1e-12)
    assert TabularSet(data.pooled(), 0.1).widths.shape == (6,)
    assert TabularSet(noisy, 0.1).widths[k] == pytest.approx(eps(0.045 / n), rel=1e-12)
    width = math.sqrt((visits + 1) / 2 * math.log(math.sqrt(visits + 1) * 3 * n / 0.05)) / visits
    means = noisy.signal_means()[:, k]
    confidence = TabularSet(noisy, 0.1)
    low, up = (bound.reshape(3, -1)[:, k] for bound in (confidence.signal_low, confidence.signal_up))
    np.testing.assert_allclose(low, np.maximum(means - width, 0.0), rtol=1e-12)
    np.testing.assert_allclose(up, np.minimum(means + width, 1.0), rtol=1e-12)


def test_without_data_nothing_is_known():
    sketch = sketch_of(3)
    none = np.zeros(0, dtype=np.int64)
    data = Observations.from_rows(
        4, 4, 3, row=none, successor=none, seen=none, signal_number=np.zeros(48), signal_sums=np.zeros((2, 48)),
        thresholds=[1.0], initial=sketch.initial,
    )  # fmt: skip
    confidence = TabularSet(data)
    table = policy_table(0, sketch)
    assert (confidence.lower_values(table) == 0.0).all()
    np.testing.assert_allclose(confidence.upper_values(table)[:, 0], 4.0)
    assert plan_optimistically(OptimisticOracle(confidence)).upper == pytest.approx(4.0)


@settings(max_examples=30)
@given(sketches(tightness=INFEASIBLE[1:], kernels=["random", "deterministic"]), SEEDS)
def test_data_that_prove_infeasibility_say_so(sketch: Sketch, seed: int):
    H, S, A, I = sketch.sizes
    n = 10**9
    seen = np.random.default_rng(seed).multinomial(n, sketch.P).reshape(-1, S)
    row, successor = np.nonzero(seen)
    data = Observations.from_rows(
        H, S, A, row=row, successor=successor, seen=seen[row, successor], signal_number=np.full(H * S * A, n),
        signal_sums=n * sketch.signals.reshape(1 + I, -1), thresholds=sketch.thresholds, initial=sketch.initial,
    )  # fmt: skip
    confidence = TabularSet(data)
    assume(contains(confidence, sketch))
    with pytest.raises(InfeasibleError, match="with probability at least 95 %, no policy satisfies all constraints"):
        plan_optimistically(OptimisticOracle(confidence))


def test_a_confidence_level_is_refused_with_a_hint():
    with pytest.raises(InvalidParameterError, match=r"give 0\.05"):
        TabularSet(observe(sketch_of(0), 0), 0.95)

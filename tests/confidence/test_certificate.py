"""Certificates are true where the truth is in the confidence set, and say in the user's units what they prove."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from opdop import Display, PolicyMixture, Quantity, evaluate, solve
from opdop.confidence import Certifier, Observations, TabularSet
from opdop.kernels import balls
from tests.support.data_sets import KINDS, contains, observe
from tests.support.strategies import INFEASIBLE, SEEDS, Array, Sketch, policy_table, sketch_of, sketches, totals_plainly

TOLERANCE = 1e-8


def certifier(sketch: Sketch, seed: int, p: float = 0.3, **kinds: Any) -> Certifier:
    data = observe(sketch, seed, **kinds)
    confidence = TabularSet(data.pooled() if sketch.stationary and sketch.sizes[0] > 1 else data, p)
    assume(contains(confidence, sketch))
    return Certifier(confidence)


@settings(max_examples=40)
@given(sketches(), SEEDS, KINDS)
def test_a_certificate_is_true_whenever_the_truth_is_in_the_set(sketch: Sketch, seed: int, kinds: dict[str, Any]):
    makes = certifier(sketch, seed, **kinds)
    table = policy_table(seed, sketch)
    optimum = solve(sketch.build()).value
    for certificate in (makes.certificate(table), makes.recommend([table])):
        totals = evaluate(sketch.build(), certificate.policy).totals
        assert certificate.reward_lower - TOLERANCE <= totals[0] <= certificate.reward_upper + TOLERANCE
        assert (certificate.utility_lower - TOLERANCE <= totals[1:]).all()
        assert (totals[1:] <= certificate.utility_upper + TOLERANCE).all()
        assert (totals[1:] - sketch.thresholds >= certificate.slack - TOLERANCE).all()
        assert optimum - totals[0] <= certificate.gap + TOLERANCE
        if certificate.keeps_constraints:
            assert (totals[1:] >= sketch.thresholds - TOLERANCE).all()


def many_visits(sketch: Sketch, n: int, seed: int = 0) -> Observations:
    H, S, A, I = sketch.sizes
    seen = np.random.default_rng(seed).multinomial(n, sketch.P).reshape(-1, S)
    row, successor = np.nonzero(seen)
    return Observations.from_rows(
        H, S, A, row=row, successor=successor, seen=seen[row, successor], signal_number=np.full(H * S * A, n),
        signal_sums=n * sketch.signals.reshape(1 + I, -1), thresholds=sketch.thresholds, initial=sketch.initial,
    )  # fmt: skip


@settings(max_examples=30)
@given(sketches(tightness=["between"], kernels=["random"], states=(2, 5), actions=(2, 4)), SEEDS)
def test_with_much_data_the_recommended_policy_is_nearly_the_optimum(sketch: Sketch, seed: int):
    optimum = solve(sketch.build())
    assume(optimum.slater_gap > 0.05)
    certificate = Certifier(TabularSet(many_visits(sketch, 10**9, seed))).recommend()
    assert certificate.keeps_constraints
    # eps is about 3e-4 here: the bounds are off by at most H^2 eps, once more for each unit of the multipliers.
    H = sketch.sizes[0]
    assert certificate.gap <= 1e-3 * H * H * (1.0 + optimum.dual.sum() + H / optimum.slater_gap)


@given(sketches(horizon=(1, 3)), SEEDS)
def test_the_recommended_policy_is_no_worse_than_the_candidates(sketch: Sketch, seed: int):
    makes = certifier(sketch, seed, most=10**6)
    candidates = [policy_table(seed, sketch, kind) for kind in ("random", "one action")]
    best = makes.recommend(candidates)
    for candidate in candidates:
        other = makes.certificate(candidate)
        assert best.keeps_constraints >= other.keeps_constraints
        if other.keeps_constraints:
            assert best.reward_lower >= other.reward_lower
        elif not best.keeps_constraints:
            assert best.slack.min() >= other.slack.min()


def test_without_data_the_certificate_says_so_and_names_pairs():
    sketch = sketch_of(3)
    makes = Certifier(TabularSet(observe(sketch, 0, most=0)))
    certificate = makes.recommend()
    assert not certificate.keeps_constraints
    assert certificate.uncertain_pairs
    assert "The data say too little about: state " in str(certificate)
    assert math.isclose(sum(pair.share for pair in certificate.uncertain_pairs), 1.0) or (
        len(certificate.uncertain_pairs) == 10
    )


def test_uncertain_pairs_are_those_that_the_policy_visits_most_and_the_data_least():
    # From state 0, action 0 stays and action 1 goes to state 1; state 1 was visited 10 times less often.
    H, S, A = 3, 2, 2
    P = np.zeros((H, S, A, S))
    P[:, 0, 0, 0] = P[:, 0, 1, 1] = P[:, 1, :, 1] = 1.0
    sketch = Sketch(P, np.full((2, H, S, A), 0.5), np.array([1.0]), 0, np.array([1.0, 0.0]), "dense per stage")
    data = many_visits(sketch, 1000)
    few = data.number.copy().reshape(H, S, A)
    few[1, 1, 0] = 100
    data = Observations.from_arrays(data.arrays() | {"seen": few.reshape(-1)})
    policy = np.zeros((H, S, A))
    policy[:, 0, 1] = policy[:, 1, 0] = 1.0
    pairs = Certifier(TabularSet(data)).certificate(policy).uncertain_pairs
    assert [(pair.stage, pair.state, pair.action, pair.visits) for pair in pairs] == [(1, 1, 0, 100), (0, 0, 1, 1000)]
    assert sum(pair.share for pair in pairs) == pytest.approx(1.0)


def test_a_mixture_has_the_mean_of_its_parts_bounds():
    sketch = sketch_of(1)
    makes = Certifier(TabularSet(many_visits(sketch, 1000)))
    parts = [policy_table(seed, sketch) for seed in (0, 1)]
    one, two = (makes.certificate(part) for part in parts)
    mixed = makes.certificate(PolicyMixture(parts, [0.25, 0.75]))
    assert mixed.reward_lower == pytest.approx(0.25 * one.reward_lower + 0.75 * two.reward_lower)
    assert mixed.slack == pytest.approx(0.25 * one.slack + 0.75 * two.slack)


@settings(max_examples=10)
@given(sketches(tightness=INFEASIBLE[1:], kernels=["deterministic"]), SEEDS)
def test_a_certificate_says_that_the_constraints_cannot_be_kept(sketch: Sketch, seed: int):
    certificate = Certifier(TabularSet(many_visits(sketch, 10**9, seed))).recommend()
    assert certificate.proves_infeasible
    assert "no policy keeps every constraint" in str(certificate)
    assert certificate.record()["optimum_upper"] is None


def test_sentences_are_in_the_users_units_and_rounded_to_the_safe_side():
    display = Display(
        "queue",
        quantities=(
            Quantity("steps with an empty buffer", "steps", scale=-1.0, offset=4.0),
            Quantity("fast services", "services", scale=-1.0, offset=4.0),
        ),
    )
    sketch = sketch_of(1)
    certificate = Certifier(TabularSet(many_visits(sketch, 10**6)), display).certificate(policy_table(0, sketch))
    cost = 4.0 - certificate.utility_lower[0]
    shown = math.ceil(cost * 100.0) / 100.0
    assert certificate.sentences()[0].startswith(
        f"With probability at least 95 %: fast services <= {shown:.2f} services per episode; no policy that keeps the "
        "constraint improves steps with an empty buffer by more than "
    )
    assert certificate.sentences()[0].endswith(" steps.")
    assert "fast services <= " in certificate.sentences()[1]
    assert json.loads(json.dumps(certificate.record()))["failure_probability"] == 0.05


# Coverage, and that this test notices wrong widths


def share_of_false_sets(widths_of: Any, *, rows: int, p: float, runs: int, visits: int) -> float:
    """Return how often, of many data sets, the truth leaves the set of some row at some time."""
    rng = np.random.default_rng(7)
    heads = rng.random((runs, rows, visits)) < 0.5
    numbers = np.arange(1, visits + 1)
    distance = 2.0 * np.abs(np.cumsum(heads, axis=2) / numbers - 0.5)
    return float((distance > widths_of(numbers)).any(axis=(1, 2)).mean())


def widths_of_set(rows: int, p: float, numbers: Array) -> Array:
    """Return the widths of the package for each number of visits, in a model of so many rows and two states."""
    A = rows // 2
    widths = []
    for n in numbers:
        data = Observations.from_rows(
            1, 2, A, row=[0], successor=[0], seen=[n], signal_number=np.zeros(2 * A), signal_sums=np.zeros((2, 2 * A)),
            thresholds=[0.5], initial=[1.0, 0.0],
        )  # fmt: skip
        widths.append(TabularSet(data, p).widths[0])
    return np.array(widths)


def test_the_truth_leaves_the_set_no_more_often_than_stated_at_any_time():
    # 300 data sets of 40 rows and up to 300 visits, looked at after each visit. Half the width, or no union over the
    # rows, would be noticed.
    rows, p, runs, visits = 40, 0.4, 300, 300
    right = widths_of_set(rows, p, np.arange(1, visits + 1))
    lone = widths_of_set(2, p, np.arange(1, visits + 1))  # as if there were two rows only

    def share(widths: Array) -> float:
        return share_of_false_sets(lambda _: widths, rows=rows, p=p, runs=runs, visits=visits)

    assert share(right) <= p
    assert share(right / 2.0) > 2.0 * p
    assert share(lone) > 2.0 * p


def test_pooling_a_kernel_that_is_not_stationary_is_noticed():
    # Where both stages lead is known almost exactly, but not if they are mixed up.
    P = np.zeros((2, 2, 1, 2))
    P[0, :, 0] = [0.9, 0.1]
    P[1, :, 0] = [0.1, 0.9]
    signals = np.zeros((2, 2, 2, 1))
    signals[0, 1, 0, 0] = signals[1, 1, 1, 0] = 1.0
    sketch = Sketch(P, signals, np.array([0.1]), 0, np.array([1.0, 0.0]), "dense per stage")
    data, table = many_visits(sketch, 10**5), np.ones((2, 2, 1))
    truth = totals_plainly(sketch, table)
    right, wrong = TabularSet(data), TabularSet(data.pooled())
    assert contains(right, sketch)
    assert not contains(wrong, sketch)
    assert right.lower(table)[0] <= truth[0] <= right.upper(table)[0]
    assert not wrong.lower(table)[0] <= truth[0] <= wrong.upper(table)[0]


def test_successors_that_did_not_occur_have_no_more_probability_than_stated_at_any_time():
    # 200 data sets of 20 rows and up to 200 visits, looked at after each visit. A bound for one set of successors
    # instead of all, or a third of the bound, would be noticed.
    p, runs, rows, S = 0.2, 200, 20, 12
    P, numbers = np.full(S, 1.0 / S), np.arange(1, 201)
    draws = np.random.default_rng(3).choice(S, size=(runs * rows, len(numbers)), p=P)
    left = np.ones((runs * rows, len(numbers)))
    for y in range(S):
        left -= P[y] * np.maximum.accumulate(draws == y, axis=1)

    def share(log_sets: float, scale: float = 1.0) -> float:
        bound = np.array([scale * balls.unseen_mass(float(n), log_sets) for n in numbers])
        return float((left > bound + 1e-12).any(axis=1).reshape(runs, rows).any(axis=1).mean())

    right = math.log((2.0**S - 2.0) * rows / p)
    assert share(right) <= p
    assert share(right, 1.0 / 3.0) > 2.0 * p
    assert share(math.log(rows / p)) > 2.0 * p

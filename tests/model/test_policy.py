"""Policies, their values and occupancies, and mixtures that are drawn once for a whole episode."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop import InvalidModelError, Policy, PolicyMixture, TabularCMDP, TabularPolicy, evaluate
from opdop.planning import occupancy, policy_with_occupancy, to_markov, value_functions
from tests.support.strategies import (
    Array,
    Sketch,
    evaluate_plainly,
    occupy_plainly,
    policy_table,
    sketch_of,
    sketches_with_mixture,
    sketches_with_policy,
    totals_plainly,
)

# Values and occupancies of one policy


@given(sketches_with_policy())
def test_values_are_those_of_a_plain_backward_recursion(case: tuple[Sketch, Array]):
    sketch, table = case
    values = evaluate(sketch.build(), table)
    np.testing.assert_allclose(values.totals, totals_plainly(sketch, table), rtol=0, atol=1e-12)
    assert values.totals[0] == values.reward
    np.testing.assert_array_equal(values.totals[1:], values.utilities)


@given(sketches_with_policy())
def test_value_functions_are_those_of_a_plain_backward_recursion(case: tuple[Sketch, Array]):
    sketch, table = case
    v = value_functions(sketch.build(), TabularPolicy(table))
    np.testing.assert_allclose(v, evaluate_plainly(sketch.P, sketch.signals, table), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(v[:, -1], 0.0)


@given(sketches_with_policy())
def test_occupancy_sums_to_one_and_flows(case: tuple[Sketch, Array]):
    sketch, table = case
    q = occupancy(sketch.build(), table)
    np.testing.assert_allclose(q.sum(axis=(1, 2)), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[0].sum(axis=1), sketch.initial, rtol=0, atol=1e-12)
    for h in range(1, len(q)):
        inflow = np.einsum("xa,xay->y", q[h - 1], sketch.P[h - 1])
        np.testing.assert_allclose(q[h].sum(axis=1), inflow, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q, q.sum(axis=2, keepdims=True) * table, rtol=0, atol=1e-12)


@given(sketches_with_policy())
def test_values_are_signals_weighed_by_occupancy(case: tuple[Sketch, Array]):
    sketch, table = case
    cmdp = sketch.build()
    weighed = np.tensordot(sketch.signals, occupancy(cmdp, table), 3)
    np.testing.assert_allclose(evaluate(cmdp, table).totals, weighed, rtol=0, atol=1e-12)


@given(sketches_with_policy(kernels=["unreachable"]))
def test_states_that_nothing_reaches_have_occupancy_exactly_zero(case: tuple[Sketch, Array]):
    sketch, table = case
    q, plain = occupancy(sketch.build(), table), occupy_plainly(sketch.P, table, sketch.initial)
    np.testing.assert_array_equal(q[plain == 0.0], 0.0)


# Mixtures


@given(sketches_with_mixture())
def test_a_mixture_is_worth_the_weighted_mean_of_its_parts(case: tuple[Sketch, PolicyMixture]):
    sketch, mixture = case
    parts = np.array([totals_plainly(sketch, part.table) for part in mixture.parts])
    totals = evaluate(sketch.build(), mixture).totals
    np.testing.assert_allclose(totals, mixture.weights @ parts, rtol=0, atol=1e-12)


@given(sketches_with_mixture())
def test_the_markov_policy_of_a_mixture_has_its_occupancy_and_values(case: tuple[Sketch, PolicyMixture]):
    sketch, mixture = case
    cmdp = sketch.build()
    markov = to_markov(cmdp, mixture)
    parts = [occupy_plainly(sketch.P, part.table, sketch.initial) for part in mixture.parts]
    mixed = np.tensordot(mixture.weights, np.array(parts), 1)
    np.testing.assert_allclose(occupancy(cmdp, mixture), mixed, rtol=0, atol=1e-12)
    np.testing.assert_allclose(occupancy(cmdp, markov), mixed, rtol=0, atol=1e-12)
    np.testing.assert_allclose(evaluate(cmdp, markov).totals, evaluate(cmdp, mixture).totals, rtol=0, atol=1e-12)


def test_mixing_tables_stage_by_stage_is_something_else():
    # State 1 pays at the last stage, and is reached by taking action 1 twice: one part does so both times or never.
    P = np.zeros((3, 2, 2, 2))
    P[..., 0] = 1.0
    P[0, :, 1] = P[1, 1, 1] = 0.0, 1.0
    rewards = np.zeros((3, 2, 2))
    rewards[2, 1] = 1.0
    cmdp = TabularCMDP(P, rewards, np.ones((3, 2, 2)), 1)
    never, always = (TabularPolicy.deterministic(np.full((3, 2), a), 2) for a in (0, 1))
    mixture = PolicyMixture([never, always], [0.5, 0.5])
    assert evaluate(cmdp, mixture).reward == 0.5
    assert evaluate(cmdp, to_markov(cmdp, mixture)).reward == 0.5
    assert evaluate(cmdp, 0.5 * (never.table + always.table)).reward == 0.25


def test_in_unvisited_states_the_part_with_the_largest_weight_decides():
    sketch = sketch_of(1, states=3, actions=2, horizon=2)
    sketch.P[:] = np.eye(3)[0]
    tables = [policy_table(seed, sketch) for seed in range(3)]
    initial = int(np.argmax(sketch.initial))
    markov = to_markov(sketch.build(), PolicyMixture(tables, [0.2, 0.5, 0.3]))
    unvisited = np.ones((2, 3), dtype=bool)
    unvisited[0, initial] = unvisited[1, 0] = False
    np.testing.assert_allclose(markov.table[unvisited], tables[1][unvisited], rtol=0, atol=1e-15)


@given(sketches_with_policy(), st.floats(1e-3, 1e3))
def test_a_policy_is_recovered_from_its_occupancy_of_any_scale(case: tuple[Sketch, Array], scale: float):
    sketch, table = case
    visits = occupy_plainly(sketch.P, table, sketch.initial)
    fallback = 1.0 / table.shape[2]
    found = policy_with_occupancy(scale * visits, unvisited=fallback).table
    states = visits.sum(axis=2)
    np.testing.assert_allclose(found[states > 1e-100], table[states > 1e-100], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found[states == 0.0], fallback)


def test_anything_with_action_probabilities_is_a_policy():
    class Second:
        def probabilities(self, stage: int, state: int) -> np.ndarray:
            return np.array([0.0, 1.0])

    sketch = sketch_of(2, states=3, actions=2)
    table = np.zeros((sketch.sizes[0], 3, 2))
    table[..., 1] = 1.0
    assert evaluate(sketch.build(), Second()).reward == evaluate(sketch.build(), table).reward


def test_weights_left_out_are_equal():
    sketch = sketch_of(1)
    mixture = PolicyMixture([policy_table(seed, sketch) for seed in range(4)])
    np.testing.assert_array_equal(mixture.weights, 0.25)


# Policies as objects


@given(sketches_with_policy())
def test_a_policy_returns_its_action_probabilities(case: tuple[Sketch, Array]):
    sketch, table = case
    policy = TabularPolicy(table)
    assert isinstance(policy, Policy)
    H, S, _, _ = sketch.sizes
    for h, x in np.ndindex(H, S):
        np.testing.assert_allclose(policy.probabilities(h, x), table[h, x], rtol=0, atol=1e-15)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))
def test_the_uniform_policy_takes_every_action_equally_often(H: int, S: int, A: int):
    np.testing.assert_array_equal(TabularPolicy.uniform(H, S, A).table, np.full((H, S, A), 1.0 / A))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_a_deterministic_policy_takes_the_action_it_was_given(H: int, S: int, A: int, seed: int):
    actions = np.random.default_rng(seed).integers(0, A, (H, S))
    for given_actions in (actions, actions.tolist(), actions.astype(np.uint8), actions.astype(float)):
        np.testing.assert_array_equal(TabularPolicy.deterministic(given_actions, A).table, np.eye(A)[actions])


def test_a_policy_is_a_frozen_copy():
    table = np.full((1, 2, 2), 0.5)
    policy = TabularPolicy(table)
    mixture = PolicyMixture([policy, table], weights := np.array([0.25, 0.75]))
    table[:] = 0.0
    weights[:] = 0.0
    np.testing.assert_array_equal(policy.table, 0.5)
    np.testing.assert_array_equal(mixture.weights, [0.25, 0.75])
    assert mixture.parts[0] is policy
    for array in (policy.table, mixture.weights, policy.probabilities(0, 0)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    for frozen, field in ((policy, "table"), (mixture, "weights")):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, field, None)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_copied_or_pickled_policy_is_the_same_and_frozen(clone: Any):
    mixture = PolicyMixture([np.full((1, 2, 2), 0.5), np.eye(2)[None]], [0.25, 0.75])
    twin = clone(mixture)
    np.testing.assert_array_equal(twin.weights, mixture.weights)
    np.testing.assert_array_equal(twin.parts[1].table, mixture.parts[1].table)
    assert not twin.weights.flags.writeable
    assert not twin.parts[1].table.flags.writeable


def test_repr_tells_sizes():
    assert repr(TabularPolicy.uniform(4, 3, 2)) == "TabularPolicy(3 states, 2 actions, 4 stages)"
    assert repr(PolicyMixture([np.ones((1, 1, 1))] * 3)) == "PolicyMixture(3 policies)"


def test_value_functions_of_a_mixture_are_refused():
    sketch = sketch_of(0)
    with pytest.raises(InvalidModelError, match="PolicyMixture"):
        value_functions(sketch.build(), PolicyMixture([policy_table(0, sketch)]))

"""Compiled passes over a known model equal their Python source and a plain NumPy evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdop import TabularCMDP
from opdop.kernels import dynamic_programming
from tests.support.sources import source_of
from tests.support.strategies import (
    SEEDS,
    Array,
    Sketch,
    best_plainly,
    evaluate_plainly,
    occupy_plainly,
    policy_table,
    sketch_of,
    sketches,
    sketches_with_policy,
)

EXACT = {"rtol": 0, "atol": 1e-12}


def both(kernel: Any) -> tuple[Any, Any]:
    """Return a function with compiled kernels and with their Python source."""
    return kernel, source_of(kernel)


def stored(sketch: Sketch) -> tuple[Any, Array, Array]:
    """Return transitions, signals and first-state distribution as a model stores them."""
    cmdp = sketch.build()
    return cmdp.transitions, cmdp.signals, cmdp.initial


# Policy evaluation


@given(sketches_with_policy())
def test_evaluate_equals_its_source_and_plain_numpy(case: tuple[Sketch, Array]):
    sketch, table = case
    transitions, signals, _ = stored(sketch)
    truth = evaluate_plainly(sketch.P, sketch.signals, table)
    for kernel in both(dynamic_programming.evaluate):
        v = np.full(truth.shape, np.nan)  # whatever is there before must not matter
        kernel(transitions, signals, table, v)
        np.testing.assert_allclose(v, truth, **EXACT)


@given(sketches_with_policy())
def test_the_rolling_buffer_equals_the_full_one(case: tuple[Sketch, Array]):
    sketch, table = case
    transitions, signals, _ = stored(sketch)
    J, H, S, _ = sketch.signals.shape
    full, rolling = np.full((J, H + 1, S), np.nan), np.full((J, 2, S), np.nan)
    dynamic_programming.evaluate(transitions, signals, table, full)
    dynamic_programming.evaluate(transitions, signals, table, rolling)
    np.testing.assert_array_equal(rolling[:, 0], full[:, 0])


# Backward induction


@st.composite
def sketches_with_weights(draw: st.DrawFn) -> tuple[Sketch, Array, Array]:
    """Draw a model and two rows of weights [1+I], some of them 0."""
    sketch = draw(sketches())
    rng = np.random.default_rng(draw(SEEDS))
    size = 1 + sketch.sizes[3]
    weights, second = rng.integers(0, 4, (2, size)) * rng.choice([1.0, 0.37])
    weights[rng.integers(size)] = 1.0
    return sketch, weights, second


@given(sketches_with_weights())
def test_greedy_actions_attain_the_best_weighted_sum(case: tuple[Sketch, Array, Array]):
    sketch, weights, second = case
    transitions, signals, _ = stored(sketch)
    H, _, A, _ = sketch.sizes
    best, _ = best_plainly(sketch.P, np.tensordot(weights, sketch.signals, 1))
    for kernel in both(dynamic_programming.act_greedily):
        actions, v = kernel(transitions, signals, H, weights, second, 1e-13 * H)
        np.testing.assert_allclose(weights @ v, best, **EXACT)
        truth = evaluate_plainly(sketch.P, sketch.signals, np.eye(A)[actions])[:, 0]
        np.testing.assert_allclose(v, truth, **EXACT)  # each signal is carried along under these very actions


@given(sketches_with_weights())
def test_ties_go_to_the_second_weighted_sum(case: tuple[Sketch, Array, Array]):
    sketch, weights, second = case
    transitions, signals, _ = stored(sketch)
    H = sketch.sizes[0]
    truth = lexicographic(sketch, weights, second)
    for kernel in both(dynamic_programming.act_greedily):
        _, v = kernel(transitions, signals, H, weights, second, 1e-11)
        np.testing.assert_allclose(second @ v, truth, **EXACT)


def lexicographic(sketch: Sketch, weights: Array, second: Array) -> Array:
    """Return the largest second sum [S] among policies that maximise the first from everywhere."""
    first, other = (np.tensordot(w, sketch.signals, 1) for w in (weights, second))
    u = w = np.zeros(sketch.sizes[1])
    for h in reversed(range(sketch.sizes[0])):
        q, other_q = first[h] + sketch.P[h] @ u, other[h] + sketch.P[h] @ w
        u = q.max(axis=1)
        w = np.where(q >= u[:, None] - 1e-11, other_q, -np.inf).max(axis=1)
    return w


def test_the_first_of_equal_actions_is_taken():
    sketch = sketch_of(0, kernel="deterministic", signal="constant")
    transitions, signals, _ = stored(sketch)
    for kernel in both(dynamic_programming.act_greedily):
        actions, _ = kernel(transitions, signals, 4, np.array([1.0, 0.0]), np.array([0.0, 1.0]), 1e-12)
        np.testing.assert_array_equal(actions, 0)


# Occupancies


@given(sketches_with_policy())
def test_visit_equals_its_source_and_plain_numpy(case: tuple[Sketch, Array]):
    sketch, table = case
    transitions, _, initial = stored(sketch)
    truth = occupy_plainly(sketch.P, table, sketch.initial).sum(axis=2)
    for kernel in both(dynamic_programming.visit):
        np.testing.assert_allclose(kernel(transitions, table, initial), truth, **EXACT)


@given(sketches(), SEEDS)
def test_visit_by_actions_equals_visit_of_the_same_policy(sketch: Sketch, seed: int):
    transitions, _, initial = stored(sketch)
    A = sketch.sizes[2]
    table = policy_table(seed, sketch, "one action")
    actions = table.argmax(axis=2).astype(np.int32)
    truth = occupy_plainly(sketch.P, table, sketch.initial).sum(axis=2)
    for kernel in both(dynamic_programming.visit_by_actions):
        np.testing.assert_allclose(kernel(transitions, actions, A, initial), truth, **EXACT)


# Draws


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_draw_inverts_the_distribution_function(weights: list[int], uniform: float):
    total = sum(weights)
    if total == 0:
        weights, total = [1], 1
    probabilities = np.array(weights) / total
    for kernel in both(dynamic_programming.draw):
        n = kernel(probabilities, uniform)
        assert probabilities[n] > 0.0
        assert probabilities[:n].sum() <= uniform + 1e-12
        assert uniform - 1e-12 < probabilities[: n + 1].sum()


@pytest.mark.parametrize("probabilities", [[0.1] * 10 + [0.0], [1 / 3, 1 / 3, 1 / 3, 0.0], [0.5, 0.5 - 1e-9, 0.0]])
def test_draw_never_takes_probability_zero_where_the_sum_misses_one(probabilities: list[float]):
    almost_one = np.nextafter(1.0, 0.0)
    for kernel in both(dynamic_programming.draw):
        assert kernel(np.array(probabilities), almost_one) == len(probabilities) - 2


def test_draw_never_takes_a_leading_zero():
    for kernel in both(dynamic_programming.draw):
        assert kernel(np.array([0.0, 0.0, 1.0]), 0.0) == 2


@settings(max_examples=50)
@given(sketches_with_policy(), SEEDS, st.booleans())
def test_play_equals_its_source_and_a_plain_walk(case: tuple[Sketch, Array], seed: int, noisy: bool):
    sketch, table = case
    transitions, signals, initial = stored(sketch)
    H, _, _, I = sketch.sizes
    uniforms = np.random.default_rng(seed).random(dynamic_programming.count_uniforms(H, 1 + I, noisy))
    by_action = table.transpose(0, 2, 1)
    x, truth = walk_plainly(sketch, table, noisy, uniforms)
    for kernel in both(dynamic_programming.play):
        states, actions, observed = np.full(H + 1, -1), np.full(H, -1), np.full((1 + I, H), np.nan)
        kernel(transitions, signals, by_action, initial, noisy, uniforms, states, actions, observed)
        np.testing.assert_array_equal(states, x)
        np.testing.assert_array_equal(observed, truth)


def walk_plainly(sketch: Sketch, table: Array, noisy: bool, uniforms: Array) -> tuple[list[int], Array]:
    """Return states and signals: the first uniform is for the first state, then two for each stage, then the noise."""
    H, _, _, I = sketch.sizes
    first, *steps = uniforms[: 1 + 2 * H]
    noise = uniforms[1 + 2 * H :].reshape(H, 1 + I) if noisy else None
    states, signals = [choose(sketch.initial, first)], np.empty((1 + I, H))
    for h in range(H):
        x = states[-1]
        a = choose(table[h, x], steps[2 * h])
        means = sketch.signals[:, h, x, a]
        signals[:, h] = means if noise is None else noise[h] < means
        states.append(choose(sketch.P[h, x, a], steps[2 * h + 1]))
    return states, signals


def choose(probabilities: Array, uniform: float) -> int:
    return int(np.searchsorted(np.cumsum(probabilities), uniform, side="right"))


# Transitions in both forms


@given(sketches(), SEEDS)
def test_expectations_and_pushes_are_matrix_products(sketch: Sketch, seed: int):
    cmdp = sketch.build()
    H, S, A, _ = sketch.sizes
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 5))
    v, masses = rng.random((J, S)), rng.random((S * A, 3)) * (rng.random((S * A, 3)) < 0.7)
    h, row = int(rng.integers(H)), int(rng.integers(S * A))
    count = int(rng.integers(1, S * A - row + 1))
    kernel = sketch.P[h].reshape(S * A, S)
    for form in (cmdp.dense(), cmdp.sparse()):
        first_row = (h * S * A) % dynamic_programming.count_rows(form.transitions)
        ahead, pushed = np.empty((J, count)), np.ones((3, S))
        dynamic_programming.expect(form.transitions, first_row + row, count, v, ahead)
        np.testing.assert_allclose(ahead, v @ kernel[row : row + count].T, **EXACT)
        dynamic_programming.push(form.transitions, first_row, masses, pushed)
        np.testing.assert_allclose(pushed, 1.0 + masses.T @ kernel, **EXACT)


def test_kernels_take_what_is_read_only_and_leave_it_alone():
    sketch = sketch_of(2)
    cmdp: TabularCMDP = sketch.build()
    before = [array.copy() for array in (*cmdp.transitions, cmdp.signals, cmdp.initial)]
    dynamic_programming.act_greedily(cmdp.transitions, cmdp.signals, 4, np.ones(2), np.ones(2), 0.0)
    dynamic_programming.visit(cmdp.transitions, policy_table(0, sketch), cmdp.initial)
    for array, old in zip((*cmdp.transitions, cmdp.signals, cmdp.initial), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_every_kernel_states_its_fastmath():
    # Otherwise Numba takes that of the first caller, and results depend on what was compiled first.
    import importlib
    import pkgutil

    from numba.core.dispatcher import Dispatcher

    import opdop.kernels

    for found in pkgutil.iter_modules(opdop.kernels.__path__):
        module = importlib.import_module(f"opdop.kernels.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                assert "fastmath" in value.targetoptions, f"{found.name}.{name}"

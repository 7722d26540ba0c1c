"""What a model is: the same in every form, frozen, and no larger than what it was made of."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from opdop import (
    Display,
    InfeasibleError,
    InvalidModelError,
    InvalidParameterError,
    OpdopError,
    Quantity,
    TabularCMDP,
    TabularPolicy,
    evaluate,
    make,
    solve,
)
from tests.support.strategies import Sketch, policy_table, sketch_of, sketches


def stored_arrays(cmdp: TabularCMDP) -> list[np.ndarray]:
    return [*cmdp.transitions, cmdp.signals, cmdp.thresholds, cmdp.initial]


def bytes_of(cmdp: TabularCMDP) -> int:
    return sum(array.nbytes for array in stored_arrays(cmdp))


def kernel_of(cmdp: TabularCMDP) -> np.ndarray:
    """Return P [H, S, A, S] as the model tells it."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    matrices = [cmdp.transition_matrix(h) for h in range(H)]
    return np.array([m.toarray() if sparse.issparse(m) else m for m in matrices]).reshape(H, S, A, S)


def ring(states: int, successors: int = 3, actions: int = 2) -> sparse.csr_array:
    """Return sparse transitions [S*A, S] in which state x moves to x + a + 1, x + a + 2, ..."""
    rows = np.repeat(np.arange(states * actions), successors)
    steps = np.tile(np.arange(1, successors + 1), states * actions)
    columns = (rows // actions + rows % actions + steps) % states
    data = np.full(len(rows), 1.0 / successors)
    return sparse.csr_array((data, (rows, columns)), shape=(states * actions, states))


# One model, many forms


@given(sketches())
def test_a_model_returns_the_arrays_it_was_made_of(sketch: Sketch):
    cmdp = sketch.build()
    H, S, A, I = sketch.sizes
    np.testing.assert_allclose(kernel_of(cmdp), sketch.P, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(cmdp.rewards, sketch.signals[0])
    np.testing.assert_array_equal(cmdp.utilities, sketch.signals[1:])
    np.testing.assert_array_equal(cmdp.thresholds, sketch.thresholds)
    np.testing.assert_allclose(cmdp.initial, sketch.initial, rtol=0, atol=1e-15)
    assert cmdp.rewards.shape == (H, S, A)
    assert cmdp.utilities.shape == (I, H, S, A)
    assert cmdp.is_sparse == sketch.form.startswith("sparse")
    assert cmdp.is_stationary == (sketch.stationary and H > 1)


@given(sketches())
def test_dense_and_sparse_forms_are_the_same_model(sketch: Sketch):
    cmdp = sketch.build()
    dense, compressed = cmdp.dense(), cmdp.sparse()
    assert (dense.is_sparse, compressed.is_sparse) == (False, True)
    for other in (dense, compressed, dense.sparse(), compressed.dense()):
        np.testing.assert_allclose(kernel_of(other), kernel_of(cmdp), rtol=0, atol=1e-15)
        np.testing.assert_array_equal(other.rewards, cmdp.rewards)
        np.testing.assert_array_equal(other.utilities, cmdp.utilities)
        np.testing.assert_array_equal(other.initial, cmdp.initial)
        assert other.is_stationary == cmdp.is_stationary
        assert other.display is cmdp.display


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_every_sparse_format_gives_the_same_model(kind: str, family: str):
    sketch = sketch_of(5, form="sparse stationary", kernel="few successors")
    arguments = sketch.arguments()
    arguments["transitions"] = getattr(sparse, f"{kind}_{family}")(arguments["transitions"].toarray())
    for mine, theirs in zip(TabularCMDP(**arguments).transitions, sketch.build().transitions, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_entries_of_a_sparse_matrix_that_are_named_twice_add_up():
    halves = sparse.coo_array(([0.25, 0.75, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    cmdp = TabularCMDP(halves, [[0], [0]], [[1], [1]], 1, horizon=2)
    np.testing.assert_array_equal(kernel_of(cmdp)[0, :, 0], [[0, 1], [1, 0]])
    assert len(cmdp.transitions.probabilities) == 2


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble])
def test_numbers_of_any_real_type_are_taken(dtype: type):
    P = np.eye(2)[[[0, 1], [1, 0]]]
    signals = np.array([[0, 1], [1, 0]])
    cmdp = TabularCMDP(P.astype(dtype), signals.astype(dtype), signals.astype(dtype), 1, [1, 0], horizon=2)
    np.testing.assert_array_equal(kernel_of(cmdp)[0], P)
    assert all(array.dtype == np.float64 for array in (cmdp.signals, cmdp.thresholds, cmdp.initial))


def test_short_forms_of_one_constraint_mean_the_long_one():
    sketch = sketch_of(3, form="dense stationary", horizon=4)
    stage = sketch.signals[1, 0]
    stages = np.array([stage] * 4)
    for utilities in (stage, stage[None], stages, stages[None]):
        for threshold in (1.0, 1, [1.0], np.float32(1.0)):
            cmdp = TabularCMDP(sketch.P[0], sketch.signals[0, 0], utilities, threshold, horizon=4)
            np.testing.assert_array_equal(cmdp.utilities, stages[None])
            np.testing.assert_array_equal(cmdp.thresholds, [1.0])


def test_short_form_of_several_constraints_means_the_long_one():
    sketch = sketch_of(3, constraints=2, horizon=4)
    stage = sketch.signals[1:, 0]
    short = TabularCMDP(sketch.P, sketch.signals[0], stage, [1, 1])
    np.testing.assert_array_equal(short.utilities, np.repeat(stage[:, None], 4, axis=1))


def test_stages_may_come_as_a_list():
    sketch = sketch_of(8)
    listed = TabularCMDP(list(sketch.P), sketch.signals[0].tolist(), sketch.signals[1].tolist(), sketch.thresholds)
    np.testing.assert_array_equal(kernel_of(listed), kernel_of(sketch.build()))


@pytest.mark.parametrize("state", [2, np.int64(2), np.uint8(2)])
def test_a_first_state_is_the_distribution_that_is_certain_of_it(state: Any):
    arguments = sketch_of(8).arguments()
    cmdp = TabularCMDP(**{**arguments, "initial": state})
    np.testing.assert_array_equal(cmdp.initial, [0, 0, 1, 0])


@pytest.mark.parametrize("stage", [-1, 4, 99])
def test_a_stage_that_is_not_there_has_no_transitions(stage: int):
    with pytest.raises(InvalidParameterError, match=rf"stage {stage} is not one of 0\.\.3"):
        sketch_of(0).build().transition_matrix(stage)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("dense per stage", "dense, per-stage"),
        ("dense stationary", "dense, stationary"),
        ("sparse per stage", "sparse, per-stage"),
        ("sparse stationary", "sparse, stationary"),
    ],
)
def test_repr_tells_sizes_and_form(form: str, words: str):
    one, two = sketch_of(0, form=form).build(), sketch_of(0, form=form, constraints=2).build()
    assert repr(one) == f"TabularCMDP('model': 4 states, 3 actions, 4 stages, 1 constraint, {words})"
    assert repr(two) == f"TabularCMDP('model': 4 states, 3 actions, 4 stages, 2 constraints, {words})"


# Frozen


@given(sketches())
def test_arrays_are_copies_and_read_only(sketch: Sketch):
    arguments = sketch.arguments()
    cmdp = TabularCMDP(**arguments)
    P, signals, thresholds, initial = kernel_of(cmdp), cmdp.signals.copy(), cmdp.thresholds.copy(), cmdp.initial.copy()
    transitions = arguments["transitions"]
    for matrix in transitions if isinstance(transitions, list) else [transitions]:
        (matrix.data if sparse.issparse(matrix) else matrix)[:] = 0.125
    for name in ("rewards", "utilities", "thresholds"):
        arguments[name][:] = 0.125
    if isinstance(arguments["initial"], np.ndarray):
        arguments["initial"][:] = 0.125
    np.testing.assert_array_equal(kernel_of(cmdp), P)
    np.testing.assert_array_equal(cmdp.signals, signals)
    np.testing.assert_array_equal(cmdp.thresholds, thresholds)
    np.testing.assert_array_equal(cmdp.initial, initial)
    for array in (*stored_arrays(cmdp), cmdp.rewards, cmdp.utilities):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@given(sketches())
def test_making_a_model_leaves_its_arguments_alone(sketch: Sketch):
    arguments = sketch.arguments()
    transitions = arguments["transitions"]
    given_arrays = [transitions] if not isinstance(transitions, list) else transitions
    given_arrays = [m.data if sparse.issparse(m) else m for m in given_arrays]
    for array in given_arrays:
        array[:] = array * (1.0 + 1e-9)  # so that the rows must be divided by their sums
    before = [array.copy() for array in given_arrays]
    TabularCMDP(**arguments)
    for array, old in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert array.flags.writeable


@pytest.mark.parametrize("field", ["horizon", "signals", "thresholds", "transitions"])
def test_a_model_cannot_be_changed(field: str):
    cmdp = sketch_of(0).build()
    with pytest.raises(FrozenInstanceError):
        setattr(cmdp, field, None)
    with pytest.raises(FrozenInstanceError):
        delattr(cmdp, field)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("form", ["dense stationary", "sparse per stage"])
def test_a_copied_or_pickled_model_is_the_same(clone: Any, form: str):
    cmdp = sketch_of(4, form=form, constraints=2).build()
    twin = clone(cmdp)
    assert type(twin.transitions) is type(cmdp.transitions)
    assert not any(array.flags.writeable for array in stored_arrays(twin))
    for mine, theirs in zip(stored_arrays(twin), stored_arrays(cmdp), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert solve(twin).value == solve(cmdp).value


# Size


@pytest.mark.parametrize("form", ["dense stationary", "sparse stationary"])
def test_a_stationary_model_is_not_copied_for_each_stage(form: str):
    sketch = sketch_of(1, form=form)
    arguments = {**sketch.arguments(), "rewards": sketch.signals[0, 0], "utilities": sketch.signals[1, 0]}
    short = TabularCMDP(**{**arguments, "horizon": 4})
    tracemalloc.start()
    long = TabularCMDP(**{**arguments, "horizon": 10**6})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bytes_of(long) == bytes_of(short)
    assert peak < 10**6  # less than one byte for each stage
    assert long.rewards.shape == (10**6, 4, 3)
    first, last = long.transition_matrix(0), long.transition_matrix(10**6 - 1)
    assert abs(first - last).max() == 0.0


def test_stage_dependent_signals_do_not_make_a_stationary_kernel_grow():
    sketch = sketch_of(1, form="dense stationary", horizon=4)
    cmdp = sketch.build()
    assert cmdp.signals.shape[1] == 4
    assert cmdp.transitions.rows.shape == (12, 4)


def test_a_sparse_model_never_becomes_dense():
    S, H = 50_000, 3
    rng = np.random.default_rng(0)
    rewards, utilities = rng.random((2, S, 2))
    tracemalloc.start()
    cmdp = TabularCMDP(ring(S), rewards, utilities, 0.5 * H, initial=np.full(S, 1 / S), horizon=H)
    values = evaluate(cmdp, TabularPolicy.uniform(H, S, 2))
    optimum = solve(cmdp)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < S * S / 25  # bytes: 100 MB, where one bit for each pair of states would be 300 MB
    assert max(array.size for array in stored_arrays(cmdp)) == S * 2 * 3  # the entries that were given
    # Every state is as likely as any other at every stage, since the ring is the same from everywhere.
    np.testing.assert_allclose(values.totals, H * np.array([rewards.mean(), utilities.mean()]), rtol=1e-12)
    assert optimum.value > values.reward


def test_explicit_zeros_of_a_sparse_model_are_not_stored():
    matrix = ring(10)
    padded = sparse.csr_array((np.zeros(5), (np.arange(5), np.arange(5))), shape=matrix.shape)
    data = np.concatenate([matrix.data, padded.data])
    rows = np.concatenate([matrix.tocoo().coords[0], padded.tocoo().coords[0]])
    columns = np.concatenate([matrix.tocoo().coords[1], padded.tocoo().coords[1]])
    both = sparse.coo_array((data, (rows, columns)), shape=matrix.shape)
    cmdp = TabularCMDP(both, np.zeros((10, 2)), np.ones((10, 2)), 1, horizon=2)
    assert len(cmdp.transitions.probabilities) == matrix.nnz


# Words


@pytest.mark.parametrize(
    ("quantity", "value", "shown", "text", "constraint"),
    [
        (Quantity("reward"), 2.5, 2.5, "2.5000", "reward >= 2.5"),
        (Quantity("goods", unit="t", scale=20.0), 2.5, 50.0, "50.0000 t", "goods >= 50 t"),
        (Quantity("cost", unit="EUR", scale=-4.0, offset=40.0), 2.5, 30.0, "30.0000 EUR", "cost <= 30 EUR"),
    ],
)
def test_a_quantity_is_shown_in_its_own_units(
    quantity: Quantity, value: float, shown: float, text: str, constraint: str
):
    assert quantity.shown(value) == shown
    assert quantity.text(value) == text
    assert quantity.constraint(value) == constraint


@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(0, 10), st.floats(0, 10))
def test_a_shown_difference_is_the_difference_of_what_is_shown(scale: float, offset: float, one: float, two: float):
    quantity = Quantity("cost", scale=scale, offset=offset)
    difference = quantity.shown(one) - quantity.shown(two)
    assert quantity.shown_difference(one - two) == pytest.approx(difference, rel=1e-9, abs=1e-9)


def test_a_display_without_quantities_gets_plain_names():
    arguments = sketch_of(0, constraints=2, tightness=["too much"]).arguments()
    cmdp = TabularCMDP(**arguments, display=Display("harbour"))
    assert repr(cmdp).startswith("TabularCMDP('harbour': ")
    assert [quantity.name for quantity in cmdp.display.quantities] == ["reward", "utility 0", "utility 1"]
    with pytest.raises(InfeasibleError, match="utility 1 >= "):
        solve(cmdp)


def test_a_display_must_have_words_for_each_constraint():
    display = Display("harbour", quantities=(Quantity("profit"), Quantity("safety")))
    with pytest.raises(InvalidModelError, match="display has 2 quantities; expected 3: the reward and each constraint"):
        TabularCMDP(**sketch_of(0, constraints=2).arguments(), display=display)


def test_an_infeasible_error_survives_the_way_back_from_another_process():
    error = InfeasibleError("short by 1", np.array([0.5, 1.0]), -1.0)
    twin = pickle.loads(pickle.dumps(error))
    assert isinstance(twin, OpdopError)
    assert isinstance(twin, ValueError)
    assert str(twin) == "short by 1"
    assert twin.slater_gap == -1.0
    np.testing.assert_array_equal(twin.best_utilities, [0.5, 1.0])


@given(sketches())
def test_a_policy_for_another_model_is_refused_with_both_shapes(sketch: Sketch):
    H, S, A, _ = sketch.sizes
    table = np.concatenate([policy_table(0, sketch)] * 2)
    message = rf"policy has shape \[{2 * H}, {S}, {A}\]; expected \[H,S,A\] = \[{H},{S},{A}\]"
    with pytest.raises(InvalidModelError, match=message):
        evaluate(sketch.build(), table)


def test_model_with_another_first_state_has_its_values_there() -> None:
    cmdp = make("inventory").tabular()
    policy = solve(cmdp).policy
    values = [evaluate(cmdp.with_initial(x), policy).reward for x in range(cmdp.num_states)]
    chances = np.random.default_rng(0).dirichlet(np.ones(cmdp.num_states))
    assert evaluate(cmdp.with_initial(chances), policy).reward == pytest.approx(chances @ values)
    with pytest.raises(InvalidModelError, match="initial is state 6; expected"):
        cmdp.with_initial(6)

"""The exact optimum proves itself (KKT), and three methods that share no idea agree on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from opdop import InfeasibleError, InvalidParameterError, Optimum, TabularCMDP, TabularPolicy, evaluate, solve
from opdop.planning import LP_TOLERANCE, column_generation, solve_by_column_generation, solve_by_dual_walk, solve_lp
from opdop.planning.optimum import FEASIBILITY, ROUNDING
from tests.support.strategies import (
    INFEASIBLE,
    SEEDS,
    Array,
    Sketch,
    best_plainly,
    policy_table,
    sketch_of,
    sketches,
    totals_plainly,
)

Method = Callable[[TabularCMDP], Optimum]
METHODS = [
    pytest.param(solve_by_dual_walk, 1, id="dual walk"),
    pytest.param(solve_by_column_generation, 3, id="column generation"),
]
ONE, ANY = (1, 1), (1, 3)


def relative(value: float) -> float:
    """Return 1e-9 relative to a value; absolute below 1."""
    return 1e-9 * max(1.0, abs(value))


def dual_function(sketch: Sketch, dual: Array) -> float:
    """Return D(Y) = max over policies of V_r + sum_i Y_i (V_gi - b_i), by a plain backward induction."""
    prices = np.concatenate([[1.0], dual])
    best, _ = best_plainly(sketch.P, np.tensordot(prices, sketch.signals, 1))
    return float(best @ sketch.initial - dual @ sketch.thresholds)


# Optimality conditions


@pytest.mark.parametrize(("method", "constraints"), METHODS)
@given(data=st.data())
def test_meets_every_threshold(method: Method, constraints: int, data: st.DataObject):
    sketch = data.draw(sketches(constraints=(1, constraints)))
    optimum = method(sketch.build())
    assert (optimum.utility_values >= sketch.thresholds - 1e-10 * sketch.sizes[0]).all()


@pytest.mark.parametrize(("method", "constraints"), METHODS)
@given(data=st.data())
def test_value_equals_the_dual_function_at_the_multipliers(method: Method, constraints: int, data: st.DataObject):
    sketch = data.draw(sketches(constraints=(1, constraints)))
    optimum = method(sketch.build())
    assert (optimum.dual >= 0.0).all()
    assert optimum.value == pytest.approx(dual_function(sketch, optimum.dual), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("method", "constraints"), METHODS)
@given(data=st.data())
def test_only_a_tight_constraint_has_a_price(method: Method, constraints: int, data: st.DataObject):
    sketch = data.draw(sketches(constraints=(1, constraints)))
    optimum = method(sketch.build())
    slack = optimum.utility_values - sketch.thresholds
    np.testing.assert_allclose(optimum.dual * slack, 0.0, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(optimum.active, optimum.dual > 1e-10)


@pytest.mark.parametrize(("method", "constraints"), METHODS)
@given(data=st.data())
def test_the_policy_has_the_values_that_are_claimed_for_it(method: Method, constraints: int, data: st.DataObject):
    sketch = data.draw(sketches(constraints=(1, constraints)))
    optimum = method(sketch.build())
    claimed = [optimum.value, *optimum.utility_values]
    np.testing.assert_allclose(totals_plainly(sketch, optimum.policy.table), claimed, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("method", "constraints"), METHODS)
@given(data=st.data())
def test_multipliers_stay_within_the_bound_of_the_paper(method: Method, constraints: int, data: st.DataObject):
    # sum_i Y_i <= (V_r(pi*) - V_r(slater)) / gap, multiplied by the gap so that rounding is not divided by it.
    sketch = data.draw(sketches(constraints=(1, constraints)))
    optimum = method(sketch.build())
    bound = optimum.value - optimum.slater.reward
    assert optimum.dual.sum() * optimum.slater_gap <= bound + 1e-11


@given(sketches(), SEEDS)
def test_multipliers_are_what_another_threshold_would_cost(sketch: Sketch, seed: int):
    # The optimal value is concave in the thresholds, with -Y a supergradient: true for every other threshold.
    optimum = solve(sketch.build())
    lower = sketch.thresholds * np.random.default_rng(seed).uniform(0.2, 1.0, len(sketch.thresholds))
    other = solve(TabularCMDP(**{**sketch.arguments(), "thresholds": lower}))
    allowed = optimum.value + optimum.dual @ (sketch.thresholds - lower)
    assert optimum.value - relative(optimum.value) <= other.value <= allowed + relative(allowed)


@given(sketches(), SEEDS)
def test_no_feasible_policy_is_better(sketch: Sketch, seed: int):
    optimum = solve(sketch.build())
    for number in range(5):
        totals = totals_plainly(sketch, policy_table(seed + number, sketch, "some actions"))
        if (totals[1:] >= sketch.thresholds).all():
            assert totals[0] <= optimum.value + relative(optimum.value)
        # Feasible or not, no policy is worth more than the optimum at the optimum's prices.
        priced = totals[0] + optimum.dual @ (totals[1:] - sketch.thresholds)
        assert priced <= optimum.value + relative(priced)


# Without constraints, and with the largest slack


@given(sketches())
def test_the_unconstrained_optimum_is_that_of_a_plain_backward_induction(sketch: Sketch):
    optimum = solve(sketch.build())
    best, _ = best_plainly(sketch.P, sketch.signals[0])
    assert optimum.unconstrained.reward == pytest.approx(best @ sketch.initial, rel=0, abs=1e-12)
    assert optimum.value <= optimum.unconstrained.reward + 1e-12
    assert optimum.price == optimum.unconstrained.reward - optimum.value


@given(sketches(constraints=ONE))
def test_the_slater_gap_of_one_constraint_is_the_largest_utility_less_the_threshold(sketch: Sketch):
    best, _ = best_plainly(sketch.P, sketch.signals[1])
    gap = float(best @ sketch.initial - sketch.thresholds[0])
    for method in (solve_by_dual_walk, solve_by_column_generation):
        optimum = method(sketch.build())
        assert optimum.slater_gap == pytest.approx(gap, rel=0, abs=1e-10 * sketch.sizes[0])
        assert (optimum.slater_gap == 0.0) == (abs(gap) <= 1e-10 * sketch.sizes[0])


@given(sketches(), SEEDS)
def test_the_slater_gap_is_attained_and_no_policy_has_more(sketch: Sketch, seed: int):
    optimum = solve(sketch.build())
    H, _, _, I = sketch.sizes
    attained = (optimum.slater.utilities - sketch.thresholds).min()
    assert attained == pytest.approx(optimum.slater_gap, rel=0, abs=1e-10 * H)
    for prices in np.random.default_rng(seed).dirichlet(np.ones(I), 5):
        best, _ = best_plainly(sketch.P, np.tensordot(prices, sketch.signals[1:], 1))
        assert optimum.slater_gap <= best @ sketch.initial - prices @ sketch.thresholds + 1e-10 * H


@given(sketches(tightness=["attainable"]))
def test_thresholds_that_nobody_can_exceed_leave_a_gap_of_exactly_zero(sketch: Sketch):
    assert solve(sketch.build()).slater_gap == 0.0


# Agreement of methods


@given(sketches(constraints=ONE))
def test_dual_walk_and_solve_by_column_generation_agree(sketch: Sketch):
    cmdp = sketch.build()
    walk, columns = solve_by_dual_walk(cmdp), solve_by_column_generation(cmdp)
    assert walk.value == pytest.approx(columns.value, rel=1e-9, abs=1e-9)
    assert walk.slater_gap == pytest.approx(columns.slater_gap, rel=0, abs=1e-10 * sketch.sizes[0])


def assert_agrees_with_lp(optimum: Optimum, lp: Optimum) -> None:
    # The LP may miss a threshold by its tolerance, which is worth that much times the multiplier.
    tolerance = max(relative(optimum.value), LP_TOLERANCE * (1.0 + optimum.dual.sum()))
    assert optimum.value == pytest.approx(lp.value, rel=0, abs=tolerance)
    assert optimum.unconstrained.reward == pytest.approx(lp.unconstrained.reward, rel=0, abs=LP_TOLERANCE)
    assert optimum.slater_gap == pytest.approx(lp.slater_gap, rel=0, abs=LP_TOLERANCE)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sketches(constraints=ONE))
def test_dual_walk_agrees_with_the_linear_program(sketch: Sketch):
    cmdp = sketch.build()
    assert_agrees_with_lp(solve_by_dual_walk(cmdp), solve_lp(cmdp))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sketches(constraints=ANY))
def test_solve_by_column_generation_agrees_with_the_linear_program(sketch: Sketch):
    cmdp = sketch.build()
    assert_agrees_with_lp(solve_by_column_generation(cmdp), solve_lp(cmdp))


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(sketches(constraints=ANY))
def test_the_policy_of_the_linear_program_has_its_values(sketch: Sketch):
    lp = solve_lp(sketch.build())
    totals = totals_plainly(sketch, lp.policy.table)
    np.testing.assert_allclose(totals, [lp.value, *lp.utility_values], rtol=0, atol=10 * LP_TOLERANCE)
    assert (lp.utility_values >= sketch.thresholds - 2 * LP_TOLERANCE).all()


@pytest.mark.parametrize("constraints", [1, 2, 3])
@pytest.mark.parametrize("form", ["dense per stage", "sparse stationary"])
def test_methods_agree_on_models_of_middle_size(form: str, constraints: int):
    sketch = sketch_of(17, states=25, actions=4, horizon=8, constraints=constraints, form=form, kernel="few successors")
    cmdp = sketch.build()
    optimum, lp = solve(cmdp), solve_lp(cmdp)
    assert optimum.active.any()
    assert_agrees_with_lp(optimum, lp)
    assert optimum.value == pytest.approx(dual_function(sketch, optimum.dual), rel=1e-9)


@given(sketches())
def test_the_form_of_a_model_does_not_change_its_optimum(sketch: Sketch):
    cmdp = sketch.build()
    dense, compressed = solve(cmdp.dense()), solve(cmdp.sparse())
    assert dense.value == pytest.approx(compressed.value, rel=1e-9, abs=1e-9)
    assert dense.slater_gap == pytest.approx(compressed.slater_gap, rel=0, abs=1e-10 * sketch.sizes[0])


# A third truth: all deterministic policies of a tiny model, and the best mixture of them


def all_corners(sketch: Sketch) -> Array:
    """Return the totals [M, 1+I] of every deterministic policy."""
    H, S, A, _ = sketch.sizes
    choices = itertools.product(range(A), repeat=H * S)
    totals = [totals_plainly(sketch, np.eye(A)[np.reshape(actions, (H, S))]) for actions in choices]
    return np.unique(np.round(totals, 14), axis=0)


def best_mixture(corners: Array, thresholds: Array) -> float:
    """Return the largest reward of a mixture that meets the thresholds; -inf if there is none.

    A corner of the feasible set mixes n policies with n - 1 thresholds tight: all of them are tried.
    """
    M, I = len(corners), len(thresholds)
    best = -np.inf
    for n in range(1, min(I + 1, M) + 1):
        supports = np.array(list(itertools.combinations(range(M), n)))
        for tight in itertools.combinations(range(I), n - 1):
            rows = [np.ones((len(supports), n)), *(corners[supports, 1 + i] for i in tight)]
            system = np.stack(rows, axis=1)  # [supports, n, n]
            regular = np.abs(np.linalg.det(system)) > 1e-12
            right = np.array([1.0, *thresholds[list(tight)]])
            weights = np.linalg.solve(system[regular], np.broadcast_to(right[:, None], (regular.sum(), n, 1)))[..., 0]
            totals = np.einsum("sn,snj->sj", weights, corners[supports[regular]])
            feasible = (weights >= -1e-12).all(axis=1) & (totals[:, 1:] >= thresholds - 1e-12).all(axis=1)
            best = max(best, totals[feasible, 0].max(initial=-np.inf))
    return best


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sketches(states=(1, 2), actions=(2, 2), horizon=(1, 2), kernels=["deterministic", "absorbing", "random"]))
def test_the_optimum_is_the_best_mixture_of_all_deterministic_policies(sketch: Sketch):
    cmdp = sketch.build()
    truth = best_mixture(all_corners(sketch), sketch.thresholds - 1e-13)
    methods = [solve, solve_by_column_generation] if cmdp.num_constraints == 1 else [solve_by_column_generation]
    for method in methods:
        assert method(cmdp).value == pytest.approx(truth, rel=1e-9, abs=1e-9)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sketches(states=(1, 2), actions=(2, 2), horizon=(1, 2), tightness=INFEASIBLE))
def test_no_mixture_of_deterministic_policies_meets_infeasible_thresholds(sketch: Sketch):
    assert best_mixture(all_corners(sketch), sketch.thresholds) == -np.inf
    with pytest.raises(InfeasibleError):
        solve(sketch.build())


# Infeasible models


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sketches(tightness=INFEASIBLE))
def test_infeasible_models_are_refused_with_what_comes_closest(sketch: Sketch):
    cmdp = sketch.build()
    errors = []
    for method in (solve, solve_by_column_generation, solve_lp):
        with pytest.raises(InfeasibleError) as caught:
            method(cmdp)
        errors.append(caught.value)
    for error in errors:
        assert error.slater_gap < 0.0
        nearest = (error.best_utilities - sketch.thresholds).min()
        assert error.slater_gap == pytest.approx(nearest, rel=0, abs=LP_TOLERANCE)
        assert error.slater_gap == pytest.approx(errors[0].slater_gap, rel=0, abs=LP_TOLERANCE)


@given(sketches(tightness=INFEASIBLE))
def test_lowering_the_thresholds_by_the_shortfall_makes_the_model_feasible(sketch: Sketch):
    with pytest.raises(InfeasibleError) as caught:
        solve(sketch.build())
    shortfall = -caught.value.slater_gap
    assume((sketch.thresholds > 2.0 * shortfall).all())
    lowered = {**sketch.arguments(), "thresholds": sketch.thresholds - shortfall}
    assert solve(TabularCMDP(**lowered)).slater_gap == 0.0
    with pytest.raises(InfeasibleError):
        solve(TabularCMDP(**{**lowered, "thresholds": sketch.thresholds - 0.9 * shortfall}))


# Which method


def test_solve_walks_for_one_constraint_and_generates_columns_for_more():
    assert solve(sketch_of(0).build()).method == "dual walk"
    assert solve(sketch_of(0, constraints=2).build()).method == "column generation"


def test_the_walk_is_for_one_constraint_only():
    with pytest.raises(InvalidParameterError, match="for one constraint; this model has 2"):
        solve_by_dual_walk(sketch_of(0, constraints=2).build())


def test_the_walk_is_short():
    passes = [solve(sketch_of(seed, states=30, actions=4, horizon=10).build()).passes for seed in range(20)]
    assert max(passes) <= 20
    assert min(passes) >= 3  # greedy, safest, and one at least between them: every one of these constraints binds


def test_the_random_models_here_are_of_every_kind():
    # A guard against tests that hold because nothing happens in them.
    seen: list[tuple[bool, bool, int]] = []

    @settings(max_examples=max(300, settings().max_examples))
    @given(sketches())
    def collect(sketch: Sketch) -> None:
        optimum = solve(sketch.build())
        seen.append((bool(optimum.active.any()), optimum.slater_gap == 0.0, len(optimum.dual)))

    collect()
    for kind in itertools.product([False, True], [False, True], [1, 2, 3]):
        assert seen.count(kind) >= 3, kind


@pytest.mark.parametrize("deviation", [1e-9, 1e-10, 1e-11, 1e-12])
@pytest.mark.parametrize("seed", [4, 6, 19, 33, 44, 47, 69])
def test_nearly_tied_constraints_are_solved(seed: int, deviation: float) -> None:
    """All policies have nearly the same utilities, beyond what HiGHS can tell apart: its master was infeasible."""
    random = np.random.default_rng([12, seed])
    H, S, A, I = random.integers(1, 4), random.integers(1, 4), random.integers(2, 4), random.integers(2, 5)
    P, R = random.dirichlet(np.ones(S), size=(H, S, A)), random.random((H, S, A))
    G = 0.5 + deviation * random.standard_normal((I, H, S, A))
    policy = TabularPolicy(random.dirichlet(np.ones(A), size=(H, S)))
    feasible = evaluate(TabularCMDP(P, R, G, thresholds=np.full(I, 1e-9)), policy)
    cmdp = TabularCMDP(P, R, G, thresholds=feasible.utilities)
    optimum = solve(cmdp)
    found = evaluate(cmdp, optimum.policy)
    # Multipliers reach 1e12 here, so a reward is known up to the rounding of the utilities times the multipliers.
    rounding = ROUNDING * H * (1.0 + optimum.dual.sum())
    assert (found.utilities >= cmdp.thresholds - (FEASIBILITY + ROUNDING) * H).all()
    assert found.reward == pytest.approx(optimum.value, abs=rounding)
    assert optimum.value >= feasible.reward - rounding


@pytest.mark.parametrize("constraints", [2, 3])
def test_exact_arithmetic_takes_over_where_the_compiled_master_gives_up(
    constraints: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(constraints)
    H, S, A = 3, 4, 2
    P, R = random.dirichlet(np.ones(S), size=(H, S, A)), random.random((H, S, A))
    cmdp = TabularCMDP(P, R, random.random((constraints, H, S, A)), thresholds=np.full(constraints, 0.5 * H))
    compiled = solve(cmdp)
    monkeypatch.setattr(column_generation, "mix_columns", lambda *_: False)
    exact = solve(cmdp)
    assert exact.active.any()
    assert exact.value == pytest.approx(compiled.value, abs=1e-13 * H)
    assert exact.slater_gap == pytest.approx(compiled.slater_gap, abs=1e-13 * H)
    np.testing.assert_allclose(exact.dual, compiled.dual, rtol=1e-10, atol=1e-12)


def test_six_constraints_are_solved_in_fewer_passes_than_by_plain_column_generation() -> None:
    """Between the master's multipliers and the best ones so far fewer policies are found that nobody needs."""
    random = np.random.default_rng(0)
    H, S, A, I = 10, 12, 4, 6
    P, R, G = random.dirichlet(np.ones(S), size=(H, S, A)), random.random((H, S, A)), random.random((I, H, S, A))
    free = solve(TabularCMDP(P, R, G, thresholds=np.full(I, 1e-6)))
    cmdp = TabularCMDP(P, R, G, thresholds=0.5 * (free.unconstrained.utilities + free.slater.utilities))
    optimum, program = solve(cmdp), solve_lp(cmdp)
    assert optimum.passes <= 80  # 68; plain column generation takes 100
    assert optimum.value == pytest.approx(program.value, abs=1e-9)
    assert optimum.slater_gap == pytest.approx(program.slater_gap, abs=1e-7)
    assert optimum.active.sum() >= 2

"""Models on which planners stumble, each with its answer in closed form; for one constraint and for several alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from opdop import Display, InfeasibleError, Optimum, Quantity, TabularCMDP, TabularPolicy, evaluate, solve
from opdop.planning import solve_by_column_generation, solve_by_dual_walk, solve_lp
from tests.support.strategies import Array, sketch_of


@dataclass(frozen=True)
class Way:
    """A method, and what is put beside the constraint of the test so that there are several."""

    method: Callable[[TabularCMDP], Optimum]
    extra: str = ""
    copies: int = 0

    def __repr__(self) -> str:
        return f"{self.method.__name__}{f' with {self.copies} {self.extra}' if self.copies else ''}"

    def model(self, P: Any, rewards: Any, utilities: Any, threshold: float, **rest: Any) -> TabularCMDP:
        """Return the model; rewards and utilities [S, A] or [H, S, A]."""
        utilities = np.array(utilities, dtype=float)
        # An idle constraint asks for half of what every policy has; an equal one asks for the same again.
        others = [utilities if self.extra == "equal" else np.ones_like(utilities)] * self.copies
        thresholds = [threshold] + [threshold if self.extra == "equal" else 0.5] * self.copies
        signals = utilities if not others else np.array([utilities, *others])
        return TabularCMDP(P, rewards, signals, thresholds, **rest)

    def bandit(self, rewards: list[float], utilities: list[float], threshold: float, horizon: int) -> TabularCMDP:
        """Return a model of one state: what can be had is horizon times the convex hull of the actions' signals."""
        return self.model(np.ones((1, len(rewards), 1)), [rewards], [utilities], threshold, horizon=horizon)

    def solve(self, cmdp: TabularCMDP) -> Optimum:
        return self.method(cmdp)


WAYS = [
    Way(solve_by_dual_walk),
    Way(solve_by_column_generation),
    Way(solve_by_column_generation, "idle", 1),
    Way(solve_by_column_generation, "idle", 2),
    Way(solve_by_column_generation, "equal", 1),
    Way(solve_by_column_generation, "equal", 2),
]
every_way = pytest.mark.parametrize("way", WAYS, ids=repr)


def assert_policy_attains(cmdp: TabularCMDP, optimum: Optimum) -> None:
    values = evaluate(cmdp, optimum.policy)
    np.testing.assert_allclose(values.totals, [optimum.value, *optimum.utility_values], rtol=0, atol=1e-10)
    assert (values.utilities >= cmdp.thresholds - 1e-10 * cmdp.horizon).all()


# A constraint that does not bind


@every_way
@pytest.mark.parametrize("threshold", [1e-3, 0.9, 1.0])
def test_a_constraint_that_does_not_bind_costs_exactly_nothing(way: Way, threshold: float):
    cmdp = way.bandit([0.0, 1.0], [1.0, 0.25], threshold, horizon=4)  # the greedy policy has utility 1
    optimum = way.solve(cmdp)
    assert optimum.value == 4.0
    assert optimum.price == 0.0
    np.testing.assert_array_equal(optimum.dual, 0.0)
    assert not optimum.active.any()


@every_way
def test_among_equal_rewards_the_policy_that_satisfies_the_constraint_costs_nothing(way: Way):
    optimum = way.solve(way.bandit([1.0, 1.0, 1.0], [0.0, 0.75, 0.5], 3.0, horizon=4))
    assert optimum.value == 4.0
    np.testing.assert_array_equal(optimum.dual, 0.0)


def test_two_constraints_that_only_a_mixture_of_equal_rewards_satisfies_cost_exactly_nothing():
    utilities = [[[1.0, 0.0, 0.0]], [[0.0, 0.75, 0.0]]]
    cmdp = TabularCMDP(np.ones((1, 3, 1)), [[1.0, 1.0, 1.0]], utilities, [2.0, 1.5], horizon=4)
    optimum = solve(cmdp)
    assert optimum.value == pytest.approx(4.0, abs=1e-14)
    np.testing.assert_array_equal(optimum.dual, 0.0)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_a_reward_that_is_the_utility_makes_every_constraint_free(way: Way):
    optimum = way.solve(way.bandit([0.25, 0.75], [0.25, 0.75], 2.5, horizon=4))
    assert optimum.value == 3.0
    assert optimum.slater_gap == 0.5
    np.testing.assert_array_equal(optimum.dual, 0.0)


@every_way
@pytest.mark.parametrize("threshold", [5e-324, 1e-300, 1e-12, 1e-6])
def test_a_very_small_threshold_is_kept(way: Way, threshold: float):
    optimum = way.solve(way.bandit([0.0, 1.0], [1.0, 0.0], threshold, horizon=4))
    assert optimum.value == pytest.approx(4.0 - threshold, abs=1e-9)
    assert optimum.utility_values[0] >= threshold - 1e-10
    assert optimum.slater_gap == pytest.approx(3.5 if way.extra == "idle" else 4.0 - threshold, abs=1e-12)


# A constraint that does


@every_way
@pytest.mark.parametrize("horizon", [1, 4, 200])
def test_opposed_signals_trade_one_for_one(way: Way, horizon: int):
    optimum = way.solve(cmdp := way.bandit([0.0, 1.0], [1.0, 0.0], 0.3 * horizon, horizon))
    assert optimum.value == pytest.approx(0.7 * horizon, rel=1e-12)
    assert optimum.utility_values[0] == pytest.approx(0.3 * horizon, rel=1e-12)
    assert optimum.dual.sum() == pytest.approx(1.0, rel=1e-12)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_the_multiplier_is_the_slope_of_the_frontier(way: Way):
    # Frontier of (utility, reward) for each stage: (0, 1), (0.5, 0.75), (1, 0); the point between the last two.
    optimum = way.solve(way.bandit([1.0, 0.75, 0.0, 0.1], [0.0, 0.5, 1.0, 0.6], 3.0, horizon=4))
    assert optimum.value == pytest.approx(1.5, rel=1e-12)
    assert optimum.dual.sum() == pytest.approx(1.5, rel=1e-12)
    assert optimum.slater_gap == pytest.approx(1.0, rel=1e-12)


@every_way
def test_at_a_corner_of_the_frontier_the_multiplier_is_one_of_its_slopes(way: Way):
    optimum = way.solve(way.bandit([1.0, 0.75, 0.0], [0.0, 0.5, 1.0], 2.0, horizon=4))
    assert optimum.value == pytest.approx(3.0, rel=1e-12)
    assert 0.5 - 1e-12 <= optimum.dual.sum() <= 1.5 + 1e-12


@every_way
@pytest.mark.parametrize("step", [1e-3, 1e-5, 1e-7, 1e-9])
def test_a_huge_multiplier_is_solved_exactly(way: Way, step: float):
    # One unit of reward buys a mere `step` of utility, so the multiplier is 1 / step.
    horizon, best = 5, 0.5 + step
    cmdp = way.bandit([0.0, 1.0], [best, 0.5], horizon * (0.5 + 0.75 * step), horizon)
    optimum = way.solve(cmdp)
    # The threshold itself is known to a few units in its last place, and each is worth the multiplier.
    rounding = 4 * np.spacing(2.5) / step
    assert optimum.value == pytest.approx(0.25 * horizon, rel=0, abs=rounding)
    assert optimum.dual.sum() == pytest.approx(1.0 / step, rel=rounding + 1e-12)
    assert optimum.slater_gap == pytest.approx(0.25 * step * horizon, rel=0, abs=1e-14)
    assert_policy_attains(cmdp, optimum)


# No slack


@every_way
@pytest.mark.parametrize(("best", "horizon"), [(0.7, 10), (0.1, 3), (1.0 / 3.0, 7), (0.3, 1000), (1.0, 50)])
def test_a_threshold_that_is_just_attainable_has_no_slack_and_is_solved(way: Way, best: float, horizon: int):
    threshold = min(best * horizon, float(horizon))  # not the sum of as many rounded steps, which may be less
    optimum = way.solve(cmdp := way.bandit([1.0, 0.0, 0.5], [0.05, best, best], threshold, horizon))
    assert optimum.slater_gap == 0.0
    assert optimum.value == pytest.approx(0.5 * horizon, rel=1e-9)  # the better of the two actions that keep it
    assert_policy_attains(cmdp, optimum)


@every_way
def test_without_slack_the_multiplier_still_proves_the_value(way: Way):
    optimum = way.solve(way.bandit([1.0, 0.5, 0.0], [0.25, 0.75, 0.75], 3.0, horizon=4))
    assert optimum.slater_gap == 0.0
    Y = optimum.dual[0] if way.extra != "equal" else optimum.dual.sum()
    dual_value = 4 * max(1.0 + 0.25 * Y, 0.5 + 0.75 * Y) - 3.0 * Y
    assert dual_value == pytest.approx(optimum.value, rel=1e-12)
    assert optimum.value == pytest.approx(2.0, rel=1e-12)


@every_way
def test_a_threshold_of_the_whole_horizon_is_kept_at_every_step(way: Way):
    rng = np.random.default_rng(0)
    P, rewards = rng.dirichlet(np.ones(3), (3, 4)), rng.random((3, 4))
    utilities = rng.choice([0.5, 1.0], (3, 4))
    utilities[:, 0] = 1.0
    optimum = way.solve(cmdp := way.model(P, rewards, utilities, 6.0, horizon=6))
    assert optimum.slater_gap == 0.0
    allowed = TabularCMDP(P, np.where(utilities == 1.0, rewards, 0.0), np.ones((3, 4)), 1.0, horizon=6)
    assert optimum.value == pytest.approx(solve(allowed).unconstrained.reward, rel=1e-9)
    assert_policy_attains(cmdp, optimum)


# Infeasible


@every_way
@pytest.mark.parametrize("best", [0.0, 0.5, 0.999])
def test_a_threshold_of_the_whole_horizon_is_infeasible_where_one_step_falls_short(way: Way, best: float):
    with pytest.raises(InfeasibleError) as caught:
        way.solve(way.bandit([0.0, 1.0], [best, 0.0], 4.0, horizon=4))
    assert caught.value.slater_gap == pytest.approx(4.0 * best - 4.0, rel=1e-12)
    assert caught.value.best_utilities[0] == pytest.approx(4.0 * best, rel=1e-12)
    assert caught.value.best_utilities.shape == (1 + way.copies,)


@pytest.mark.parametrize("method", [solve, solve_by_column_generation, solve_lp])
def test_constraints_that_can_each_be_satisfied_alone_but_not_together_are_infeasible(method: Callable[..., Optimum]):
    utilities = [[[1.0, 0.0]], [[0.0, 1.0]]]
    for threshold, alone in ((2.5, [2.5, 0.01]), (2.5, [0.01, 2.5])):
        arguments = (np.ones((1, 2, 1)), [[0.0, 1.0]], utilities)
        assert method(TabularCMDP(*arguments, alone, horizon=4)).slater_gap > 0.0
        with pytest.raises(InfeasibleError) as caught:
            method(TabularCMDP(*arguments, [threshold, threshold], horizon=4))
        assert caught.value.slater_gap == pytest.approx(-0.5, abs=1e-7)
        np.testing.assert_allclose(caught.value.best_utilities, 2.0, atol=1e-7)


def test_an_infeasible_constraint_is_named_in_the_words_and_units_of_the_problem():
    display = Display(
        "harbour",
        quantities=(
            Quantity("profit", unit="EUR", scale=100.0),
            Quantity("spill", unit="t", scale=-2.0, offset=8.0),
            Quantity("ships", unit="ships", scale=5.0),
        ),
    )
    utilities = [[[0.5, 0.25]], [[1.0, 1.0]]]  # spill: 2 t for each unit that is missing from 4
    model = TabularCMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], utilities, [3.0, 2.0], horizon=4, display=display)
    with pytest.raises(InfeasibleError) as caught:
        solve(model)
    assert str(caught.value) == (
        "no policy satisfies all constraints: spill <= 2 t (max-slack policy: 4 t); ships >= 10 ships "
        "(max-slack policy: 20 ships). As utilities: thresholds [3, 2], best achievable [2, 4], short by 1. Lower the "
        "thresholds by at least that, or raise the budgets."
    )


@every_way
def test_infeasible_errors_say_so_plainly(way: Way):
    with pytest.raises(
        InfeasibleError, match=r"no policy satisfies all constraints: utility 0 >= 3 \(max-slack policy: 2\)"
    ):
        way.solve(way.bandit([0.0, 1.0], [0.5, 0.0], 3.0, horizon=4))


# Ties, and nothing to choose


@every_way
def test_a_model_in_which_all_policies_are_equal(way: Way):
    optimum = way.solve(cmdp := way.bandit([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 2.0, horizon=4))
    assert optimum.value == 2.0
    assert optimum.slater_gap == 0.0
    np.testing.assert_array_equal(optimum.dual, 0.0)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_no_reward_anywhere_is_worth_nothing_at_no_price(way: Way):
    optimum = way.solve(cmdp := way.bandit([0.0, 0.0], [1.0, 0.0], 2.0, horizon=4))
    assert optimum.value == 0.0
    np.testing.assert_array_equal(optimum.dual, 0.0)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_no_utility_anywhere_is_infeasible(way: Way):
    with pytest.raises(InfeasibleError) as caught:
        way.solve(way.bandit([0.0, 1.0], [0.0, 0.0], 1.0, horizon=4))
    assert caught.value.best_utilities[0] == 0.0
    assert caught.value.slater_gap == pytest.approx(-1.0, rel=1e-12)


@every_way
def test_one_action_leaves_nothing_to_choose(way: Way):
    rng = np.random.default_rng(3)
    P, rewards, utilities = rng.dirichlet(np.ones(4), (4, 1)), rng.random((4, 1)), rng.random((4, 1))
    only = TabularPolicy.uniform(5, 4, 1)
    values = evaluate(TabularCMDP(P, rewards, utilities, 1.0, horizon=5), only)
    optimum = way.solve(way.model(P, rewards, utilities, 0.9 * values.utilities[0], horizon=5))
    assert optimum.value == pytest.approx(values.reward, rel=1e-12)
    np.testing.assert_array_equal(optimum.dual, 0.0)
    np.testing.assert_array_equal(optimum.policy.table, only.table)
    with pytest.raises(InfeasibleError):
        way.solve(way.model(P, rewards, utilities, 1.01 * values.utilities[0], horizon=5))


@every_way
def test_one_stage_is_a_choice_in_the_first_state(way: Way):
    # Two states, each first with probability 1/2; the constraint is satisfied where it costs least: in state 1.
    rewards, utilities = [[1.0, 0.0], [0.5, 0.25]], [[0.0, 1.0], [0.0, 1.0]]
    P = np.full((2, 2, 2), 0.5)
    optimum = way.solve(cmdp := way.model(P, rewards, utilities, 0.25, initial=[0.5, 0.5], horizon=1))
    assert optimum.value == pytest.approx(0.5 + 0.25 * 0.5 + 0.25 * 0.25, rel=1e-12)
    assert optimum.dual.sum() == pytest.approx(0.25, rel=1e-12)
    np.testing.assert_allclose(optimum.policy.table, [[[1.0, 0.0], [0.5, 0.5]]], rtol=0, atol=1e-12)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_one_state_one_action_one_stage(way: Way):
    optimum = way.solve(way.bandit([0.25], [0.5], 0.5, horizon=1))
    assert (optimum.value, optimum.utility_values[0], optimum.slater_gap) == (0.25, 0.5, 0.0)


@every_way
def test_in_a_deterministic_model_mixing_two_routes_satisfies_the_constraint(way: Way):
    # From 0, action 0 leads to 1 (utility 1 for ever), action 1 to 2 (reward 1 for ever); five steps in all.
    P = np.eye(3)[[[1, 2], [1, 1], [2, 2]]]
    rewards, utilities = [[0, 0], [0, 0], [1, 1]], [[0, 0], [1, 1], [0, 0]]
    optimum = way.solve(cmdp := way.model(P, rewards, utilities, 1.0, horizon=5))
    assert optimum.value == pytest.approx(3.0, rel=1e-12)
    assert optimum.slater_gap == pytest.approx(3.0, rel=1e-12)
    np.testing.assert_allclose(optimum.policy.table[0, 0], [0.25, 0.75], rtol=0, atol=1e-12)
    assert_policy_attains(cmdp, optimum)


@every_way
def test_states_that_nothing_reaches_do_not_matter(way: Way):
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(3), (3, 2))
    larger = np.zeros((5, 2, 5))
    larger[:3, :, :3] = P
    larger[3:, :, 4] = 1.0
    rewards, utilities = np.ones((5, 2)), np.ones((5, 2))
    rewards[:3], utilities[:3] = rng.random((3, 2)), rng.random((3, 2))
    threshold = 2.2
    small = way.solve(way.model(P, rewards[:3], utilities[:3], threshold, horizon=4))
    large = way.solve(cmdp := way.model(larger, rewards, utilities, threshold, horizon=4))
    assert large.active.any()
    assert large.value == pytest.approx(small.value, rel=1e-12)
    np.testing.assert_allclose(large.dual.sum(), small.dual.sum(), rtol=1e-9)
    np.testing.assert_allclose(large.policy.table[:, :3], small.policy.table, rtol=0, atol=1e-9)
    assert_policy_attains(cmdp, large)


# Several constraints


def binding_model() -> tuple[Array, Array, Array, float]:
    sketch = sketch_of(21, states=5, actions=3, horizon=5)
    return sketch.P, sketch.signals[0], sketch.signals[1], float(sketch.thresholds[0])


def test_a_constraint_said_twice_is_the_same_constraint():
    P, rewards, utilities, threshold = binding_model()
    once = solve(TabularCMDP(P, rewards, utilities, threshold))
    twice = solve(TabularCMDP(P, rewards, [utilities] * 2, [threshold] * 2))
    assert once.active.all()
    assert twice.value == pytest.approx(once.value, rel=1e-12)
    assert twice.dual.sum() == pytest.approx(once.dual.sum(), rel=1e-9)
    assert twice.slater_gap == pytest.approx(once.slater_gap, rel=0, abs=1e-12)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_constraint_that_another_implies_has_no_price(order: list[int]):
    P, rewards, utilities, threshold = binding_model()
    once = solve(TabularCMDP(P, rewards, utilities, threshold))
    both = np.array([utilities, 0.5 + 0.5 * utilities])  # the second totals at least 2.5 + threshold / 2
    thresholds = np.array([threshold, 2.5 + 0.25 * threshold])
    optimum = solve(TabularCMDP(P, rewards, both[order], thresholds[order]))
    assert optimum.value == pytest.approx(once.value, rel=1e-12)
    np.testing.assert_allclose(optimum.dual[order], [once.dual[0], 0.0], rtol=1e-9, atol=0.0)
    np.testing.assert_array_equal(optimum.active[order], [True, False])


def test_a_scaled_constraint_has_a_scaled_price():
    P, rewards, utilities, threshold = binding_model()
    once = solve(TabularCMDP(P, rewards, utilities, threshold))
    quarter = solve(TabularCMDP(P, rewards, 0.25 * utilities, 0.25 * threshold))
    assert quarter.value == pytest.approx(once.value, rel=1e-12)
    assert quarter.dual[0] == pytest.approx(4.0 * once.dual[0], rel=1e-9)


def test_opposed_constraints_leave_exactly_one_mixture():
    # utility 1 is 1 - utility 0, and the two thresholds add up to H: no slack, and the reward has no say.
    for share in (0.25, 0.5, 0.75):
        utilities = [[[1.0, 0.0]], [[0.0, 1.0]]]
        thresholds = [4.0 * share, 4.0 * (1.0 - share)]
        cmdp = TabularCMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], utilities, thresholds, horizon=4)
        optimum = solve(cmdp)
        assert optimum.slater_gap == 0.0
        assert optimum.value == pytest.approx(4.0 * (1.0 - share), rel=1e-9)
        assert_policy_attains(cmdp, optimum)


def test_the_order_of_constraints_does_not_matter():
    sketch = sketch_of(4, constraints=3, states=5, horizon=5, tightness=["between", "loose", "nearly all"])
    one = sketch.build()
    order = [2, 0, 1]
    two = TabularCMDP(sketch.P, sketch.signals[0], sketch.signals[1:][order], sketch.thresholds[order], one.initial)
    mine, other = solve(one), solve(two)
    assert mine.active.any()
    assert mine.value == pytest.approx(other.value, rel=1e-9)
    assert mine.slater_gap == pytest.approx(other.slater_gap, rel=0, abs=1e-10)


# What the linear program must not call infeasible


def test_the_linear_program_solves_what_presolve_calls_infeasible():
    # With thresholds lowered by exactly its tolerance, HiGHS's presolve refuses this model of one single policy.
    rewards = [0.0, 0.0, 0.0, 1.0]
    utilities = np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    cmdp = TabularCMDP(np.ones((4, 1, 1, 1)), np.reshape(rewards, (4, 1, 1)), utilities[..., None, None], [0.5, 3, 1])
    lp = solve_lp(cmdp)
    assert lp.value == pytest.approx(1.0, abs=1e-7)
    assert lp.slater_gap == 0.0


def test_the_linear_program_does_not_refuse_a_slack_below_its_tolerance():
    cmdp = Way(solve_lp).bandit([0.0, 1.0], [0.5 + 1e-9, 0.5], 5 * (0.5 + 0.75e-9), horizon=5)
    assert solve(cmdp).slater_gap > 0.0
    assert solve_lp(cmdp).slater_gap == pytest.approx(0.0, abs=1e-7)


# A long horizon


@every_way
def test_rounding_over_many_stages_stays_small(way: Way):
    horizon = 5000
    optimum = way.solve(way.bandit([0.1, 0.7], [0.9, 0.3], 0.6 * horizon, horizon))
    assert optimum.value == pytest.approx(0.4 * horizon, rel=1e-9)
    assert optimum.dual.sum() == pytest.approx(1.0, rel=1e-9)
    assert optimum.slater_gap == pytest.approx(0.3 * horizon, rel=1e-9)

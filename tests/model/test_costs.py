"""Costs and budgets in own units: the same optimum as the hand-made model, and clear messages for odd budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdop import Display, InvalidModelError, Quantity, TabularCMDP, evaluate, make, solve
from opdop.model.signals import Scale

RANDOM = np.random.default_rng(15)
P = RANDOM.dirichlet(np.ones(4), size=(4, 3))
PROFIT = RANDOM.uniform(-20.0, 80.0, size=(4, 3))
HOURS = 2.0 + (PROFIT + 20.0) / 20.0 + RANDOM.uniform(0.0, 2.0, size=(4, 3))  # profit takes work
H = 5


def shop(**changes: Any) -> TabularCMDP:
    arguments: dict[str, Any] = {"costs": {"work": HOURS}, "budgets": {"work": 30.0}, "horizon": H}
    return TabularCMDP(P, rewards=PROFIT, **{**arguments, **changes})


def test_shown_totals_of_a_policy_are_its_expected_own_totals() -> None:
    policy = RANDOM.dirichlet(np.ones(3), size=(H, 4))
    cmdp = shop()
    shown = [q.shown(v) for q, v in zip(cmdp.display.quantities, evaluate(cmdp, policy).totals, strict=True)]
    state, own = np.eye(4)[0], np.zeros(2)
    for h in range(H):
        visits = state[:, None] * policy[h]
        own += [(visits * PROFIT).sum(), (visits * HOURS).sum()]
        state = np.einsum("xa,xay->y", visits, P)
    np.testing.assert_allclose(shown, own, rtol=1e-12)
    values = evaluate(cmdp, policy)
    assert list(values.in_units().values()) == pytest.approx(own.tolist(), rel=1e-12)
    assert list(values.in_units()) == [quantity.name for quantity in cmdp.display.quantities]
    assert repr(values) == f"Values(reward: {own[0]:.6g}; work: {own[1]:.6g})"
    named = evaluate(shop(units={"reward": ("profit", "dollars"), "work": "hours"}), policy)
    assert repr(named) == f"Values(profit: {own[0]:.6g} dollars; work: {own[1]:.6g} hours)"


def test_multiplier_in_own_units_is_the_slope_of_profit_over_the_budget() -> None:
    optimum, step = solve(shop()), 1e-4
    more = solve(shop(budgets={"work": 30.0 + step}))
    slope = (more.in_units()["reward"] - optimum.in_units()["reward"]) / step
    assert optimum.active[0]
    assert optimum.prices()["work"] == pytest.approx(slope, rel=1e-6)
    assert optimum.in_units()["work"] == pytest.approx(30.0, rel=1e-9)


def test_optimum_does_not_depend_on_the_stated_ranges() -> None:
    narrow, wide = solve(shop()), solve(shop(reward_range=(-100, 100), cost_range=(0, 24)))
    assert narrow.in_units() == pytest.approx(wide.in_units(), rel=1e-9)
    assert narrow.prices() == pytest.approx(wide.prices(), rel=1e-6)


def test_costs_and_utilities_are_mixed_with_utilities_first() -> None:
    served = RANDOM.uniform(0.0, 1.0, size=(4, 3))
    cmdp = shop(utilities={"served": served}, thresholds={"served": 2.0}, units={"reward": ("profit", "dollars")})
    assert [quantity.name for quantity in cmdp.display.quantities] == ["profit", "served", "work"]
    assert [q.constraint(t) for q, t in zip(cmdp.display.quantities[1:], cmdp.thresholds, strict=True)] == [
        "served >= 2",
        "work <= 30",
    ]
    np.testing.assert_array_equal(cmdp.utilities[0], np.broadcast_to(served, (H, 4, 3)))  # in [0, 1] already


def test_several_costs_have_default_names_and_may_change_by_stage() -> None:
    costs = RANDOM.uniform(0.0, 3.0, size=(2, H, 4, 3))
    cmdp = TabularCMDP(P, PROFIT, costs=costs, budgets=[6.0, 7.0], horizon=H)
    assert [quantity.name for quantity in cmdp.display.quantities] == ["reward", "cost 0", "cost 1"]
    assert cmdp.signals.shape == (3, H, 4, 3)


def test_signals_in_the_unit_interval_are_used_bit_for_bit() -> None:
    rewards, utilities = RANDOM.random((4, 3)), RANDOM.random((4, 3))
    plain = TabularCMDP(P, rewards, utilities, 2.0, horizon=H)
    named = TabularCMDP(P, rewards, {"care": utilities}, {"care": 2.0}, horizon=H, units="points")
    np.testing.assert_array_equal(plain.signals, named.signals)
    np.testing.assert_array_equal(plain.thresholds, named.thresholds)
    assert named.display.quantities[1] == Quantity("care", "points")


@settings(max_examples=50)
@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), share=st.floats(0, 1), falls=st.booleans())
def test_scale_maps_its_range_onto_the_unit_interval(low: float, width: float, share: float, falls: bool) -> None:
    scale = Scale(low, low + width, falls)
    ends = scale.signal([scale.low, scale.high])
    assert sorted(ends.tolist()) == [0.0, 1.0]
    value = min(low + share * width, scale.high)
    signal = float(scale.signal(value))
    assert 0.0 <= signal <= 1.0
    quantity = scale.quantity("q", "", stages=1)
    assert quantity.shown(signal) == pytest.approx(value, abs=1e-9 * (abs(low) + width))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"budgets": {"work": 9999.0}, "units": {"work": "hours"}},
            r"the budget of 'work' is 9999 hours; no policy can exceed it, as a total is .* Leave the constraint out",
        ),
        ({"budgets": {"work": 3.0}}, r"the budget of 'work' is 3; no policy can keep it, as a total is .* Loosen"),
        (
            {"utilities": PROFIT, "thresholds": 1e4},
            r"the threshold of 'utility 0' is 10000; no policy can reach it, .* in each of 5 stages\). Loosen",
        ),
        ({"utilities": PROFIT, "thresholds": -1e4}, r"the threshold of 'utility 0' is -10000; no policy can miss it"),
        ({"cost_range": (0, 5)}, r"costs 'work'\[\d, \d\] is [\d.]+; expected a number in its stated range, \[0, 5\]"),
        ({"reward_range": (5, 5)}, r"reward_range is \(5, 5\); expected two finite numbers \(low, high\), low < high"),
        ({"cost_range": {"wrok": (0, 9)}}, r"cost_range names 'wrok'; there are work. Did you mean 'work'\?"),
        ({"budgets": {"works": 25.0}}, "'work', 'works': expected the same names in costs and budgets"),
        ({"budgets": 25.0}, "costs are dict and budgets float; expected both by name"),
        ({"budgets": None}, "costs are given without budgets; expected both, or neither"),
        ({"costs": None, "budgets": None, "units": "dollars"}, "there is no constraint; expected utilities with"),
        ({"units": {"profit": "dollars"}}, "units names 'profit'; there are reward, work"),
        ({"units": 3}, r"units is 3 \(int\); expected a unit, or units by name"),
        ({"display": Display("shop", quantities=(Quantity("a"), Quantity("b")))}, "the display has quantities"),
        ({"costs": {"reward": HOURS}, "budgets": {"reward": 25.0}}, "a constraint is named 'reward'"),
        ({"costs": {"work": HOURS[:2]}}, r"costs\['work'\] have shape \[2, 3\]; expected"),
    ],
)
def test_odd_constraints_are_refused_with_a_clear_message(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        shop(**changes)


def test_infeasible_budget_is_named_in_own_units() -> None:
    with pytest.raises(ValueError, match=r"work <= 27 hours \(max-slack policy: [\d.]+ hours\)"):
        solve(shop(budgets={"work": 27.0}, units={"work": "hours"}))


def test_optimum_prints_what_a_unit_of_budget_is_worth() -> None:
    text = str(solve(shop(units={"reward": ("profit", "dollars"), "work": "hours"})))
    assert text.startswith("profit: ")
    assert "work <= 30 hours: 30; one more hour of budget is worth" in text
    assert text.endswith("dollars of profit")
    assert "it costs nothing" in str(solve(shop(budgets={"work": 0.99 * H * HOURS.max()})))


def test_shipped_problem_has_the_same_optimum_as_its_costs_and_budget() -> None:
    cmdp = make("inventory").tabular()
    revenue, spent = cmdp.display.quantities
    again = TabularCMDP(
        cmdp.transition_matrix(0).reshape(6, 6, 6),
        cmdp.rewards[0] * revenue.scale,
        costs={spent.name: (1.0 - cmdp.utilities[0, 0]) * -spent.scale},
        budgets={spent.name: 66.5},
        horizon=cmdp.horizon,
        units="dollars",
    )
    ours, theirs = solve(again), solve(cmdp)
    assert ours.in_units()["reward"] == pytest.approx(theirs.in_units()["revenue"], rel=1e-9)
    assert ours.prices() == pytest.approx(theirs.prices(), rel=1e-6)

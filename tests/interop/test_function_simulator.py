"""Simulators given as two functions: units, ranges, early ends, seeds, and runs that are resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import InvalidModelError, InvalidParameterError, train
from tests.support.bakery import make_bakery


def test_run_is_decided_by_its_seed_whatever_was_played_before() -> None:
    bakery = make_bakery()
    first = train(bakery, episodes=30, seed=3)
    train(bakery, episodes=7, seed=1)
    again = train(bakery, episodes=30, seed=3)
    assert first.history.equals(again.history)
    assert not first.history.equals(train(bakery, episodes=30, seed=4).history)


def test_run_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    whole = train(make_bakery(), episodes=60)
    train(make_bakery(), episodes=25, planned_episodes=60, checkpoint=tmp_path)
    again = train(make_bakery(), episodes=60, checkpoint=tmp_path)
    assert again.history.equals(whole.history)
    np.testing.assert_array_equal(again.policy.table, whole.policy.table)
    assert "resumed" not in again.origin


def test_everything_is_told_in_dollars() -> None:
    run = train(make_bakery(), episodes=200)
    text = run.summary()
    assert "flour <= 25 dollars" in text
    assert "one more dollar of budget is worth" in text
    shown = run.display.quantities[0].shown(run.average.reward)
    assert f"profit: {shown:.6g} dollars" in text
    assert -30.0 <= shown <= 240.0


def test_cost_outside_its_range_stops_the_run_after_a_checkpoint_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    paid = {"price": 10.0, "steps": 0}

    def step(state: int, action: int, rng: Any) -> tuple[float, float, int]:
        paid["steps"] += 1
        price = 10.0 if paid["steps"] <= 50 else paid["price"]
        return 5.0 * action, price * action, 0

    def shop() -> Any:
        return opdop.from_functions(
            lambda rng: 0,
            step,
            states=1,
            actions=2,
            horizon=5,
            budgets=20.0,
            reward_range=(0, 5),
            cost_range=(0, 10),
            initial=0,
            units={"reward": ("sales", "dollars"), "cost": ("rent", "dollars")},
        )

    paid["price"] = 12.5
    words = r"at stage \d the cost is 12\.5; expected a number in its stated range, \[0(\.0)?, 10(\.0)?\]"
    with pytest.raises(InvalidModelError, match=words):
        train(shop(), episodes=40, checkpoint=tmp_path, checkpoint_seconds=1e9)
    paid |= {"price": 10.0, "steps": 0}  # the price is as stated again
    run = train(shop(), episodes=40, checkpoint=tmp_path)
    assert paid["steps"] < 40 * 5  # the episodes before the error were not played again
    paid["steps"] = 0
    assert run.history.equals(train(shop(), episodes=40).history)


def test_signal_of_a_described_simulator_is_refused_in_own_units() -> None:
    class Broken:
        """Describes itself in dollars, and pays more than it says."""

        horizon, num_states, num_actions, absorbing, rest = 2, 1, 2, None, None
        thresholds, initial, noisy, stationary = np.array([1.0]), np.ones(1), True, True
        display = opdop.Display(
            "broken",
            quantities=(
                opdop.Quantity("profit", "dollars", scale=40.0, offset=-20.0),
                opdop.Quantity("rent", "dollars", scale=-5.0, offset=10.0),
            ),
        )

        def play(self, policy: Any) -> opdop.Episode:
            return opdop.Episode(np.zeros(3, dtype=int), np.zeros(2, dtype=int), np.array([[1.5, 0.0], [1.0, 1.0]]))

    words = r"at stage 0 the profit is 50.* dollars \(signals\[0, 0\] is 1\.5.*range, \[-10(\.0)?, 30(\.0)?\]"
    with pytest.raises(InvalidModelError, match=words):
        train(Broken(), episodes=3)


def test_several_costs_by_name_and_early_ends() -> None:
    def step(state: int, action: int, rng: Any) -> tuple[float, dict[str, float], int, bool]:
        return 1.0, {"heat": 2.0 * action, "noise": 1.0}, 0, bool(action)

    simulator = opdop.from_functions(
        lambda rng: 0,
        step,
        states=1,
        actions=2,
        horizon=4,
        budgets={"heat": 3.0, "noise": 3.5},
        reward_range=(0, 1),
        cost_range={"heat": (0, 2), "noise": (0, 1)},
        initial=0,
    )
    run = train(simulator, episodes=20)
    assert [q.name for q in run.display.quantities] == ["reward", "heat", "noise"]
    ended = opdop.TabularPolicy.deterministic(np.ones((4, 2), dtype=int), 2)
    episode = simulator.play(ended)
    assert episode.states.tolist() == [0, 1, 1, 1, 1]
    assert simulator.display.quantities[1].shown(float(episode.signals[1].sum())) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reset": 3}, "reset is 3; expected a function"),
        ({"reset": lambda rng: 9}, r"reset\(\) is 9; expected a whole number in 0\.\.0"),
        ({"step": lambda *_: 1.0}, r"step\(\) has returned 1\.0; expected \(reward, cost, next state\)"),
        ({"step": lambda *_: (0.0, 0.0, "x")}, r"next state of step\(\) is 'x'"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_wrong_functions_are_named(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"reset": lambda rng: 0, "step": lambda *_: (0.0, 0.0, 0), "horizon": 2, **changes}

    def play() -> None:
        sizes = {"states": 1, "actions": 1, "horizon": given["horizon"]}
        train(opdop.from_functions(given["reset"], given["step"], **sizes, budgets=1, reward_range=(0, 1)), episodes=2)

    with pytest.raises((InvalidModelError, InvalidParameterError), match=message):
        play()

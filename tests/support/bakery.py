"""A simulator in dollars, as a newcomer writes it; tests name it `bakery.py:make_bakery` on the command line."""

from typing import Any

import opdop


def make_bakery(demand: int = 3, budget: float = 25.0) -> Any:
    """Sales of a bakery under a budget for flour."""

    def reset(rng: Any) -> int:
        return 0  # loaves left over

    def step(left: int, batch: int, rng: Any) -> tuple[float, float, int]:
        loaves = min(left + 2 * batch, 6)
        sold = min(loaves, int(rng.integers(2 * demand)))
        return 4.0 * sold - 0.5 * (loaves - sold), 2.5 * batch * float(rng.choice([0.8, 1.2])), loaves - sold

    return opdop.from_functions(
        reset,
        step,
        states=7,
        actions=4,
        horizon=10,
        budgets=budget,
        reward_range=(-3, 24),
        cost_range=(0, 10),
        initial=0,
        name="bakery",
        units={"reward": ("profit", "dollars"), "cost": ("flour", "dollars")},
    )

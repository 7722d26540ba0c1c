"""From a simulator and a budget to a certified, saved policy, in dollars.

    python examples/simulator_with_budget.py [EPISODES [FILE]]

Needs the extra gym. docs/tutorials/simulator.md explains each step.
"""

import sys
from typing import Any

import gymnasium

import opdop


class Machine(gymnasium.Env):
    """Wear 0 to 3. Actions: run slowly, run fast, service. A service costs 50 dollars."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin a week with a new machine."""
        super().reset(seed=seed)
        self.wear = 0
        return self.wear, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Play one day."""
        income = 0 if action == 2 or self.wear == 3 else (60, 100)[action] - 20 * self.wear
        if action == 2:
            self.wear = 0
        elif self.wear < 3 and self.np_random.random() < (0.15, 0.4)[action]:
            self.wear += 1
        return self.wear, income, False, False, {"service": 50 * (action == 2)}


def week() -> Any:
    """Return the problem: income in a week of 7 days, with 25 dollars for services."""
    return opdop.from_gymnasium(
        Machine(),
        horizon=7,
        budgets={"service": 25},
        cost="service",
        reward_range=(0, 100),
        cost_range=(0, 50),
        units={"reward": ("income", "dollars"), "service": "dollars"},
    )


def main(episodes: int = 5000, file: str = "policy.npz") -> None:
    """Train, certify the recommended policy, and save it if it is certified to keep the budget."""
    run = opdop.train(week(), episodes=episodes, seed=0)
    print(run.summary())
    proved = run.certificate("recommended")
    print(proved)
    if proved.keeps_constraints:
        print("saved:", proved.policy.save(file))
    else:
        print("nothing saved: the data do not prove yet that a policy keeps the budget")


if __name__ == "__main__":
    main(*(int(text) if text.isdecimal() else text for text in sys.argv[1:]))

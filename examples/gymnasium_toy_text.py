"""Cross the frozen lake with few moves down: an environment with a table, so that everything is measured exactly.

    python examples/gymnasium_toy_text.py [EPISODES]

Needs the extra gym. docs/gymnasium.md explains other kinds of environments and costs.
"""

import sys

import opdop


def main(episodes: int = 20_000) -> None:
    """Solve the lake exactly, learn it without its table, and print both in units."""
    lake = opdop.from_gymnasium(
        "FrozenLake-v1",
        horizon=50,
        budgets=3.0,
        cost=lambda step: step.action == 1,
        units={"reward": ("success", "episodes"), "cost": ("moves down", "moves")},
    )
    print(opdop.solve(lake))
    run = opdop.train(lake, episodes=episodes, seed=0)
    success, moves = run.display.quantities
    print(f"average policy: {success.text(run.average.reward, 2)} with {moves.text(run.average.utilities[0], 2)}")
    print(f"regret {success.shown_difference(run.regret[-1]) / episodes:.3f} {success.unit} an episode")
    print(
        f"hard violation {abs(moves.shown_difference(run.hard_violation[-1])) / episodes:.3f} {moves.unit} an episode"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

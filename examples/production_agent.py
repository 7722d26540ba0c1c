"""A loop for production: the system asks for one action at a time, and the agent saves every finished episode.

    python examples/production_agent.py FOLDER [EPISODES]

Started again with the same folder, also after a crash, it goes on where it was. Needs the extra gym.
"""

import runpy
import sys
from pathlib import Path

import opdop

_SIMULATOR = runpy.run_path(str(Path(__file__).with_name("simulator_with_budget.py")))


def main(folder: str, episodes: int = 200) -> None:
    """Play and learn until the folder holds this many weeks; print what they earned and cost so far."""
    system = _SIMULATOR["Machine"]()  # your own system, in production
    with opdop.Agent(_SIMULATOR["week"](), folder) as agent:
        print(f"{agent.episodes} weeks were played before")
        while agent.episodes < episodes:
            wear, _ = system.reset()
            for _day in range(7):
                wear, income, terminated, _, info = system.step(agent.act(wear))
                agent.observe(income, [info["service"]], wear, terminated)
        for name, value in agent.averages().items():
            print(f"{name}: {value:.1f} dollars a week")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

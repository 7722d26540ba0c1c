"""Compare algorithms on a problem over several seeds, with statistics, in the problem's own units.

    python examples/compare_algorithms.py [EPISODES [SEEDS]]

`opdop compare` does the same from the command line, on all cores, and writes a report.
"""

import sys

import opdop
from opdop.report.summary.groups import gather
from opdop.report.summary.verdicts import verdicts


def main(episodes: int = 5000, seeds: int = 5) -> None:
    """Make the runs one after the other; print each group and which differences are clear."""
    names = ("opdop", "oppo", "optimistic")
    runs = [opdop.train("factored", name, episodes=episodes, seed=seed) for name in names for seed in range(seeds)]
    for name in names:
        own = [run for run in runs if run.config.algorithm == name]
        reward, moves = own[0].display.quantities
        earned = sum(run.average.reward for run in own) / seeds
        used = sum(run.average.utilities[0] for run in own) / seeds
        print(f"{name}: {reward.text(earned, 3)} with {moves.text(used, 3)} an episode")
    for verdict in verdicts(gather(runs).sections[0]):
        print(verdict.words)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

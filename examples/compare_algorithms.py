"""Compare algorithms on a problem over several seeds, with statistics, in the problem's own units.

    python examples/compare_algorithms.py [EPISODES [SEEDS]]

`opdop compare` does the same from the command line, on all cores, and writes a report.
"""

import sys

import opdop


def main(episodes: int = 5000, seeds: int = 5) -> None:
    """Make the runs one after the other; print each group and which differences are clear."""
    names = ("opdop", "oppo", "optimistic")
    runs = [opdop.train("factored", name, episodes=episodes, seed=seed) for name in names for seed in range(seeds)]
    print(opdop.compare(runs))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

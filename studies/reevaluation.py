"""Measure what rarer evaluation costs on continuous states: `python -m studies.reevaluation [EPISODES SEEDS]`.

Compares evaluating every episode with evaluating only when a Gram determinant has grown by a given factor. Prints
averages over seeds, per episode and in the problem's own units.
"""

from __future__ import annotations

import sys

import numpy as np
from rich.progress import Progress

import opdop
from studies.common import numbers_from, per_episode

PROBLEM = "reservoir"
GROWTHS = (None, 1.02, 1.1, 1.5, 2.0, 4.0)


def measure(growth: float | None, episodes: int, seed: int) -> list[float]:
    """Return the number of evaluations, their megabytes, the seconds, and the three measures per episode of a run."""
    parameters = {} if growth is None else {"reevaluate_at_growth": growth}
    run = opdop.train(PROBLEM, episodes=episodes, seed=seed, preset="scaled", parameters=parameters)
    assert run.snapshot is not None
    past = {name: array for name, array in run.snapshot[1].items() if name.startswith("learner.past.")}
    size = sum(array.nbytes for array in past.values()) / 1e6
    return [float(past["learner.past.first"].size), size, run.seconds, *per_episode(run, own_units=True)]


def main() -> None:
    """Run the study and print its table."""
    episodes, seeds = numbers_from(sys.argv[1:], [2000, 3])
    reward, level = opdop.make(PROBLEM).display.quantities
    opdop.train(PROBLEM, episodes=2, preset="scaled")  # compile
    rows = []
    with Progress(transient=True) as progress:
        bar = progress.add_task(f"{PROBLEM}, {episodes} episodes", total=len(GROWTHS) * seeds)
        for growth in GROWTHS:
            found = []
            for seed in range(seeds):
                found.append(measure(growth, episodes, seed))
                progress.advance(bar)
            rows.append((growth, np.mean(found, axis=0), np.std(found, axis=0)))
    units = f"{reward.unit} or {level.unit} per episode"
    print(f"{PROBLEM}, {episodes} episodes, preset scaled, mean (and spread) of {seeds} seeds; {units}\n")
    print("| re-evaluate at | evaluations | past, MB | seconds | regret | violation | hard violation |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for growth, mean, spread in rows:
        name = "every episode" if growth is None else f"growth {growth:g}"
        measures = " | ".join(f"{mean[i]:.2f} ({spread[i]:.2f})" for i in (3, 4, 5))
        print(f"| {name} | {mean[0]:.0f} | {mean[1]:.2f} | {mean[2]:.1f} | {measures} |")


if __name__ == "__main__":
    main()

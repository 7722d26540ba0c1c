"""What is lost if a continuous problem is evaluated only when information has grown: `python -m studies.reevaluation`.

Prints averages over seeds, per episode and in the problem's own units, next to the exact version. Options: the number
of episodes and of seeds, as in `python -m studies.reevaluation 2000 3`.
"""

from __future__ import annotations

import sys

import numpy as np
from rich.progress import Progress

import opdop

PROBLEM = "reservoir"
GROWTHS = (None, 1.02, 1.1, 1.5, 2.0, 4.0)
MEASURES = ("regret", "violation", "hard_violation")


def measure(growth: float | None, episodes: int, seed: int) -> list[float]:
    """Return evaluations kept, megabytes of the past, seconds, and the three measures of one run, per episode."""
    parameters = {} if growth is None else {"reevaluate_at_growth": growth}
    run = opdop.train(PROBLEM, episodes=episodes, seed=seed, parameters=parameters)
    assert run.snapshot is not None
    past = {name: array for name, array in run.snapshot[1].items() if name.startswith("learner.past.")}
    reward, promise = (abs(quantity.scale) for quantity in run.display.quantities)
    scales = (reward, promise, promise)
    results = [float(run.history[name][-1]) / episodes * scale for name, scale in zip(MEASURES, scales, strict=True)]
    size = sum(array.nbytes for array in past.values()) / 1e6
    return [float(past["learner.past.first"].size), size, run.seconds, *results]


def main() -> None:
    """Run the study and print its table."""
    episodes, seeds = (int(text) for text in (sys.argv[1:] + ["2000", "3"][len(sys.argv) - 1 :])[:2])
    reward, promise = opdop.make(PROBLEM).display.quantities
    opdop.train(PROBLEM, episodes=2)  # compiles
    rows = []
    with Progress(transient=True) as progress:
        bar = progress.add_task(f"{PROBLEM}, {episodes} episodes", total=len(GROWTHS) * seeds)
        for growth in GROWTHS:
            found = []
            for seed in range(seeds):
                found.append(measure(growth, episodes, seed))
                progress.advance(bar)
            rows.append((growth, np.mean(found, axis=0), np.std(found, axis=0)))
    units = f"{reward.unit} or {promise.unit} per episode"
    print(f"{PROBLEM}, {episodes} episodes, preset practical, mean (and spread) of {seeds} seeds; {units}\n")
    print("| re-evaluate at | evaluations | past, MB | seconds | regret | violation | hard violation |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for growth, mean, spread in rows:
        name = "every episode" if growth is None else f"growth {growth:g}"
        measures = " | ".join(f"{mean[i]:.2f} ({spread[i]:.2f})" for i in (3, 4, 5))
        print(f"| {name} | {mean[0]:.0f} | {mean[1]:.2f} | {mean[2]:.1f} | {measures} |")


if __name__ == "__main__":
    main()

"""How the benchmarks take times: the best of several calls, and the cost of episodes along a run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from opdop.model import TabularCMDP
from opdop.runs import train


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the wall-clock time of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def seconds_per_episode(cmdp: TabularCMDP, algorithm: str, episodes: int, repeats: int = 3) -> float:
    """Return seconds per episode of the fastest of several new runs, in which every episode is measured."""
    train(cmdp, algorithm, episodes=20, records=10)  # compile
    return min(train(cmdp, algorithm, episodes=episodes, records=10).seconds for _ in range(repeats)) / episodes


def print_cost_along_a_run(cmdp: TabularCMDP, algorithm: str, episodes: int) -> None:
    """Print the cost of an episode in the last tenth of a run against that in the first tenth."""
    train(cmdp, algorithm, episodes=20, records=10)  # compile
    marks: list[tuple[int, float]] = []
    train(
        cmdp,
        algorithm,
        episodes=episodes,
        records=10,
        piece=episodes // 100,
        progress=lambda at: marks.append((at.episode, time.perf_counter())),
    )
    episode, seconds = np.array(marks).T
    steps = np.diff(seconds) / np.diff(episode)
    tenth = len(steps) // 10
    first, last = np.median(steps[:tenth]), np.median(steps[-tenth:])
    print(
        f"  first tenth {first * 1e6:.2f} us/episode, last tenth {last * 1e6:.2f}, ratio {last / first:.3f} "
        "(aim: at most 1.2)"
    )

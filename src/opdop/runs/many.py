"""Independent runs of one problem with several seeds, made at the same time in threads of one process.

The kernels release Python's lock, so threads use all cores without the start of processes; each run is the one that
`train` makes with its seed, bit for bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opdop.envs import make
from opdop.model import InvalidParameterError, Problem
from opdop.model.validation import as_size, is_number, shown
from opdop.runs.progress import Progress
from opdop.runs.run import Run
from opdop.runs.training import train

_OF_ONE_RUN = "seed", "checkpoint", "start", "task"


def train_many(
    problem: str | Problem, algorithm: str = "opdop", *, seeds: int | Iterable[int], workers: int = 0, **settings: Any
) -> list[Run]:
    """Train once for each seed, several runs at a time; return the runs in the order of the seeds.

    Args:
        problem: a shipped problem's name, or a problem.
        algorithm: a name from `opdop.algorithms()`.
        seeds: a number n, which means the seeds 0 to n-1, or the seeds.
        workers: how many runs are made at a time; 0 means one for each core that this process may use. The runs do not
            depend on it. Learners of your own and callbacks hold Python's lock, so that they gain less.
        settings: the other arguments of `opdop.train`, such as `episodes`; not `checkpoint` or `start`, which belong to
            one run. `progress` is called from several threads.

    Raises InvalidParameterError if an argument is wrong, and whatever `train` raises: for the first seed in order whose
    run failed, after the runs that had begun have ended.

    >>> runs = train_many("factored", seeds=2, workers=2, episodes=200)
    >>> [run.config.seed for run in runs]
    [0, 1]
    """
    made = make(problem) if isinstance(problem, str) else problem
    if isinstance(made, type) or not isinstance(made, Problem):
        raise InvalidParameterError(
            f"problem is {shown(problem)}; expected a name or a problem, because a simulator plays one run at a time."
        )
    if not isinstance(algorithm, str):
        raise InvalidParameterError(
            f"algorithm is {shown(algorithm)}; expected a name, because a learner can learn in one run only."
        )
    for name in _OF_ONE_RUN:
        if name in settings:
            raise InvalidParameterError(f"{name} belongs to one run; expected it in `opdop.train` only.")
    listed, limit = _as_seeds(seeds), as_size("workers", workers or cores())
    given, ending = settings.pop("progress", None), threading.Event()

    def one(seed: int) -> Run:
        return train(made, algorithm, seed=seed, progress=_ending(given, ending), **settings)

    if limit == 1 or len(listed) == 1:
        return [train(made, algorithm, seed=seed, progress=given, **settings) for seed in listed]
    with ThreadPoolExecutor(min(limit, len(listed)), thread_name_prefix="opdop") as pool:
        waiting = [pool.submit(one, seed) for seed in listed]
        try:
            return [each.result() for each in waiting]
        except BaseException:  # also Ctrl-C, which only this thread gets
            ending.set()
            for each in waiting:
                each.cancel()
            raise


class _Ended(Exception):
    """Ends a run whose result nobody will use."""


def _ending(given: Callable[[Progress], None] | None, ending: threading.Event) -> Callable[[Progress], None]:
    """Return a progress callback that ends the run once `ending` is set."""

    def progress(at: Progress) -> None:
        if ending.is_set():
            raise _Ended
        if given is not None:
            given(at)

    return progress


def _as_seeds(seeds: Any) -> list[int]:
    if is_number(seeds):
        return list(range(as_size("seeds", seeds)))
    try:
        listed = list(seeds)
    except Exception as error:  # a foreign object may raise anything while it is read
        raise InvalidParameterError(f"seeds are {shown(seeds)}; expected a number, or a list of seeds.") from error
    if not listed:
        raise InvalidParameterError("there are no seeds; expected at least one.")
    return listed


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

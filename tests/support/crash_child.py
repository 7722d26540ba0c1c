"""Real processes that train, to be killed by tests.

`python crash_child.py SCENARIO FOLDER` trains once. Without arguments it reads orders from its input, one JSON object a
line: for each it forks processes that train, kills them as told and answers how they ended. Imports and compiled
kernels are then paid for once. The parent must not use Polars, whose threads do not survive a fork.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from opdop import ModelSimulator, TabularCMDP, Task, make, train
from opdop.model import Episode
from opdop.runs import Progress


@dataclass
class Order:
    """What to run, and how it is to die."""

    scenario: str
    folder: str
    seed: int = 0
    checkpoint_seconds: float = 0.0  # a save after every piece
    processes: int = 1
    other_seeds: bool = False  # for each process
    signal: int = 0  # sent to the first process ...
    episode: int = 0  # ... once it has reported this episode ...
    delay: float = 0.0  # ... and so many seconds have passed
    die_in: str = ""  # a name in PLACES: the process kills itself there ...
    die_after: bool = False  # ... when this is done, not before ...
    die_at_call: int = 1  # ... the so many-th time


# Scenarios


def noisy_lists() -> dict[str, Any]:
    """Three constraints, noisy signals, and 40 states, whose lists of transitions turn into a table on the way."""
    rng = np.random.default_rng(5)
    S, A, H, I = 40, 2, 4, 3
    P = np.zeros((S, A, S))
    for x in range(S):
        for a in range(A):
            P[x, a, rng.choice(S, 12, replace=False)] = rng.dirichlet(np.ones(12))
    utilities = rng.random((I, S, A))
    problem = TabularCMDP(P, rng.random((S, A)), utilities, np.full(I, 0.3 * H), initial=np.full(S, 1.0 / S), horizon=H)
    return {"problem": problem, "episodes": 5000, "noisy": True, "piece": 10, "records": 60}


def doubling() -> dict[str, Any]:
    """An unknown number of episodes: the learner starts anew on the way."""
    return {"problem": "factored", "episodes": 24_000, "algorithm": "doubling:opdop", "piece": 41, "records": 60}


def features() -> dict[str, Any]:
    """Algorithm 2: least squares on features, with inverses that are refreshed now and then."""
    algorithm = {"problem": "random-mixture", "algorithm": "opdop-lstd"}
    return {**algorithm, "episodes": 4000, "piece": 10, "records": 60}


class Unknown:
    """A simulator that does not show its model; its state is that of its random numbers."""

    def __init__(self, model: ModelSimulator) -> None:
        self._model = model

    def play(self, policy: Any) -> Episode:
        return self._model.play(policy)

    def state(self) -> Any:
        return self._model.generator.bit_generator.state

    def restore(self, state: Any) -> None:
        self._model.generator.bit_generator.state = state


def simulator() -> dict[str, Any]:
    """Step by step against a simulator whose model is not known; the average policy is a sample."""
    cmdp = make("factored")
    return {
        "problem": Unknown(ModelSimulator(cmdp, seed=3)),
        "task": Task.of(cmdp, episodes=900),
        "episodes": 900,
        "piece": 7,
        "records": 60,
    }


SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    each.__name__: each for each in (noisy_lists, doubling, features, simulator)
}

# Where a process may be told to kill itself
PLACES: dict[str, tuple[Any, str]] = {
    "write_array": (npy, "write_array"),
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
}


# Training


def reached(folder: Path) -> int:
    """Return the episode that the process in a folder has reported last."""
    try:
        return int((folder / "reached").read_text() or "0")
    except FileNotFoundError:
        return 0


def run(order: Order) -> None:
    """Train, report every piece, and save the run."""
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    report = os.open(folder / "reached", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def note(progress: Progress) -> None:
        os.pwrite(report, f"{progress.episode:12d}".encode(), 0)
        while order.signal and progress.episode == progress.episodes and not (folder / "signalled").exists():
            time.sleep(0.001)  # on a busy machine the signal may be late: do not end before it

    if order.die_in:
        _die_in(*PLACES[order.die_in], order.die_after, order.die_at_call)
    result = train(
        **SCENARIOS[order.scenario](),
        seed=order.seed,
        checkpoint=folder / "checkpoint",
        checkpoint_seconds=order.checkpoint_seconds,
        progress=note,
    )
    result.save(folder / "run")


def _die_in(module: Any, name: str, after: bool, at_call: int) -> None:
    original, calls = getattr(module, name), 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        result = original(*args, **kwargs) if after else None
        if calls == at_call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result if after else original(*args, **kwargs)

    setattr(module, name, deadly)


# Serving


def warm_up() -> None:
    """Load every kernel that the scenarios need."""

    class EnoughError(Exception):
        pass

    def stop(progress: Progress) -> None:
        raise EnoughError

    for scenario in SCENARIOS.values():
        try:
            train(**scenario(), progress=stop)
        except EnoughError:
            continue


def obey(order: Order) -> list[int]:
    """Run the processes of an order; return how each ended: its exit status, or less than 0 for a signal."""
    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("reached", "signalled"):
        (folder / name).unlink(missing_ok=True)
    children = []
    for n in range(order.processes):
        pid = os.fork()
        if pid == 0:
            log = os.open(folder / f"log{n}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            run(replace(order, seed=order.seed + n) if order.other_seeds else order)
            sys.exit(0)
        children.append(pid)
    statuses = []
    for n, pid in enumerate(children):
        if n == 0 and order.signal:
            statuses.append(_wait_and_signal(pid, order, folder))
        else:
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return statuses


def _wait_and_signal(pid: int, order: Order, folder: Path) -> int:
    """Send the order's signal when its time has come; until it is waited for, the process's id is its own."""
    due = None
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if due is None and reached(folder) >= order.episode:
            due = time.monotonic() + order.delay
        if due is not None and time.monotonic() >= due:
            os.kill(pid, order.signal)
            (folder / "signalled").touch()
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        time.sleep(0.0005)


def main() -> None:
    """Train once, or serve."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background was started with it ignored
    if len(sys.argv) > 1:
        run(Order(sys.argv[1], sys.argv[2]))
        return
    warm_up()
    gc.freeze()  # children need not look at all this again when they end
    print("ready", flush=True)
    for line in sys.stdin:
        statuses = obey(Order(**json.loads(line)))
        print(json.dumps(statuses), flush=True)


if __name__ == "__main__":
    main()

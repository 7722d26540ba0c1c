"""Where the runs of a sweep are made: each engine gives a `concurrent.futures.Executor`, and a new one if it breaks."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from multiprocessing.connection import Connection
from typing import Any, Protocol

from opdop.model import InvalidParameterError, OpdopError
from opdop.sweeps.store import SweepError
from opdop.sweeps.worker import attend, greet

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_START_SECONDS = 300.0  # in which a worker process must have said a word
_CONNECT_SECONDS = 10.0
_FINISH_SECONDS = 30.0


class Engine(Protocol):
    """Something that makes runs."""

    name: str

    def executor(self) -> Executor:
        """Return the executor to use now."""
        ...

    def workers(self) -> int:
        """Return how many runs are made at once."""
        ...

    def rebuild(self) -> bool:
        """Replace a broken executor by a new one; False if that cannot be done."""
        ...

    def stop(self, *, at_once: bool) -> None:
        """End all workers: at once, runs in the making then keep their checkpoints, or when all is done."""
        ...


class Pool:
    """Spawned processes on this machine, each on one core."""

    name = "processes"

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor: ProcessPoolExecutor | None = None
        self._lifeline: Connection
        self._held: Connection

    def workers(self) -> int:
        """Return the number of processes."""
        return self._workers

    def executor(self) -> Executor:
        """Return the pool, made at the first call."""
        if self._executor is None:
            context = multiprocessing.get_context("spawn")
            self._held, self._lifeline = context.Pipe(duplex=False)  # workers get copies of the first
            self._executor = ProcessPoolExecutor(self._workers, context, initializer=attend, initargs=(self._held,))
            self._greet()
        return self._executor

    def _greet(self) -> None:
        """Start all workers at once and wait for the first, to say in so many words why there is none."""
        assert self._executor is not None
        try:
            greetings = [self._executor.submit(greet) for _ in range(self._workers)]
            greetings[0].result(timeout=_START_SECONDS)
        except (BrokenExecutor, NoAnswer) as error:
            self.stop(at_once=True)
            raise SweepError(
                "worker processes cannot be started. In a script, call opdop.sweep below `if __name__ == '__main__':`, "
                "since each worker loads the script again; otherwise see what they have printed, and whether there is "
                "memory for them."
            ) from error

    def rebuild(self) -> bool:
        """Replace the pool: the standard one breaks as a whole when a process dies."""
        self.stop(at_once=True)
        return True

    def stop(self, *, at_once: bool) -> None:
        """End the processes; without their lifeline they do so at once."""
        executor, self._executor = self._executor, None
        if executor is not None:
            if at_once:
                self._lifeline.close()
            executor.shutdown(wait=True, cancel_futures=at_once)
            self._lifeline.close()
            self._held.close()


class Given:
    """An executor of the caller's own."""

    name = "an executor"

    def __init__(self, executor: Executor, workers: int) -> None:
        self._executor, self._workers = executor, workers

    def workers(self) -> int:
        """Return how many jobs it gets at once."""
        return self._workers

    def executor(self) -> Executor:
        """Return it."""
        return self._executor

    def rebuild(self) -> bool:
        """It is not ours to replace."""
        return False

    def stop(self, *, at_once: bool) -> None:
        """It is not ours to end."""


class Dask:
    """Workers of a Dask scheduler, on any number of machines."""

    name = "dask"

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise OpdopError(
                f"{address!r} is the address of a Dask scheduler, and Dask is not installed: pip install 'opdop[dask]'."
            ) from error
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise InvalidParameterError(
                f"there is no Dask scheduler at {address!r} ({str(error).strip() or type(error).__name__}); "
                "expected an address as tcp://127.0.0.1:8786, which `dask scheduler` prints."
            ) from error
        self._executor: Any = self._client.get_executor(pure=False)

    def workers(self) -> int:
        """Return how many threads all workers have now; workers may come and go."""
        return max(int(sum(self._client.nthreads().values())), 1)

    def executor(self) -> Executor:
        """Return the executor of the client."""
        executor: Executor = self._executor
        return executor

    def rebuild(self) -> bool:
        """Dask replaces lost workers by itself."""
        return False

    def stop(self, *, at_once: bool) -> None:
        """Cancel what is left, and leave the scheduler; its workers finish what they are at."""
        with contextlib.suppress(Exception):  # a scheduler that is gone
            self._executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self._client.close(timeout=_FINISH_SECONDS)


def choose_engine(workers: int | None, executor: Executor | None, scheduler: str | None) -> Engine:
    """Return the engine that is asked for; processes on all cores if nothing is."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidParameterError(f"workers is {workers!r}; expected a whole number, at least 1.")
    if scheduler is not None:
        if executor is not None or workers is not None:
            raise InvalidParameterError("a scheduler has workers of its own; leave out workers and executor.")
        return Dask(scheduler)
    count = workers or _cores()
    return Pool(count) if executor is None else Given(executor, count)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile use one core each, unless the environment says otherwise."""
    ours = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)

"""Where the runs of a sweep are made: processes on this machine, an executor of the caller's, or a Dask cluster."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import multiprocessing
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from multiprocessing.connection import Connection
from typing import Any, Protocol

from opdop.model import InvalidParameterError, OpdopError
from opdop.model.validation import printable, shown
from opdop.runs.many import cores
from opdop.sweeps.manifest import Processor
from opdop.sweeps.store import SweepError
from opdop.sweeps.worker import end_with_sweep, greet

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_START_SECONDS = 300.0  # for a worker process to start and answer
_FIRST_STARTS = 3  # attempts before the first worker has ever started
_LATER_STARTS = 30  # attempts in a row once one has
_CONNECT_SECONDS = 10.0
_FINISH_SECONDS = 30.0
_ADDRESS = re.compile(r"(?P<protocol>[a-z]+://)?(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})", re.ASCII)


class Backend(Protocol):
    """The workers of a sweep, behind a `concurrent.futures.Executor`."""

    name: str

    def executor(self, *, alone: bool = False) -> Executor:
        """Return the executor that takes jobs now; `alone`: one that makes a single job with a single worker."""
        ...

    def workers(self) -> int:
        """Return how many runs can be made at once."""
        ...

    def greet(self) -> list[Processor]:
        """Return the processors of the workers that answer now, starting them if need be."""
        ...

    def rebuild(self) -> bool:
        """Replace a broken executor; return False if this backend cannot."""
        ...

    def stop(self, *, at_once: bool) -> None:
        """End the workers: at once, leaving a checkpoint of each unfinished run, or after their last job."""
        ...


class ProcessBackend:
    """Spawned processes on this machine, each on one core."""

    name = "processes"

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor: ProcessPoolExecutor | None = None
        self._size = 0  # processes of the executor
        self._lifeline: Connection
        self._held: Connection
        self._processor: Processor | None = None  # None before the first worker has started

    def workers(self) -> int:
        """Return the number of processes."""
        return self._workers

    def executor(self, *, alone: bool = False) -> Executor:
        """Return the pool, whose first worker has started; with `alone` it has one worker only.

        Raises SweepError if no worker can be started.
        """
        size = 1 if alone else self._workers
        if self._executor is not None and self._size != size:
            self.stop(at_once=False)
        if self._executor is None:
            self._size = size
            self._start()
        assert self._executor is not None
        return self._executor

    def _start(self) -> None:
        """Start all workers and wait for the first; a worker that dies meanwhile is replaced."""
        for attempt in itertools.count(1):
            context = multiprocessing.get_context("spawn")
            self._held, self._lifeline = context.Pipe(duplex=False)  # workers get copies of the first
            held = (self._held,)
            self._executor = ProcessPoolExecutor(self._size, context, initializer=end_with_sweep, initargs=held)
            try:
                greetings = [self._executor.submit(greet) for _ in range(self._size)]
                self._processor = greetings[0].result(timeout=_START_SECONDS)
                return
            except (BrokenExecutor, NoAnswer) as error:
                self.stop(at_once=True)
                if self._processor is None and attempt >= _FIRST_STARTS:
                    raise SweepError(
                        "worker processes cannot be started. In a script, call opdop.sweep below `if __name__ == "
                        "'__main__':`, since each worker loads the script again; otherwise see what they have printed, "
                        "and whether there is memory for them."
                    ) from error
                if attempt >= _LATER_STARTS:
                    raise SweepError(
                        f"worker processes have died {attempt} times while they started: is there memory for them?"
                    ) from error

    def greet(self) -> list[Processor]:
        """Return the one processor that all workers run on."""
        self.executor()
        assert self._processor is not None
        return [self._processor]

    def rebuild(self) -> bool:
        """Replace the pool: the standard one breaks as a whole when a process dies."""
        self.stop(at_once=True)
        return True

    def stop(self, *, at_once: bool) -> None:
        """End the processes; closing their lifeline ends them at once."""
        executor, self._executor = self._executor, None
        if executor is not None:
            if at_once:
                self._lifeline.close()
            executor.shutdown(wait=True, cancel_futures=at_once)
            self._lifeline.close()
            self._held.close()


class ExecutorBackend:
    """An executor that the caller provides, and that the caller ends."""

    name = "an executor"

    def __init__(self, executor: Executor, workers: int) -> None:
        self._executor, self._workers = executor, workers

    def workers(self) -> int:
        """Return how many jobs it gets at once."""
        return self._workers

    def executor(self, *, alone: bool = False) -> Executor:
        """Return it."""
        return self._executor

    def greet(self) -> list[Processor]:
        """Return nothing: an executor cannot address its workers one by one."""
        return []

    def rebuild(self) -> bool:
        """Return False: only the caller can replace it."""
        return False

    def stop(self, *, at_once: bool) -> None:
        """Do nothing: the caller ends it."""


class SameProcessBackend(ExecutorBackend):
    """This process makes the runs, one after the other: for problems with functions that only this process has."""

    name = "this process"

    def __init__(self, objects: Mapping[str, Any]) -> None:
        super().__init__(_AtOnce(objects), 1)

    def greet(self) -> list[Processor]:
        """Return the processor of this process."""
        return [greet()]


class _AtOnce(Executor):
    """Calls a function with a job when it is submitted, and gives it the job's problem, if that is an object."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Return a future that is done; signals are not caught, so that they end the sweep."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, problem=self._objects.get(arguments[0].problem), **options))
        except Exception as error:
            future.set_exception(error)
        return future


class DaskBackend:
    """The workers of a Dask scheduler, on any number of machines."""

    name = "dask"

    def __init__(self, address: str) -> None:
        _check_address(address)
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise OpdopError(
                f"{address!r} is the address of a Dask scheduler, and Dask is not installed: pip install 'opdop[dask]'."
            ) from error
        try:
            self._client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise _no_scheduler(address, str(error).strip() or type(error).__name__) from error
        self._executor: Any = self._client.get_executor(pure=False)

    def workers(self) -> int:
        """Return how many threads all workers have now; workers may come and go."""
        return max(int(sum(self._client.nthreads().values())), 1)

    def executor(self, *, alone: bool = False) -> Executor:
        """Return the executor of the client."""
        executor: Executor = self._executor
        return executor

    def greet(self) -> list[Processor]:
        """Return the processors of all workers that are connected now."""
        return list(self._client.run(greet, on_error="ignore").values())

    def rebuild(self) -> bool:
        """Return False: Dask itself replaces lost workers."""
        return False

    def stop(self, *, at_once: bool) -> None:
        """Cancel the jobs that have not begun and disconnect; workers finish the runs that they have begun."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self._client.close(timeout=_FINISH_SECONDS)


def _check_address(address: str) -> None:
    """Raise InvalidParameterError at once if an address is malformed, or nothing listens there: Dask would wait."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise _no_scheduler(address, "it is not an address")
    if found["protocol"] in (None, "tcp://", "tls://"):
        try:
            host = found["host"].strip("[]")
            socket.create_connection((host, int(found["port"])), timeout=_CONNECT_SECONDS).close()
        except (OSError, UnicodeError) as error:
            raise _no_scheduler(address, getattr(error, "strerror", None) or type(error).__name__) from error


def _no_scheduler(address: object, reason: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"there is no Dask scheduler at {shown(address)} ({printable(reason)}); "
        "expected an address as tcp://127.0.0.1:8786, which `dask scheduler` prints."
    )


def choose_backend(
    workers: int | None, executor: Executor | None, scheduler: str | None, objects: Mapping[str, Any]
) -> Backend:
    """Return the backend for these arguments of `run_sweep`; without any, processes on all cores.

    `objects` are the problems that only this process has. Raises InvalidParameterError if the arguments contradict each
    other or no scheduler answers, and OpdopError if Dask is not installed.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidParameterError(f"workers is {shown(workers)}; expected a whole number, at least 1.")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InvalidParameterError(f"executor is {shown(executor)}; expected a concurrent.futures.Executor.")
    if objects:
        if executor is not None or scheduler is not None or workers not in (None, 1):
            raise InvalidParameterError(
                f"{shown(next(iter(objects.values())))} has functions of yours, which other processes cannot get; "
                "leave out workers, executor and scheduler, and this process makes the runs. For several workers, "
                'write a function that returns the problem, and name it "FILE.py:FUNCTION".'
            )
        return SameProcessBackend(objects)
    if scheduler is not None:
        if executor is not None or workers is not None:
            raise InvalidParameterError("a scheduler has workers of its own; leave out workers and executor.")
        return DaskBackend(scheduler)
    count = workers or cores()
    return ProcessBackend(count) if executor is None else ExecutorBackend(executor, count)


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that start meanwhile use one core each, unless the environment says otherwise."""
    ours = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)

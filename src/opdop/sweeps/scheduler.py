"""Hands out the runs of a sweep, and puts up with whatever happens to those who make them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass

from opdop.runs.interrupts import Interrupts
from opdop.sweeps.executors import Engine
from opdop.sweeps.index import Index
from opdop.sweeps.spec import Job
from opdop.sweeps.store import Store, SweepError, Underway
from opdop.sweeps.worker import Outcome, perform

_DEATHS = 3  # so many times may the worker of a job die before the job is recorded as failed
_LOOK_SECONDS = 0.2  # between two looks at signals and progress
_BUSY_SECONDS = 0.5  # before asking again for a run that another sweep works on
_COUNT_SECONDS = 2.0  # between two counts of an engine's workers
_AHEAD = 2  # jobs handed out for each worker
_MOST_SHOWN = 50
_KNOWN_AFTER = 0.1  # runs, after which the time left is worth telling: kernels are loaded by then


@dataclass(frozen=True)
class SweepProgress:
    """Where a sweep is; given to the `progress` callback a few times a second."""

    total: int
    done: int  # finished, with those found finished at the start
    found: int  # finished at the start
    failed: int  # with those that had failed before and are not tried again
    underway: tuple[Underway, ...]
    seconds: float  # since the start
    seconds_left: float | None  # None as long as nothing is known
    notes: tuple[str, ...] = ()  # what has happened since the last call and is worth a line


class DeadWorkerError(SweepError):
    """The process that made a run has died again and again."""


class Conductor:
    """One sweep in the making.

    A job whose worker dies is handed out again. The pool cannot say whose fault it was, as it breaks as a whole: who
    was there twice is made alone from then on, and only a job that kills its worker while alone is recorded as failed.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        index: Index,
        jobs: Iterable[tuple[Job, int]],  # with the failed tries that are known of
        *,
        total: int,
        found: int,
        failed: int,
        progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        self.store, self.engine, self.index, self.progress = store, engine, index, progress
        self.total, self.found, self.failed, self.done = total, found, failed, found
        self._coming: Iterator[tuple[Job, int]] = iter(jobs)
        self._again: deque[tuple[Job, int]] = deque()  # to be handed out once more
        self._later: deque[tuple[float, Job, int]] = deque()  # not before a time
        self._alone: deque[tuple[Job, int]] = deque()  # only with no other
        self._flying: dict[Future[Outcome], tuple[Job, int]] = {}
        self._deaths: dict[str, int] = {}
        self._notes: list[str] = []
        self._is_alone = False
        self._began = self._shown = time.monotonic()
        self._counted, self._workers = 0.0, 1

    def conduct(self, interrupts: Interrupts) -> None:
        """Make all runs; leave early if a signal asks for it, or raise SweepError if nothing can be done here."""
        while interrupts.pending is None:
            self._hand_out()
            if not (self._flying or self._later or self._again or self._alone):
                break
            if self._flying:
                ended, _ = wait(self._flying, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    self._take(future)
            else:
                time.sleep(_LOOK_SECONDS / 4)
            self._show()
        self._show(at_once=True)

    # Handing out -----------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        if self._alone:
            if not self._flying:
                self._is_alone = True
                self._submit(*self._alone.popleft())
            return
        if self._is_alone and self._flying:
            return
        self._is_alone = False
        now = time.monotonic()
        if now - self._counted >= _COUNT_SECONDS:
            self._counted, self._workers = now, self.engine.workers()
        while len(self._flying) < _AHEAD * self._workers and not self._alone:
            job = self._next(now)
            if job is None:
                return
            self._submit(*job)

    def _next(self, now: float) -> tuple[Job, int] | None:
        if self._again:
            return self._again.popleft()
        for job, failures in self._coming:
            if not self.store.has_run(job.key):  # another sweep may have made it meanwhile
                return job, failures
            self.done += 1
        while self._later and self._later[0][0] <= now:
            _, job, failures = self._later.popleft()
            if not self.store.has_run(job.key):
                return job, failures
            self.done += 1
        return None

    def _submit(self, job: Job, failures: int) -> None:
        try:
            future = self.engine.executor().submit(perform, job, str(self.store.folder), failures)
        except BrokenExecutor:
            self._again.appendleft((job, failures))
            self._mend()
        else:
            self._flying[future] = (job, failures)

    # Taking back -----------------------------------------------------------------------------------------------------

    def _take(self, future: Future[Outcome]) -> None:
        if future not in self._flying:
            return  # it was taken when the pool was mended
        try:
            outcome = future.result()
        except BrokenExecutor:
            self._mend()
            return
        except SweepError:
            raise
        except CancelledError as error:
            raise SweepError(
                f"the {self.engine.name} engine has dropped a run: is its scheduler still there?"
            ) from error
        except Exception as error:
            job, _ = self._flying.pop(future)
            if type(error).__name__ != "KilledWorker":  # Dask's word for a job whose workers died again and again
                raise SweepError(f"a worker cannot make runs: {type(error).__name__}: {error}") from error
            self._fail(job, str(error))
            return
        job, failures = self._flying.pop(future)
        self._settle(job, failures, outcome)

    def _settle(self, job: Job, failures: int, outcome: Outcome) -> None:
        self._deaths.pop(job.key, None)
        if outcome.state == "busy":
            self._later.append((time.monotonic() + _BUSY_SECONDS, job, failures))
            return
        if outcome.state == "failed":
            self.failed += 1
            self._notes.append(f"failed: {job.key}: {outcome.error}")
            return
        self.done += 1
        if outcome.summary is not None:
            self.index.add(job.key, outcome.summary)

    def _mend(self) -> None:
        """A worker has died, and the executor with it: take what is whole, hand out the rest again in a new one."""
        flying, self._flying = self._flying, {}
        wait(flying)
        lost = []
        for future, (job, failures) in flying.items():
            if isinstance(future.exception(), BrokenExecutor):
                lost.append((job, failures))
            elif future.exception() is not None:
                raise SweepError(f"a worker cannot make runs: {future.exception()}") from future.exception()
            else:
                self._settle(job, failures, future.result())
        if not self.engine.rebuild():
            raise SweepError(
                "the executor is broken: one of its workers has died. Start the sweep again with a new one."
            )
        if lost:
            self._notes.append(f"a worker process has died; {len(lost)} runs that it may have had are made again")
        for job, failures in lost:
            self._deaths[job.key] = self._deaths.get(job.key, 0) + 1
            if self._deaths[job.key] < _DEATHS - 1:
                self._again.append((job, failures))
            elif self._is_alone and self._deaths[job.key] >= _DEATHS:
                self._fail(job, f"its worker process has died {self._deaths[job.key]} times: out of memory, or a crash")
            else:
                self._alone.append((job, failures))

    def _fail(self, job: Job, words: str) -> None:
        error = DeadWorkerError(words)
        self.store.write_failure(job.record(), job.key, error, "")
        self.failed += 1
        self._notes.append(f"failed: {job.key}: {words}")

    # Showing ---------------------------------------------------------------------------------------------------------

    def _show(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.progress is None or (now - self._shown < _LOOK_SECONDS and not at_once):
            self._notes = self._notes[-_MOST_SHOWN:]
            return
        self._shown = now
        looks = (self.store.look(job.key) for job, _ in list(self._flying.values())[:_MOST_SHOWN])
        underway = tuple(found for found in looks if found is not None)
        played = sum(each.episode / each.episodes for each in underway if each.episodes)
        made = self.done - self.found + played
        left = self.total - self.done - self.failed - played
        seconds = now - self._began
        notes, self._notes = tuple(self._notes), []
        self.progress(
            SweepProgress(
                self.total,
                self.done,
                self.found,
                self.failed,
                underway,
                seconds,
                seconds / made * max(left, 0.0) if made > _KNOWN_AFTER else None,
                notes,
            )
        )

"""Dispatch the jobs of a sweep to workers, and retry those whose worker died."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, replace

from opdop.runs import RunConfig
from opdop.runs.interrupts import Interrupts
from opdop.sweeps.executors import Backend
from opdop.sweeps.manifest import Processor, add_processor, processor_text
from opdop.sweeps.spec import key_of
from opdop.sweeps.store import Store, SweepError, Underway
from opdop.sweeps.worker import Outcome, perform

_MOST_DEATHS = 3  # of a job's worker, before the job is recorded as failed
_LOOK_SECONDS = 0.2  # between two looks at signals and progress
_BUSY_SECONDS = 0.5  # before asking again for a run that another sweep makes
_COUNT_SECONDS = 2.0  # between two counts of the workers
_JOBS_PER_WORKER = 2  # dispatched at once, so that no worker waits for its next job
_MOST_SHOWN = 50
_RUNS_BEFORE_ESTIMATE = 0.1  # before the time left is estimated: kernels are loaded by then


@dataclass(frozen=True)
class SweepProgress:
    """The state of a sweep; given to the `progress` callback a few times a second."""

    total: int
    done: int  # finished runs, including `found`
    found: int  # runs that were finished at the start
    failed: int  # including runs that failed before and are not tried again
    underway: tuple[Underway, ...]
    seconds: float  # since the start
    seconds_left: float | None  # None before it can be estimated
    notes: tuple[str, ...] = ()  # events since the last call that deserve a line


class DeadWorkerError(SweepError):
    """The process that made a run has died repeatedly."""


@dataclass(frozen=True)
class Attempt:
    """A job to make, and what is known of earlier attempts."""

    job: RunConfig
    key: str
    failures: int = 0  # attempts that raised, in this sweep or an earlier one
    deaths: int = 0  # attempts whose worker died, in this sweep

    @classmethod
    def of(cls, job: RunConfig, failures: int = 0) -> Attempt:
        """Return the first attempt of a sweep at a job."""
        return cls(job, key_of(job), failures)


class Scheduler:
    """Dispatches the jobs of one sweep.

    A job whose worker dies is dispatched again. A pool of processes breaks as a whole, and Dask blames each job that
    waited for a worker that died, so every such job is a suspect. A job that was suspected twice is made while no other
    job runs, by the only process of a pool; if its worker dies again, the job is recorded as failed.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        jobs: Iterable[Attempt],
        *,
        total: int,
        found: int,
        failed: int,
        progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        self.store, self.backend, self.progress = store, backend, progress
        self.total, self.found, self.failed, self.done = total, found, failed, found
        self._jobs: Iterator[Attempt] = iter(jobs)
        self._retries: deque[Attempt] = deque()
        self._delayed: deque[tuple[float, Attempt]] = deque()  # not before a time
        self._suspects: deque[Attempt] = deque()  # each to be made while no other job runs
        self._dispatched: dict[Future[Outcome], Attempt] = {}
        self._notes: list[str] = []
        self._is_alone = False  # the one dispatched job is a suspect
        self._greeted = self._warned = False
        self._processors: list[Processor] = []
        self._began = self._shown = time.monotonic()
        self._counted, self._workers = 0.0, 1

    def run(self, interrupts: Interrupts) -> None:
        """Make all runs, or return early on a signal; raise SweepError if the workers or the folder cannot be used."""
        while interrupts.pending is None:
            self._dispatch()
            if not (self._dispatched or self._delayed or self._retries or self._suspects):
                break
            if self._dispatched:
                ended, _ = wait(self._dispatched, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    self._collect(future)
            else:
                time.sleep(_LOOK_SECONDS / 4)
            self._show()
        self._show(at_once=True)

    # Dispatching -----------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Submit as many jobs as the workers can take."""
        if self._suspects:
            if not self._dispatched:
                self._is_alone = True
                self._submit(self._suspects.popleft())
            return
        if self._is_alone and self._dispatched:
            return
        self._is_alone = False
        now = time.monotonic()
        if now - self._counted >= _COUNT_SECONDS:
            self._counted, self._workers = now, self.backend.workers()
        while len(self._dispatched) < _JOBS_PER_WORKER * self._workers and not self._suspects:
            attempt = self._next(now)
            if attempt is None:
                return
            self._submit(attempt)

    def _next(self, now: float) -> Attempt | None:
        """Return the next job; its worker notices if another sweep has made the run in the meantime."""
        if self._retries:
            return self._retries.popleft()
        attempt = next(self._jobs, None)
        if attempt is None and self._delayed and self._delayed[0][0] <= now:
            attempt = self._delayed.popleft()[1]
        return attempt

    def _submit(self, attempt: Attempt) -> None:
        try:
            if not self._greeted:
                self._greeted = True
                for processor in self.backend.greet():
                    self._compare(processor)
            folder = str(self.store.folder)
            executor = self.backend.executor(alone=self._is_alone)
            future = executor.submit(perform, attempt.job, folder, attempt.failures)
        except BrokenExecutor:
            (self._suspects if self._is_alone else self._retries).appendleft(attempt)
            self._replace_workers()
        else:
            self._dispatched[future] = attempt

    # Collecting ------------------------------------------------------------------------------------------------------

    def _collect(self, future: Future[Outcome]) -> None:
        """Take the result of a job that has ended."""
        if future not in self._dispatched:
            return  # it was collected when the workers were replaced
        try:
            outcome = future.result()
        except BrokenExecutor:
            self._replace_workers()
            return
        except SweepError:
            raise
        except CancelledError as error:
            raise SweepError(f"a run was cancelled by {self.backend.name}: is its scheduler still there?") from error
        except Exception as error:
            attempt = self._dispatched.pop(future)
            if type(error).__name__ != "KilledWorker":  # Dask raises it for a job whose workers died repeatedly
                raise SweepError(f"a worker cannot make runs: {type(error).__name__}: {error}") from error
            self._lose([attempt])
            return
        self._record(self._dispatched.pop(future), outcome)

    def _record(self, attempt: Attempt, outcome: Outcome) -> None:
        self._compare(outcome.processor)
        if outcome.state == "busy":
            self._delayed.append((time.monotonic() + _BUSY_SECONDS, replace(attempt, deaths=0)))
        elif outcome.state == "failed":
            self.failed += 1
            self._notes.append(f"failed: {attempt.key}: {outcome.error}")
        else:
            self.done += 1

    def _compare(self, processor: Processor) -> None:
        """Record a worker's processor in the manifest, and warn once if unlike processors make runs of this sweep."""
        if processor in self._processors:
            return
        self._processors.append(processor)
        others = add_processor(self.store, processor)
        if others and not self._warned:
            self._warned = True
            self._notes.append(
                f"warning: runs of this sweep come from unlike processors ({processor_text(processor)}; "
                f"{processor_text(others[0])}), so their last bits depend on the worker"
            )

    def _replace_workers(self) -> None:
        """Replace an executor that broke because a worker died; keep the finished results, dispatch the rest again."""
        dispatched, self._dispatched = self._dispatched, {}
        wait(dispatched)
        lost = []
        for future, attempt in dispatched.items():
            if isinstance(future.exception(), BrokenExecutor):
                lost.append(attempt)
            elif future.exception() is not None:
                raise SweepError(f"a worker cannot make runs: {future.exception()}") from future.exception()
            else:
                self._record(attempt, future.result())
        if not self.backend.rebuild():
            raise SweepError(
                "the executor is broken: one of its workers has died. Start the sweep again with a new one."
            )
        if lost:
            self._lose(lost)

    def _lose(self, lost: list[Attempt]) -> None:
        """Dispatch jobs again that a worker may have had when it died; a job that killed it while alone has failed."""
        self._notes.append(f"a worker process has died; {len(lost)} runs that it may have had are made again")
        for attempt in (replace(each, deaths=each.deaths + 1) for each in lost):
            if attempt.deaths < _MOST_DEATHS - 1:
                self._retries.append(attempt)
            elif self._is_alone and attempt.deaths >= _MOST_DEATHS:
                self._fail(attempt, f"its worker process has died {attempt.deaths} times: out of memory, or a crash")
            else:
                self._suspects.append(attempt)

    def _fail(self, attempt: Attempt, reason: str) -> None:
        self.store.write_failure(attempt.job.record(), attempt.key, DeadWorkerError(reason), "")
        self.failed += 1
        self._notes.append(f"failed: {attempt.key}: {reason}")

    # Showing ---------------------------------------------------------------------------------------------------------

    def _show(self, *, at_once: bool = False) -> None:
        """Call the progress callback, if it is time."""
        now = time.monotonic()
        if self.progress is None or (now - self._shown < _LOOK_SECONDS and not at_once):
            self._notes = self._notes[-_MOST_SHOWN:]
            return
        self._shown = now
        looks = (self.store.look(attempt.key) for attempt in list(self._dispatched.values())[:_MOST_SHOWN])
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
                seconds / made * max(left, 0.0) if made > _RUNS_BEFORE_ESTIMATE else None,
                notes,
            )
        )

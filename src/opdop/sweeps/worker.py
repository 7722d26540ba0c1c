"""The work of a worker process: make one run, from claiming its folder to putting the result in place."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from opdop.model import InvalidParameterError
from opdop.runs import CHECKPOINT, Progress, Run, RunConfig, execute
from opdop.runs.files import DamagedFileError
from opdop.runs.training import Trainable
from opdop.sweeps.manifest import Processor, processor
from opdop.sweeps.spec import key_of
from opdop.sweeps.store import MANIFEST, Claim, Store, SweepError, set_aside

_TELL_SECONDS = 0.5  # between two notes of a run's progress
_CHECKPOINT_SECONDS = 20.0  # for the last checkpoint of a process that is told to end
_pooled = False  # whether this process belongs to a pool of ours


@dataclass(frozen=True)
class Outcome:
    """The result of a job, without the run itself, which is in its folder."""

    state: str  # "done", "failed" or "busy" (another process makes this run)
    processor: Processor
    error: str = ""


def greet() -> Processor:
    """Return this worker's processor."""
    return processor()


def perform(job: RunConfig, folder: str, failures: int, problem: Trainable | None = None) -> Outcome:
    """Make one run and put it into the folder of its sweep; `problem` is needed if the job's name means an object.

    The outcome is "done" at once if the run is finished and whole, "busy" if another process makes it, and "failed" if
    another process has failed at it since there were `failures` failed attempts.

    Raises SweepError if the folder cannot be found or written.
    """
    store, key = Store(Path(folder)), key_of(job)
    if not os.path.exists(store.folder / MANIFEST):
        raise SweepError(
            f"the worker on {os.uname().nodename} does not see {folder}: all machines need the sweep's folder at the "
            "same path, as on a shared disk."
        )
    try:
        with store.claim(key) as claim:
            if store.has_run(key):
                if claim is not None:
                    store.clear(key)
                return Outcome("done", greet())
            if claim is None:
                return Outcome("busy", greet())
            before = store.read_failure(key)
            if before is not None and before.tries > failures:
                return Outcome("failed", greet(), error=before.error)
            return _make(store, claim, job, problem)
    except OSError as error:
        raise SweepError(f"cannot write into {folder}: {error.strerror or error}.") from None


def _make(store: Store, claim: Claim, job: RunConfig, problem: Trainable | None) -> Outcome:
    started, told = time.time(), 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            claim.tell(progress.episode, progress.episodes, started)

    claim.tell(0, job.episodes, started)
    try:
        claim.finish(_execute(job, problem, store.partial(claim.key), tell))
    except Exception as error:
        if _is_of_the_disk(error):
            raise SweepError(str(error)) from None
        failure = store.write_failure(job.record(), claim.key, error, traceback.format_exc())
        store.clear(claim.key)
        return Outcome("failed", greet(), error=failure.error)
    except SystemExit:  # the run was interrupted by a signal, after a checkpoint
        if _pooled:
            os._exit(128 + signal.SIGTERM)  # a pool would give this process another job
        raise
    store.forget_failure(claim.key)
    store.clear(claim.key)
    return Outcome("done", greet())


def _execute(job: RunConfig, problem: Trainable | None, folder: Path, tell: Callable[[Progress], None]) -> Run:
    """Make a run with checkpoints in a folder; if the one that is there cannot be used, start again without it."""
    there = os.path.lexists(folder / CHECKPOINT)
    try:
        return execute(job, problem, checkpoint=folder, progress=tell)
    except (DamagedFileError, InvalidParameterError):
        if not there:
            raise
        set_aside(folder / CHECKPOINT)
        return execute(job, problem, checkpoint=folder, progress=tell)


def _is_of_the_disk(error: BaseException | None) -> bool:
    """Return whether an error comes from writing or reading files."""
    while error is not None:
        if isinstance(error, OSError):
            return True
        error = error.__cause__
    return False


# Processes of a pool ---------------------------------------------------------------------------------------------


def end_with_sweep(lifeline: Connection) -> None:
    """Make this process end, after a checkpoint, when the other end of a pipe is closed.

    The sweep closes it to stop its workers, and the system closes it if the sweep is killed. The process ignores
    Ctrl-C, which a terminal sends to all processes: the sweep handles it.
    """
    global _pooled  # noqa: PLW0603 - a fact about the process
    _pooled = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=[lifeline], daemon=True).start()


def _end_after(lifeline: Connection) -> None:
    wait([lifeline])
    os.kill(os.getpid(), signal.SIGTERM)  # an idle process ends at once, a run after a checkpoint
    time.sleep(_CHECKPOINT_SECONDS)
    os._exit(1)

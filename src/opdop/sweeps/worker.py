"""What a worker process does: one run, from claiming it to putting the result in its place."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import opdop
from opdop.envs import make
from opdop.runs.training import Progress, train
from opdop.sweeps.index import summary
from opdop.sweeps.spec import Job
from opdop.sweeps.store import MANIFEST, Claim, Store, SweepError

_TELL_SECONDS = 0.5  # how often a run says how far it is
_pooled = False  # whether this process belongs to a pool of ours
_LAST_WORDS_SECONDS = 20.0  # for a checkpoint, when the process is to end


@dataclass(frozen=True)
class Outcome:
    """What became of a job: never the run itself, which lies in its folder."""

    key: str
    state: str  # "done", "failed" or "busy" (another sweep works on it)
    summary: dict[str, Any] | None = None  # of a run made just now
    seconds: float = 0.0  # from start to end, with loading and saving
    error: str = ""


def perform(job: Job, folder: str, failures: int) -> Outcome:
    """Make one run, unless it is there, or another process works on it, or has failed at it since `failures` tries."""
    began = time.monotonic()
    store = Store(Path(folder))
    if not (store.folder / MANIFEST).exists():
        raise SweepError(
            f"the worker on {os.uname().nodename} does not see {folder}: all machines need the sweep's folder at the "
            "same path, as on a shared disk."
        )
    try:
        with store.claim(job.key) as claim:
            if store.has_run(job.key):
                if claim is not None:
                    store.clear(job.key)
                return Outcome(job.key, "done")
            if claim is None:
                return Outcome(job.key, "busy")
            before = store.read_failure(job.key)
            if before is not None and before.tries > failures:
                return Outcome(job.key, "failed", error=before.error)
            return _make(store, claim, job, began)
    except OSError as error:
        raise SweepError(f"cannot write into {folder}: {error.strerror or error}.") from None


def _make(store: Store, claim: Claim, job: Job, began: float) -> Outcome:
    started, told = time.time(), 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            claim.tell(progress.episode, progress.episodes, started)

    claim.tell(0, job.settings.episodes, started)
    try:
        problem = make(job.problem, **job.problem_parameters)
        run = train(problem, **job.arguments, checkpoint=store.partial(job.key), progress=tell)
        about = summary(run)
        claim.finish(run)
    except Exception as error:
        if _is_of_the_disk(error):
            raise SweepError(str(error)) from None
        failure = store.write_failure(job.record(), job.key, error, traceback.format_exc())
        store.clear(job.key)
        return Outcome(job.key, "failed", error=failure.error)
    except SystemExit:  # train has saved a checkpoint, and answers a signal
        if _pooled:
            os._exit(128 + signal.SIGTERM)  # a pool would give this process another job
        raise
    store.forget_failure(job.key)
    store.clear(job.key)
    return Outcome(job.key, "done", about, time.monotonic() - began)


def _is_of_the_disk(error: BaseException | None) -> bool:
    """Whether an error comes from writing or reading files."""
    while error is not None:
        if isinstance(error, OSError):
            return True
        error = error.__cause__
    return False


# Processes of a pool ---------------------------------------------------------------------------------------------


def attend(lifeline: Connection) -> None:
    """Let this process of a pool end, after a checkpoint, as soon as the other end of a pipe is closed.

    So it is when the sweep wants its workers to stop, and when the sweep was killed. Ctrl-C in a terminal reaches all
    processes; only the sweep itself answers it.
    """
    global _pooled  # noqa: PLW0603 - it is about the process
    _pooled = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[lifeline], daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    wait([lifeline])
    os.kill(os.getpid(), signal.SIGTERM)  # idle, it ends at once; while training, after a checkpoint
    time.sleep(_LAST_WORDS_SECONDS)
    os._exit(1)


def greet() -> str:
    """Return the version of opdop that a worker has; the first thing that it is asked."""
    return opdop.__version__

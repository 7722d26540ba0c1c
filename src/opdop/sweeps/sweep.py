"""Run a sweep: many runs on many cores or machines, each recoverable after a failure.

Each run has its own seed and its own folder, so its numbers depend neither on the number of workers nor on the order
of the jobs. They do depend on the processor's instructions: see `opdop.sweeps.manifest.processor`. `spec` describes the
runs, `store` the folder, `executors` the workers, `scheduler` dispatches the jobs, and `results` reads the folder.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdop.model import Display, InvalidParameterError
from opdop.runs import execute
from opdop.runs.files import DamagedFileError, write_whole
from opdop.runs.history_units import describe_columns
from opdop.runs.interrupts import Interrupts
from opdop.runs.progress import shown_progress
from opdop.runs.recorder import columns
from opdop.sweeps.executors import choose_backend, one_thread_each
from opdop.sweeps.given_models import Objects, with_names
from opdop.sweeps.manifest import surroundings
from opdop.sweeps.results import Sweep
from opdop.sweeps.scheduler import Attempt, Scheduler, SweepProgress
from opdop.sweeps.spec import Spec, group_of, key_of
from opdop.sweeps.store import (
    MANIFEST,
    RUNS,
    SPEC,
    SWEEP_FORMAT,
    Store,
    folder_at,
    now,
    read_json,
    set_aside,
    write_json,
)
from opdop.sweeps.summaries import Summary, read_summaries, restore_histories


def run_sweep(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    scheduler: str | None = None,
    progress: bool | Callable[[SweepProgress], None] | None = None,
    retry_failed: bool = False,
    allow_code: bool = False,
) -> Sweep:
    """Make all runs of a spec, and return the sweep with their results.

    A second call with the same folder continues the first, however that ended: finished runs are not repeated, and
    unfinished ones continue from their checkpoints. Any number of workers gives the same results, bit for bit, on
    processors with the same instructions; if runs come from unlike processors, a note in the progress warns of it. A
    run that raises is recorded as failed, and the others continue. Ctrl-C and SIGTERM end the workers after a
    checkpoint.

    Args:
        spec: a spec, the path of one in TOML, or the same as data: {"seeds": 3, "problem": ["factored"]}. In data, a
            problem may also be an object. A `TabularCMDP` or `LinearCMDP` is written into the folder, and the workers
            read it from there. A continuous model, or a simulator of `from_gymnasium` or `from_functions`, has
            functions that other processes cannot get, so this process makes the runs, one after the other.
        out: the folder; docs/experiments.md describes its files. Between two calls a spec may grow, not shrink.
        workers: number of processes on this machine; by default one for each core.
        executor: another `concurrent.futures.Executor` to use instead; `workers` is then the number of runs at once.
        scheduler: the address of a Dask scheduler, whose workers see the folder at the same path.
        progress: by default a bar, in terminals and notebooks. False turns it off, True always shows it. A function is
            called with a `SweepProgress` a few times a second instead.
        retry_failed: try failed runs again.
        allow_code: let the TOML file name functions of yours, FILE.py:FUNCTION, as problems. They return a problem or a
            simulator, and are run. Data that are given in Python may always name them.

    Raises InvalidParameterError for a wrong argument, a wrong spec or a folder with another sweep, and SweepError if
    the workers or the folder cannot be used.
    """
    store = Store(folder_at(out).absolute())
    objects: Objects = {}
    if isinstance(spec, Mapping):
        named, objects = with_names(spec, store.folder)
        spec = Spec.of(named)
    elif not isinstance(spec, Spec):
        spec = Spec.read(spec, allow_code=allow_code)
    backend = choose_backend(workers, executor, scheduler, objects)
    at_once = True
    try:
        with Interrupts() as interrupts, one_thread_each(), shown_progress(progress, "sweep") as watch:
            _prepare(store, spec, backend.name)
            keys = [key_of(job) for job in spec.jobs()]
            finished, _ = read_summaries(store, keys)
            restore_histories(store, finished)
            failed = store.failed().intersection(keys).difference(finished)
            jobs = Scheduler(
                store,
                backend,
                _attempts(store, spec, {*finished}, failed, retry_failed),
                total=len(spec),
                found=len(finished),
                failed=0 if retry_failed else len(failed),
                progress=watch,
            )
            jobs.run(interrupts)
            at_once = interrupts.pending is not None
            backend.stop(at_once=at_once)
            if not at_once:
                _add_constants(store, read_summaries(store, keys)[0])
    finally:
        backend.stop(at_once=at_once)
    return Sweep.open(store.folder)


def rehearse(spec: Spec, seconds: float = 30.0) -> tuple[int, dict[str, str]]:
    """Play one episode of each kind of run, as long as there is time.

    Returns how many kinds were tried, and the error of each that cannot be made.
    """
    end, tried = time.monotonic() + seconds, 0
    errors: dict[str, str] = {}
    for kind in spec.kinds:
        if time.monotonic() > end:
            break
        tried += 1
        try:
            one = kind.but(episodes=1, records=2, planned_episodes=kind.planned_episodes or kind.episodes)
            execute(one, progress=False)
        except Exception as error:  # a sweep records any error of a run
            errors[group_of(kind)] = str(error) or type(error).__name__
    return tried, errors


def _attempts(store: Store, spec: Spec, finished: set[str], failed: set[str], retry_failed: bool) -> Iterator[Attempt]:
    """Return the jobs to dispatch, each with the number of attempts that failed before."""
    for attempt in map(Attempt.of, spec.jobs()):
        if attempt.key in failed:
            failure = store.read_failure(attempt.key)
            if retry_failed:
                yield attempt if failure is None else replace(attempt, failures=failure.tries)
        elif attempt.key not in finished:
            yield attempt


def _prepare(store: Store, spec: Spec, backend: str) -> None:
    """Make the folder, or check that it holds the same sweep; write the spec and the manifest."""
    folder = store.folder
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}.") from error
    with store.manifest_lock():  # of two sweeps that start together, the second sees the spec of the first
        _write_manifest(store, spec, backend)
    store.clear_leftovers()


def _write_manifest(store: Store, spec: Spec, backend: str) -> None:
    folder = store.folder
    try:
        before = read_json(folder / MANIFEST)
    except DamagedFileError:
        before = {}
        set_aside(folder / MANIFEST)
    else:
        Sweep.open(folder)  # raises if it has another format
    _check_grows(store, spec, before)
    write_whole(folder / SPEC, spec.text)
    used = surroundings(backend)
    sessions = before.get("sessions", [])
    if not sessions or any(sessions[-1].get(name) != value for name, value in used.items()):
        sessions = [*sessions, {"began": now(), **used}]
    manifest = {
        "format": SWEEP_FORMAT,
        "created": before.get("created", now()),
        **used,
        "runs": len(spec),
        "seeds": list(spec.seeds),
        "spec": spec.record(),
        "constants": before.get("constants", {}),
        "columns": describe_columns(columns(1), Display.plain(1).quantities, 1),
        "processors": before.get("processors", []),
        "sessions": sessions,
    }
    write_json(folder / MANIFEST, manifest)


def _check_grows(store: Store, spec: Spec, manifest: Mapping[str, Any]) -> None:
    """Refuse a spec that does not ask for every run that is there: its results would be mixed with others.

    Where the manifest is lost, spec.toml tells what was asked for, and without that the runs in the folder.
    """
    folder = store.folder
    before = None
    if manifest:
        before = Spec.of(manifest.get("spec", {}))
    elif os.path.lexists(folder / SPEC):
        with contextlib.suppress(InvalidParameterError):
            before = Spec.read(folder / SPEC, allow_code=True)
    there = store.names()
    if before is not None:
        theirs, ours = before.settings(), spec.settings()
        differ = [name for name in ours if ours[name] != theirs[name]]
        if differ:
            name = differ[0]
            raise InvalidParameterError(
                f"{str(folder)!r} holds a sweep with {name} = {theirs[name]}, and the spec has {ours[name]}; "
                "use another folder."
            )
        there = set(map(key_of, before.jobs()))
    left_out = sorted(there.difference(map(key_of, spec.jobs())))
    if left_out:
        raise InvalidParameterError(
            f"{str(folder)!r} holds a sweep with {len(left_out)} runs that the spec does not ask for, the first being "
            f"{left_out[0]!r}; a spec may grow, not shrink: use another folder."
        )


def _add_constants(store: Store, finished: Mapping[str, Summary]) -> None:
    """Add the constants of each kind of run to the manifest, as its first finished run used them."""
    ours: dict[str, Any] = {}
    for about in finished.values():
        ours.setdefault(about["group"], about["constants"])
    store.change_manifest(lambda manifest: {**manifest, "constants": {**manifest.get("constants", {}), **ours}})

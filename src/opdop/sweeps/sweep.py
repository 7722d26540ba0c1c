"""Sweeps: many runs on many cores or machines, of which nothing is lost, whatever happens to a process.

Each run has its own seed and writes its own folder, so no bit depends on who makes it, nor when. `spec` says what is
run, `store` what lies where, `engines` who makes the runs, `conductor` who makes which, and `results` what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from opdop.model import InvalidParameterError
from opdop.runs.files import write_whole
from opdop.runs.interrupts import Interrupts
from opdop.sweeps.executors import choose_engine, one_thread_each
from opdop.sweeps.index import Index
from opdop.sweeps.manifest import history_columns, surroundings
from opdop.sweeps.results import Sweep
from opdop.sweeps.scheduler import Conductor, DeadWorkerError, SweepProgress
from opdop.sweeps.spec import InvalidSpecError, Job, Settings, Spec
from opdop.sweeps.store import (
    MANIFEST,
    RUNS,
    SPEC,
    SWEEP_FORMAT,
    Failure,
    Store,
    SweepError,
    Underway,
    now,
    read_json,
    write_json,
)

__all__ = [
    "DeadWorkerError",
    "Failure",
    "InvalidSpecError",
    "Job",
    "Settings",
    "Spec",
    "Sweep",
    "SweepError",
    "SweepProgress",
    "Underway",
    "run_sweep",
]


def run_sweep(
    spec: Spec | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    scheduler: str | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
    retry_failed: bool = False,
) -> Sweep:
    """Make all runs of a spec, and return what came of them.

    Called again with the same folder it goes on where it was, however it ended: finished runs are not repeated, long
    ones go on from their checkpoints, and the results are the same, bit for bit, for any number of workers. A run that
    raises is kept as failed, and the others go on. Ctrl-C and SIGTERM end the workers after a checkpoint.

    Args:
        spec: a spec, the path of one in TOML, or the same as data: {"seeds": 3, "problem": ["factored"]}.
        out: the folder; docs/experiments.md says what lies in it. A spec may grow between two calls, not shrink.
        workers: processes on this machine; one for each core if left out.
        executor: another `concurrent.futures.Executor` to use instead; `workers` then says how many runs at once.
        scheduler: the address of a Dask scheduler, whose workers see the folder at the same path.
        progress: called a few times a second.
        retry_failed: try runs again that have failed before.
    """
    if not isinstance(spec, Spec):
        spec = Spec.of(spec) if isinstance(spec, Mapping) else Spec.read(spec)
    store = Store(Path(out).absolute())
    engine = choose_engine(workers, executor, scheduler)
    at_once = True
    try:
        with Interrupts() as interrupts, one_thread_each():
            _prepare(store, spec, engine.name)
            with Index(store) as index:
                index.renew()
                for key in index.damaged:
                    store.set_aside(key)
                finished, failed = _known(store, spec)
                conductor = Conductor(
                    store,
                    engine,
                    index,
                    _jobs(store, spec, finished, failed, retry_failed),
                    total=len(spec),
                    found=len(finished),
                    failed=0 if retry_failed else len(failed),
                    progress=progress,
                )
                conductor.conduct(interrupts)
                at_once = interrupts.pending is not None
                engine.stop(at_once=at_once)
                if not at_once:
                    _complete(store, spec, index)
    finally:
        engine.stop(at_once=at_once)
    return Sweep.open(store.folder)


def _known(store: Store, spec: Spec) -> tuple[set[str], set[str]]:
    """Return which runs of a spec are finished, and which have failed."""
    finished, failed = store.finished(), store.failed()
    keys = {job.key for job in spec.jobs()} if finished or failed else set()
    return finished & keys, (failed - finished) & keys


def _jobs(
    store: Store, spec: Spec, finished: set[str], failed: set[str], retry_failed: bool
) -> Iterator[tuple[Job, int]]:
    """Return the jobs to do, each with the number of failed tries that are known of."""
    for job in spec.jobs():
        if job.key in failed:
            failure = store.read_failure(job.key)
            if retry_failed:
                yield job, 0 if failure is None else failure.tries
        elif job.key not in finished:
            yield job, 0


def _prepare(store: Store, spec: Spec, engine: str) -> None:
    """Make the folder, or see that it is of the same sweep, and write down what is run with what."""
    folder = store.folder
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}.") from error
    before: dict[str, Any] = {}
    if (folder / MANIFEST).exists():
        before = dict(Sweep.open(folder).manifest)
        if (folder / SPEC).exists():
            _check_grows(folder, Spec.read(folder / SPEC), spec)
    write_whole(folder / SPEC, lambda file: file.write(spec.text.encode()))
    with_what = surroundings(engine)
    sessions = before.get("sessions", [])
    if not sessions or any(sessions[-1].get(name) != value for name, value in with_what.items()):
        sessions = [*sessions, {"began": now(), **with_what}]
    manifest = {
        "format": SWEEP_FORMAT,
        "created": before.get("created", now()),
        **with_what,
        "runs": len(spec),
        "seeds": list(spec.seeds),
        "spec": spec.record(),
        "constants": before.get("constants", {}),
        "columns": history_columns(),
        "sessions": sessions,
    }
    write_json(folder / MANIFEST, manifest)
    store.clear_leftovers()


def _check_grows(folder: Path, before: Spec, spec: Spec) -> None:
    """Refuse a spec that does not ask for what is there already: its runs would be mixed with others."""
    if before.text == spec.text:
        return
    for name, value in vars(before.settings).items():
        ours = getattr(spec.settings, name)
        if ours != value:
            raise InvalidParameterError(
                f"{str(folder)!r} holds a sweep with {name} = {value}, and the spec has {ours}; use another folder."
            )
    keys = {job.key for job in spec.jobs()}
    left_out = [job.key for job in before.jobs() if job.key not in keys]
    if left_out:
        raise InvalidParameterError(
            f"{str(folder)!r} holds a sweep with {len(left_out)} runs that the spec does not ask for, the first being "
            f"{left_out[0]}; a spec may grow, not shrink: use another folder."
        )


def _complete(store: Store, spec: Spec, index: Index) -> None:
    """Add the constants of each kind of run to the manifest, as its first run has used them."""
    constants: dict[str, Any] = {}
    for job in spec.jobs():
        if job.group not in constants and (about := index.get(job.key)) is not None:
            constants[job.group] = about["constants"]
    manifest = read_json(store.folder / MANIFEST)
    if manifest.get("constants") != constants:
        write_json(store.folder / MANIFEST, {**manifest, "constants": constants})

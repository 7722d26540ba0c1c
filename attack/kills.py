"""Kill -9 at random moments, in the last second of a save too: nothing that was saved is lost, no bit changes.

Each command runs in a forked copy of a process that has imported opdop and used nothing of it: starting Python anew for
each kill would take most of the time. Tests in tests/sweeps kill worker processes and Dask workers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import opdop
import opdop.cli.run
import opdop.report.figures
import opdop.report.html
from attack.files import frame_bytes, numbers_of
from attack.sandbox import Lost, Wrong
from opdop.__main__ import main
from opdop.runs import CHECKPOINT
from opdop.runs.files import CHECKSUMS
from opdop.sweeps import Sweep

RUN = ["run", "factored", "-k", "30000", "--seed", "5", "--out"]
SPEC = 'episodes = 3000\nseeds = 4\n[[problem]]\nname = "factored"\n'
FILES = ("run.npz", "history.parquet", "summary.json", "figure.svg", "figure.png", CHECKSUMS)
_MOST_KILLS = 4
_SAVING = 0.7  # seconds; so long after its first file a save is over


@dataclass(frozen=True)
class State:
    """Where runs are made, what must come out, and how long a run and a sweep take."""

    folder: Path
    run_seconds: float
    sweep_seconds: float

    @property
    def work(self) -> Path:
        """The folder of the case."""
        return self.folder / "work"


def prepare(folder: Path) -> State:
    """Make the run and the sweep that all others must equal."""
    seconds = []
    for make in (lambda: _make_run(folder / "run"), lambda: _make_sweep(folder / "sweep")):
        began = time.monotonic()
        _finish(make)
        seconds.append(time.monotonic() - began)
    return State(folder, *seconds)


def _make_run(folder: Path) -> None:
    """Start a run, or resume it."""
    resume = (folder / CHECKPOINT).exists()
    sys.argv = ["opdop", *(["run", "--resume"] if resume else RUN), str(folder)]
    main()


def _make_sweep(folder: Path) -> None:
    """Start a sweep, or continue it; its runs are made in a thread of this process."""
    with ThreadPoolExecutor(1) as executor:
        opdop.sweep(opdop.Spec.parse(SPEC), folder, executor=executor, workers=1)


def _fork(work: Callable[[], None], errors: Path | None = None) -> int:
    """Let a copy of this process work, and then end with status 0, or 1 if an error came; return its id."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        silent = os.open(os.devnull if errors is None else errors, os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            work()
            status = 0
        except SystemExit as end:
            status = int(bool(end.code))
        except BaseException:
            traceback.print_exc()
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(status)


def _finish(work: Callable[[], None]) -> None:
    """Let a copy of this process work to its end; raise if it fails."""
    errors = Path(f"/tmp/attack-kills-{os.getpid()}.txt")
    errors.unlink(missing_ok=True)
    _, status = os.waitpid(_fork(work, errors), 0)
    said = errors.read_text(errors="replace")
    errors.unlink()
    if "Lost:" in said:
        raise Lost(said[-500:])
    if "Wrong:" in said:
        raise Wrong(said[-500:])
    if status or "Traceback" in said:
        raise AssertionError(f"it ends with {os.waitstatus_to_exitcode(status)}: {said[-1500:]}")


def _kill(work: Callable[[], None], is_time: Callable[[], bool], after: float) -> None:
    """Let a copy of this process work, and kill it a while after the time has come."""
    process = _fork(work)
    while not is_time():
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.0005)
    time.sleep(after)
    os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)


def probe(state: State, case: int) -> str:
    """Kill a run or a sweep a few times, let it finish, and compare."""
    random = np.random.default_rng([7, case])
    shutil.rmtree(state.work, ignore_errors=True)
    state.work.mkdir(parents=True)
    folder = state.work / "out"
    is_sweep, in_save = bool(case // 2 % 2), bool(case % 2)
    make = _make_sweep if is_sweep else _make_run
    seconds = state.sweep_seconds if is_sweep else state.run_seconds
    found: set[str] = set()
    for _ in range(int(random.integers(1, _MOST_KILLS + 1))):
        wanted = int(random.integers(1, 5)) if is_sweep else FILES[int(random.integers(3))]
        if in_save:
            _kill(lambda: make(folder), partial(_has, folder, wanted), float(random.uniform(0.0, _SAVING)))
        else:
            _kill(lambda: make(folder), lambda: True, float(random.uniform(0.0, 1.2 * seconds)))
        now = _finished(folder)
        if gone := found - now:
            raise Lost(f"finished runs are gone: {', '.join(gone)}")
        found = now
    _finish(lambda: make(folder))
    _finish(lambda: _compare_sweeps(folder, state) if is_sweep else _compare_runs(folder, state))
    return "right"


def _has(folder: Path, wanted: int | str) -> bool:
    """Return whether a run has a file, or a sweep so many results, the one that is being saved included."""
    if isinstance(wanted, str):
        return (folder / wanted).exists()
    return len([*folder.glob("runs/*/run.npz"), *folder.glob("runs/.*.partial/result-*/run.npz")]) >= wanted


def _finished(folder: Path) -> set[str]:
    return {str(path) for path in [folder / "run.npz", *folder.glob("runs/[!.]*/run.npz")] if path.exists()}


def _compare_runs(folder: Path, state: State) -> None:
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        raise Lost(f"after the run was finished there is no {', '.join(missing)}")
    if numbers_of(opdop.Run.load(folder)) != numbers_of(opdop.Run.load(state.folder / "run")):
        raise Wrong("the run differs")


def _compare_sweeps(folder: Path, state: State) -> None:
    ours, theirs = Sweep.open(folder), Sweep.open(state.folder / "sweep")
    for read in (lambda sweep: sweep.table().drop("seconds"), lambda sweep: sweep.histories()):
        if frame_bytes(read(ours)) != frame_bytes(read(theirs)):
            raise Wrong("the sweep differs")

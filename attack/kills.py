"""Kill -9 at random moments, in the last second of a save too: nothing that was saved is lost, no bit changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import opdop
from attack.files import numbers_of
from attack.sandbox import Lost, Wrong
from opdop.sweeps import Sweep

RUN = ["run", "factored", "-k", "30000", "--seed", "5", "--out"]
SPEC = 'episodes = 3000\nseeds = 3\n[[problem]]\nname = "factored"\n'
_MOST_KILLS = 4


@dataclass(frozen=True)
class State:
    """Where runs are made, what must come out, and how long a run takes."""

    work: Path
    run: dict[str, bytes]
    sweep: bytes
    seconds: float


def prepare(folder: Path) -> State:
    """Make the run and the sweep that all others must equal."""
    (folder / "spec.toml").write_text(SPEC)
    began = time.monotonic()
    _finish([*RUN, str(folder / "run")])
    seconds = time.monotonic() - began
    _finish(["sweep", str(folder / "spec.toml"), "--out", str(folder / "sweep"), "--workers", "2"])
    truth = _table(folder / "sweep")
    return State(folder / "work", numbers_of(opdop.Run.load(folder / "run")), truth, seconds)


def _command(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "opdop", *words]


def _finish(words: list[str]) -> None:
    done = subprocess.run(_command(words), capture_output=True, text=True, check=False)
    if done.returncode or "Traceback" in done.stderr:
        raise AssertionError(f"opdop {words} ends with {done.returncode}: {done.stderr[-1500:]}")


def _table(folder: Path) -> bytes:
    return Sweep.open(folder).table().drop("seconds").write_json().encode()


def _killed(words: list[str], after: float, file: Path | None) -> None:
    """Start a command and kill all its processes after a time, or when a file appears."""
    process = subprocess.Popen(
        _command(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    end = time.monotonic() + (after if file is None else 60.0)
    while time.monotonic() < end and process.poll() is None and not (file is not None and file.exists()):
        time.sleep(0.0005)
    if file is not None:
        time.sleep(after / 1000.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def probe(state: State, case: int) -> str:
    """Kill a run or a sweep a few times, let it finish, and compare."""
    random = np.random.default_rng([7, case])
    shutil.rmtree(state.work, ignore_errors=True)
    state.work.mkdir(parents=True)
    folder = state.work / "out"
    if case % 3 == 2:
        (state.work / "spec.toml").write_text(SPEC)
        words = ["sweep", str(state.work / "spec.toml"), "--out", str(folder), "--workers", "2"]
    else:
        words = [*RUN, str(folder)]
    found = 0
    for kill in range(int(random.integers(1, _MOST_KILLS + 1))):
        at_save = case % 3 == 1 and kill == 0
        _killed(words, float(random.uniform(0.0, 1.5 * state.seconds)), folder / "run.npz" if at_save else None)
        if case % 3 == 2:
            now = len(list((folder / "runs").glob("[!.]*/run.npz"))) if (folder / "runs").exists() else 0
            if now < found:
                raise Lost(f"{found - now} finished runs are gone")
            found = now
        elif (folder / "checkpoint.npz").exists():
            words = ["run", "--resume", str(folder)]
    _finish(words)
    if case % 3 == 2:
        if _table(folder) != state.sweep:
            raise Wrong("the sweep differs")
        return "right"
    missing = [
        name
        for name in ("run.npz", "history.parquet", "summary.json", "figure.svg", "figure.png")
        if not (folder / name).exists()
    ]
    if missing:
        raise Lost(f"after the run was finished there is no {', '.join(missing)}")
    if numbers_of(opdop.Run.load(folder)) != state.run:
        raise Wrong("the run differs")
    return "right"

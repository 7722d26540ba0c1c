"""Faults of the disk while a run or a sweep is saved: the next start goes on, and the result is the same."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from attack.files import SPEC, TRAINING, numbers_of, table_bytes
from attack.sandbox import Lost, Wrong
from opdop.model import OpdopError
from opdop.runs import CHECKPOINT, read_config
from opdop.sweeps import Sweep

CALLS = ("fsync", "replace", "rename", "open", "mkdir", "write")


@dataclass(frozen=True)
class State:
    """Where runs are made, and what must come out."""

    work: Path
    truth: dict[str, bytes]
    table: bytes


def prepare(folder: Path) -> State:
    """Make the run and the sweep that all others must equal."""
    return State(
        folder / "work", numbers_of(opdop.train("factored", **TRAINING)), table_bytes(_make_sweep(folder / "sweep"))
    )


def _make_sweep(folder: Path, *, retry_failed: bool = False) -> Sweep:
    with ThreadPoolExecutor(1) as executor:
        spec = opdop.Spec.parse(SPEC)
        return opdop.sweep(spec, folder, executor=executor, workers=1, retry_failed=retry_failed)


@contextlib.contextmanager
def failing(name: str, after: int, code: int, below: Path) -> Iterator[None]:
    """Let a call of the operating system fail from the n-th time on, for files below a folder."""
    left = after
    owner: Any = builtins if name == "open" else os
    original: Callable[..., Any] = getattr(owner, name)

    def broken(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        target = arguments[0] if arguments else ""
        inside = not isinstance(target, (str, os.PathLike)) or str(target).startswith(str(below))
        writing = name != "open" or any(sign in str(arguments[1:2]) for sign in "wxa+")
        if inside and writing:
            left -= 1
            if left < 0:
                raise OSError(code, os.strerror(code))
        return original(*arguments, **options)

    setattr(owner, name, broken)
    try:
        yield
    finally:
        setattr(owner, name, original)


def probe(state: State, case: int) -> str:
    """Train with a checkpoint, or make a sweep, on a disk that breaks, then again on a whole one."""
    if case // len(CALLS) % 3 == 2:
        return _probe_sweep(state, case)
    random = np.random.default_rng([6, case])
    shutil.rmtree(state.work, ignore_errors=True)
    state.work.mkdir(parents=True)
    folder = state.work / "run"
    name = CALLS[case % len(CALLS)]
    code = (errno.ENOSPC, errno.EIO, errno.EROFS)[int(random.integers(3))]
    refused = False
    try:
        with failing(name, int(random.integers(12)), code, state.work):
            opdop.train("factored", **TRAINING, checkpoint=folder, checkpoint_seconds=0.0, piece=7).save(folder)
    except OpdopError:
        refused = True
    if (folder / CHECKPOINT).exists():
        try:
            read_config(folder)
        except OpdopError as error:
            raise Lost(f"{name} failed, and the checkpoint is damaged: {error}") from error
    again = opdop.train("factored", **TRAINING, checkpoint=folder)
    again.save(folder)
    if numbers_of(opdop.Run.load(folder)) != state.truth:
        raise Wrong(f"{name} failed, and the run made again differs")
    return "refused" if refused else "right"


def _probe_sweep(state: State, case: int) -> str:
    random = np.random.default_rng([6, case])
    shutil.rmtree(state.work, ignore_errors=True)
    state.work.mkdir(parents=True)
    folder, name, refused = state.work / "sweep", CALLS[case % len(CALLS)], False
    try:
        with failing(name, int(random.integers(30)), errno.ENOSPC, state.work):
            _make_sweep(folder)
    except OpdopError:
        refused = True
    if table_bytes(_make_sweep(folder, retry_failed=True)) != state.table:
        raise Wrong(f"{name} failed, and the sweep made again differs")
    return "refused" if refused else "right"

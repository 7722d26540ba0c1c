"""Sweeps for tests: short specs, the same runs made one by one, and `opdop sweep` as a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import opdop
from opdop import Run, Spec, Sweep
from opdop.runs import RunConfig
from opdop.runs.saved_run import arrays_of
from opdop.sweeps import key_of

ROOT = Path(__file__).parents[2]
SHORT = {"episodes": 300, "seeds": 2, "problem": ["factored", "queue"], "records": 20}
LONG = {"episodes": 400_000, "seeds": 3, "problem": "factored", "records": 20}  # each takes some tenths of a second
INFEASIBLE = {"name": "queue", "throughput": 11.9}


def made(job: RunConfig) -> Run:
    """Return the run of a job, made by `train`."""
    arguments = {name: value for name, value in job.record().items() if not name.startswith("problem")}
    return opdop.train(opdop.make(job.problem, **job.problem_parameters), **arguments)


def runs_of(spec: dict[str, Any]) -> dict[str, Run]:
    """Return the runs of a spec by key, made one by one without a sweep."""
    return {key_of(job): made(job) for job in Spec.of(spec).jobs()}


def key_for(spec: dict[str, Any], seed: int, problem: str = "factored") -> str:
    """Return the key of a spec's run on a problem with a seed."""
    return next(key_of(job) for job in Spec.of(spec).jobs() if (job.problem, job.seed) == (problem, seed))


def assert_same(one: Run, other: Run) -> None:
    """Assert that two runs have the same bits in everything but the time they took."""
    assert one.config == other.config
    assert json.dumps(dict(one.constants), default=str) == json.dumps(dict(other.constants), default=str)
    ours, theirs = arrays_of(one), arrays_of(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        assert array.tobytes() == theirs[name].tobytes(), name


def assert_complete(folder: Path, expected: dict[str, Run]) -> None:
    """Assert that the folder has every expected run, bit for bit, and nothing else."""
    found = {key_of(job): run for job, run in Sweep.open(folder).runs()}
    assert found.keys() == expected.keys()
    for key, run in found.items():
        assert_same(run, expected[key])
    assert {each.name for each in (folder / "runs").iterdir()} == expected.keys()
    assert Sweep.open(folder).failed == Sweep.open(folder).missing == ()


def threads() -> ThreadPoolExecutor:
    """An executor that needs no new process."""
    return ThreadPoolExecutor(2)


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until a condition is true, and return its value."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
    return found


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Command:
    """`opdop sweep` as a process of its own."""

    def __init__(self, folder: Path, spec: dict[str, Any], *options: str, **how: Any) -> None:
        self.spec = folder.parent / f"{folder.name}.toml"
        self.spec.write_text(Spec.of(spec).text)
        command = [sys.executable, "-m", "opdop", "sweep", str(self.spec), "--out", str(folder), *options]
        paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "80"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **how
        )

    def end(self, seconds: float = 120.0) -> tuple[int, str]:
        """Wait until it ends; return its status and everything that it printed."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out + err


@contextlib.contextmanager
def command(folder: Path, spec: dict[str, Any], *options: str, **how: Any) -> Iterator[Command]:
    """Start `opdop sweep`, and kill it at the end if it still runs."""
    started = Command(folder, spec, *options, **how)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.communicate()

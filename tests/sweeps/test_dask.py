"""Facts about sweeps on Dask, with a real scheduler and real workers on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opdop import InvalidParameterError, OpdopError
from opdop.sweeps import executors, run_sweep
from opdop.sweeps.store import Store
from tests.support.sweeps import LONG, ROOT, SHORT, assert_complete, command, runs_of, wait_until

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'opdop[dask]'")

DASK = Path(sys.executable).with_name("dask")


@contextlib.contextmanager
def process(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a `dask` command in a session of its own, and kill the whole session at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    with open(log, "wb") as output:
        started = subprocess.Popen(
            [DASK, *arguments], stdout=output, stderr=output, env=environment, start_new_session=True, cwd=log.parent
        )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a scheduler with one worker process, which a nanny replaces when it dies."""
    folder = tmp_path_factory.mktemp("dask")
    here = ("--no-dashboard", "--host", "127.0.0.1")
    with process(folder / "scheduler.log", "scheduler", *here, "--port", "0") as leader:

        def address() -> str | None:
            assert leader.poll() is None, (folder / "scheduler.log").read_text()
            words = (folder / "scheduler.log").read_text().split()
            return next((word for word in words if word.startswith("tcp://127.0.0.1:") and word[-1].isdigit()), None)

        found: str = wait_until(address)
        with process(folder / "worker.log", "worker", found, *here, "--nworkers", "1", "--nthreads", "1"):
            yield found


def test_dask_gives_the_same_bits(tmp_path: Path, scheduler: str) -> None:
    folder = tmp_path / "out"
    with command(folder, SHORT, "--scheduler", scheduler) as started:
        status, printed = started.end()
    assert status == 0, printed
    assert_complete(folder, runs_of(SHORT))
    assert "unlike processors" not in printed
    assert "4 of 4 runs are done" in printed


@pytest.mark.parametrize("kills", [1, pytest.param(11, marks=pytest.mark.slow)])
def test_killed_dask_workers_lose_no_run(tmp_path: Path, scheduler: str, kills: int) -> None:
    store, killed, over = Store(tmp_path), set[int](), threading.Event()

    def kill() -> None:
        while not over.is_set() and len(killed) < kills:
            for found in store.underway():
                if found.episode > 0 and found.pid not in killed and len(killed) < kills:
                    os.kill(found.pid, signal.SIGKILL)
                    killed.add(found.pid)
            time.sleep(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        run_sweep(LONG, tmp_path, scheduler=scheduler)
    finally:
        over.set()
        thread.join()
    assert len(killed) == kills
    assert_complete(tmp_path, runs_of(LONG))


def test_an_address_without_a_scheduler_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"there is no Dask scheduler at 'tcp://127.0.0.1:1'"):
        run_sweep(SHORT, tmp_path, scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    "address", ["garbage", "", "tcp://", "127.0.0.1", "tcp://127.0.0.1:99999", "a b:1", "x" * 999, 5]
)
def test_a_malformed_address_is_answered_at_once(tmp_path: Path, address: Any) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidParameterError, match="there is no Dask scheduler at"):
        run_sweep(SHORT, tmp_path, scheduler=address)
    assert time.monotonic() - began < 5.0


def test_a_missing_dask_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(executors, "_check_address", lambda _: None)
    with pytest.raises(OpdopError, match=r"pip install 'opdop\[dask\]'"):
        run_sweep(SHORT, tmp_path, scheduler="tcp://127.0.0.1:1")


def test_a_scheduler_has_workers_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="leave out workers"):
        run_sweep(SHORT, tmp_path, scheduler="tcp://127.0.0.1:1", workers=2)

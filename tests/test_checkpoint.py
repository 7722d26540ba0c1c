"""A run that is stopped in any way and started again ends with the same bits as one that was never stopped."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opdop import InvalidParameterError, ModelSimulator, OpdopError, Run, Task, make, train
from opdop.experiment import CHECKPOINT, DamagedFileError, Progress, files, interrupts, read_config
from opdop.experiment.files import read_arrays, write_arrays
from opdop.experiment.interrupts import Interrupts
from tests.crash_child import PLACES, SCENARIOS, Order, Unknown, reached
from tests.test_files import assert_same_run, seal

KIND = "an opdop checkpoint"
ROOT = Path(__file__).parents[1]


# Real processes


class Server:
    """The process that forks and kills others."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "crash_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.untouched: dict[str, Path] = {}

    def start(self, order: Order) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(order)) + "\n")
        self.process.stdin.flush()

    def is_busy(self) -> bool:
        return not select.select([self.process.stdout], [], [], 0.0)[0]

    def answer(self) -> list[int]:
        assert self.process.stdout is not None
        statuses: list[int] = json.loads(self.process.stdout.readline())
        return statuses

    def run(self, order: Order) -> int:
        """Run one process; return how it ended."""
        self.start(order)
        (status,) = self.answer()
        return status

    def complete(self, folder: Path, scenario: str) -> None:
        """Let a run come to its end."""
        status = self.run(Order(scenario, str(folder), checkpoint_seconds=1000.0))
        assert status == 0, (folder / "log0").read_text()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture
def untouched(server: Server, scenario: str, tmp_path_factory: Any) -> Path:
    """The folder of a run that was never stopped."""
    if scenario not in server.untouched:
        folder = tmp_path_factory.mktemp(scenario)
        server.complete(folder, scenario)
        server.untouched[scenario] = folder
    return server.untouched[scenario]


def episodes_of(scenario: str) -> int:
    return int(SCENARIOS[scenario]()["episodes"])


def saved_episode(folder: Path) -> int:
    return int(read_arrays(folder / "checkpoint" / CHECKPOINT, kind=KIND)[1]["recorder.episodes"])


def leftovers(folder: Path) -> int:
    return len(list((folder / "checkpoint").glob(".*.tmp")))


def assert_same_files(one: Path, two: Path) -> None:
    """Check that two folders hold the same run and the same checkpoint, bit for bit, but for the time it took."""
    for name, kind in (("run/run.npz", "an opdop run"), ("checkpoint/checkpoint.npz", KIND)):
        (meta, arrays), (other_meta, other_arrays) = (read_arrays(each / name, kind=kind) for each in (one, two))
        assert {**meta, "seconds": 0} == {**other_meta, "seconds": 0}
        assert list(arrays) == list(other_arrays)
        for key, array in arrays.items():
            assert array.dtype == other_arrays[key].dtype, key
            assert array.shape == other_arrays[key].shape, key
            assert array.tobytes() == other_arrays[key].tobytes(), key


every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


def kill_often(server: Server, scenario: str, folder: Path, kills: int, seed: int) -> None:
    """Kill a run at random episodes of its life, and at a random moment of each; then let it end."""
    rng = np.random.default_rng(seed)
    wanted = np.sort(rng.integers(0, int(0.97 * episodes_of(scenario)), kills))
    for episode in wanted:
        order = Order(scenario, str(folder), signal=9, episode=int(episode), delay=rng.uniform(0.0, 0.015))
        assert server.run(order) == -9, (folder / "log0").read_text()
    assert not (folder / "run").exists()
    server.complete(folder, scenario)


@every_scenario
def test_a_run_killed_20_times_ends_as_if_nothing_had_happened(
    server: Server, scenario: str, untouched: Path, tmp_path: Path
) -> None:
    kill_often(server, scenario, tmp_path, 20, seed=1)
    assert_same_files(tmp_path, untouched)
    assert leftovers(tmp_path) >= 2  # that many kills fell into the writing of a checkpoint


@pytest.mark.slow
@every_scenario
def test_a_run_killed_200_times_ends_as_if_nothing_had_happened(
    server: Server, scenario: str, untouched: Path, tmp_path: Path
) -> None:
    for seed in (2, 3):
        kill_often(server, scenario, tmp_path / str(seed), 100, seed)
        assert_same_files(tmp_path / str(seed), untouched)


@pytest.mark.parametrize("scenario", ["noisy_lists"])
def test_a_run_killed_in_every_step_of_a_save_ends_as_if_nothing_had_happened(
    server: Server, scenario: str, untouched: Path, tmp_path: Path
) -> None:
    for place in PLACES:
        for after in (False, True):
            for call in (1, 40):
                order = Order(scenario, str(tmp_path), die_in=place, die_after=after, die_at_call=call)
                assert server.run(order) == -9, (tmp_path / "log0").read_text()
    assert leftovers(tmp_path) >= 8
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -2), (signal.SIGTERM, 143)])
@every_scenario
def test_an_interrupted_run_loses_nothing(
    server: Server, scenario: str, untouched: Path, tmp_path: Path, number: int, status: int
) -> None:
    rng = np.random.default_rng(number)
    before = 0
    for episode in np.sort(rng.integers(1, int(0.9 * episodes_of(scenario)), 6)):
        # Only the interrupt saves: all that was played is in its checkpoint.
        order = Order(scenario, str(tmp_path), 0, 1000.0, 1, number, int(episode), rng.uniform(0.0, 0.01))
        assert server.run(order) == status, (tmp_path / "log0").read_text()
        assert before <= saved_episode(tmp_path) == reached(tmp_path) >= episode
        before = saved_episode(tmp_path)
    assert leftovers(tmp_path) == 0
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


@pytest.mark.parametrize("scenario", ["doubling"])
def test_interrupts_into_saves_lose_nothing(server: Server, scenario: str, untouched: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for n, episode in enumerate(np.sort(rng.integers(1, int(0.9 * episodes_of(scenario)), 10))):
        number, status = ((signal.SIGINT, -2), (signal.SIGTERM, 143))[n % 2]
        order = Order(scenario, str(tmp_path), 0, 0.0, 1, number, int(episode), rng.uniform(0.0, 0.01))
        assert server.run(order) == status, (tmp_path / "log0").read_text()
        assert saved_episode(tmp_path) == reached(tmp_path)
    assert leftovers(tmp_path) == 0
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


@pytest.mark.parametrize("scenario", ["doubling"])
def test_a_finished_run_is_found_finished(server: Server, scenario: str, untouched: Path) -> None:
    (untouched / "run" / "run.npz").rename(untouched / "first.npz")
    server.complete(untouched, scenario)
    assert reached(untouched) == 0  # nothing was played
    kind = "an opdop run"
    first, again = (read_arrays(untouched / name, kind=kind)[1] for name in ("first.npz", "run/run.npz"))
    assert {k: v.tobytes() for k, v in first.items()} == {k: v.tobytes() for k, v in again.items()}


@pytest.mark.parametrize("scenario", ["noisy_lists"])
def test_processes_in_one_folder_do_each_other_no_harm(
    server: Server, scenario: str, untouched: Path, tmp_path: Path
) -> None:
    """Two with the same arguments; all the while every file is whole."""
    server.start(Order(scenario, str(tmp_path), processes=2))
    reads = 0
    while server.is_busy():
        if (tmp_path / "checkpoint" / CHECKPOINT).exists():
            read_arrays(tmp_path / "checkpoint" / CHECKPOINT, kind=KIND)
            reads += 1
    assert server.answer() == [0, 0], (tmp_path / "log0").read_text() + (tmp_path / "log1").read_text()
    assert reads > 10
    assert leftovers(tmp_path) == 0
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


def test_different_runs_in_one_folder_leave_one_of_the_two(server: Server, tmp_path: Path) -> None:
    server.start(Order("doubling", str(tmp_path), processes=2, other_seeds=True))
    statuses = server.answer()
    assert 0 in statuses
    config = read_config(tmp_path / "checkpoint")
    assert config["seed"] in {0, 1}
    if statuses != [0, 0]:  # one of them started after the other's first save
        assert "is of another run: its seed is" in (tmp_path / f"log{statuses.index(1)}").read_text()
    assert leftovers(tmp_path) == 0


@pytest.mark.slow
def test_a_process_killed_20_times_from_its_start_ends_as_if_nothing_had_happened(
    server: Server, tmp_path: Path
) -> None:
    """From the shell, so that kills fall into the imports, too."""
    server.complete(tmp_path / "untouched", "doubling")
    folder = tmp_path / "killed"
    command = [sys.executable, str(ROOT / "tests" / "crash_child.py"), "doubling", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    rng = np.random.default_rng(9)
    ends = []
    for n in range(20):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        number = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[n % 3]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.0, 4.0))
        process.send_signal(number)
        ends.append(process.wait(60))
    assert set(ends) <= {-9, -2, 143, -15, 0, 1}  # 1: a KeyboardInterrupt inside an import that wraps it
    subprocess.run(command, env=environment, check=True)
    assert_same_files(folder, tmp_path / "untouched")


# Signals, one by one


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Every signal is handled after a test as it was before."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


EPISODES = 60


def play(folder: Path | None = None, **changes: Any) -> Run:
    arguments: dict[str, Any] = {"problem": "factored", "episodes": EPISODES, "piece": 7, "records": 20}
    return train(**{**arguments, **changes}, checkpoint=folder)


def stop_at(episode: int, number: int = signal.SIGINT) -> Callable[[Progress], None]:
    def progress(now: Progress) -> None:
        if now.episode >= episode:
            signal.raise_signal(number)

    return progress


@pytest.fixture(scope="module")
def whole() -> Run:
    return play()


def stopped(folder: Path, episode: int = 21, **changes: Any) -> Path:
    """Leave a checkpoint of a run on its way; return where."""
    with pytest.raises(KeyboardInterrupt):
        play(folder, progress=stop_at(episode), **changes)
    return folder / CHECKPOINT


def assert_same_end(one: Run, two: Run) -> None:
    object.__setattr__(one, "seconds", two.seconds)
    assert_same_run(one, two)


@pytest.mark.parametrize("episode", [1, 7, 8, 35, EPISODES])
def test_a_signal_at_any_piece_saves_that_piece(tmp_path: Path, whole: Run, episode: int) -> None:
    path = stopped(tmp_path, episode)
    expected = min(-(-episode // 7) * 7, EPISODES)
    assert int(read_arrays(path, kind=KIND)[1]["recorder.episodes"]) == expected
    assert_same_end(play(tmp_path), whole)


@pytest.mark.parametrize("save", [1, 2, 3, 4])
def test_a_signal_in_a_save_waits_for_its_end(
    tmp_path: Path, whole: Run, monkeypatch: pytest.MonkeyPatch, save: int
) -> None:
    """Saves 1 to 4 are at episodes 0, 40, 60 and at the end."""
    original, calls = os.replace, []

    def replace(*args: Any) -> None:
        calls.append(args)
        if len(calls) == save:
            signal.raise_signal(signal.SIGINT)
        original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path, piece=40, checkpoint_seconds=0.0)
    episodes = int(read_arrays(tmp_path / CHECKPOINT, kind=KIND)[1]["recorder.episodes"])
    assert episodes == (40 if save <= 2 else 60)
    assert_same_end(play(tmp_path), whole)


def test_sigterm_ends_with_status_143_even_without_a_folder() -> None:
    with pytest.raises(SystemExit) as caught:
        play(progress=stop_at(7, signal.SIGTERM))
    assert caught.value.code == 143


def test_the_first_of_two_signals_counts_and_the_next_ones_wait(tmp_path: Path) -> None:
    def both(now: Progress) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, progress=both)
    assert int(read_arrays(tmp_path / CHECKPOINT, kind=KIND)[1]["recorder.episodes"]) == 7


def test_who_insists_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE", 0.02)
    with pytest.raises(KeyboardInterrupt), Interrupts() as waiting:
        signal.raise_signal(signal.SIGINT)
        assert waiting.pending == signal.SIGINT
        signal.raise_signal(signal.SIGINT)  # too soon
        time.sleep(0.03)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("a simulator that hangs could not be left")


def test_a_signal_is_answered_when_the_block_is_left() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(ValueError, match="first"), Interrupts():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("this comes first")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a job in the background
    try:
        assert play(progress=stop_at(7)).episodes[-1] == EPISODES
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone(whole: Run) -> None:
    found: list[Run] = []
    thread = threading.Thread(target=lambda: found.append(play()))
    thread.start()
    thread.join()
    assert_same_end(found[0], whole)


# Saving that fails


def full(*args: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_ends_the_run_and_keeps_the_last_checkpoint(
    tmp_path: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stopped(tmp_path).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OpdopError, match=r"checkpoint\.npz cannot be written: No space left on device"):
            play(tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert os.listdir(tmp_path) == [CHECKPOINT]
    assert_same_end(play(tmp_path), whole)


def test_a_folder_that_cannot_be_written_is_noticed_before_the_first_episode(tmp_path: Path) -> None:
    def no_episode(now: Progress) -> None:
        raise AssertionError("an episode was played")

    (tmp_path / "file").write_text("")
    with pytest.raises(OpdopError, match=r"checkpoint\.npz cannot be written: Not a directory"):
        play(tmp_path / "file" / "folder", progress=no_episode)
    with pytest.raises(InvalidParameterError, match="cannot be checkpointed"):
        cmdp = make("factored")
        unable = Unknown(ModelSimulator(cmdp))
        unable.state = None  # type: ignore[method-assign,assignment]
        del Unknown.state
        try:
            play(tmp_path, problem=unable, task=Task.of(cmdp, episodes=60), progress=no_episode)
        finally:
            pass


def test_the_first_save_already_says_how_the_run_was_started(tmp_path: Path) -> None:
    seen = []

    def look(now: Progress) -> None:
        seen.append(read_config(tmp_path))

    play(tmp_path, progress=look, piece=EPISODES, seed=5)
    assert (seen[0]["seed"], seen[0]["problem"], seen[0]["episodes"]) == (5, "factored", EPISODES)

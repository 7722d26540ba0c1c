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
from opdop.model.features import one_hot
from opdop.runs import CHECKPOINT, DamagedFileError, Progress, RunConfig, interrupts, read_config
from opdop.runs.checkpoint import KIND
from opdop.runs.files import read_arrays, write_arrays
from opdop.runs.interrupts import Interrupts
from opdop.runs.saved_run import KIND as RUN_KIND
from tests.support.crash_child import PLACES, SCENARIOS, Order, Unknown, reached
from tests.support.same_runs import assert_same_run
from tests.support.sealed_files import seal

ROOT = Path(__file__).parents[2]


# Real processes


class Server:
    """The process that forks and kills others."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "support" / "crash_child.py")],
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
        assert self.process.stdout is not None
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
        self.process.communicate(timeout=60)


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
    for name, kind in (("run/run.npz", RUN_KIND), ("checkpoint/checkpoint.npz", KIND)):
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


# Interrupts come up to 10 ms after an episode, and more on a busy machine: enough episodes must be left then, in %.
LAST_INTERRUPTED = 50


def interrupt(scenario: str, folder: Path, number: int, episode: int, delay: float, *, save_every: float) -> Order:
    return Order(scenario, str(folder), signal=number, episode=episode, delay=delay, checkpoint_seconds=save_every)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -2), (signal.SIGTERM, 143)])
@every_scenario
def test_an_interrupted_run_loses_nothing(
    server: Server, scenario: str, untouched: Path, tmp_path: Path, number: int, status: int
) -> None:
    rng = np.random.default_rng(number)
    before = 0
    for episode in np.sort(rng.integers(1, LAST_INTERRUPTED * episodes_of(scenario) // 100, 5)):
        # Only the interrupt saves: all that was played is in its checkpoint.
        order = interrupt(scenario, tmp_path, number, int(episode), rng.uniform(0.0, 0.01), save_every=1000.0)
        assert server.run(order) == status, (tmp_path / "log0").read_text()
        assert before <= saved_episode(tmp_path) == reached(tmp_path) >= episode
        before = saved_episode(tmp_path)
    assert leftovers(tmp_path) == 0
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


@pytest.mark.parametrize("scenario", ["doubling"])
def test_interrupts_into_saves_lose_nothing(server: Server, scenario: str, untouched: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for n, episode in enumerate(np.sort(rng.integers(1, LAST_INTERRUPTED * episodes_of(scenario) // 100, 6))):
        number, status = ((signal.SIGINT, -2), (signal.SIGTERM, 143))[n % 2]
        order = interrupt(scenario, tmp_path, number, int(episode), rng.uniform(0.0, 0.01), save_every=0.0)
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
    kind = RUN_KIND
    first, again = (read_arrays(untouched / name, kind=kind)[1] for name in ("first.npz", "run/run.npz"))
    assert {k: v.tobytes() for k, v in first.items()} == {k: v.tobytes() for k, v in again.items()}


@pytest.mark.parametrize("scenario", ["noisy_lists"])
def test_processes_that_share_a_folder_do_not_damage_its_files(
    server: Server, scenario: str, untouched: Path, tmp_path: Path
) -> None:
    """Two with the same arguments, of which one may be refused; all the while every file is whole."""
    server.start(Order(scenario, str(tmp_path), processes=2))
    reads = 0
    while server.is_busy():
        if (tmp_path / "checkpoint" / CHECKPOINT).exists():
            read_arrays(tmp_path / "checkpoint" / CHECKPOINT, kind=KIND)
            reads += 1
    statuses = server.answer()
    assert 0 in statuses, (tmp_path / "log0").read_text() + (tmp_path / "log1").read_text()
    if statuses != [0, 0]:  # they overlapped
        assert "is in use: another process" in (tmp_path / f"log{statuses.index(1)}").read_text()
    assert reads > 10
    assert leftovers(tmp_path) == 0
    server.complete(tmp_path, scenario)
    assert_same_files(tmp_path, untouched)


def test_different_runs_in_one_folder_leave_one_of_the_two(server: Server, tmp_path: Path) -> None:
    server.start(Order("doubling", str(tmp_path), processes=2, other_seeds=True))
    statuses = server.answer()
    assert 0 in statuses
    config = read_config(tmp_path / "checkpoint")
    assert config.seed in {0, 1}
    assert sorted(statuses) == [0, 1]
    said = (tmp_path / f"log{statuses.index(1)}").read_text()
    assert "is in use: another process" in said or "is of another run: its seed is" in said
    assert leftovers(tmp_path) == 0


@pytest.mark.slow
def test_a_process_killed_20_times_from_its_start_ends_as_if_nothing_had_happened(
    server: Server, tmp_path: Path
) -> None:
    """From the shell, so that kills fall into the imports, too."""
    server.complete(tmp_path / "untouched", "doubling")
    folder = tmp_path / "killed"
    command = [sys.executable, str(ROOT / "tests" / "support" / "crash_child.py"), "doubling", str(folder)]
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


USUAL: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@pytest.fixture(autouse=True, scope="module")
def terminal() -> Iterator[None]:
    """Signals are handled as in a terminal, even if the tests run in the background."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Signals are handled after a test as before it."""
    yield
    assert {number: signal.getsignal(number) for number in USUAL} == USUAL


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
    assert episodes == {1: 40, 2: 40, 3: 60, 4: 60}[save]
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


def test_a_second_signal_after_a_while_takes_effect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE", 0.02)

    def hang() -> None:
        with Interrupts() as waiting:
            signal.raise_signal(signal.SIGINT)
            assert waiting.pending == signal.SIGINT
            signal.raise_signal(signal.SIGINT)  # too soon
            time.sleep(0.03)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("a simulator that hangs could not be left")

    with pytest.raises(KeyboardInterrupt):
        hang()


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)])
def test_two_signals_always_end_what_hangs(numbers: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon the second follows the first; margin: ten seconds, where it takes a fifth of one."""
    monkeypatch.setattr(interrupts, "_PATIENCE", 0.1)
    began = time.monotonic()

    def hang() -> None:
        with Interrupts():
            for number in numbers:
                signal.raise_signal(number)
            time.sleep(10.0)

    with pytest.raises(KeyboardInterrupt):
        hang()
    assert time.monotonic() - began < 10.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_does_not_outlive_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_PATIENCE", 0.1)

    def leave() -> None:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        leave()
    time.sleep(0.4)  # a KeyboardInterrupt here would fail the test


def test_a_signal_is_answered_when_the_block_is_left() -> None:
    def fail() -> None:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("this comes first")

    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(ValueError, match="first"):
        fail()


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
    with pytest.raises(OpdopError, match=r"folder cannot be written: Not a directory"):
        play(tmp_path / "file" / "folder", progress=no_episode)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("arguments", [{"checkpoint_seconds": np.nan}, {"checkpoint_seconds": -1}, {"records": 10**12}])
def test_arguments_that_cannot_be_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(arguments))):
        play(tmp_path, **arguments)


def test_the_first_save_already_says_how_the_run_was_started(tmp_path: Path) -> None:
    seen = []

    def look(now: Progress) -> None:
        seen.append(read_config(tmp_path))

    play(tmp_path, progress=look, piece=EPISODES, seed=5)
    assert (seen[0].seed, seen[0].problem, seen[0].episodes) == (5, "factored", EPISODES)


def test_a_checkpoint_comes_before_the_run_to_go_on_from(tmp_path: Path, whole: Run) -> None:
    """Called again with the same arguments, a run that goes on from another does not start over."""
    half = play(episodes=28, planned_episodes=EPISODES)
    rest = {"start": half, "episodes": EPISODES - 28, "planned_episodes": EPISODES}
    stopped(tmp_path, 42, **rest)
    played = []
    end = play(tmp_path, **rest, progress=lambda now: played.append(now.episode))
    assert played == [49, 56, 60]
    assert_same_end(end, whole)


def test_episodes_past_the_plan_are_resumed_too(tmp_path: Path) -> None:
    """Each of them enters the history, so the file is larger than the plan lets one think."""
    more: dict[str, Any] = {"episodes": 900, "planned_episodes": 10, "piece": 100}
    stopped(tmp_path, 700, **more)
    assert_same_end(play(tmp_path, **more), play(**more))


# Somebody else's checkpoint


def simulated(**changes: Any) -> dict[str, Any]:
    cmdp = make("factored")
    task = {"thresholds": cmdp.thresholds, "initial": cmdp.initial, "episodes": EPISODES, "slater_gap": 1.0, **changes}
    return {"problem": Unknown(ModelSimulator(cmdp, seed=3)), "task": Task(6, 3, 2, **task)}


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "another problem": ("problem", {"problem": "queue"}),
    "another model under the same name": ("problem_parameters", {"problem": make("factored", moves=2.5)}),
    "another seed": ("seed", {"seed": 1}),
    "another preset": ("preset", {"preset": "paper"}),
    "another parameter": ("parameters", {"parameters": {"step_scale": 2.0}}),
    "another algorithm": ("algorithm", {"algorithm": "oppo"}),
    "another plan": ("planned_episodes", {"episodes": EPISODES + 1}),
    "another failure_probability": ("failure_probability", {"failure_probability": 0.1}),
    "another gap": ("slater_gap", {"slater_gap": 0.1}),
    "another bound": ("dual_bound", {"dual_bound": 3.0}),
    "noise": ("noisy", {"noisy": True}),
    "doubling": ("algorithm", {"algorithm": "doubling:opdop"}),
    "fewer measurements": ("measure_every", {"measure_every": 2}),
    "other records": ("records", {"records": 21}),
    "other features": ("model", {"problem": make("factored").with_features(one_hot(3, 2))}),
    "no model": ("problem", simulated()),
}


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: Any) -> Path:
    return stopped(tmp_path_factory.mktemp("halfway"))


@pytest.mark.parametrize("what", OTHERS)
def test_the_checkpoint_of_another_run_names_the_first_difference(halfway: Path, what: str) -> None:
    name, changes = OTHERS[what]
    before = halfway.read_bytes()
    with pytest.raises(
        InvalidParameterError, match=rf"checkpoint\.npz is of another run: its {name} is .*and now"
    ) as it:
        play(halfway.parent, **changes)
    assert "another folder" in str(it.value)
    assert halfway.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"features": one_hot(3, 2)},
        {"thresholds": [0.5]},
        {"initial": [0.5, 0.5, 0.0]},
        {"failure_probability": 0.2},
        {"noisy": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_checkpoint_of_another_task_names_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    stopped(tmp_path, **simulated())
    name = next(iter(changes))
    expected = {
        "features": "its initial is",
        "thresholds": r"its constraints are 'utility 0 >= [\d.]+', and now",
    }
    with pytest.raises(InvalidParameterError, match=f"is of another run: {expected.get(name, f'its {name} is')}"):
        play(tmp_path, **simulated(**changes))
    play(tmp_path, **simulated())


def test_a_checkpoint_does_not_care_how_numbers_were_written(tmp_path: Path) -> None:
    stopped(tmp_path, parameters={"step_scale": 2}, seed=np.int64(3), failure_probability=np.float64(0.1))
    play(tmp_path, parameters={"step_scale": np.float64(2.0)}, seed=3, failure_probability=0.1)


# Checkpoints that are damaged, or made to do harm


def resume_refused(path: Path, **arguments: Any) -> str:
    """Check that a checkpoint gives the one clear error; return what it says."""
    before = path.read_bytes()
    with pytest.raises(DamagedFileError) as caught:
        play(path.parent, **arguments)
    message = str(caught.value)
    assert str(path) in message
    assert "delete it and run again" in message
    assert path.read_bytes() == before
    return message


def test_a_damaged_checkpoint_is_refused_until_it_is_deleted(tmp_path: Path, halfway: Path, whole: Run) -> None:
    path = tmp_path / CHECKPOINT
    content = bytearray(halfway.read_bytes())
    for place in np.random.default_rng(0).integers(0, len(content), 40):
        content[place] ^= 1
        path.write_bytes(content)
        assert "checksum" in resume_refused(path) or place >= len(content) - 85
        content[place] ^= 1
    for length in range(0, len(content), 499):
        path.write_bytes(content[:length])
        resume_refused(path)
    with pytest.raises(DamagedFileError, match="cannot be used as an opdop checkpoint"):
        read_config(tmp_path)
    path.unlink()
    assert_same_end(play(tmp_path), whole)


def test_a_run_is_no_checkpoint(tmp_path: Path, whole: Run) -> None:
    whole.save(tmp_path)
    (tmp_path / "run.npz").rename(tmp_path / CHECKPOINT)
    assert "it is not an opdop checkpoint" in resume_refused(tmp_path / CHECKPOINT)


MODELS: dict[str, dict[str, Any]] = {
    "table": {"stationary": False},
    "pooled": {},
    "doubling": {"algorithm": "doubling:opdop"},
    "lists": {"problem": make("random-tabular", states=40, successors=3, stationary=True)},
    "features": {"problem": make("random-mixture", states=6, stages=3), "algorithm": "opdop-lstd"},
    "simulator": simulated(),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: Any) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What is in the checkpoint of each kind of run."""
    return {
        name: read_arrays(stopped(tmp_path_factory.mktemp(name), **arguments), kind=KIND)
        for name, arguments in MODELS.items()
    }


def with_value(array: Any, value: float, place: int = 0) -> Any:
    new = np.array(array)
    new.ravel()[place] = value
    return new


Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def put(name: str, change: Callable[[Any], Any]) -> Change:
    return lambda meta, arrays: arrays.update({name: change(arrays[name])})


def twice(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """One transition is there twice, and all sums are right."""
    learner = "learner.evaluator."
    seen = arrays[f"{learner}seen"]
    place = int(np.argmax(seen))
    assert seen[place] >= 2
    for name in ("row", "successor", "seen"):
        arrays[learner + name] = np.insert(arrays[learner + name], place, arrays[learner + name][place])
    arrays[f"{learner}seen"][place] = 1
    arrays[f"{learner}seen"][place + 1] -= 1


def more_visits(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """One visit more at one stage, in the transitions and in the counts."""
    learner = "learner.evaluator."
    arrays[f"{learner}seen"][0] += 1
    arrays[f"{learner}number"].ravel()[arrays[f"{learner}row"][0]] += 1


def many_successors(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """A list with more successors than there are states, into which a kernel would write beyond its end."""
    learner = "learner.evaluator."
    row, rest = arrays[f"{learner}row"][0], arrays[f"{learner}row"] != arrays[f"{learner}row"][0]
    number = int(arrays[f"{learner}number"].ravel()[row])
    for name, value in (("row", row), ("successor", 0), ("seen", 1)):
        kept = arrays[learner + name][rest]
        arrays[learner + name] = np.concatenate([np.full(number, value, dtype=kept.dtype), kept])


LEARNER = "learner.evaluator."
CHANGES: dict[str, tuple[str, Change]] = {
    "a policy of NaN": ("table", put("learner.policy", lambda a: with_value(a, np.nan))),
    "a played policy of NaN": ("table", put("policy", lambda a: with_value(a, np.nan))),
    "a policy that is none": ("table", put("learner.policy", lambda a: a * 2)),
    "a played policy that is none": ("table", put("policy", lambda a: a * 2)),
    "a negative policy": ("table", put("learner.policy", lambda a: a * [-1.0, 1.0])),
    "multipliers out of range": ("table", put("learner.dual", lambda a: a + 1e9)),
    "multipliers of NaN": ("table", put("learner.dual", lambda a: a * np.nan)),
    "an occupancy of infinity": ("table", put("occupancy", lambda a: a + np.inf)),
    "values of NaN": ("table", put(f"{LEARNER}q", lambda a: with_value(a, np.nan))),
    "a successor out of range": ("lists", put(f"{LEARNER}successor", lambda a: with_value(a, 40))),
    "a successor far out of range": ("lists", put(f"{LEARNER}successor", lambda a: with_value(a, 2**31 - 1))),
    "a negative successor": ("lists", put(f"{LEARNER}successor", lambda a: with_value(a, -1))),
    "a row out of range": ("lists", put(f"{LEARNER}row", lambda a: with_value(a, 2**62, -1))),
    "a negative row": ("lists", put(f"{LEARNER}row", lambda a: with_value(a, -1))),
    "rows out of order": ("lists", put(f"{LEARNER}row", lambda a: a[::-1])),
    "transitions fewer than visits": ("lists", put(f"{LEARNER}seen", lambda a: with_value(a, a[0] + 1))),
    "a transition seen never": ("lists", put(f"{LEARNER}seen", lambda a: with_value(a, 0))),
    "a transition seen less than never": ("lists", put(f"{LEARNER}seen", lambda a: with_value(a, -(2**31)))),
    "a transition twice in a table": ("table", twice),
    "a transition twice in lists": ("lists", twice),
    "a list that is too long": ("lists", many_successors),
    "stages with more visits than others": ("table", more_visits),
    "a part of an episode": ("pooled", more_visits),
    "a visited state said not to be": ("table", put(f"{LEARNER}touched", np.logical_not)),
    "visits of NaN": ("table", put(f"{LEARNER}number", lambda a: a * np.nan)),
    "a Gram matrix that is none": ("features", put(f"{LEARNER}gram", np.negative)),
    "information below 0": ("features", put(f"{LEARNER}information", lambda a: a - 1e3)),
    "other episodes in the history": ("table", put("recorder.episodes", lambda a: a + 1)),
    "negative episodes": (
        "simulator",
        lambda meta, arrays: arrays.update({k: v * 0 - 5 for k, v in arrays.items() if k.endswith("episodes")}),
    ),
    "a history of fewer columns": ("table", put("recorder.rows", lambda a: a[:, :-1])),
    "a history of one axis": ("table", put("recorder.rows", np.ravel)),
    "a phase out of range": ("doubling", put("learner.phase", lambda a: a + 40)),
    "a phase beyond all plans": (
        "doubling",
        lambda meta, arrays: arrays.update({"learner.phase": np.array(25)}),
    ),
    "a negative phase": ("doubling", put("learner.phase", lambda a: a - 1)),
    "phases that do not add up": (
        "doubling",
        lambda meta, arrays: arrays.update({k: arrays[k] + 1 for k in ("learner.played", "recorder.episodes")}),
    ),
    "a sample of NaN": ("simulator", put("reservoir", lambda a: with_value(a, np.nan))),
    "a sample of no policies": ("simulator", put("reservoir", lambda a: a * 2)),
    "a sample too small": ("simulator", put("reservoir", lambda a: a[1:])),
    "a sample of another size": ("simulator", put("reservoir", lambda a: a[:, 1:])),
    "a list for the arguments": ("table", lambda meta, arrays: meta.update(config=[])),
    "seconds of NaN": ("table", lambda meta, arrays: meta.update(seconds=float("nan"))),
    "seconds that are none": ("table", lambda meta, arrays: meta.update(seconds="1")),
    "seconds below 0": ("table", lambda meta, arrays: meta.update(seconds=-1)),
    "seconds of yes": ("table", lambda meta, arrays: meta.update(seconds=True)),
    "random numbers that are none": ("table", lambda meta, arrays: meta.update(simulator=[1])),
    "other random numbers": ("table", lambda meta, arrays: meta["simulator"].update(bit_generator="MT19937")),
    "random numbers out of range": ("table", lambda meta, arrays: meta["simulator"]["state"].update(state=2**300)),
    "negative random numbers": ("table", lambda meta, arrays: meta["simulator"]["state"].update(state=-1)),
    "random numbers of text": ("table", lambda meta, arrays: meta["simulator"]["state"].update(state="1")),
    "a sample's random numbers": ("table", lambda meta, arrays: meta.update(reservoir_stream={})),
    "a simulator's random numbers": ("simulator", lambda meta, arrays: meta.update(simulator=None)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_files_with_a_right_checksum_and_impossible_contents_are_refused(
    contents: Any, tmp_path: Path, what: str
) -> None:
    model, change = CHANGES[what]
    meta, arrays = (json.loads(json.dumps(contents[model][0])), {k: v.copy() for k, v in contents[model][1].items()})
    write_arrays(tmp_path / CHECKPOINT, meta, arrays)
    change(meta, arrays)
    write_arrays(tmp_path / CHECKPOINT, meta, arrays)
    resume_refused(tmp_path / CHECKPOINT, **MODELS[model])


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("model", MODELS)
def test_every_part_of_a_checkpoint_is_needed_in_its_form(contents: Any, tmp_path: Path, model: str) -> None:
    meta, arrays = contents[model]
    path = tmp_path / CHECKPOINT
    for name in arrays:
        write_arrays(path, meta, {key: array for key, array in arrays.items() if key != name})
        resume_refused(path, **MODELS[model])
        other = arrays[name].astype(np.float32 if arrays[name].dtype == np.float64 else np.float64)
        for changed in (other, arrays[name][None], arrays[name].astype(complex)):
            write_arrays(path, meta, {**arrays, name: changed})
            resume_refused(path, **MODELS[model])
    for name in meta:
        if name not in {"config", "episodes"}:
            write_arrays(path, {key: value for key, value in meta.items() if key != name}, arrays)
            resume_refused(path, **MODELS[model])


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.usefixtures("quick_disk")
def test_random_changes_with_the_right_checksum_end_or_give_the_one_error(
    data: st.DataObject, contents: Any, tmp_path: Path, model: str
) -> None:
    """A forged number that could be right is used; every other one is refused with an error."""
    path = tmp_path / CHECKPOINT
    write_arrays(path, *contents[model])
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place, length = data.draw(st.integers(0, len(content) - 200)), data.draw(st.sampled_from([1, 1, 2, 8]))
        content[place : place + length] = data.draw(st.binary(min_size=length, max_size=length))
    seal(path, bytes(content))
    with contextlib.suppress(DamagedFileError, InvalidParameterError):
        play(tmp_path, **MODELS[model])


@pytest.mark.parametrize("model", ["table", "simulator"])
def test_the_arguments_in_a_checkpoint_are_of_their_kinds(contents: Any, tmp_path: Path, model: str) -> None:
    meta, arrays = contents[model]
    write_arrays(tmp_path / CHECKPOINT, meta, arrays)
    assert read_config(tmp_path) == RunConfig.of({**meta["config"], "episodes": EPISODES})
    for name in meta["config"]:
        wrong = {**meta, "config": {**meta["config"], name: [1]}}
        write_arrays(tmp_path / CHECKPOINT, wrong, arrays)
        with pytest.raises(DamagedFileError, match=rf"cannot be used as .*: {name} is \[1\].*run again"):
            read_config(tmp_path)
    nothing: list[Any] = [[1], None, {}]
    for config in nothing:
        write_arrays(tmp_path / CHECKPOINT, {**meta, "config": config}, arrays)
        with pytest.raises(DamagedFileError, match="cannot be used as"):
            read_config(tmp_path)


def test_errors_do_not_repeat_long_texts_and_control_characters_of_a_file(tmp_path: Path, contents: Any) -> None:
    meta, arrays = contents["table"]
    write_arrays(tmp_path / CHECKPOINT, {**meta, "config": {**meta["config"], "seed": "\x1b[31m" * 10_000}}, arrays)
    with pytest.raises(DamagedFileError) as caught:
        play(tmp_path)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert str(caught.value).isprintable()


def test_a_simulator_that_refuses_its_state_gives_the_one_error(tmp_path: Path) -> None:
    class Picky(Unknown):
        def restore(self, state: Any) -> None:
            raise LookupError("never seen that state")

    arguments = simulated()
    arguments["problem"] = Picky(ModelSimulator(make("factored"), seed=3))
    assert "never seen that state" in resume_refused(stopped(tmp_path, **arguments), **arguments)

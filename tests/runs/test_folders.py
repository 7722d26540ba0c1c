"""Facts about folders of runs: one owner at a time, no other run is replaced, and histories stay bounded."""

import multiprocessing
import threading
from pathlib import Path

import numpy as np
import pytest

import opdop
from opdop.model import InvalidParameterError, OpdopError
from opdop.runs import Progress
from opdop.runs.files import owned
from opdop.runs.recorder import Recorder
from tests.support.same_runs import assert_same_run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _own(folder: Path, ready: threading.Event, done: threading.Event) -> None:
    with owned(folder):
        ready.set()
        done.wait(60.0)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_folder_in_use_is_refused_and_free_again_afterwards(tmp_path: Path, kind: str) -> None:
    context = multiprocessing.get_context("spawn")
    make = context if kind == "process" else threading
    ready, done = make.Event(), make.Event()
    other = (context.Process if kind == "process" else threading.Thread)(target=_own, args=(tmp_path, ready, done))
    other.start()
    try:
        assert ready.wait(60.0)
        with pytest.raises(OpdopError, match="is in use: another process"):
            opdop.train("factored", episodes=5, checkpoint=tmp_path)
    finally:
        done.set()
        other.join()
    assert opdop.train("factored", episodes=5, checkpoint=tmp_path).episodes[-1] == 5
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint.npz"}


def test_of_two_different_runs_started_together_in_one_folder_one_is_refused(tmp_path: Path) -> None:
    """The second starts in the middle of the first, at each place where it could write."""
    refused = []

    def start_another(_: Progress) -> None:
        def another() -> None:
            try:
                opdop.train("factored", episodes=5, seed=2, checkpoint=tmp_path).save(tmp_path)
            except OpdopError as error:
                refused.append(str(error))

        thread = threading.Thread(target=another)
        thread.start()
        thread.join()

    first = opdop.train("factored", episodes=5, seed=1, checkpoint=tmp_path, piece=1, progress=start_another)
    first.save(tmp_path)
    assert len(refused) == 5
    assert all("is in use" in text for text in refused)
    assert_same_run(opdop.Run.load(tmp_path), first)
    with pytest.raises(InvalidParameterError, match="is of another run: its seed is 1, and now it is 2"):
        opdop.train("factored", episodes=5, seed=2, checkpoint=tmp_path)
    assert_same_run(opdop.Run.load(tmp_path), first)


def test_a_folder_of_a_saved_run_is_not_taken_by_another(tmp_path: Path) -> None:
    opdop.train("factored", episodes=5, seed=1).save(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InvalidParameterError, match="is of another run: its seed is 1, and now it is 2"):
        opdop.train("factored", episodes=5, seed=2, checkpoint=tmp_path)
    (tmp_path / "run.npz").write_bytes(b"damaged")
    with pytest.raises(InvalidParameterError, match="name another folder"):
        opdop.train("factored", episodes=5, seed=2, checkpoint=tmp_path)
    assert contents(tmp_path) == {**before, "run.npz": b"damaged"}


def test_a_checkpoint_of_more_episodes_is_refused(tmp_path: Path) -> None:
    opdop.train("factored", episodes=20, planned_episodes=40, checkpoint=tmp_path)
    with pytest.raises(InvalidParameterError, match="has 20 episodes, more than the 10 that are asked for"):
        opdop.train("factored", episodes=10, planned_episodes=40, checkpoint=tmp_path)
    assert opdop.train("factored", episodes=20, planned_episodes=40, checkpoint=tmp_path).episodes[-1] == 20


@pytest.mark.parametrize("planned", [1, 2, 7, 100])
@pytest.mark.parametrize("records", [2, 5, 10])
def test_a_history_has_less_than_twice_its_records_however_many_episodes_are_played(planned: int, records: int) -> None:
    recorder = Recorder(np.array([0.5]), 1.0, planned, records)
    random = np.random.default_rng(3)
    for _ in range(60):
        n = int(random.integers(1, 400))
        recorder.add(random.random((n, 2)), random.random((n, 2)), random.random((n, 1)))
        played = recorder.history()["episode"]
        assert len(played) <= 2 * records + 1
        assert played[-1] == recorder.episodes


def test_a_history_beyond_the_plan_does_not_depend_on_the_pieces() -> None:
    runs = [opdop.train("factored", episodes=400, planned_episodes=10, records=8, piece=piece) for piece in (1, 7, 400)]
    assert len(runs[0].history) <= 17
    for run in runs[1:]:
        assert run.history.equals(runs[0].history)

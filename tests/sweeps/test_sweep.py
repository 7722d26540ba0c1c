"""Facts about sweeps: the numbers of a run do not depend on the workers, and failures lose nothing."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import opdop
from opdop import InvalidParameterError, Run, Spec, Sweep
from opdop.model.display import joint_unit
from opdop.runs import CHECKPOINT, RunConfig
from opdop.runs.checkpoint import KIND
from opdop.runs.files import read_arrays, write_arrays
from opdop.runs.history_units import describe_columns
from opdop.sweeps import SweepError, SweepProgress, executors, group_of, key_of, list_runs, run_sweep, worker
from opdop.sweeps.executors import ExecutorBackend
from opdop.sweeps.manifest import processor
from opdop.sweeps.store import Store
from opdop.sweeps.summaries import SUMMARIES
from tests.support.sweeps import (
    INFEASIBLE,
    LONG,
    ROOT,
    SHORT,
    alive,
    assert_complete,
    assert_same,
    command,
    key_for,
    runs_of,
    threads,
    wait_until,
)


@pytest.fixture(scope="module")
def short() -> dict[str, Run]:
    """The runs of SHORT, made one by one without a sweep."""
    return runs_of(SHORT)


@pytest.fixture(scope="module")
def long() -> dict[str, Run]:
    """The runs of LONG, made one by one without a sweep."""
    return runs_of(LONG)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of SHORT with one worker."""
    folder = tmp_path_factory.mktemp("swept")
    run_sweep(SHORT, folder, workers=1)
    return folder


@pytest.fixture
def kept(swept: Path, tmp_path: Path) -> Path:
    """A copy of that folder, that a test may damage."""
    return Path(shutil.copytree(swept, tmp_path / "kept"))


# The same bits


def test_one_worker_makes_the_runs_that_train_makes(swept: Path, short: dict[str, Run]) -> None:
    assert_complete(swept, short)


def test_two_workers_and_another_order_give_the_same_bits(tmp_path: Path, short: dict[str, Run]) -> None:
    other = {**SHORT, "seeds": [1, 0], "problem": SHORT["problem"][::-1]}
    sweep = run_sweep(other, tmp_path, workers=2)
    assert_complete(tmp_path, short)
    assert sweep.folder == tmp_path


def test_any_executor_gives_the_same_bits(tmp_path: Path, short: dict[str, Run]) -> None:
    with threads() as executor:
        run_sweep(SHORT, tmp_path, executor=executor, workers=2)
    assert_complete(tmp_path, short)


# Killed processes


def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path: Path, long: dict[str, Run]) -> None:
    killed: list[int] = []
    notes: list[str] = []

    def watch(progress: SweepProgress) -> None:
        notes.extend(progress.notes)
        playing = [each for each in progress.underway if each.episode > 0]
        if playing and not killed:
            os.kill(playing[0].pid, signal.SIGKILL)
            killed.append(playing[0].pid)

    run_sweep(LONG, tmp_path, workers=2, progress=watch)
    assert killed
    assert any("a worker process has died" in note for note in notes)
    assert_complete(tmp_path, long)


def test_only_a_job_that_always_kills_its_worker_fails(tmp_path: Path, long: dict[str, Run]) -> None:
    store, killer = Store(tmp_path), key_for(LONG, 1)
    killed: set[int] = set()
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            found = store.look(killer)
            if found is not None and found.pid not in killed and store.is_claimed(killer):
                os.kill(found.pid, signal.SIGKILL)
                killed.add(found.pid)
            time.sleep(0.002)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        sweep = run_sweep(LONG, tmp_path, workers=2)
    finally:
        over.set()
        thread.join()
    assert len(killed) == 3
    (failure,) = sweep.failed
    assert (failure.key, failure.type) == (killer, "DeadWorkerError")
    assert "has died 3 times" in failure.error
    others = {key_of(job): run for job, run in sweep.runs()}
    assert others.keys() == long.keys() - {killer}
    for key, run in others.items():
        assert_same(run, long[key])
    with threads() as executor:
        run_sweep(LONG, tmp_path, executor=executor, retry_failed=True)
    assert_complete(tmp_path, long)


def test_a_killed_sweep_goes_on_inside_its_runs_and_repeats_none(tmp_path: Path, long: dict[str, Run]) -> None:
    folder = tmp_path / "out"
    store = Store(folder)
    keys = list(long)
    with command(folder, LONG, "--workers", "1") as first:
        wait_until(lambda: store.has_run(keys[0]))
        before = os.stat(store.run(keys[0]) / "run.npz")
        playing = wait_until(lambda: (found := store.look(keys[1])) and found.episode > 0 and found)
        first.process.kill()
        assert first.end()[0] == -signal.SIGKILL
    wait_until(lambda: not alive(playing.pid), 30.0)  # a worker does not outlive its sweep
    for key in store.names():
        assert_same(Run.load(store.run(key)), long[key])
    with command(folder, LONG, "--workers", "1") as second:
        status, printed = second.end()
    assert status == 0, printed
    assert os.stat(store.run(keys[0]) / "run.npz").st_ino == before.st_ino
    assert os.stat(store.run(keys[0]) / "run.npz").st_mtime_ns == before.st_mtime_ns
    assert_complete(folder, long)


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),  # the way is that of SIGINT
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_signal_ends_a_sweep_soon_and_its_runs_keep_what_they_have(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    folder = tmp_path / "out"
    store = Store(folder)
    endless = {**LONG, "episodes": 50_000_000}
    key = key_for(endless, 0)
    with command(folder, endless, "--workers", "1", start_new_session=True) as sweep:
        playing = wait_until(lambda: (found := store.look(key)) and found.episode > 0 and found)
        began = time.monotonic()
        if number is signal.SIGKILL:
            sweep.process.kill()
        else:
            os.killpg(sweep.process.pid, number)  # as a terminal does
        found, printed = sweep.end(60.0)
    assert found == status, printed
    wait_until(lambda: not alive(playing.pid), 10.0)  # a worker does not outlive its sweep
    assert time.monotonic() - began < 15.0
    if number is not signal.SIGKILL:
        assert "interrupted: 0 of 3 runs are done; go on with: opdop sweep" in printed
    assert "Traceback" not in printed
    _, saved = read_arrays(store.partial(key) / CHECKPOINT, kind=KIND)
    assert saved["recorder.episodes"] >= playing.episode  # saved at the end, not only at the start
    assert Sweep.open(folder).listing().running == ()
    assert store.names() == set()


def test_a_full_disk_stops_the_sweep_with_one_error_and_it_goes_on_later(tmp_path: Path, short: dict[str, Run]) -> None:
    folder = tmp_path / "out"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    with command(folder, SHORT, "--workers", "1", preexec_fn=little_room) as sweep:
        status, printed = sweep.end()
    assert status == 2, printed
    assert "cannot be written: File too large" in printed
    assert "the sweep has stopped: 0 of 4 runs are done; go on with: opdop sweep" in printed
    assert "Traceback" not in printed
    assert Store(folder).names() == Store(folder).failed() == set()
    with threads() as executor:
        run_sweep(SHORT, folder, executor=executor)
    assert_complete(folder, short)


def test_two_sweeps_in_one_folder_share_the_work(tmp_path: Path, long: dict[str, Run]) -> None:
    folder = tmp_path / "out"
    with command(folder, LONG, "--workers", "1") as one, command(folder, LONG, "--workers", "1") as other:
        assert one.end()[0] == 0
        assert other.end()[0] == 0
    assert_complete(folder, long)


def test_a_run_that_another_process_has_claimed_is_busy(tmp_path: Path) -> None:
    store, job = Store(tmp_path), next(iter(Spec.of(SHORT).jobs()))
    (tmp_path / "manifest.json").write_text("{}")
    code = """
import sys
from pathlib import Path
from opdop.sweeps.store import Store
with Store(Path(sys.argv[1])).claim(sys.argv[2]) as claim:
    claim.tell(7, 300, 0.0)
    print("claimed", flush=True)
    sys.stdin.read()
"""
    arguments = [sys.executable, "-c", code, str(tmp_path), key_of(job)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        assert worker.perform(job, str(tmp_path), 0).state == "busy"
        (underway,) = store.underway()
        assert (underway.key, underway.episode, underway.pid) == (key_of(job), 7, other.pid)
        other.kill()
        other.wait()
        assert store.underway() == []
        assert worker.perform(job, str(tmp_path), 0).state == "done"  # a dead process holds no claim
    before = os.stat(store.run(key_of(job)) / "run.npz")
    assert worker.perform(job, str(tmp_path), 0).state == "done"
    assert os.stat(store.run(key_of(job)) / "run.npz").st_ino == before.st_ino  # it was there already
    assert {each.name for each in (tmp_path / "runs").iterdir()} == {key_of(job)}


@pytest.mark.slow
def test_a_script_without_a_main_guard_gets_a_clear_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import opdop\nopdop.sweep({SHORT!r}, {str(tmp_path / 'out')!r}, workers=1)\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=environment, timeout=100
    )
    assert done.returncode == 1
    assert "call opdop.sweep below `if __name__ == '__main__':`" in done.stderr


# Runs that fail


def test_a_run_that_raises_is_recorded_as_failed_and_the_others_continue(tmp_path: Path) -> None:
    spec = {**SHORT, "problem": ["factored", INFEASIBLE]}
    with threads() as executor:
        sweep = run_sweep(spec, tmp_path, executor=executor, workers=2)
        assert len(list(sweep.runs())) == 2
        assert sweep.missing == ()
        assert [(each.type, each.tries) for each in sweep.failed] == [("InfeasibleError", 1)] * 2
        assert all("no policy satisfies all constraints" in each.error for each in sweep.failed)
        assert all("Traceback" in each.traceback and each.when for each in sweep.failed)
        assert {each.key for each in sweep.failed} == {key_of(RunConfig.of(each.job)) for each in sweep.failed}
        assert {each.key for each in sweep.failed} < {*sweep.keys}
        again = run_sweep(spec, tmp_path, executor=executor, workers=2)
        assert [each.tries for each in again.failed] == [1, 1]
        once_more = run_sweep(spec, tmp_path, executor=executor, workers=2, retry_failed=True)
        assert [each.tries for each in once_more.failed] == [2, 2]
    assert {each.name for each in (tmp_path / "runs").iterdir()} == {key_of(job) for job, _ in sweep.runs()}


def test_a_run_that_raises_in_a_worker_process_is_recorded_as_failed(tmp_path: Path) -> None:
    sweep = run_sweep({**SHORT, "problem": ["factored", INFEASIBLE]}, tmp_path, workers=1)
    assert [(each.type, each.tries) for each in sweep.failed] == [("InfeasibleError", 1)] * 2
    assert all("Traceback" in each.traceback for each in sweep.failed)
    assert len(list(sweep.runs())) == 2
    assert sweep.missing == ()


def test_a_failed_run_that_succeeds_is_no_longer_failed(kept: Path, short: dict[str, Run]) -> None:
    store, key = Store(kept), key_for(SHORT, 1)
    shutil.rmtree(store.run(key))
    store.write_failure({}, key, MemoryError(), "")
    assert [(each.key, each.error) for each in Sweep.open(kept).failed] == [(key, "MemoryError")]
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor, retry_failed=True)
    assert_complete(kept, short)
    assert store.failed() == set()


def test_a_damaged_note_of_a_failure_is_still_a_failure(kept: Path) -> None:
    store, key = Store(kept), key_for(SHORT, 1)
    shutil.rmtree(store.run(key))
    store.write_failure({}, key, MemoryError(), "")
    path = kept / "failed" / f"{key}.json"
    path.write_text(path.read_text().replace("MemoryError", "MemoryErroR"))
    (failure,) = Sweep.open(kept).failed
    assert "is damaged" in failure.error
    assert Sweep.open(kept).missing == ()


# The folder


def test_leftovers_of_killed_processes_are_cleared(kept: Path, short: dict[str, Run]) -> None:
    store = Store(kept)
    done, missing = key_for(SHORT, 0), key_for(SHORT, 1)
    shutil.rmtree(store.run(missing))
    for key in (done, missing):
        (store.partial(key) / "result-0123").mkdir(parents=True)
        (store.partial(key) / "result-0123" / "run.npz").write_bytes(b"half")
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    assert_complete(kept, short)


def test_the_first_of_two_results_stays(kept: Path, short: dict[str, Run]) -> None:
    store, key = Store(kept), key_for(SHORT, 0)
    before = os.stat(store.run(key) / "run.npz").st_ino
    with store.claim(key) as claim:
        assert claim is not None
        assert not claim.finish(short[key])
        store.clear(key)
    assert os.stat(store.run(key) / "run.npz").st_ino == before
    assert_complete(kept, short)


def test_a_damaged_run_is_listed_and_made_again(kept: Path, short: dict[str, Run]) -> None:
    store, key = Store(kept), key_for(SHORT, 1, "queue")
    (store.run(key) / "run.npz").write_bytes(b"damaged")
    assert Sweep.open(kept).listing().damaged.keys() == {key}
    assert key not in Sweep.open(kept).table()["key"]
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    (aside,) = (each for each in (kept / "runs").iterdir() if each.name.endswith(".damaged"))
    shutil.rmtree(aside)
    assert_complete(kept, short)


@pytest.mark.parametrize("harm", ["gone", "garbage", "foreign", "folder", "pipe", "flipped"])
def test_lost_or_damaged_summaries_are_made_again(kept: Path, harm: str) -> None:
    table = Sweep.open(kept).table()
    whole = (kept / SUMMARIES).read_bytes()
    (kept / SUMMARIES).unlink()
    if harm == "garbage":
        (kept / SUMMARIES).write_bytes(b"garbage" * 1000)
    elif harm == "foreign":
        write_arrays(kept / SUMMARIES, {"kind": "another"}, {})
    elif harm == "folder":
        (kept / SUMMARIES).mkdir()
    elif harm == "pipe":
        os.mkfifo(kept / SUMMARIES)
    elif harm == "flipped":
        assert b'"regret": ' in whole
        (kept / SUMMARIES).write_bytes(whole.replace(b'"regret": ', b'"regret":1'))
    assert Sweep.open(kept).table().equals(table)
    assert Sweep.open(kept).table().equals(table)


def test_the_summaries_follow_the_folders(kept: Path) -> None:
    assert len(Sweep.open(kept).table()) == 4
    shutil.rmtree(Store(kept).run(key_for(SHORT, 1, "queue")))
    assert len(Sweep.open(kept).table()) == 3
    assert [key_of(job) for job in Sweep.open(kept).missing] == [key_for(SHORT, 1, "queue")]


# A run is what its own checksum and configuration say


def test_a_folder_without_its_run_is_not_done_and_is_made_again(kept: Path, short: dict[str, Run]) -> None:
    store, key = Store(kept), key_for(SHORT, 1)
    (store.run(key) / "run.npz").unlink()
    assert Sweep.open(kept).listing().missing == (key,)
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    (aside,) = (each for each in (kept / "runs").iterdir() if each.name.endswith(".damaged"))
    assert (aside / "history.parquet").exists()  # nothing is deleted
    shutil.rmtree(aside)
    assert_complete(kept, short)


def test_a_missing_or_damaged_table_of_a_finished_run_is_written_again(kept: Path, short: dict[str, Run]) -> None:
    store = Store(kept)
    gone, damaged = (store.run(key_for(SHORT, seed)) / "history.parquet" for seed in (0, 1))
    before = gone.read_bytes(), damaged.read_bytes()
    gone.unlink()
    damaged.write_bytes(before[1][:-9] + b"x" + before[1][-8:])
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    assert (gone.read_bytes(), damaged.read_bytes()) == before
    assert_complete(kept, short)


def test_the_run_of_another_job_is_not_taken_for_this_one(kept: Path, short: dict[str, Run]) -> None:
    store, one, other = Store(kept), key_for(SHORT, 0), key_for(SHORT, 1)
    table = Sweep.open(kept).table()
    shutil.copy(store.run(one) / "run.npz", store.run(other) / "run.npz")
    assert other in Sweep.open(kept).listing().damaged
    assert "by its own configuration it is" in Sweep.open(kept).listing().damaged[other]
    assert other not in {key_of(job) for job, _ in Sweep.open(kept).runs()}
    assert set(Sweep.open(kept).histories()["key"]) == {*Sweep.open(kept).keys} - {other}
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    assert Sweep.open(kept).table().drop("seconds").equals(table.drop("seconds"))
    for job, run in Sweep.open(kept).runs():
        assert_same(run, short[key_of(job)])


@pytest.mark.parametrize("gone", [("spec.toml",), ("manifest.json",), ("spec.toml", "manifest.json")])
def test_another_spec_cannot_claim_the_runs_when_files_are_deleted(
    kept: Path, short: dict[str, Run], gone: tuple[str, ...]
) -> None:
    for name in gone:
        (kept / name).unlink()
    with threads() as executor:
        with pytest.raises(InvalidParameterError, match=r"episodes = 300|runs that the spec does not ask for"):
            run_sweep({**SHORT, "episodes": 301}, kept, executor=executor)
        run_sweep(SHORT, kept, executor=executor)
    assert_complete(kept, short)


def test_a_damaged_manifest_is_refused_and_made_again(kept: Path, short: dict[str, Run]) -> None:
    path = kept / "manifest.json"
    path.write_text(path.read_text().replace('"seeds"', '"seedz"'))
    with pytest.raises(InvalidParameterError, match=r"its checksum is wrong.*makes a new one, and keeps the runs"):
        Sweep.open(kept)
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor)
    assert_complete(kept, short)


def test_of_two_unlike_specs_that_start_together_one_is_refused(tmp_path: Path) -> None:
    specs = [{**SHORT, "episodes": episodes} for episodes in (300, 301)]
    ended: list[object] = []

    def start(spec: dict[str, Any]) -> None:
        try:
            with threads() as executor:
                ended.append(run_sweep(spec, tmp_path, executor=executor))
        except InvalidParameterError as error:
            ended.append(error)

    both = [threading.Thread(target=start, args=[spec]) for spec in specs]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(type(each).__name__ for each in ended) == ["InvalidParameterError", "Sweep"]
    table = Sweep.open(tmp_path).table()
    assert len(table) == 4
    assert len(set(table["episodes"])) == 1


def test_a_damaged_or_foreign_checkpoint_is_not_used(tmp_path: Path, short: dict[str, Run]) -> None:
    store, jobs = Store(tmp_path), list(Spec.of(SHORT).jobs())
    store.partial(key_of(jobs[0])).mkdir(parents=True)
    (store.partial(key_of(jobs[0])) / CHECKPOINT).write_bytes(b"damaged")
    opdop.train("factored", episodes=5, seed=99, checkpoint=store.partial(key_of(jobs[1])))
    with threads() as executor:
        run_sweep(SHORT, tmp_path, executor=executor)
    assert_complete(tmp_path, short)


@pytest.mark.parametrize("name", ["manifest.json", "spec.toml", "failed/{}.json", "runs/.{}.partial/lock"])
def test_pipes_in_the_place_of_files_are_not_waited_for(kept: Path, name: str) -> None:
    key = key_for(SHORT, 1)
    shutil.rmtree(Store(kept).run(key))
    path = kept / name.format(key)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    if name == "manifest.json":
        with pytest.raises(InvalidParameterError, match="it is not a regular file"):
            list_runs(kept)
    else:
        assert len(list_runs(kept).finished) == 3
    with pytest.raises(InvalidParameterError, match="it is not a regular file"):
        Spec.read(path)
    with threads() as executor:
        run_sweep(SHORT, kept, executor=executor, retry_failed=True)
    assert len(list_runs(kept).finished) == 4


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_flipped_bit_changes_a_number_or_raises_another_error(kept: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sweep = Sweep.open(kept)
    table, histories = sweep.table(), sweep.histories()
    run = Store(kept).run(key_for(SHORT, 0))
    for path in (kept / SUMMARIES, kept / "manifest.json", run / "history.parquet", run / "run.npz"):
        whole = path.read_bytes()
        for _ in range(8):
            harmed = bytearray(whole)
            harmed[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(harmed)
            try:
                found = Sweep.open(kept)
                damaged = found.listing().damaged
                assert damaged or found.table().equals(table)
                assert damaged or found.histories().equals(histories)
            except InvalidParameterError:
                assert path.name == "manifest.json"
        path.write_bytes(whole)


def test_a_spec_may_grow_but_not_shrink_or_change(kept: Path) -> None:
    before = os.stat(Store(kept).run(key_for(SHORT, 0)) / "run.npz").st_ino
    with threads() as executor:
        grown = run_sweep({**SHORT, "seeds": 3}, kept, executor=executor)
        assert len(list(grown.runs())) == 6
        assert os.stat(Store(kept).run(key_for(SHORT, 0)) / "run.npz").st_ino == before
        with pytest.raises(InvalidParameterError, match="2 runs that the spec does not ask for"):
            run_sweep(SHORT, kept, executor=executor)
        with pytest.raises(InvalidParameterError, match="episodes = 300, and the spec has 301"):
            run_sweep({**SHORT, "seeds": 3, "episodes": 301}, kept, executor=executor)
    assert len(Sweep.open(kept).jobs) == 6


def test_the_manifest_records_spec_versions_and_machines(swept: Path) -> None:
    manifest = json.loads((swept / "manifest.json").read_text())
    assert manifest["format"] == "opdop.sweep/2"
    assert manifest["versions"]["opdop"] == opdop.__version__
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["machine"]["cores"] == os.cpu_count()
    assert manifest["processors"] == [processor()]
    assert manifest["machine"].items() >= processor().items()
    assert manifest["seeds"] == [0, 1]
    assert manifest["spec"] == json.loads(json.dumps(Sweep.open(swept).spec.record()))
    for job, run in Sweep.open(swept).runs():
        assert manifest["constants"][group_of(job)] == run.constants
    assert (swept / "spec.toml").read_text() == Spec.of(SHORT).text


OTHER = {"architecture": "another", "instructions": ["fma"]}


def warnings_of(progress: list[SweepProgress]) -> list[str]:
    return [note for each in progress for note in each.notes if "unlike processors" in note]


def test_workers_with_unlike_processors_are_warned_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = itertools.cycle([processor(), OTHER])
    monkeypatch.setattr(worker, "greet", lambda: next(found))
    seen: list[SweepProgress] = []
    with threads() as executor:
        sweep = run_sweep(SHORT, tmp_path, executor=executor, progress=seen.append)
    (warning,) = warnings_of(seen)
    assert "another with fma" in warning
    assert sorted(sweep.manifest["processors"], key=str) == sorted([processor(), OTHER], key=str)


def test_a_later_session_on_an_unlike_processor_is_warned_of(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[SweepProgress] = []
    with threads() as executor:
        run_sweep({**SHORT, "seeds": 3}, kept, executor=executor, progress=seen.append)
        assert warnings_of(seen) == []
        monkeypatch.setattr(worker, "greet", lambda: OTHER)
        run_sweep({**SHORT, "seeds": 4}, kept, executor=executor, progress=seen.append)
    assert len(warnings_of(seen)) == 1


def test_greeted_workers_are_compared_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExecutorBackend, "greet", lambda _: [processor(), OTHER])
    with pytest.raises(SweepError, match="the executor is broken"):
        run_sweep(SHORT, tmp_path, executor=Broken())
    assert Sweep.open(tmp_path).manifest["processors"] == [processor(), OTHER]


@pytest.mark.parametrize("text", [None, "[", "{}", '{"format": "other/1"}'])
def test_a_folder_without_a_sweep_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidParameterError, match=r"there is no sweep|expected 'opdop.sweep/2'"):
        Sweep.open(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with threads() as executor, pytest.raises(InvalidParameterError, match="cannot make the folder"):
        run_sweep(SHORT, tmp_path / "file", executor=executor)


# Tables


def test_the_table_has_the_numbers_of_the_runs(swept: Path) -> None:
    sweep = Sweep.open(swept)
    table = sweep.table()
    assert len(table) == len(sweep.jobs) == 4
    for row, (job, run) in zip(table.iter_rows(named=True), sweep.runs(), strict=True):
        assert (row["key"], row["group"], row["seed"]) == (key_of(job), group_of(job), job.seed)
        reward, *constrained = run.display.quantities
        scale, unit = joint_unit(constrained, run.policy.table.shape[0])
        assert row["regret"] == abs(reward.scale) * run.regret[-1]
        assert row["violation"] == scale * run.violation[-1]
        assert row["hard_violation"] == scale * run.hard_violation[-1]
        assert row["violation_unit"] == unit
        assert run.optimum is not None
        assert row["optimum"] == reward.shown(run.optimum.value)
        assert row["average_reward"] == reward.shown(run.average.reward)
        for i, quantity in enumerate(constrained):
            assert row[f"average_utility_{i}"] == quantity.shown(run.average.utilities[i])
            assert row[f"utility_{i}_unit"] == quantity.unit
            assert row[f"optimal_dual_{i}"] == pytest.approx(run.optimum.prices()[quantity.name])
            hard = run.history["hard_violation" if len(constrained) == 1 else f"hard_violation_{i}"][-1]
            assert row[f"hard_violation_{i}"] == abs(quantity.scale) * hard
        assert json.loads(row["problem_parameters"]) == json.loads(json.dumps(run.config.problem_parameters))
        assert run.config == job


def test_histories_are_stacked_bit_for_bit(kept: Path) -> None:
    sweep = Sweep.open(kept)

    def check() -> None:
        stacked = sweep.histories()
        for job, run in sweep.runs():
            part = stacked.filter(pl.col("key") == key_of(job))
            assert part.select(run.history.columns).equals(run.history_in_units())
            assert part["seed"].unique().to_list() == [job.seed]

    check()
    (Store(kept).run(key_for(SHORT, 1, "queue")) / "history.parquet").write_bytes(b"damaged")
    check()


def test_a_history_file_explains_its_columns(swept: Path) -> None:
    for job, run in Sweep.open(swept).runs():
        file = Store(swept).run(key_of(job)) / "history.parquet"
        about = pl.read_parquet_metadata(file)
        described = describe_columns(run.history.columns, run.display.quantities, run.policy.table.shape[0])
        assert json.loads(about["opdop.columns"]) == described
        assert pl.read_parquet(file).equals(run.history_in_units())
        assert json.loads(about["opdop.quantities"])[0]["unit"] == run.display.quantities[0].unit


# Workers that die


def test_a_worker_that_is_killed_while_it_starts_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDOP_TEST_DIES", str(tmp_path / "died"))
    monkeypatch.setattr(executors, "end_with_sweep", dies_twice)
    backend = executors.ProcessBackend(1)
    try:
        assert backend.greet() == [processor()]
        assert (tmp_path / "died").read_text() == "xx"
        (tmp_path / "died").unlink()
        backend.rebuild()  # in the middle of a sweep
        assert backend.greet() == [processor()]
    finally:
        backend.stop(at_once=True)


def dies_twice(lifeline: Any) -> None:
    """Start a worker, but not the first two times."""
    path = Path(os.environ["OPDOP_TEST_DIES"])
    with open(path, "a") as file:
        if path.stat().st_size < 2:
            file.write("x")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    worker.end_with_sweep(lifeline)


class KilledWorker(Exception):
    """As Dask raises it."""


class Deadly(ThreadPoolExecutor):
    """Loses some jobs with their workers, as Dask does: those that were dispatched together with a deadly one."""

    def __init__(self, deadly: str, limit: int) -> None:
        super().__init__(1)
        self.deadly, self.limit, self.kills = deadly, limit, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        job = args[0]
        if self.kills < self.limit and (key_of(job) == self.deadly or self.deadly == "all"):
            self.kills += 1
            lost: Future[Any] = Future()
            lost.set_exception(KilledWorker(key_of(job)))
            return lost
        return super().submit(fn, *args, **kwargs)


def test_runs_whose_dask_workers_were_killed_are_made_again(tmp_path: Path, short: dict[str, Run]) -> None:
    with Deadly("all", limit=2 * len(short)) as executor:
        run_sweep(SHORT, tmp_path, executor=executor)
    assert executor.kills == 8
    assert_complete(tmp_path, short)


def test_only_a_run_that_kills_its_dask_worker_while_alone_has_failed(tmp_path: Path) -> None:
    killer = key_for(SHORT, 1)
    with Deadly(killer, limit=100) as executor:
        sweep = run_sweep(SHORT, tmp_path, executor=executor)
    assert [each.key for each in sweep.failed] == [killer]
    assert len(sweep.table()) == 3
    assert executor.kills == 3


# Executors


class Counting(Executor):
    """Runs jobs in one thread, the latest first, and counts how many waited at most."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.most = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self.waiting.append((future, lambda: fn(*args, **kwargs)))
            self.most = max(self.most, len(self.waiting))
        return future

    def _work(self) -> None:
        while True:
            time.sleep(0.01)
            if self.waiting:
                future, call = self.waiting[-1]  # the last one first
                future.set_result(call())
                with self._lock:
                    self.waiting.remove((future, call))


def test_few_jobs_are_dispatched_at_once(tmp_path: Path) -> None:
    executor = Counting()
    sweep = run_sweep({**SHORT, "problem": "factored", "seeds": 12}, tmp_path, executor=executor, workers=2)
    assert len(sweep.table()) == 12
    assert 2 <= executor.most <= 4


class Broken(Executor):
    """An executor whose workers have died."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BrokenExecutor


def test_a_broken_executor_of_the_callers_own_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the executor is broken"):
        run_sweep(SHORT, tmp_path, executor=Broken())


def test_a_worker_that_does_not_see_the_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="does not see"):
        worker.perform(next(iter(Spec.of(SHORT).jobs())), str(tmp_path / "elsewhere"), 0)


@pytest.mark.parametrize("workers", [0, -1, True, 1.5])
def test_a_wrong_number_of_workers_is_refused(tmp_path: Path, workers: Any) -> None:
    with pytest.raises(InvalidParameterError, match="workers is"):
        run_sweep(SHORT, tmp_path, workers=workers)


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    with threads() as executor:
        run_sweep({**SHORT, "problem": ["factored", INFEASIBLE]}, tmp_path, executor=executor, progress=seen.append)
        run_sweep({**SHORT, "problem": ["factored", INFEASIBLE]}, tmp_path, executor=executor, progress=seen.append)
    assert all(0 <= each.done + each.failed <= each.total == 4 for each in seen)
    assert (seen[-1].done, seen[-1].found, seen[-1].failed) == (2, 2, 2)
    assert seen[-1].underway == ()

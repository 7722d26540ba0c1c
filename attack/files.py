"""Damaged and hostile files: every reader gives the right numbers, or one clear error."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from attack.mutations import HOSTILE_TEXT, damage, json_text, mutate_array, mutate_json, mutate_toml
from attack.sandbox import Wrong
from opdop.report.html import write
from opdop.report.summary import collection as collecting
from opdop.runs import CHECKPOINT
from opdop.runs.files import read_arrays, write_arrays
from opdop.sweeps import Sweep, list_runs
from opdop.sweeps.store import MANIFEST, Store, write_json
from opdop.sweeps.summaries import SUMMARIES

SPEC = """episodes = 20
seeds = 2
records = 8
[[problem]]
name = "factored"
moves = [2]
[[algorithm]]
name = "opdop"
preset = ["practical"]
"""
TRAINING = {"episodes": 20, "seed": 3, "records": 8}
PAGES = 60  # one report in so many is written as a whole page


@dataclass(frozen=True)
class State:
    """What is attacked, and what is true of it."""

    folder: Path  # has sweep/, run/ and half/; each case leaves them as they were
    run: dict[str, bytes]
    table: bytes
    histories: bytes

    @property
    def sweep(self) -> Path:
        """The folder of the sweep."""
        return self.folder / "sweep"


def prepare(folder: Path) -> State:
    """Make a sweep, a saved run and a checkpoint in the middle of a run."""
    sweep = _make(folder / "sweep")
    made = opdop.train("factored", **TRAINING)
    made.save(folder / "run")
    opdop.train("factored", **{**TRAINING, "episodes": 10}, planned_episodes=20, checkpoint=folder / "half")
    return State(folder, numbers_of(made), table_bytes(sweep), frame_bytes(sweep.histories()))


def _make(folder: Path) -> Sweep:
    with ThreadPoolExecutor(1) as executor:
        return opdop.sweep(opdop.Spec.parse(SPEC), folder, executor=executor, workers=1)


def numbers_of(run: opdop.Run) -> dict[str, bytes]:
    """Return the numbers of a run, to be compared bit for bit."""
    return {"history": run.history.to_numpy().tobytes(), "policy": run.policy.table.tobytes()}


def frame_bytes(frame: Any) -> bytes:
    """Return a table as text with every digit."""
    return frame.write_json().encode()


def table_bytes(sweep: Sweep) -> bytes:
    """Return the table of a sweep as text, without times."""
    return frame_bytes(sweep.table().drop("seconds"))


def probe(state: State, case: int) -> str:
    """Damage one file, and read it in one way."""
    random = np.random.default_rng([1, case])
    attacks = (
        _run,
        _checkpoint,
        _spec,
        _manifest,
        _summaries,
        _parquet,
        _sweep_run,
        _report,
        _sealed_run,
        _sealed_checkpoint,
        _other_kinds_of_files,
        _notes,
    )
    return attacks[case % len(attacks)](state, random)


@contextlib.contextmanager
def _restored(*paths: Path) -> Iterator[None]:
    """Put files back as they were, whatever has been done to them meanwhile; None of them is a folder."""
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    try:
        yield
    finally:
        for path, content in before.items():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif os.path.lexists(path):
                path.unlink()
            if content is not None:
                path.write_bytes(content)


def _expect(same: bool, what: str) -> str:
    if not same:
        raise Wrong(what)
    return "right"


def _run(state: State, random: np.random.Generator) -> str:
    path = state.folder / "run" / "run.npz"
    with _restored(path):
        how = damage(path, random)
        return _expect(numbers_of(opdop.Run.load(path.parent)) == state.run, f"run.npz, {how}")


def _resume(folder: Path) -> opdop.Run:
    return opdop.train("factored", **TRAINING, planned_episodes=20, checkpoint=folder)


def _checkpoint(state: State, random: np.random.Generator) -> str:
    path = state.folder / "half" / CHECKPOINT
    with _restored(path):
        how = damage(path, random)
        return _expect(numbers_of(_resume(path.parent)) == state.run, f"checkpoint, {how}")


def _spec(state: State, random: np.random.Generator) -> str:
    text, _ = mutate_toml(SPEC, random)
    path = state.folder / "spec.toml"
    path.write_text(text)
    if random.integers(3) == 0:
        damage(path, random)
    list(opdop.Spec.read(path).jobs())
    return "right"


def _same_numbers(state: State, how: str) -> str:
    listing = list_runs(state.sweep)
    if listing.damaged or listing.missing or listing.failed:
        return "refused"  # it says that runs are damaged, missing or failed
    sweep = Sweep.open(state.sweep)
    _expect(table_bytes(sweep) == state.table, f"{how}: the table differs")
    return _expect(frame_bytes(sweep.histories()) == state.histories, f"{how}: the histories differ")


def _manifest(state: State, random: np.random.Generator) -> str:
    path = state.sweep / MANIFEST
    with _restored(path):
        how = _damage_json(path, random)
        return _same_numbers(state, f"manifest, {how}")


def _damage_json(path: Path, random: np.random.Generator) -> str:
    """Damage a JSON file, or change its data which leaves its checksum wrong."""
    if random.integers(2):
        return damage(path, random)
    data, how = mutate_json(json.loads(path.read_text()), random)
    path.write_text(json_text(data))
    return how


def _summaries(state: State, random: np.random.Generator) -> str:
    path = state.sweep / SUMMARIES
    with _restored(path):
        how = damage(path, random)
        return _same_numbers(state, f"summaries, {how}")


def _one_run(state: State, random: np.random.Generator) -> Path:
    runs = sorted(Store(state.sweep).names())
    return state.sweep / "runs" / runs[int(random.integers(len(runs)))]


def _parquet(state: State, random: np.random.Generator) -> str:
    path = _one_run(state, random) / "history.parquet"
    with _restored(path):
        how = "removed"
        if random.integers(8) == 0:
            path.unlink()
        else:
            how = damage(path, random)
        return _same_numbers(state, f"parquet, {how}")


def _sweep_run(state: State, random: np.random.Generator) -> str:
    """Damage, remove or swap a run of the sweep; making the sweep again makes it whole."""
    one, other = (_one_run(state, random) / "run.npz" for _ in range(2))
    with _restored(one):
        how = "swapped"
        what = random.integers(4)
        if what == 0:
            how = "removed"
            one.unlink()
        elif what == 1 and one != other:
            shutil.copyfile(other, one)
        else:
            how = damage(one, random)
        outcome = _same_numbers(state, f"run of a sweep, {how}")
        if outcome == "refused" and random.integers(8) == 0:
            _make(state.sweep)
            outcome = _same_numbers(state, f"run of a sweep made again, {how}")
            _expect(outcome == "right", f"run of a sweep, {how}: it was not made again")
            for aside in (state.sweep / "runs").glob(".*.damaged"):
                shutil.rmtree(aside)
        return outcome


def _report(state: State, random: np.random.Generator) -> str:
    """Put a run with a right checksum and wrong contents into a report; the others are shown."""
    path = _one_run(state, random) / "run.npz"
    with _restored(path):
        _reseal(path, random)
        collection = collecting.collect(state.sweep)
        _expect(collection.total_runs + len(collection.missing) == 2, "a run is neither shown nor listed")
        if random.integers(PAGES) == 0:
            write.write_report(collection, state.folder / "report.html", kinds=())
            page = (state.folder / "report.html").read_text()
            _expect(not set(HOSTILE_TEXT) & set(page) - set("[31m</script><b>\n"), "a control character on the page")
    return "right"


def _reseal(path: Path, random: np.random.Generator) -> str:
    """Change the contents of a file of arrays, and write it with a right checksum."""
    with np.load(path, allow_pickle=False) as file:
        kind = json.loads(bytes(file.zip.read("meta.json")))["kind"]
    meta, arrays = read_arrays(path, kind=kind)
    if random.integers(2):
        meta, how = mutate_json(meta, random)
        meta = meta if isinstance(meta, dict) else {"kind": kind, "was": meta}
    else:
        name = sorted(arrays)[int(random.integers(len(arrays)))]
        arrays[name], how = mutate_array(arrays[name], random), name
    write_arrays(path, meta, arrays)
    return how


def _sealed_run(state: State, random: np.random.Generator) -> str:
    path = state.folder / "run" / "run.npz"
    with _restored(path):
        _reseal(path, random)
        run = opdop.Run.load(path.parent)
        collecting.gather([run])
        list_runs(path.parent)
    return "right"


def _sealed_checkpoint(state: State, random: np.random.Generator) -> str:
    path = state.folder / "half" / CHECKPOINT
    with _restored(path):
        _reseal(path, random)
        _resume(path.parent)
    return "right"


def _other_kinds_of_files(state: State, random: np.random.Generator) -> str:
    """Put a pipe, a folder, an endless device or a dead link in the place of a file: nobody waits for it."""
    names = (MANIFEST, "spec.toml", SUMMARIES, str(_one_run(state, random).relative_to(state.sweep) / "run.npz"))
    path = state.sweep / names[int(random.integers(len(names)))]
    kind = int(random.integers(4))
    with _restored(path):
        path.unlink()
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            path.mkdir()
        else:
            path.symlink_to("/dev/zero" if kind == 2 else "nowhere")
        if random.integers(2):
            collecting.collect(state.sweep)
            if path.name == "spec.toml":
                opdop.Spec.read(path)
        return _same_numbers(state, f"{path.name}, kind {kind}")


def _notes(state: State, random: np.random.Generator) -> str:
    """Damage the note of a failure and the lock of an unfinished run."""
    key = _one_run(state, random).name
    note, lock = state.sweep / "failed" / f"{key}.json", state.sweep / "runs" / f".{key}.partial" / "lock"
    lock.parent.mkdir(exist_ok=True)
    run = state.sweep / "runs" / key / "run.npz"
    with _restored(note, lock, run):
        Store(state.sweep).write_failure({"seed": 1}, key, ValueError(HOSTILE_TEXT), "")
        write_json(lock, {"episode": 1, "episodes": 2, "began": 1.0, "host": "here", "pid": 1})
        _damage_json(note, random)
        _damage_json(lock, random)
        run.unlink()
        listing = list_runs(state.sweep)
        Store(state.sweep).look(key)
        _expect(len(listing.failed) == 1, "a failure is lost")
        collecting.collect(state.sweep)
    shutil.rmtree(lock.parent)
    return "right"

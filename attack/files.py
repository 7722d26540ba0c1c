"""Damaged and hostile files: every reader gives the right numbers, or one clear error."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from attack.mutations import damage, json_text, mutate_array, mutate_json, mutate_toml
from attack.sandbox import Wrong
from opdop.report.html import write
from opdop.report.summary import groups
from opdop.runs import CHECKPOINT
from opdop.runs.files import read_arrays, write_arrays
from opdop.sweeps import Sweep

SPEC = """episodes = 30
seeds = 2
records = 20
[[problem]]
name = "factored"
moves = [2, 3]
[[algorithm]]
name = "opdop"
preset = ["practical", "certified"]
"""
TRAINING = {"episodes": 60, "seed": 3, "records": 40}


@dataclass(frozen=True)
class State:
    """What is attacked, and what is true of it."""

    whole: Path  # untouched folders
    work: Path
    run: dict[str, bytes]
    table: bytes
    histories: bytes


def prepare(folder: Path) -> State:
    """Make a sweep, a saved run and a checkpoint in the middle of a run."""
    whole = folder / "whole"
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    opdop.sweep(spec, whole / "sweep", workers=1)
    made = opdop.train("factored", **TRAINING)
    made.save(whole / "run")
    opdop.train("factored", **{**TRAINING, "episodes": 30}, planned_episodes=60, checkpoint=whole / "half")
    sweep = Sweep.open(whole / "sweep")
    return State(whole, folder / "work", numbers_of(made), table_bytes(sweep), frame_bytes(sweep.histories()))


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
    shutil.rmtree(state.work, ignore_errors=True)
    attacks = (
        _run,
        _checkpoint,
        _spec,
        _manifest,
        _index,
        _parquet,
        _sweep_run,
        _report,
        _sealed_run,
        _sealed_checkpoint,
    )
    return attacks[case % len(attacks)](state, random)


def _copy(state: State, name: str) -> Path:
    return Path(shutil.copytree(state.whole / name, state.work))


def _expect(same: bool, what: str) -> str:
    if not same:
        raise Wrong(what)
    return "right"


def _run(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "run")
    how = damage(folder / "run.npz", random)
    return _expect(numbers_of(opdop.Run.load(folder)) == state.run, f"run.npz, {how}")


def _resume(folder: Path) -> opdop.Run:
    return opdop.train("factored", **TRAINING, planned_episodes=60, checkpoint=folder)


def _checkpoint(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "half")
    how = damage(folder / CHECKPOINT, random)
    return _expect(numbers_of(_resume(folder)) == state.run, f"checkpoint, {how}")


def _spec(state: State, random: np.random.Generator) -> str:
    state.work.mkdir(parents=True)
    text, _ = mutate_toml(SPEC, random)
    path = state.work / "spec.toml"
    path.write_text(text)
    if random.integers(3) == 0:
        damage(path, random)
    list(opdop.Spec.read(path).jobs())
    return "right"


def _read_all(folder: Path) -> Sweep:
    sweep = Sweep.open(folder)
    _ = sweep.failed, sweep.missing, sweep.underway, sweep.damaged
    return sweep


def _same_numbers(state: State, sweep: Sweep, how: str) -> str:
    if sweep.damaged or sweep.missing:
        return "refused"  # it says that runs are damaged or missing
    _expect(table_bytes(sweep) == state.table, f"{how}: the table differs")
    return _expect(frame_bytes(sweep.histories()) == state.histories, f"{how}: the histories differ")


def _manifest(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "sweep")
    path = folder / "manifest.json"
    if random.integers(2):
        how = damage(path, random)
    else:
        data, how = mutate_json(json.loads(path.read_text()), random)
        path.write_text(json_text(data))
    return _same_numbers(state, _read_all(folder), f"manifest, {how}")


def _index(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "sweep")
    path = folder / "index.sqlite"
    if random.integers(2):
        how = damage(path, random)
    else:  # a whole database with wrong contents
        how = "rows"
        with sqlite3.connect(path) as database:
            key, text = database.execute("SELECT key, summary FROM runs ORDER BY random() LIMIT 1").fetchone()
            data, how = mutate_json(json.loads(text), random)
            database.execute("UPDATE runs SET summary = ? WHERE key = ?", (json_text(data), key))
        database.close()
    return _same_numbers(state, _read_all(folder), f"index, {how}")


def _one_run(folder: Path, random: np.random.Generator) -> Path:
    runs = sorted(path for path in (folder / "runs").iterdir() if not path.name.startswith("."))
    return runs[int(random.integers(len(runs)))]


def _parquet(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "sweep")
    path = _one_run(folder, random) / "history.parquet"
    how = "removed"
    if random.integers(8) == 0:
        path.unlink()
    else:
        how = damage(path, random)
    return _same_numbers(state, _read_all(folder), f"parquet, {how}")


def _sweep_run(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "sweep")
    path = _one_run(folder, random) / "run.npz"
    how = "removed"
    if random.integers(4) == 0:
        path.unlink()
    else:
        how = damage(path, random)
    sweep = _read_all(folder)
    if not sweep.damaged and not sweep.missing:
        return _same_numbers(state, sweep, f"run of a sweep, {how}")
    if random.integers(20) == 0:  # running the sweep again makes it whole
        again = opdop.sweep(folder / "spec.toml", folder, workers=1)
        return _same_numbers(state, again, f"run of a sweep made again, {how}")
    return "refused"


def _report(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "sweep")
    path = _one_run(folder, random) / "run.npz"
    _reseal(path, random)
    collection = groups.collect(folder)
    if random.integers(40) == 0:
        write.write_report(collection, state.work / "report")
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
    folder = _copy(state, "run")
    _reseal(folder / "run.npz", random)
    run = opdop.Run.load(folder)
    groups.gather([run])
    return "right"


def _sealed_checkpoint(state: State, random: np.random.Generator) -> str:
    folder = _copy(state, "half")
    _reseal(folder / CHECKPOINT, random)
    _resume(folder)
    return "right"

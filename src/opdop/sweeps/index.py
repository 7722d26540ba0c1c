"""A summary of every run of a sweep in one SQLite file: a cache that is rebuilt from the folders when it is gone.

Only the process that runs or reads a sweep writes it; workers never do. If the file is damaged or cannot be written,
the summaries are made again from the runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opdop.model import OpdopError
from opdop.runs.files import plain
from opdop.runs.run import RUN, Run
from opdop.sweeps.spec import group_of
from opdop.sweeps.store import Store

INDEX = "index.sqlite"
_PATIENCE = 10.0  # seconds to wait for another process that writes
_TABLE = "CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, stamp TEXT NOT NULL, summary TEXT NOT NULL)"
_VERSION = 2


class Index:
    """The summaries of all runs in a folder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.damaged: dict[str, str] = {}  # key -> error, of runs that cannot be read
        self._database = self._open(store.folder / INDEX)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _open(self, path: Path) -> sqlite3.Connection:
        for attempt in (path, path, None):
            try:
                return _connect(attempt)
            except sqlite3.DatabaseError as error:
                if type(error) is sqlite3.DatabaseError:  # it is no database: make a new one
                    _remove(path)
        raise AssertionError("a database in memory can always be opened")

    def renew(self) -> None:
        """Add runs that are new or changed, and remove those whose folder is gone."""
        stamps = dict(self._rows("SELECT key, stamp FROM runs"))
        found = {key: stamp for key in self.store.finished() if (stamp := _stamp(self.store, key))}
        self.damaged = {}
        for key in sorted(found):
            if stamps.get(key) != found[key]:
                try:
                    self.add(key, summary(Run.load(self.store.run(key))), found[key], together=True)
                except OpdopError as error:
                    self.damaged[key] = str(error)
        gone = [(key,) for key in {*stamps} - {*found} | {*self.damaged} & {*stamps}]
        self._write("DELETE FROM runs WHERE key = ?", gone)

    def add(self, key: str, about: dict[str, Any], stamp: str | None = None, *, together: bool = False) -> None:
        """Add the summary of one run; with `together` it is written to disk at the next call without it."""
        stamp = stamp or _stamp(self.store, key)
        if stamp:
            row = (key, stamp, json.dumps(plain(about)))
            self._write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", [row], commit=not together)

    def summaries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return the key and the summary of every run, in the order of the keys."""
        for key, text in self._rows("SELECT key, summary FROM runs ORDER BY key"):
            yield key, json.loads(text)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the summary of one run."""
        for (text,) in self._rows("SELECT summary FROM runs WHERE key = ?", key):
            found: dict[str, Any] = json.loads(text)
            return found
        return None

    def _rows(self, query: str, *values: str) -> list[Any]:
        return self._database.execute(query, values).fetchall()

    def _write(self, query: str, rows: Iterable[tuple[str, ...]], *, commit: bool = True) -> None:
        """Write to the file; if that fails, go on in memory."""
        rows = list(rows)
        try:
            self._database.executemany(query, rows)
            if commit:
                self._database.commit()
        except sqlite3.Error:
            memory = _connect(None)
            with contextlib.suppress(sqlite3.Error):
                memory.executemany("INSERT INTO runs VALUES (?, ?, ?)", self._database.execute("SELECT * FROM runs"))
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = memory
            memory.executemany(query, rows)
            memory.commit()


def _connect(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:" if path is None else path, timeout=_PATIENCE, check_same_thread=False)
    try:
        if path is not None:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # it can always be rebuilt
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError("written by another version")
        database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {_VERSION}")
        names = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
        if names != ["key", "stamp", "summary"]:
            raise sqlite3.DatabaseError("not opdop's")
        database.execute("SELECT count(stamp) FROM runs").fetchone()  # reads every page, so that damage shows now
        database.commit()
    except sqlite3.Error:
        database.close()
        raise
    return database


def _remove(path: Path) -> None:
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(OSError):
            each.unlink()


def _stamp(store: Store, key: str) -> str:
    """Return a text that changes whenever a run's file is replaced; "" if there is no file."""
    try:
        about = os.stat(store.run(key) / RUN)
    except OSError:
        return ""
    return f"{about.st_mtime_ns} {about.st_size} {about.st_ino}"


def summary(run: Run) -> dict[str, Any]:
    """Return the facts of a run that tables show: its configuration and results, in model units.

    "average", "final" and "optimum" are expected totals of one episode: the reward, then each utility.
    """
    best = run.optimum
    end = run.history.row(-1, named=True)
    return {
        "config": run.config.record(),
        "group": group_of(run.config),
        **{name: end[name] for name in ("regret", "violation", "hard_violation")},
        "average": run.average.totals.tolist(),
        "final": None if run.last is None else run.last.totals.tolist(),
        "optimum": None if best is None else [best.value, *best.utility_values.tolist()],
        "dual": None if best is None else best.dual.tolist(),
        "slater_gap": None if best is None else best.slater_gap,
        "thresholds": run.thresholds.tolist(),
        "quantities": [asdict(quantity) for quantity in run.display.quantities],
        "seconds": run.seconds,
        "constants": dict(run.constants),
    }

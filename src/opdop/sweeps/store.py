"""The folder of a sweep: its files, the claims of processes on runs, and the atomic appearance of a finished run.

spec.toml, manifest.json   the specification, and the software and machines that were used
runs/<key>/                one finished run, as `Run.save` writes it
runs/.<key>.partial/       an unfinished run: its checkpoint, and a lock that its process holds
failed/<key>.json          a run that raised, or whose process died repeatedly
index.sqlite               a summary of every run; rebuilt from the folders if it is deleted
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opdop.model import OpdopError
from opdop.runs.files import plain, write_whole
from opdop.runs.run import RUN, Run

SWEEP_FORMAT, FAILED_FORMAT = "opdop.sweep/1", "opdop.failed/1"
SPEC, MANIFEST, RUNS, FAILED = "spec.toml", "manifest.json", "runs", "failed"
_PARTIAL, _DAMAGED, _LOCK, _RESULT = ".partial", ".damaged", "lock", "result-"
_LARGEST_JSON = 64 * 2**20
_MOMENT = 0.01  # seconds; `is_claimed` holds the lock for less


class SweepError(OpdopError):
    """A sweep cannot go on: not one run is at fault, but the folder or the workers."""


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why."""

    key: str
    type: str
    error: str
    traceback: str
    when: str  # ISO 8601, UTC
    tries: int
    job: Mapping[str, Any]  # its configuration


@dataclass(frozen=True)
class Underway:
    """An unfinished run, and how far it is."""

    key: str
    episode: int
    episodes: int
    seconds: float  # since its process began, or since its last checkpoint where no process is known
    host: str = ""
    pid: int = 0


@dataclass(frozen=True)
class Store:
    """The folder of a sweep."""

    folder: Path

    def run(self, key: str) -> Path:
        """Return the folder of a finished run."""
        return self.folder / RUNS / key

    def partial(self, key: str) -> Path:
        """Return the folder of an unfinished run."""
        return self.folder / RUNS / f".{key}{_PARTIAL}"

    def has_run(self, key: str) -> bool:
        """Return whether a run is finished."""
        return (self.run(key) / RUN).exists()

    def finished(self) -> set[str]:
        """Return the keys of all finished runs."""
        return {entry.name for entry in self._entries(RUNS) if not entry.name.startswith(".") and entry.is_dir()}

    def failed(self) -> set[str]:
        """Return the keys of all failed runs."""
        names = (Path(entry.name) for entry in self._entries(FAILED) if not entry.name.startswith("."))
        return {name.stem for name in names if name.suffix == ".json"}

    def underway(self) -> list[Underway]:
        """Return the runs that some process makes now; a process on another machine counts if the file system locks."""
        partial = (entry.name for entry in self._entries(RUNS) if entry.name.endswith(_PARTIAL))
        keys = (name[1 : -len(_PARTIAL)] for name in sorted(partial))
        return [found for key in keys if self.is_claimed(key) and (found := self.look(key)) is not None]

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder / name) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    # Claims ----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def claim(self, key: str) -> Iterator[Claim | None]:
        """Claim a run for this process while the context lasts; None if another process has claimed it.

        The system ends the claim of a process that dies.
        """
        partial = self.partial(key)
        while True:
            partial.mkdir(parents=True, exist_ok=True)
            try:
                lock = os.open(partial / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            except FileNotFoundError:  # another process has removed the folder
                continue
            try:
                if not _lock(lock):
                    time.sleep(_MOMENT)
                    if not _lock(lock):
                        yield None
                        return
                if not _is_file(lock, partial / _LOCK):
                    continue
                for leftover in partial.glob(f"{_RESULT}*"):
                    shutil.rmtree(leftover, ignore_errors=True)
                yield Claim(self, key, lock)
                return
            finally:
                os.close(lock)

    def is_claimed(self, key: str) -> bool:
        """Return whether some process has claimed a run."""
        try:
            lock = os.open(self.partial(key) / _LOCK, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _lock(lock, shared=True)
        finally:
            os.close(lock)

    def look(self, key: str) -> Underway | None:
        """Return how far a run is, as its process last noted; None if there is no such note."""
        try:
            with open(self.partial(key) / _LOCK, "rb") as file:
                data = json.loads(file.readline(4096))
            return Underway(key, seconds=max(time.time() - data.pop("began"), 0.0), **data)
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return None

    def clear(self, key: str) -> None:
        """Remove the checkpoint and the lock of a run."""
        shutil.rmtree(self.partial(key), ignore_errors=True)

    def clear_leftovers(self) -> None:
        """Remove the checkpoints of finished runs; a process leaves one if it is killed just after it finished."""
        for entry in self._entries(RUNS):
            key = entry.name[1 : -len(_PARTIAL)]
            if entry.name.endswith(_PARTIAL) and self.has_run(key):
                with self.claim(key) as mine:
                    if mine is not None:
                        self.clear(key)

    def set_aside(self, key: str) -> None:
        """Rename a damaged run, so that it is made again; nothing is deleted."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.run(key), self.folder / RUNS / f".{key}.{secrets.token_hex(4)}{_DAMAGED}")

    # Failures --------------------------------------------------------------------------------------------------------

    def write_failure(self, job: Mapping[str, Any], key: str, error: BaseException, text: str) -> Failure:
        """Record that a run failed, with its error and traceback; return the record."""
        before = self.read_failure(key)
        failure = Failure(
            key=key,
            type=type(error).__name__,
            error=str(error) or type(error).__name__,
            traceback=text,
            when=now(),
            tries=1 + (0 if before is None else before.tries),
            job=plain(dict(job)),
        )
        write_json(self.folder / FAILED / f"{key}.json", {"format": FAILED_FORMAT, **asdict(failure)})
        return failure

    def read_failure(self, key: str) -> Failure | None:
        """Return why a run failed, or None if it did not; a damaged record counts as a failure of unknown type."""
        path = self.folder / FAILED / f"{key}.json"
        if not path.exists():
            return None
        try:
            data = read_json(path)
            kinds = {"key": str, "type": str, "error": str, "traceback": str, "when": str, "tries": int, "job": dict}
            found = {name: data[name] for name in kinds}
            if all(isinstance(found[name], kind) for name, kind in kinds.items()):
                return Failure(**found)
        except (OpdopError, KeyError, TypeError):
            pass
        return Failure(key, "unknown", f"{path} is damaged", "", "", 1, {})

    def forget_failure(self, key: str) -> None:
        """Remove the record of a failure, because the run has succeeded."""
        with contextlib.suppress(OSError):
            (self.folder / FAILED / f"{key}.json").unlink(missing_ok=True)


@dataclass(frozen=True)
class Claim:
    """A run that this process has claimed."""

    store: Store
    key: str
    lock: int

    def tell(self, episode: int, episodes: int, began: float) -> None:
        """Note the progress of the run where other processes can read it."""
        about = {"episode": episode, "episodes": episodes, "began": began, "host": os.uname().nodename}
        text = json.dumps({**about, "pid": os.getpid()}) + "\n"
        with contextlib.suppress(OSError):  # only shown to people
            os.pwrite(self.lock, text.encode(), 0)

    def finish(self, run: Run) -> bool:
        """Move the finished run into place in one step; return False if another process was first."""
        folder = self.store.partial(self.key) / f"{_RESULT}{secrets.token_hex(8)}"
        try:
            run.save(folder)
            os.rename(folder, self.store.run(self.key))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _flush(self.store.folder / RUNS)
        return True


def _lock(file: int, *, shared: bool = False) -> bool:
    """Lock a file until it is closed or its process ends; return False if another process holds a lock."""
    try:
        import fcntl
    except (
        ImportError
    ):  # no locks on this system: two sweeps in one folder make some runs twice, and the first result stays
        return not shared
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file(file: int, path: Path) -> bool:
    """Return whether an open file is still the one with this name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _flush(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some systems cannot flush a folder
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object atomically; raise OpdopError if that fails."""
    text = json.dumps(plain(dict(data)), indent=2).encode() + b"\n"
    write_whole(path, lambda file: file.write(text))


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; raise OpdopError, with the reason, if there is none."""
    try:
        with open(path, "rb") as file:
            data = json.loads(file.read(_LARGEST_JSON))
        if isinstance(data, dict):
            return data
        reason = "it is not a JSON object"
    except FileNotFoundError as error:
        raise OpdopError(f"there is no file {path}.") from error
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error)
    raise OpdopError(f"{path} cannot be used: {reason}. It is damaged or not opdop's.")

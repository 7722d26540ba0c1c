"""The folder of a sweep: its files, the claims of processes on runs, and the atomic appearance of a finished run.

manifest.json              the specification, and the software and machines that were used
spec.toml                  the specification as it was given, for people
runs/<key>/                one finished run, as `Run.save` writes it
runs/.<key>.partial/       an unfinished run: its checkpoint, and a lock that its process holds
failed/<key>.json          a run that raised, or whose process died repeatedly
summaries.npz              a summary of every run; rebuilt from the runs if it is deleted or damaged

Each file has a checksum, except spec.toml. What lies in runs/<key>/ counts as that run only if its checksum is right
and its own configuration has this key.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opdop.kernels.file_locks import try_lock
from opdop.model import InvalidParameterError, OpdopError
from opdop.model.text_files import open_regular
from opdop.model.validation import printable, shown
from opdop.runs.files import DamagedFileError, is_file, plain, write_whole
from opdop.runs.run import Run
from opdop.sweeps.spec import key_of

SWEEP_FORMAT, FAILED_FORMAT = "opdop.sweep/2", "opdop.failed/2"
SPEC, MANIFEST, RUNS, FAILED = "spec.toml", "manifest.json", "runs", "failed"
_PARTIAL, _DAMAGED, _LOCK, _RESULT = ".partial", ".damaged", "lock", "result-"
_LARGEST_JSON = 64 * 2**20
_CHECKSUM = "sha256"  # a key of each JSON file: the digest of all others
_MOMENT = 0.01  # seconds; `is_claimed` holds the lock for less
_PATIENCE = 60.0  # seconds to wait for another sweep that writes the manifest


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

    def load(self, key: str) -> Run:
        """Return a finished run; raise DamagedFileError if there is none, it is damaged, or it is another run."""
        run = Run.load(self.run(key))
        if (found := key_of(run.config)) != key:
            raise DamagedFileError(f"{self.run(key)} holds another run: by its own configuration it is {found}.")
        return run

    def has_run(self, key: str) -> bool:
        """Return whether a run is finished and whole."""
        try:
            self.load(key)
        except DamagedFileError:
            return False
        return True

    def names(self) -> set[str]:
        """Return the names of all folders of finished runs; what is in them is not looked at."""
        return {entry.name for entry in self._entries(RUNS) if not entry.name.startswith(".")}

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
        except (FileNotFoundError, NotADirectoryError):
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
                lock = os.open(partial / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
            except FileNotFoundError:  # another process has removed the folder
                continue
            try:
                if not try_lock(lock):
                    time.sleep(_MOMENT)
                    if not try_lock(lock):
                        yield None
                        return
                if not is_file(lock, partial / _LOCK):
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
            lock = os.open(self.partial(key) / _LOCK, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return not try_lock(lock, shared=True)
        finally:
            os.close(lock)

    def look(self, key: str) -> Underway | None:
        """Return how far a run is, as its process last noted; None if there is no such note."""
        try:
            with open_regular(self.partial(key) / _LOCK) as file:
                data = json.loads(file.readline(4096))
            kinds = {"episode": int, "episodes": int, "began": float, "host": str, "pid": int}
            if data.keys() != kinds.keys() or any(type(data[name]) is not kind for name, kind in kinds.items()):
                return None
            return Underway(key, seconds=max(time.time() - data.pop("began"), 0.0), **data)
        except (OSError, ValueError, AttributeError, RecursionError):
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

    @contextlib.contextmanager
    def manifest_lock(self) -> Iterator[None]:
        """Let no other process write the manifest meanwhile.

        Raises SweepError if another process holds the lock for a minute, or the folder cannot be written.
        """
        path = self.folder / f".{_LOCK}"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
            try:
                end = time.monotonic() + _PATIENCE
                while not try_lock(lock):
                    if time.monotonic() > end:
                        raise SweepError(f"another process has locked {path} for {_PATIENCE:g} seconds.")
                    time.sleep(_MOMENT)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise SweepError(f"cannot write into {self.folder}: {error.strerror or error}.") from error

    def change_manifest(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Replace the manifest by what `change` returns for it; sweeps that share the folder do so in turn."""
        with self.manifest_lock():
            before = read_json(self.folder / MANIFEST)
            after = change(before)
            if after != before:
                write_json(self.folder / MANIFEST, after)

    # Failures --------------------------------------------------------------------------------------------------------

    def write_failure(self, job: Mapping[str, Any], key: str, error: BaseException, text: str) -> Failure:
        """Record that a run failed, with its error and traceback; return the record."""
        before = self.read_failure(key)
        failure = Failure(
            key=key,
            type=type(error).__name__,
            error=printable(str(error)) or type(error).__name__,
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
        if not os.path.lexists(path):
            return None
        try:
            data = read_json(path)
            kinds = {"key": str, "type": str, "error": str, "traceback": str, "when": str, "tries": int, "job": dict}
            found = {name: data[name] for name in kinds}
            if all(isinstance(found[name], kind) for name, kind in kinds.items()) and found["key"] == key:
                return Failure(**found)
        except (OpdopError, KeyError, TypeError):
            pass
        return Failure(key, "unknown", f"{FAILED}/{path.name} is damaged", "", "", 1, {})

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
        """Move the finished run into place in one step; return False if the same run is there, which stays.

        Anything else in its place is set aside.
        """
        folder, place = self.store.partial(self.key) / f"{_RESULT}{secrets.token_hex(8)}", self.store.run(self.key)
        try:
            run.save(folder)
            try:
                os.rename(folder, place)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                if self.store.has_run(self.key):
                    return False
                set_aside(place)
                os.rename(folder, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        _flush(self.store.folder / RUNS)
        return True


def folder_at(path: str | Path) -> Path:
    """Return the path of a folder; raise InvalidParameterError if it cannot be one."""
    if not isinstance(path, (str, Path)) or "\0" in str(path):
        raise InvalidParameterError(f"the folder is {shown(path)}; expected a path.")
    return Path(path)


def set_aside(path: Path) -> None:
    """Rename a damaged file or folder, so that it is made again; nothing is deleted."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, path.with_name(f".{path.name}.{secrets.token_hex(4)}{_DAMAGED}"))


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
    """Write a JSON object with a checksum, atomically; raise OpdopError if that fails."""
    whole = plain(dict(data))
    write_whole(path, json.dumps({**whole, _CHECKSUM: _digest(whole)}, indent=2) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; raise DamagedFileError, with the reason, if there is none or it was changed."""
    try:
        with open_regular(path) as file:
            data = json.loads(file.read(_LARGEST_JSON))
        if isinstance(data, dict) and data.pop(_CHECKSUM, None) == _digest(data):
            return data
        reason = "its checksum is wrong" if isinstance(data, dict) else "it is not a JSON object"
    except FileNotFoundError as error:
        raise DamagedFileError(f"there is no file {printable(str(path))}.") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, RecursionError) as error:
        reason = printable(str(error))
    raise DamagedFileError(f"{printable(str(path))} cannot be used: {reason}. It is damaged or not opdop's.")


def _digest(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

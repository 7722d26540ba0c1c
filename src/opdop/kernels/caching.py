"""`njit` with a cache on disk that may be damaged, full or missing: the program then compiles again, and goes on.

Numba keeps compiled code in files beside the source. Its own cache looks only at the file of the outermost function,
and stops the program when a cache file is truncated or cannot be written. Here the compiled code of a kernel is used
only if no kernel file has changed since, its checksum is right, and it was compiled for these types of arguments.

Processes that need the same kernel at the same time compile it once: the others wait, and load it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

from opdop.kernels.compiler import KernelCompiler
from opdop.kernels.file_locks import try_lock
from opdop.kernels.parts import as_kernel

_DIGEST = 32  # bytes of a SHA-256, at the end of each cache file
_TOLD = "OPDOP_CACHE_NOTE"  # an environment variable, so that worker processes do not say it again
_PATIENCE = 60.0  # seconds to wait for another process that compiles the same kernel; it may have been stopped
_LOOK_EVERY = 0.02


def njit(
    *,
    cache: bool = False,
    allocates: bool = True,
    kind: str = "",
    alone: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Return Numba's decorator `njit(**options)`, with a cache that never stops the program.

    Kernels release Python's lock, so that runs in several threads are made at the same time. They divide as NumPy does,
    without an error for 0: a test of every divisor keeps loops from being vectorised.

    A kernel with `allocates=False` makes no array, and calls only kernels that return none. Numba then leaves out the
    counting of references, which takes about 10 ns for each array in each call and for each view: most of the time of
    a small problem. Views are free in such a kernel, and it compiles twice as fast. A kernel of kind "apart" stays a
    function in the kernels that call it, so that their loops have registers enough. So does one of kind "compact", and
    LLVM keeps its code short, which is faster where there are few states and actions. A part that is `alone` is
    optimised before it is linked into its callers, and again with them.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        vars(function)["alone"] = alone  # which `opdop.kernels.parts` reads
        chosen = {"nogil": True, "error_model": "numpy", "_nrt": allocates, "no_cfunc_wrapper": True, **options}
        compiled = as_kernel(numba.njit(**chosen, pipeline_class=KernelCompiler)(function), chosen, kind)
        if cache and hasattr(compiled, "_cache"):  # not if compiling is switched off
            compiled._cache = _LateCache(function)
        return compiled

    return decorate


def note(text: str) -> None:
    """Say something about the cache on standard error, once for this process and those that it starts."""
    if _TOLD not in os.environ and sys.stderr is not None:
        os.environ[_TOLD] = "said"
        with contextlib.suppress(OSError, ValueError):
            print(f"opdop: {' '.join(text.split())}", file=sys.stderr)


@functools.cache
def source_stamp(folder: Path) -> bytes:
    """Return a digest of how kernels are compiled and of all their files: they call each other."""
    sources = sorted(folder.glob("*.py"))
    parts = [hashlib.sha256(path.read_bytes()).digest() for path in sources]
    checked = f"bounds checked: {numba.config.BOUNDSCHECK}"  # Numba itself would take code without checks for this
    return hashlib.sha256(b"".join([*parts, checked.encode()])).digest()


def _locator(name: str) -> Any:
    """Return a class of Numba that finds a folder for compiled code; before Numba 0.61.1 its name began with "_"."""
    return getattr(caching, name, None) or getattr(caching, f"_{name}", None)


class _TemporaryLocator(_locator("UserWideCacheLocator")):  # type: ignore[misc]
    """A folder for temporary files that only this user can write: elsewhere others could plant code."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        place = os.path.join(tempfile.gettempdir(), f"opdop-cache-{os.getuid()}")
        os.makedirs(place, mode=0o700, exist_ok=True)
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise OSError(f"{place} belongs to somebody else")
        self._cache_path = os.path.join(place, self.get_suitable_cache_subpath(file))

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        found = super().from_function(function, file)
        if found is not None:
            note(f"compiled code is kept in {found.get_cache_path()}: no other folder for it can be written.")
        return found


class _HomeLocator(_locator("UserWideCacheLocator")):  # type: ignore[misc]
    """The user's folder for caches, if there is one: without a home its name is a relative path."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        if not os.path.isabs(os.path.expanduser("~")):
            return None
        return super().from_function(function, file)


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = tuple(
        found
        for found in (
            _locator("UserProvidedCacheLocator"),
            _locator("InTreeCacheLocator"),
            _HomeLocator,
            _locator("ZipCacheLocator"),  # from Numba 0.61 on
            _TemporaryLocator,
        )
        if found is not None
    )


class _CacheFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Files that end with a checksum, and say which function and which sources they were compiled from."""

    def save(self, key: Any, data: Any) -> None:
        folder = os.open(self._cache_path, os.O_RDONLY)  # locked, because the index is read, changed and written
        try:
            _wait_for_lock(folder)
            super().save(key, (key, self._source_stamp, data))
        finally:
            os.close(folder)

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[2] if found is not None and found[:2] == (key, self._source_stamp) else None

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = self._load_data(self._index_name)
        except Exception:  # there is none yet, it is damaged, or another version of Numba wrote it
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save_data(self._index_name, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        data = content[:-_DIGEST]
        if hashlib.sha256(data).digest() != content[-_DIGEST:]:
            raise OSError("the checksum is wrong")  # which counts as a file that is not there
        return pickle.loads(data)

    def _dump(self, data: Any) -> bytes:
        content: bytes = super()._dump(data)
        return content + hashlib.sha256(content).digest()


def _wait_for_lock(file: int) -> None:
    """Lock a file until it is closed; do without after a while, because another process may have been stopped."""
    until = time.monotonic() + _PATIENCE
    while not try_lock(file) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)


def was_compiled(what: str, kernel: Any) -> bool:
    """Return whether `remember` was told that everything for something is compiled; True if nothing can be kept."""
    note = _note(what, kernel)
    return note is None or os.path.exists(note)


def remember(what: str, kernel: Any) -> None:
    """Remember, beside the compiled code of a kernel, that everything for something is compiled."""
    if (note := _note(what, kernel)) is not None:
        with contextlib.suppress(OSError):
            Path(note).touch()


def _note(what: str, kernel: Any) -> str | None:
    """Return the name of an empty file: another one after a change of the sources or of Numba."""
    found = getattr(getattr(kernel, "_cache", None), "_found", None)
    if not isinstance(found, _Cache):
        return None
    facts = found._cache_file._source_stamp + f"{numba.__version__} {what}".encode()
    return os.path.join(found._cache_path, f"compiled.{hashlib.sha256(facts).hexdigest()[:16]}")


class _LateCache:
    """The cache of a function, looked for when it is first called: to find a folder takes longer than all the rest."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @functools.cached_property
    def _found(self) -> Any:
        try:
            return _Cache(self._function)
        except Exception as error:  # Numba finds no folder, and raises what it likes
            note(f"compiled code is not kept: {error}")
            return caching.NullCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def end_turn(self) -> None:
        """Let other processes compile the function, or load what this one has compiled."""
        if isinstance(found := vars(self).get("_found"), _Cache):
            found.end_turn()


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """The cache of a function. A process that finds nothing in it has a turn to compile, until `end_turn`."""

    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = source_stamp(Path(function.__code__.co_filename).parent)
        self._cache_file = _CacheFile(self._cache_path, self._impl.filename_base, stamp)
        self._turn: tuple[int, str] | None = None  # a file that this process has locked, and its name

    def load_overload(self, signature: Any, target: Any) -> Any:
        found = self._load(signature, target)
        if found is None:
            self._begin_turn(signature)
            found = self._load(signature, target)  # another process may have compiled it meanwhile
        return found

    def _load(self, signature: Any, target: Any) -> Any:
        try:
            return super().load_overload(signature, target)
        except Exception:  # whatever is in the file: compile again
            return None

    def _begin_turn(self, signature: Any) -> None:
        """Wait until no other process compiles this; a turn ends with the process, whatever happens to it."""
        self.end_turn()
        types = hashlib.sha256(repr(signature).encode()).hexdigest()[:16]
        name = os.path.join(self._cache_path, f"{self._impl.filename_base}.{types}.lock")
        with contextlib.suppress(OSError):  # both compile it
            self._turn = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644), name
            _wait_for_lock(self._turn[0])

    def end_turn(self) -> None:
        """Let other processes compile this function, or load what this one has compiled."""
        if self._turn is not None:
            file, name = self._turn
            self._turn = None
            with contextlib.suppress(OSError):  # who waits for it has it open; who comes now makes a new one
                os.unlink(name)
            os.close(file)

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except Exception as error:
            note(f"compiled code is not kept, because {self._cache_path} cannot be written: {error}")

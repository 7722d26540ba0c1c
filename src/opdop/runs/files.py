"""Files that are written whole or not at all, and that are read without trusting them.

Arrays are stored in an .npz that NumPy can open: nothing in it is compressed, `meta.json` lies beside the arrays, and
the last bytes are a SHA-256 of all others. So any damage is noticed. A malicious file can cost no more memory than a
small multiple of its own size, and nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import json
import math
import os
import re
import secrets
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from opdop.kernels.file_locks import try_lock
from opdop.model import InvalidParameterError, OpdopError
from opdop.model.text_files import open_regular
from opdop.model.validation import printable, shown

Arrays = dict[str, NDArray[Any]]

CHECKSUMS = "SHA256SUMS"  # a file; `sha256sum --check` reads it too

_META = "meta.json"
_LARGEST_META = 16 * 2**20
_LARGEST_FILE = 64 * 2**30
_SEAL = b"opdop file 1, sha256 "  # the zip's comment, followed by the digest in hexadecimal digits
_DIGITS = 64
_NUMBERS = "biufc"  # the kinds of dtype that may be stored
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
_OWNER = ".owner"  # the file that the owner of a folder locks
_OLD = 600.0  # seconds after its last change, a temporary file is a leftover of a process that was killed


class DamagedFileError(OpdopError):
    """A file that opdop did not write as it is: damaged, truncated, foreign or malicious."""


def file_name(text: str) -> str:
    """Return a text as part of a file name: lower-case ASCII letters and digits, joined by hyphens.

    >>> file_name("Factored, radius_scale=0.1")
    'factored-radius-scale-0-1'
    """
    return "-".join(re.findall("[a-z0-9]+", text.lower()))


def as_folder(name: str, path: Any) -> Path:
    """Return the path of a folder; raises InvalidParameterError if it cannot be one."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(text := os.fspath(path), str) or "\0" in text:
        raise InvalidParameterError(f"{name} is {shown(path)}; expected the path of a folder.")
    return Path(text)


# Locks -----------------------------------------------------------------------------------------------------------

_held: dict[str, tuple[int, int]] = {}  # the process and the thread that own a folder


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own a folder while the context lasts: no other process and no other thread writes a run into it.

    In one thread such contexts may be nested. The system ends the ownership of a process that dies. Where the file
    system has no locks, nobody is refused. Raises OpdopError if another owns the folder, or it cannot be written.
    """
    name, me = os.path.realpath(folder), (os.getpid(), threading.get_ident())
    if _held.get(name) == me:
        yield
        return
    file = _own(folder)
    _held[name] = me
    try:
        yield
    finally:
        del _held[name]
        with contextlib.suppress(OSError):
            os.unlink(folder / _OWNER)
        os.close(file)


def _own(folder: Path) -> int:
    """Return a file of a folder that only this process has locked."""
    path = folder / _OWNER
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise _unwritable(folder, error) from error
        if not try_lock(file):
            who = printable(os.pread(file, 200, 0).decode(errors="replace")) or "unknown"
            os.close(file)
            raise OpdopError(
                f"{printable(str(folder))} is in use: another process ({who}) writes a run into it. "
                "Wait until it has ended, or name another folder."
            )
        if is_file(file, path):
            with contextlib.suppress(OSError):  # only shown to people
                os.pwrite(file, f"{os.getpid()} on {os.uname().nodename}".encode(), 0)
            return file
        os.close(file)  # its owner has just removed it


def is_file(file: int, path: Path) -> bool:
    """Return whether an open file is still the one with this name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


# Writing ---------------------------------------------------------------------------------------------------------


def write_whole(path: Path, content: str | bytes | memoryview | Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name, flush it to the disk, then rename it: readers see the old file or the new.

    `content` is text (stored as UTF-8), bytes, or a function that writes into a file. Any number of processes may write
    at once; the last one wins. Temporary files of killed processes are removed after ten minutes; a process whose own
    was removed writes again. Raises OpdopError if the file cannot be written; the old one is then unchanged.
    """
    if not callable(content):
        data = content.encode() if isinstance(content, str) else content
        write_whole(path, lambda file: file.write(data))
        return
    try:
        try:
            _write_once(path, content)
        except FileNotFoundError:
            _write_once(path, content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> OpdopError:
    return OpdopError(
        f"{printable(str(path))} cannot be written: {error.strerror or error}. What was there before is unchanged; "
        "make room, or name another folder."
    )


def _write_once(path: Path, write: Callable[[BinaryIO], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x+b") as file:
            _remove_leftovers(path, os.fstat(file.fileno()).st_mtime - _OLD)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the file is there; some systems cannot flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_checksums(folder: Path, names: Sequence[str]) -> None:
    """Write SHA256SUMS, in the format of `sha256sum`, for these files of a folder; raises OpdopError if that fails."""
    lines = []
    for name in names:
        digest = digest_of(folder / name)
        if digest is None:
            raise OpdopError(f"{printable(str(folder / name))} cannot be read, though it was just written.")
        lines.append(f"{digest}  {name}\n")
    write_whole(folder / CHECKSUMS, "".join(lines))


def has_right_checksums(folder: Path, names: Sequence[str]) -> bool:
    """Return whether all these files of a folder are there, with the contents that SHA256SUMS states."""
    try:
        with open_regular(folder / CHECKSUMS) as file:
            stated = file.read(_LARGEST_META).decode().splitlines()
    except (OSError, ValueError):
        return False
    return all(f"{digest_of(folder / name)}  {name}" in stated for name in names)


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a regular file in hexadecimal digits, or None if it cannot be read."""
    try:
        with open_regular(path) as file:
            return _digest(file, os.fstat(file.fileno()).st_size).decode()
    except OSError:
        return None


def _remove_leftovers(path: Path, before: float) -> None:
    """Remove the temporary files of this path that were last written before a time, by the folder's own clock."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if leftover.lstat().st_mtime < before:
                leftover.unlink()


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write JSON data and arrays of numbers into one .npz, whole or not at all.

    Raises OpdopError if the data are not JSON data, an array does not hold numbers, or the file cannot be written.
    """
    try:
        text = json.dumps(meta, default=_number).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OpdopError(f"{path} cannot be written: {error}; expected data that JSON can hold.") from error
    if len(text) > _LARGEST_META:
        raise OpdopError(f"{path} cannot be written: {len(text)} bytes of names and settings; at most {_LARGEST_META}.")
    for name, array in arrays.items():
        if getattr(array, "dtype", np.dtype(object)).kind not in _NUMBERS or not _NAME.fullmatch(str(name)):
            found = getattr(array, "dtype", shown(array))
            raise OpdopError(
                f"{path} cannot be written: {shown(name)} is {found}; expected a plain name and an array of numbers."
            )

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = _SEAL + b"0" * _DIGITS
            with archive.open(_META, "w") as entry:
                entry.write(text)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    npy.write_array(entry, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
        size = file.seek(-_DIGITS, io.SEEK_END)
        digest = _digest(file, size)
        file.seek(size)
        file.write(digest)

    write_whole(path, write)


def _number(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON data")


def plain(value: Any) -> Any:
    """Return data as JSON returns them; values that JSON cannot hold become text."""

    def default(odd: Any) -> Any:
        if isinstance(odd, Mapping):
            return dict(odd)
        return odd.tolist() if isinstance(odd, (np.generic, np.ndarray)) else str(odd)

    return json.loads(json.dumps(value, default=default))


# Reading ---------------------------------------------------------------------------------------------------------


def read_arrays(path: Path, *, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return the JSON data and the arrays of a file whose JSON data have this `kind`; nothing is ever unpickled.

    Raises DamagedFileError if the file cannot be read or is not such a file.
    """
    try:
        with open_regular(path) as file:
            size = _check_seal(file)
            with zipfile.ZipFile(file) as archive:
                meta, arrays = _unpack(archive, size)
        if not isinstance(meta, dict) or meta.get("kind") != kind:
            raise ValueError(f"it is not {kind}")
    except FileNotFoundError as error:
        raise DamagedFileError(f"there is no file {printable(str(path))}.") from error
    except PermissionError as error:
        raise DamagedFileError(f"{printable(str(path))} cannot be read: {error.strerror}.") from error
    except Exception as error:  # a malicious file can make the readers raise any error
        raise damaged(path, kind, error) from error
    return meta, arrays


def damaged(origin: object, kind: str, error: BaseException) -> DamagedFileError:
    """Return the error for a file that cannot be used; its reason is shortened and without control characters."""
    words = error.strerror or "" if isinstance(error, OSError) else str(error)
    reason = printable(" ".join(words.split()))[:300].rstrip(".") or type(error).__name__
    return DamagedFileError(
        f"{printable(str(origin))} cannot be used as {kind}: {reason}. It is damaged or not opdop's: "
        "replace it by a copy, or delete it and run again."
    )


def _check_seal(file: BinaryIO) -> int:
    """Return the size of a file whose last bytes are the digest of all others."""
    about = os.fstat(file.fileno())
    if about.st_size > _LARGEST_FILE:
        raise ValueError(f"it has {about.st_size} bytes; expected at most {_LARGEST_FILE}")
    size = about.st_size - _DIGITS
    if size < len(_SEAL):
        raise ValueError("it is too short")
    file.seek(size - len(_SEAL))
    if file.read(len(_SEAL)) != _SEAL:
        raise ValueError("it does not end as such files do")
    if file.read() != _digest(file, size):
        raise ValueError("its checksum is wrong")
    return about.st_size


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes of a file, in hexadecimal digits."""
    sha = hashlib.sha256()
    file.seek(0)
    while size > 0 and (block := file.read(min(size, 2**20))):
        sha.update(block)
        size -= len(block)
    return sha.hexdigest().encode()


def _unpack(archive: zipfile.ZipFile, size: int) -> tuple[Any, Arrays]:
    """Read all entries of an archive of this size; nothing is compressed, so they cannot be larger than it is."""
    items = {item.filename: item for item in archive.infolist()}
    if len(items) < len(archive.infolist()):
        raise ValueError("two entries have the same name")
    if any(item.compress_type or item.file_size != item.compress_size for item in items.values()):
        raise ValueError("an entry is compressed")
    if sum(item.file_size for item in items.values()) > size:
        raise ValueError("its entries are larger than the file")
    if _META not in items or items[_META].file_size > _LARGEST_META:
        raise ValueError(f"there is no {_META}, or it is too large")
    meta = json.loads(archive.read(items.pop(_META)))
    arrays = {}
    for name, item in items.items():
        if not name.endswith(".npy") or not _NAME.fullmatch(name.removesuffix(".npy")):
            raise ValueError(f"an entry is named {name[:50]!r}")
        arrays[name.removesuffix(".npy")] = _array(archive.read(item))
    return meta, arrays


def _array(data: bytes) -> NDArray[Any]:
    """Return the array of an .npy file, whose data must be exactly as long as the header says."""
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array has an unknown format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype.kind not in _NUMBERS or fortran or min(shape, default=0) < 0:
        raise ValueError("an array holds something else than numbers")
    start = stream.tell()
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError("an array is not as long as its header says")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError("an array of truth values holds something else")
    return array

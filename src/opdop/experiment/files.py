"""Files that appear whole or not at all, and that are read without trusting them."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from opdop.model import OpdopError

Arrays = dict[str, NDArray[Any]]

_META = "meta"  # one array in the file holds JSON, as bytes
_LARGEST_META = 64 * 2**20


class DamagedFileError(OpdopError):
    """A file that is not what opdop writes: damaged, truncated, foreign or hostile."""


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file under a temporary name, flush it to the disk, then rename: a reader sees the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write JSON data and arrays into one .npz, whole or not at all."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    content: dict[str, Any] = {_META: text, **arrays}
    write_whole(path, lambda file: np.savez(file, **content))


def read_arrays(path: Path, *, kind: str, most_bytes: int) -> tuple[dict[str, Any], Arrays]:
    """Return the JSON data and the arrays of a file; anything odd is one clear error, and nothing is ever unpickled.

    `kind` must be what the JSON data say of themselves. A file that unpacks to more than `most_bytes` is refused.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
            if unpacked > most_bytes + _LARGEST_META:
                raise DamagedFileError(f"{path} unpacks to {unpacked} bytes, more than such a file can have.")
            contents = {item.filename: archive.read(item) for item in archive.infolist()}
        arrays = {
            name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
            for name, data in contents.items()
        }
        meta = json.loads(arrays.pop(_META).tobytes().decode())
        if not isinstance(meta, dict) or meta.get("kind") != kind:
            raise DamagedFileError(f"{path} is not {kind}.")
    except FileNotFoundError as error:
        raise DamagedFileError(f"there is no file {path}.") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, NotImplementedError) as error:
        raise DamagedFileError(_odd(path, kind, error)) from error
    except (zipfile.BadZipFile, zlib.error, RuntimeError, MemoryError, RecursionError, OverflowError) as error:
        raise DamagedFileError(_odd(path, kind, error)) from error
    return meta, arrays


def _odd(path: Path, kind: str, error: BaseException) -> str:
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    return f"{path} cannot be read as {kind}: {detail}. It is damaged or not opdop's; delete it to start anew."

"""Arrays in .npz files, read without pickle and never larger than the file says it is."""

from __future__ import annotations

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from opdop.model.errors import InvalidModelError, InvalidParameterError, OpdopError
from opdop.model.text_files import open_regular
from opdop.model.validation import check_memory, printable, shown

_LARGEST_UNPACKED = 2**28  # bytes that a compressed file may unpack to


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays into a file, whole or not at all; raises OpdopError if that fails."""
    listed: dict[str, Any] = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    _write(path, lambda file: np.savez(file, **listed))


def write_text(path: Path, text: str) -> None:
    """Write a text into a file, whole or not at all; raises OpdopError if that fails."""
    _write(path, lambda file: file.write(text.encode()))


def _write(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except OSError as error:
        raise OpdopError(f"{printable(str(path))} cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def reading(source: Path, what: str) -> Iterator[None]:
    """Turn whatever a reader of the file `source` raises into one line that says why it holds no `what`.

    Raises InvalidParameterError if the file is missing or cannot be read, and InvalidModelError otherwise.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidParameterError(f"there is no file {printable(str(error.filename or source))}.") from error
    except OSError as error:
        raise InvalidParameterError(f"{printable(str(source))} cannot be read: {error.strerror or error}.") from error
    except (Exception, RecursionError) as error:  # a malicious file can make the readers raise any error
        reason = printable(" ".join(str(error).split()))[:400].rstrip(".") or type(error).__name__
        raise InvalidModelError(f"{printable(str(source))} holds no {what}: {reason}.") from error


def read_npz(path: Path, *, allowed: Set[str]) -> dict[str, Any]:
    """Return the arrays of a file, of numbers or one text each; names that are not allowed are refused.

    Before anything is unpacked, its size is compared with the file's and with the memory. Raises OSError,
    zipfile.BadZipFile or InvalidModelError if the file cannot be read.
    """
    arrays = {}
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        size = os.fstat(file.fileno()).st_size
        items = archive.infolist()
        names = [item.filename.removesuffix(".npy") for item in items]
        odd = sorted(set(names) - allowed)
        if odd or len(set(names)) < len(names):
            raise InvalidModelError(f"it has the entries {shown(names)}; expected some of {sorted(allowed)}")
        content = sum(item.file_size for item in items)
        if content > max(size, _LARGEST_UNPACKED):
            raise InvalidModelError(
                f"its entries say that they unpack to {content:,} bytes; expected at most {_LARGEST_UNPACKED:,}. Save "
                "larger ones without compression"
            )
        check_memory(2.0 * content, "its content")
        for name, item in zip(names, items, strict=True):
            with archive.open(item) as entry:
                data = entry.read(item.file_size + 1)
            if len(data) != item.file_size:
                raise InvalidModelError(f"{name} is not as long as it says")
            arrays[name] = _array(name, data)
    return arrays


def _array(name: str, data: bytes) -> Any:
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise InvalidModelError(f"{name} has an unknown version")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    start = stream.tell()
    if dtype.kind not in "biufU" or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise InvalidModelError(f"{name} is {dtype} {list(shape)} in {len(data)} bytes")
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order="F" if fortran else "C").copy(order="C")

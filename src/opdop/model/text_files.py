"""Files that are opened and parsed without trusting them: JSON and TOML of bounded size, depth and time."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from opdop.model.errors import InvalidModelError
from opdop.model.validation import check_memory, shown

LARGEST_TEXT = 256 * 2**20
_OBJECTS = 32.0  # bytes of memory that a byte of JSON or TOML takes at most when it is parsed; the worst is "{},"
_DEEPEST_KEY = 50  # parts of a dotted key; tomllib takes quadratic time for long ones
_DOTTED_KEY = re.compile(
    rf"""(?<![\w.-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_DEEPEST_KEY}}}""", re.ASCII
)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; raises OSError at once for anything else, as a pipe that nobody writes to."""
    return open(path, "rb", opener=_open_at_once)


def _open_at_once(path: str, flags: int) -> int:
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return file


def read_text(path: str | Path, *, largest: int = LARGEST_TEXT) -> str:
    """Return the UTF-8 text of a regular file of at most `largest` bytes.

    Raises InvalidModelError if it is larger, or if its content might not fit into memory when it is parsed; OSError
    or UnicodeDecodeError if it cannot be read.
    """
    with open_regular(path) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise InvalidModelError(f"it has more than {largest:,} bytes")
    check_memory(_OBJECTS * len(data), "its content")
    return data.decode()


def parse_json(text: str) -> Any:
    """Return the data of a JSON text; raises ValueError or RecursionError for names given twice, NaN, and no JSON."""
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text; raises ValueError or RecursionError if it is none, or has endless dotted keys."""
    if found := _DOTTED_KEY.search(text):
        raise ValueError(f"a key has more than {_DEEPEST_KEY} parts: {shown(found.group())}")
    return tomllib.loads(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{shown(twice)} is given twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")

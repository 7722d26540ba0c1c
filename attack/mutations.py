"""Damage and malice for files and values: bytes, JSON data, arrays, TOML text."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

HOSTILE_TEXT = "\x1b[31m</script><b>\u202e\x00\n"
NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64 + 1,
    10**400,
    -0.0,
    0.5,
    0.95,
    1e-320,
    1e308,
    math.inf,
    -math.inf,
    math.nan,
    "",
    "no",
    "1e9",
    "x" * 5000,
    HOSTILE_TEXT,
    [],
    [[]],
    [1, [2]],
    [None],
    {},
    {"a": 1},
    {"": {"": []}},
)


def damage(path: Path, random: np.random.Generator) -> str:
    """Damage the bytes of a file in place; return how."""
    data = bytearray(path.read_bytes())
    kind = random.integers(8)
    if not data or kind == 0:
        path.write_bytes(b"")
        return "emptied"
    at = int(random.integers(len(data)))
    length = int(min(random.integers(1, 512), len(data) - at))
    if kind <= 3:
        data[at] ^= 1 << int(random.integers(8))
        text = f"bit at byte {at}"
    elif kind == 4:
        del data[at:]
        text = f"truncated at {at}"
    elif kind == 5:
        data[at : at + length] = bytes(length)
        text = f"{length} zeros at {at}"
    elif kind == 6:
        data[at : at + length] = random.bytes(length)
        text = f"{length} random bytes at {at}"
    else:
        data[at:at] = random.bytes(length)
        text = f"{length} bytes inserted at {at}"
    path.write_bytes(bytes(data))
    return text


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in JSON data."""
    found = [path] if path else []
    if isinstance(data, dict):
        items: Any = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    else:
        return found
    for key, value in items:
        found += places(value, (*path, key))
    return found


def mutate_json(data: Any, random: np.random.Generator) -> tuple[Any, str]:
    """Return JSON data with one value replaced, removed, renamed or doubled, and what was done."""
    data = copy.deepcopy(data)
    every = places(data)
    if not every:
        return NASTY[int(random.integers(len(NASTY)))], "the whole"
    path = every[int(random.integers(len(every)))]
    above = data
    for key in path[:-1]:
        above = above[key]
    what = random.integers(5)
    if what == 0:
        del above[path[-1]]
        return data, f"removed {path}"
    if what == 1 and isinstance(above, dict):
        above[HOSTILE_TEXT] = above.pop(path[-1])
        return data, f"renamed {path}"
    value = NASTY[int(random.integers(len(NASTY)))]
    above[path[-1]] = value
    return data, f"{path} = {value!r:.60}"


def json_text(data: Any) -> str:
    """Return JSON text, with integers of any length."""
    return json.dumps(data)


def mutate_array(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return an array with another value, shape or type."""
    what = random.integers(6)
    if what == 0 and array.size:
        changed = array.copy()
        value = (-1, 2**31 - 1, np.nan, np.inf, 1e300, -1e-9)[int(random.integers(6))]
        with np.errstate(all="ignore"):
            changed.ravel()[int(random.integers(array.size))] = (
                np.array(value).astype(array.dtype) if array.dtype.kind != "b" else value > 0
            )
        return changed
    if what == 1:
        return array[..., :0] if array.ndim else np.array([array, array])
    if what == 2:
        return array[None]
    if what == 3:
        return array.astype(np.float32)
    if what == 4:
        return np.repeat(array.ravel(), 2)
    return np.roll(array, 1) if array.size > 1 else array * 3


def mutate_toml(text: str, random: np.random.Generator) -> tuple[str, str]:
    """Return TOML text with a value, a key or a line changed."""
    lines = text.splitlines()
    at = int(random.integers(len(lines)))
    what = random.integers(6)
    values = (
        "nan",
        "inf",
        "-1",
        "1e400",
        "9" * 400,
        "[]",
        "[[1]]",
        "{}",
        '""',
        '"\\u0000x"',
        "true",
        "1979-05-27",
        "0x7f",
    )
    if what == 0:
        lines.pop(at)
    elif what == 1:
        lines.insert(at, lines[at])
    elif what == 2:
        lines.insert(at, f"x{random.integers(99)} = {values[int(random.integers(len(values)))]}")
    elif "=" in lines[at]:
        name = lines[at].partition("=")[0]
        lines[at] = f"{name}= {values[int(random.integers(len(values)))]}"
    else:
        lines[at] = re.sub(r"\w", "é", lines[at], count=1)
    return "\n".join(lines) + "\n", f"line {at}: {lines[min(at, len(lines) - 1)]!r:.80}" if lines else "empty"

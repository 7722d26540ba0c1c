"""Lists of states by row, in two arrays: where each row's list starts, and the states of all lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.model import InvalidModelError
from opdop.model.validation import shown

Ints = NDArray[np.int64]


def as_lists(
    rows: int, row: NDArray[Any], successor: NDArray[Any], seen: NDArray[Any], S: int
) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Return transitions, in any order and repeated or not, as lists by row: starts, successors and numbers."""
    keys, inverse = np.unique(row * np.int64(S) + successor, return_inverse=True)
    numbers = np.zeros(len(keys), dtype=np.int64)
    np.add.at(numbers, inverse, seen)
    starts = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) * S)
    return starts.astype(np.int64), (keys % S).astype(np.int32), numbers


def keys(starts: Ints, successors: NDArray[Any], S: int) -> Ints:
    """Return row*S + successor of each entry."""
    row = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
    return np.asarray(row * S + successors, dtype=np.int64)


def add_by_row(starts: Ints, values: Ints) -> Ints:
    """Return the sum of each row's entries."""
    running = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(running[starts[1:]] - running[starts[:-1]])


def checked_lists(name: str, starts: Ints, values: Any, S: int) -> NDArray[np.int32]:
    """Return the states of lists by row; raise unless each is in 0..S-1, ascending within its row."""
    states = whole(name, values)
    if not len(starts) or starts[0] != 0 or starts[-1] != len(states) or (np.diff(starts) < 0).any():
        raise InvalidModelError(f"the starts of {name} do not ascend from 0 to {len(states)}, their number.")
    if states.size and not 0 <= states.min() <= states.max() < S:
        raise InvalidModelError(f"{name} are {states.min()} to {states.max()}; expected states in 0..{S - 1}.")
    if (np.diff(keys(starts, states, S)) <= 0).any():
        raise InvalidModelError(f"{name} of a row are not distinct and ascending.")
    return states.astype(np.int32)


def whole(name: str, values: Any) -> Ints:
    """Return a fresh array of whole numbers [n]; raise InvalidModelError if it is none."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and not (array.dtype.kind == "f" and _allwhole(array))):
        raise InvalidModelError(f"{name} is {array.dtype} {list(array.shape)}; expected whole numbers in one row.")
    return np.array(array, dtype=np.int64)


def _allwhole(array: NDArray[Any]) -> bool:
    return bool(np.isfinite(array).all() and (array == np.floor(array)).all() and (np.abs(array) < 2.0**53).all())


def indices(name: str, values: Any, size: int) -> Ints:
    """Return whole numbers in 0..size-1; raise InvalidModelError, naming the first that is not."""
    array = whole(name, values)
    bad = (array < 0) | (array >= size)
    if bad.any():
        n = int(np.argmax(bad))
        raise InvalidModelError(f"{name}[{n}] is {array[n]}; expected 0 to {size - 1}.")
    return array


def scalar(name: str, value: Any) -> Any:
    """Return the one whole number, or truth value, of an array."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "iub":
        raise InvalidModelError(f"{name} of the observations is {shown(value)}; expected one whole number.")
    return array.item()

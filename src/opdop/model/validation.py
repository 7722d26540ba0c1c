"""Checks that turn arguments into clean arrays, or raise an error that says what to change."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from opdop.model.errors import InvalidModelError, InvalidParameterError, OpdopError

Floats = NDArray[np.float64]

# A row of probabilities may miss 1 by this much (float32 sources do); it is then divided by its sum.
ROW_SUM_TOLERANCE = 1e-6
MOST_EPISODES = 2**31 - 1  # counts are kept in 32 bits
_LARGEST_SIZE = 2**31 - 1
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: Any) -> str:
    """Return any object as short text in one line of printable letters; its own text may be anything, or raise."""
    try:
        text = _short.repr(value)
    except Exception:  # a foreign object may raise anything while it is shown; a number may be too long to print
        text = whole_number(value) if isinstance(value, int) else f"a {type(value).__name__} that cannot be shown"
    return printable(text)


def printable(text: str) -> str:
    """Return a text without control characters, marks of writing direction, and other invisible characters.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two lines, [31mred'
    """
    if text.isprintable():
        return text
    spaced = "".join(" " if letter.isspace() else letter for letter in text)
    return "".join(letter for letter in spaced if letter.isprintable())


def as_text(name: str, value: Any) -> str:
    """Return a text without invisible characters; raise InvalidModelError if it is not a text."""
    if not isinstance(value, str):
        raise InvalidModelError(f"{name} is {shown(value)} ({type(value).__name__}); expected text.")
    return printable(str(value))


def as_flag(name: str, value: Any) -> bool:
    """Return True or False; raise InvalidParameterError for anything else, such as the text "no"."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidParameterError(f"{name} is {shown(value)} ({type(value).__name__}); expected True or False.")


def as_number(name: str, value: Any, expected: str, *, error: type[OpdopError] = InvalidParameterError) -> float:
    """Return a finite number of Python or NumPy as a float."""
    with contextlib.suppress(OverflowError):
        if is_number(value) and math.isfinite(value):
            return float(value)
    raise error(f"{name} is {shown(value)}; expected {expected}.")


def as_whole(name: str, value: Any, expected: str = "a whole number") -> int:
    """Return a whole number of any size."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidModelError(f"{name} is {shown(value)} ({type(value).__name__}); expected {expected}.")
    return int(value)


def as_index(name: str, value: Any, size: int) -> int:
    """Return a whole number in 0..size-1."""
    with contextlib.suppress(TypeError):
        if not isinstance(value, bool) and 0 <= (index := operator.index(value)) < size:
            return index
    raise InvalidParameterError(f"{name} {shown(value)} is not one of 0..{size - 1}.")


def as_generator(seed: Any) -> np.random.Generator:
    """Return NumPy's generator of a seed: a whole number of at least 0, a SeedSequence or a Generator."""
    try:
        if isinstance(seed, (bool, np.bool_)):
            raise TypeError
        return np.random.default_rng(seed)
    except Exception as error:  # a foreign object may raise anything while it is read
        expected = "a whole number, at least 0, a SeedSequence or a Generator"
        raise InvalidParameterError(f"seed is {shown(seed)}; expected {expected}.") from error


def restore_generator(generator: np.random.Generator, state: Any) -> None:
    """Set a generator to a saved state; raise OpdopError if it is not a state of this kind of generator."""
    before = generator.bit_generator.state
    try:
        if any(isinstance(value, int) and value < 0 for value in state["state"].values()):
            raise OverflowError("a negative state")  # NumPy 1.26 takes it for another one
        generator.bit_generator.state = state
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, IndexError) as error:
        generator.bit_generator.state = before
        raise OpdopError(f"{shown(state)} is not a state of {before['bit_generator']}.") from error


@functools.cache
def memory_limit() -> float:
    """Return the bytes of memory that this machine has, or its container; infinity if that is unknown."""
    limit = math.inf
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on every system
        limit = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):  # "max", or no container
        limit = min(limit, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    return limit


def check_memory(needed: float, what: str) -> None:
    """Raise InvalidModelError if something needs more bytes than there are: an allocation may fail after minutes."""
    if needed > memory_limit():
        there = memory_limit() / 1e9
        raise InvalidModelError(
            f"{what} would take {needed / 1e9:,.4g} GB of memory; there are {there:,.4g} GB. Use smaller sizes."
        )


def call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function that was given returns; raise InvalidModelError, with its reason, if it fails."""
    try:
        return function(*arguments)
    except OpdopError:
        raise
    except Exception as error:  # it may raise anything
        raise InvalidModelError(f"{name} failed: {type(error).__name__}: {printable(str(error))}") from error


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a real number of Python or NumPy; truth values are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_failure_probability(name: str, value: Any) -> float:
    """Return a failure probability in (0, 0.5]; refuse a confidence level such as 0.95 with a hint."""
    if is_number(value) and 0.0 < value <= 0.5:
        return float(value)
    hint = ""
    if is_number(value) and 0.5 < value < 1.0:
        hint = f" For a guarantee with probability {value:g}, give {1.0 - value:.12g}."
    raise InvalidParameterError(
        f"{name} is {shown(value)}; expected the probability with which the guarantee may fail, in (0, 0.5].{hint}"
    )


def place(name: str, index: tuple[int, ...]) -> str:
    """Return "name[1, 2]", or the bare name for a number."""
    return f"{name}[{', '.join(str(int(i)) for i in index)}]" if index else name


def number(value: float) -> str:
    """Return a number as short text that reads back as the same number: 1 + 1e-12 must not read as 1."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def whole_number(value: int | np.integer[Any]) -> str:
    """Return a whole number as text, or its length in bits if it is too long to print."""
    whole = int(value)
    return f"{whole}" if abs(whole) < 10**30 else f"a number of {whole.bit_length()} bits"


def first_index(bad: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first True."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def as_floats(name: str, value: Any, expected: str) -> Floats:
    """Return a fresh float64 array of finite numbers, or raise InvalidModelError naming what is wrong where."""
    from scipy import sparse  # late: the command line checks settings without loading it

    if sparse.issparse(value):
        raise InvalidModelError(f"{name} is a scipy.sparse matrix; expected a plain array, {expected}.")
    if np.ma.is_masked(value) or (isinstance(value, (list, tuple)) and any(map(np.ma.is_masked, value))):
        raise InvalidModelError(f"{name} has masked entries; expected numbers everywhere, {expected}.")
    try:
        array = np.asarray(value)
    except Exception as error:  # a foreign object may raise anything while it is read
        reason = printable(str(error))
        raise InvalidModelError(f"{name} cannot be read as an array ({reason}); expected {expected}.") from error
    if array.dtype.kind not in "biuf":
        found = f"entries of type {array.dtype}" if array.ndim else f"{shown(value)} ({type(value).__name__})"
        raise InvalidModelError(f"{name} has {printable(found)}; expected real numbers, {expected}.")
    check_memory(8.0 * array.size, f"{name} of shape {list(array.shape)}")
    with np.errstate(over="ignore"):
        floats = np.array(array, dtype=np.float64, order="C")
    finite = np.isfinite(floats)
    if not finite.all():
        index = first_index(~finite)
        raise InvalidModelError(f"{place(name, index)} is {floats[index]}; expected a finite number.")
    return floats


def as_vector(name: str, value: Any, size: int, letter: str) -> Floats:
    """Return a fresh array of `size` finite numbers; the letter says in messages what it is the size of."""
    vector = as_floats(name, value, f"[{letter}] = [{size}]")
    if vector.shape != (size,):
        raise InvalidModelError(f"{name} has shape {list(vector.shape)}; expected [{letter}] = [{size}].")
    return vector


def as_size(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    size = as_whole(name, value, "a whole number, at least 1")
    if not 1 <= size <= _LARGEST_SIZE:
        raise InvalidModelError(f"{name} is {whole_number(size)}; expected at least 1 and at most {_LARGEST_SIZE}.")
    return size


def check_unit_interval(name: str, values: Floats) -> None:
    """Raise unless all values lie in [0, 1]; say how to rescale."""
    bad = (values < 0.0) | (values > 1.0)
    if not bad.any():
        return
    index = first_index(bad)
    low, high = float(values.min()), float(values.max())
    spread = high - min(low, 0.0)
    raise InvalidModelError(
        f"{place(name, index)} is {number(values[index])}; signals must lie in [0, 1], and {name} spans "
        f"[{number(low)}, {number(high)}]. "
        f"Rescale: (value - {min(low, 0.0):g}) / {spread:g} for a reward; 1 - cost / max_cost with threshold "
        f"H - budget / max_cost for a cost that must stay below a budget. TabularCMDP does so itself if it is told a "
        f"range, as in reward_range=(low, high), or given costs= with budgets=."
    )


def check_distributions(name: str, rows: Floats, axes: tuple[int, ...] | None = None) -> None:
    """Raise unless each row [..., n] is a distribution; divide, in place, rows whose sum misses 1 only by rounding.

    `axes` is the shape that error messages refer to, if the rows were flattened.
    """
    shape = rows.shape if axes is None else (*axes, rows.shape[-1])
    negative = rows < 0.0
    if negative.any():
        index = first_index(negative.reshape(shape))
        raise InvalidModelError(
            f"{place(name, index)} is {rows.reshape(shape)[index]:g}; expected a probability, at least 0."
        )
    with np.errstate(over="ignore"):  # an infinite sum is not 1 either
        sums = np.asarray(rows.sum(axis=-1))
    normalise(name, sums, shape[:-1], rows)


def normalise(name: str, sums: Floats, axes: tuple[int, ...], rows: Floats) -> None:
    """Raise if a sum is not 1; divide, in place, rows whose sum misses 1 only by rounding."""
    off = np.abs(sums - 1.0)
    bad = off > ROW_SUM_TOLERANCE
    if bad.any():
        index = first_index(bad.reshape(axes)) if axes else ()
        raise InvalidModelError(row_sum_message(name, index, float(sums.reshape(axes)[index])))
    crooked = off > 1e-14
    if np.any(crooked):
        rows[crooked] /= sums[crooked, None] if sums.ndim else sums


def row_sum_message(name: str, index: tuple[int, ...], total: float) -> str:
    """Return the error message about a row that does not sum to 1."""
    where = f"{name}[{', '.join(map(str, index))}, :]" if index else name
    return f"{where} sums to {total:.9g}; expected a probability distribution, sum 1."


def read_sparse(label: str, matrix: Any) -> Any:
    """Return a sparse matrix of any format as a fresh float64 csr_array without duplicates.

    Raises InvalidModelError if its entries are no real numbers, or its indices do not fit its shape: compiled code,
    SciPy's conversions included, would read and write beyond its arrays.
    """
    from scipy import sparse

    rows, columns = matrix.shape
    check_memory(16.0 * rows + 8.0 * columns, f"{label} of shape {[rows, columns]}")
    dtype = getattr(matrix, "dtype", None)
    if getattr(dtype, "kind", "?") not in "biuf":
        raise InvalidModelError(f"{label} has entries of type {dtype}; expected real numbers.")
    try:
        sound = _is_sound(matrix)
    except Exception:  # whatever was put in the place of its arrays
        sound = False
    if not sound:
        raise InvalidModelError(f"{label} has indices out of range; expected them within {list(matrix.shape)}.")
    csr = matrix if matrix.format == "csr" else call(f"converting {label}", matrix.tocsr)
    # From the plain arrays: a matrix may say of itself that its indices are sorted and distinct when they are not.
    used = int(csr.indptr[-1])
    parts = csr.data[:used], csr.indices[:used], csr.indptr
    make = functools.partial(sparse.csr_array, shape=(rows, columns), dtype=np.float64, copy=True)
    fresh = call(f"reading {label}", make, parts)
    fresh.sum_duplicates()
    return fresh


def _is_sound(matrix: Any) -> bool:
    """Return whether the arrays of a sparse matrix fit each other and its shape; may raise if they are not arrays."""
    rows, columns = matrix.shape
    if matrix.format == "coo":
        i, j = matrix.coords
        return matrix.data.shape == i.shape == j.shape and _within(i, rows) and _within(j, columns)
    if matrix.format == "dok":
        keys = [(operator.index(i), operator.index(j)) for (i, j), _ in matrix.items()]
        return all(0 <= i < rows and 0 <= j < columns for i, j in keys)
    if matrix.format == "lil":
        lists = list(zip(matrix.rows, matrix.data, strict=True))
        return len(lists) == rows and all(
            type(i) is list and type(entries) is list and len(i) == len(entries) and _within(np.array(i, int), columns)
            for i, entries in lists
        )
    if matrix.format == "dia":
        distinct = len(np.unique(matrix.offsets)) == len(matrix.offsets) == len(matrix.data)
        return distinct and _within(np.abs(matrix.offsets), max(rows, columns))
    height, width = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    lines, size = (columns, rows) if matrix.format == "csc" else (rows // height, columns // width)
    starts, indices = matrix.indptr, matrix.indices
    if matrix.format == "bsr" and (matrix.data.ndim != 3 or rows % height or columns % width):
        return False
    if starts.dtype.kind not in "iu" or starts.shape != (lines + 1,) or starts[0] != 0 or (np.diff(starts) < 0).any():
        return False
    return bool(starts[-1] <= min(len(indices), len(matrix.data))) and _within(indices, size)


def check_sparse_rows(label: str, csr: Any, A: int, tolerance: float) -> Floats:
    """Raise unless each row x*A + a of a kernel is a distribution; return the sum of each entry's row, [entries]."""
    row_of = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    bad = ~(np.isfinite(csr.data) & (csr.data >= 0.0))
    if bad.any():
        entry = int(np.argmax(bad))
        row, y = int(row_of[entry]), int(csr.indices[entry])
        where = f"{place(label, (row, y))} (state {row // A}, action {row % A}, next state {y})"
        raise InvalidModelError(f"{where} is {number(csr.data[entry])}; expected a finite probability, at least 0.")
    sums = np.bincount(row_of, weights=csr.data, minlength=csr.shape[0])
    wrong = np.abs(sums - 1.0) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        message = row_sum_message(label, (row,), float(sums[row]))
        raise InvalidModelError(f"{message} (state {row // A}, action {row % A})")
    return np.asarray(sums[row_of])


def _within(indices: NDArray[Any], size: int) -> bool:
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        return False
    return len(indices) == 0 or bool(0 <= indices.min() <= indices.max() < size)

"""Checks that turn arguments into clean arrays, or raise an error that says what to change."""

from __future__ import annotations

import reprlib
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from opdop.model.errors import InvalidModelError, InvalidParameterError

Floats = NDArray[np.float64]

# A row of probabilities may miss 1 by this much (float32 sources do); it is then divided by its sum.
ROW_SUM_TOLERANCE = 1e-6
MOST_EPISODES = 2**31 - 1  # counts are kept in 32 bits
_LARGEST_SIZE = 2**31 - 1


def printable(text: str) -> str:
    """Return a text without control characters, overrides of the direction, and other letters that nobody sees.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two lines, [31mred'
    """
    if text.isprintable():
        return text
    spaced = "".join(" " if letter.isspace() else letter for letter in text)
    return "".join(letter for letter in spaced if letter.isprintable())


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
        f"{name} is {value!r}; expected the probability with which the guarantee may fail, in (0, 0.5].{hint}"
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
        raise InvalidModelError(f"{name} cannot be read as an array ({error}); expected {expected}.") from error
    if array.dtype.kind not in "biuf":
        found = f"entries of type {array.dtype}" if array.ndim else f"{reprlib.repr(value)} ({type(value).__name__})"
        raise InvalidModelError(f"{name} has {found}; expected real numbers, {expected}.")
    with np.errstate(over="ignore"):
        floats = np.array(array, dtype=np.float64, order="C")
    finite = np.isfinite(floats)
    if not finite.all():
        index = first_index(~finite)
        raise InvalidModelError(f"{place(name, index)} is {floats[index]}; expected a finite number.")
    return floats


def as_size(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        found = f"{reprlib.repr(value)} ({type(value).__name__})"
        raise InvalidModelError(f"{name} is {found}; expected a whole number, at least 1.")
    if not 1 <= value <= _LARGEST_SIZE:
        raise InvalidModelError(f"{name} is {whole_number(value)}; expected at least 1 and at most {_LARGEST_SIZE}.")
    return int(value)


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
        f"H - budget / max_cost for a cost that must stay below a budget."
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


def check_sparse(label: str, matrix: Any) -> None:
    """Raise unless a sparse matrix has real entries and valid indices: compiled code would read beyond its arrays."""
    if matrix.dtype.kind not in "biuf":
        raise InvalidModelError(f"{label} has entries of type {matrix.dtype}; expected real numbers.")
    if matrix.format == "coo":
        sound = all(_within(index, size) for index, size in zip(matrix.coords, matrix.shape, strict=True))
    elif matrix.format in {"csr", "csc"}:
        starts, indices = matrix.indptr, matrix.indices
        lines, width = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        sound = len(starts) == lines + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
        sound = sound and starts[-1] <= min(len(indices), len(matrix.data)) and _within(indices, width)
    else:
        return
    if not sound:
        raise InvalidModelError(f"{label} has indices out of range; expected them within {list(matrix.shape)}.")


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


def _within(indices: Any, size: int) -> bool:
    return len(indices) == 0 or bool(0 <= indices.min() <= indices.max() < size)

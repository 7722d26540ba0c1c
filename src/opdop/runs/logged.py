"""Logged transitions, whoever collected them: tables and files with one row for each step."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task
from opdop.confidence import Observations, count_transitions
from opdop.model import Display, InvalidModelError, InvalidParameterError, Quantity
from opdop.model.text_files import open_regular
from opdop.model.validation import Floats, call, check_memory, number, printable, shown

_COPIES = 4.0  # of the content of a log that are in memory while it is read, at least
_ROUNDING = 1e-9  # by which a signal may leave [0, 1] after its units were converted


def read_log(table: Any, task: Task, *, display: Display | None = None) -> Observations:
    """Return the data of logged transitions.

    Args:
        table: a polars or pandas DataFrame, a dictionary of columns, or the path of a Parquet or CSV file. Columns:
            `episode`, `stage` (0 to H-1), `state`, `action`, `reward`, for each constraint `cost_i` or `utility_i`
            (`cost` or `utility` if there is one only), and `next_state`. States and actions are numbers, or the names
            that `display` has. Each episode has all H stages.
        task: sizes, thresholds, first states, and whether signals are random and stages alike. If the distribution of
            the first state is not known (`task.first_visits`), the first states of the log are counted too.
        display: names and units: a reward or cost is then in its unit. Without it, rewards, utilities and costs are
            between 0 and 1, and the utility of a cost c is 1 - c.

    Raises InvalidModelError, naming column and row, if something is missing, out of range or contradictory.
    """
    columns = read_table(table)
    H, S, A, I = task.horizon, task.num_states, task.num_actions, task.num_constraints
    names = (display.state_names, display.action_names) if display is not None else ((), ())
    episode = _column(columns, "episode")
    stage = _index(columns, "stage", H, ())
    state, after = (_index(columns, name, S, names[0]) for name in ("state", "next_state"))
    action = _index(columns, "action", A, names[1])
    signals = np.stack([_reward(columns, H, display), *(_utility(columns, i, I, H, display) for i in range(I))])
    _check_episodes(episode, stage, state, after, task)
    visits = task.first_visits
    if visits is not None:
        visits = visits + np.bincount(state[stage == 0], minlength=S)
    data = count_transitions(
        H,
        S,
        A,
        stages=stage,
        states=state,
        actions=action,
        next_states=after,
        signals=signals,
        thresholds=task.thresholds,
        initial=task.initial,
        noisy=task.noisy,
        first_visits=visits,
    )
    return replace(data, stationary=task.stationary, stationary_signals=task.stationary_signals)


def read_table(table: Any) -> Any:
    """Return something whose columns are found by name: a table, or the content of a Parquet or CSV file.

    Raises InvalidParameterError or InvalidModelError if it is none, or cannot be read.
    """
    if not isinstance(table, (str, Path)):
        if hasattr(table, "columns") or isinstance(table, dict):
            return table
        raise InvalidParameterError(f"the log is {shown(table)}; expected a DataFrame, or the path of a file.")
    import polars as pl

    path = Path(table)
    readers: dict[str, Callable[[io.BytesIO], Any]] = {".parquet": pl.read_parquet, ".csv": pl.read_csv}
    if path.suffix.lower() not in readers:
        raise InvalidParameterError(f"{printable(str(path))} is no .parquet and no .csv file; expected one of them.")
    try:
        with open_regular(path) as file:  # polars waits for pipes, and reads devices without end
            check_memory(_COPIES * os.fstat(file.fileno()).st_size, "its content")
            content = io.BytesIO(file.read())
        return readers[path.suffix.lower()](content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a foreign file makes a reader raise anything; a panic of polars is no Exception
        words = error.strerror or "" if isinstance(error, OSError) else str(error)
        reason = printable(" ".join(words.split()))[:200] or type(error).__name__
        raise InvalidModelError(f"{printable(str(path))} cannot be read: {reason}") from error


def _names(columns: Any) -> list[str]:
    return [str(name) for name in (columns.columns if hasattr(columns, "columns") else columns)]


def _column(columns: Any, name: str) -> NDArray[Any]:
    if name not in _names(columns):
        raise InvalidModelError(f"the log has no column {name!r}; it has {', '.join(_names(columns)) or 'none'}.")
    values = as_array(columns, name)
    if values.ndim != 1 or not len(values):
        raise InvalidModelError(f"column {name!r} of the log has shape {list(values.shape)}; expected one value a row.")
    if values.dtype == object:
        lists = [row for row, value in enumerate(values) if np.ndim(value)]
        if lists:
            raise InvalidModelError(f"row {lists[0]} of the log: {name} is a list; expected one value.")
    return values


def as_array(columns: Any, name: str) -> NDArray[Any]:
    """Return a column as an array; raises InvalidModelError if NumPy has no such type, as for integers of 128 bits."""
    found: NDArray[Any] = call(f"reading the column {printable(name)!r} of the log", np.asarray, columns[name])
    return found


def _index(columns: Any, name: str, size: int, names: tuple[str, ...]) -> NDArray[np.int64]:
    values = _column(columns, name)
    if values.dtype.kind in "OUS" and names:
        known = {label: index for index, label in enumerate(names)}
        strange = [n for n, value in enumerate(values) if str(value) not in known]
        if strange:
            raise InvalidModelError(
                f"row {strange[0]} of the log: {name} is {shown(str(values[strange[0]]))}; expected one of its names."
            )
        return np.array([known[str(value)] for value in values], dtype=np.int64)
    numbers = _numbers(name, values)
    bad = (numbers < 0) | (numbers >= size) | (numbers != np.floor(numbers))
    if bad.any():
        row = int(np.argmax(bad))
        found = number(numbers[row])
        raise InvalidModelError(f"row {row} of the log: {name} is {found}; expected a whole number, 0 to {size - 1}.")
    return numbers.astype(np.int64)


def _numbers(name: str, values: NDArray[Any]) -> Floats:
    if values.dtype.kind not in "biuf":
        raise InvalidModelError(f"column {name!r} of the log holds {values.dtype}, such as {shown(values[0])}; "
                                "expected numbers.")  # fmt: skip
    floats = np.asarray(values, dtype=np.float64)
    if not np.isfinite(floats).all():
        row = int(np.argmin(np.isfinite(floats)))
        raise InvalidModelError(f"row {row} of the log: {name} is missing or not finite; expected a number.")
    return floats


def _reward(columns: Any, H: int, display: Display | None) -> Floats:
    return _signal(columns, "reward", Quantity("reward") if display is None else display.quantities[0], H)


def _utility(columns: Any, i: int, I: int, H: int, display: Display | None) -> Floats:
    there = _names(columns)
    choices = [f"cost_{i}", f"utility_{i}", *(("cost", "utility") if I == 1 else ())]
    found = [name for name in choices if name in there]
    if len(found) != 1:
        wrong = "has no column" if not found else f"has the columns {', '.join(found)}, all"
        raise InvalidModelError(f"the log {wrong} for constraint {i}; expected one of {', '.join(choices)}.")
    cost = found[0].startswith("cost")
    plain = Quantity("cost", scale=-1.0, offset=float(H)) if cost else Quantity("utility")
    quantity = plain if display is None else display.quantities[1 + i]
    if cost != (quantity.scale < 0.0):
        kind = "cost" if quantity.scale < 0.0 else "utility"
        raise InvalidModelError(f"the log has a column {found[0]!r}, but constraint {i} is about a {kind}.")
    return _signal(columns, found[0], quantity, H)


def _signal(columns: Any, name: str, quantity: Quantity, H: int) -> Floats:
    """Return a column as a signal in [0, 1]: a total over H stages is shown as offset + scale * value."""
    values = _numbers(name, _column(columns, name))
    signal = (values - quantity.offset / H) / quantity.scale
    bad = (signal < -_ROUNDING) | (signal > 1.0 + _ROUNDING)
    if bad.any():
        row = int(np.argmax(bad))
        low, high = sorted((quantity.offset / H, quantity.offset / H + quantity.scale))
        expected = f"{number(low)} to {number(high)} {quantity.unit}".rstrip()
        raise InvalidModelError(f"row {row} of the log: {name} is {number(values[row])}; expected {expected} a stage.")
    return np.clip(signal, 0.0, 1.0)


def _name(value: Any) -> str:
    """Return the name of an episode as text."""
    return number(float(value)) if isinstance(value, (np.number, int)) else shown(value)


def _check_episodes(
    episode: NDArray[Any], stage: NDArray[np.int64], state: NDArray[np.int64], after: NDArray[np.int64], task: Task
) -> None:
    """Raise InvalidModelError unless each episode has every stage once, begins where it may, and has no gap."""
    H = task.horizon
    _, first, inverse = np.unique(episode, return_index=True, return_inverse=True)
    order = np.lexsort((stage, inverse))
    size = np.bincount(inverse)
    if (size != H).any():
        which = int(np.argmax(size != H))
        name = _name(episode[first[which]])
        raise InvalidModelError(f"episode {name} of the log has {size[which]} rows; expected H = {H}, one a stage.")
    stages = stage[order].reshape(-1, H)
    if (stages != np.arange(H)).any():
        which, place = (int(i) for i in np.argwhere(stages != np.arange(H))[0])
        name = _name(episode[first[which]])
        raise InvalidModelError(f"episode {name} of the log has no stage {place}, or has a stage twice.")
    states, nexts = state[order].reshape(-1, H), after[order].reshape(-1, H)
    gaps = nexts[:, :-1] != states[:, 1:]
    if gaps.any():
        which, place = (int(i) for i in np.argwhere(gaps)[0])
        raise InvalidModelError(
            f"episode {_name(episode[first[which]])} of the log: stage {place} leads to state {nexts[which, place]}, "
            f"but stage {place + 1} is in state {states[which, place + 1]}."
        )
    if task.first_visits is not None:
        return
    begins = states[:, 0]
    impossible = task.initial[begins] == 0.0
    if impossible.any():
        which = int(np.argmax(impossible))
        raise InvalidModelError(
            f"episode {_name(episode[first[which]])} of the log begins in state {begins[which]}, which has "
            "probability 0 as a first state in the task."
        )

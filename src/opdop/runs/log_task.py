"""What a log is about: sizes, first state, columns, ranges and limits, from a TOML file or from options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opdop.algorithms import Task
from opdop.confidence import Observations
from opdop.model import Display, InvalidModelError, InvalidParameterError, Quantity, suggestion
from opdop.model.signals import Scale
from opdop.model.text_files import parse_toml, read_text
from opdop.model.validation import Floats, as_flag, as_number, as_size, as_text, number, printable, shown
from opdop.runs.logged import as_array, read_log, read_table

_LARGEST_FILE = 2**20
_KEYS = ("horizon", "states", "actions", "initial", "stationary", "noisy", "reward", "constraint")
_SIGNAL_KEYS = ("column", "name", "unit", "range")
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class LoggedSignal:
    """One column of a log with rewards, costs or utilities: its range in a stage, and the limit of its total.

    A `budget` limits the total of a cost from above, a `threshold` that of a utility from below; a reward has neither.
    """

    column: str
    low: float = 0.0
    high: float = 1.0
    name: str = ""
    unit: str = ""
    budget: float | None = None
    threshold: float | None = None

    @property
    def scale(self) -> Scale:
        """The map of its numbers into [0, 1]."""
        return Scale(self.low, self.high, falls=self.budget is not None)

    def quantity(self, horizon: int) -> Quantity:
        """Return how its total is shown."""
        return self.scale.quantity(self.name or self.column, self.unit, horizon)

    def limit(self, horizon: int) -> float:
        """Return the threshold of its signal's total, which lies in [0, H].

        Raises InvalidModelError if every policy keeps the limit, or none.
        """
        bound = self.budget if self.budget is not None else self.threshold
        assert bound is not None
        limit = self.scale.threshold(bound, horizon)
        if 0.0 < limit <= horizon:
            return limit
        low, high = number(horizon * self.low), number(horizon * self.high)
        raise InvalidModelError(
            f"the limit of {self.column!r} is {number(bound)}; expected one between {low} and {high}, its total over "
            f"{horizon} stages with {number(self.low)} to {number(self.high)} in each. Is its range right?"
        )


@dataclass(frozen=True)
class LogTask:
    """What is known of a log beside its rows. Raises InvalidParameterError or InvalidModelError if it cannot be right.

    Attributes:
        horizon: H, the stages of an episode.
        states, actions: their numbers, or their names.
        reward: the column of the reward.
        constraints: the columns with a limit.
        initial: the first state, its number or name; or probabilities [S]. None if it is not known: certificates then
            bound the distribution of the first state from the first states of the log.
        stationary: whether the kernel and the signals are the same at every stage.
        noisy: whether rewards and costs are random, given stage, state and action.

    """

    horizon: int
    states: int | tuple[str, ...]
    actions: int | tuple[str, ...]
    reward: LoggedSignal
    constraints: tuple[LoggedSignal, ...]
    initial: int | str | tuple[float, ...] | None = None
    stationary: bool = False
    noisy: bool = False

    def __post_init__(self) -> None:
        as_size("horizon", self.horizon)
        for name in ("states", "actions"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(set(value)) < len(value):
                raise InvalidModelError(f"{name} has a name twice; expected different names.")
        columns = [each.column for each in (self.reward, *self.constraints)]
        if len(set(columns)) < len(columns):
            raise InvalidModelError(
                f"a column has two meanings among {', '.join(columns)}; expected different columns."
            )
        if not self.constraints:
            raise InvalidModelError("there is no constraint; expected a budget or a threshold for at least one column.")

    @property
    def num_states(self) -> int:
        """S."""
        return _size("states", self.states)

    @property
    def num_actions(self) -> int:
        """A."""
        return _size("actions", self.actions)

    @property
    def display(self) -> Display:
        """The words and units."""
        quantities = tuple(each.quantity(self.horizon) for each in (self.reward, *self.constraints))
        states, actions = (each if isinstance(each, tuple) else () for each in (self.states, self.actions))
        return Display("log", quantities=quantities, state_names=states, action_names=actions)

    def read(self, log: Any) -> tuple[Observations, int]:
        """Return the data of a log, and its number of episodes; raises InvalidModelError if it does not fit."""
        table = read_table(log)
        there = list(table.columns) if hasattr(table, "columns") else list(table)
        renamed: dict[str, Any] = {}
        wanted = {name: name for name in ("episode", "stage", "state", "action", "next_state")}
        wanted[self.reward.column] = "reward"
        for i, each in enumerate(self.constraints):
            wanted[each.column] = f"{'cost' if each.budget is not None else 'utility'}_{i}"
        for column, role in wanted.items():
            if column not in there:
                found = ", ".join(printable(str(name)) for name in there[:20]) or "none"
                raise InvalidModelError(f"the log has no column {column!r}; it has {found}.{suggestion(column, there)}")
            renamed[role] = as_array(table, column)
        task = self.task(self._initial(renamed), known=self.initial is not None)
        return read_log(renamed, task, display=self.display), len(np.unique(renamed["episode"]))

    def task(self, initial: Floats, *, known: bool = True) -> Task:
        """Return the task, given the distribution of the first state [S], and whether it is `known` exactly."""
        return Task(
            self.horizon,
            self.num_states,
            self.num_actions,
            np.array([each.limit(self.horizon) for each in self.constraints]),
            initial,
            episodes=1,
            noisy=self.noisy,
            stationary=self.stationary,
            stationary_signals=self.stationary,
            first_visits=None if known else np.zeros(self.num_states, dtype=np.int64),
        )

    def _initial(self, columns: Mapping[str, Any]) -> Floats:
        """Return the distribution of the first state as it is stated, or its shares in the log, [S]."""
        S = self.num_states
        if isinstance(self.initial, tuple):
            return np.array(self.initial, dtype=np.float64)
        if self.initial is None:
            begins, times = np.unique(columns["state"][columns["stage"] == 0], return_counts=True)
            if not len(begins):
                raise InvalidModelError("the episodes of the log begin nowhere, as there is no stage 0; expected one.")
            shares = np.zeros(S)
            for first, number_of in zip(begins, times, strict=True):
                shares[self._state(first)] += number_of / times.sum()
            return shares
        distribution = np.zeros(S)
        distribution[self._state(self.initial)] = 1.0
        return distribution

    def _state(self, first: Any) -> int:
        """Return the number of a first state that is given as a number or a name."""
        S = self.num_states
        if isinstance(self.states, tuple) and str(first) in self.states:
            first = self.states.index(str(first))
        try:
            index = int(first)
        except (TypeError, ValueError):
            index = -1
        if not 0 <= index < S:
            raise InvalidModelError(f"the first state is {shown(first)}; expected a state, 0 to {S - 1} or its name.")
        return index


def read_task(path: str | Path) -> LogTask:
    """Return what a TOML file says about a log; docs/certificates.md describes it.

    Raises InvalidParameterError if it cannot be read, names an unknown key, or a value is wrong.
    """
    label = printable(str(path))
    try:
        data = parse_toml(read_text(path, largest=_LARGEST_FILE))
    except FileNotFoundError as error:
        raise InvalidParameterError(f"there is no file {label}.") from error
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(printable(str(getattr(error, "strerror", None) or error)).split())[:200]
        raise InvalidParameterError(f"{label} cannot be read as TOML: {reason}.") from error
    try:
        return _task_of(data)
    except (InvalidModelError, InvalidParameterError) as error:
        raise InvalidParameterError(f"{label}: {error}") from error


def sized(name: str, value: Any) -> int | tuple[str, ...]:
    """Return a number of states or actions, or their names."""
    if isinstance(value, (list, tuple)):
        if not 0 < len(value) <= _MOST_NAMES:
            raise InvalidParameterError(f"{name} has {len(value):,} names; expected 1 to {_MOST_NAMES:,}.")
        return tuple(as_text(f"{name}[{i}]", each) for i, each in enumerate(value))
    return as_size(name, value)


def _size(name: str, value: int | tuple[str, ...]) -> int:
    return len(value) if isinstance(value, tuple) else as_size(name, value)


def _task_of(data: Mapping[str, Any]) -> LogTask:
    _check_keys("the file", data, _KEYS)
    for name in ("horizon", "states", "actions", "constraint"):
        if name not in data:
            raise InvalidParameterError(f"there is no {name!r}; expected {', '.join(_KEYS)}.")
    constraints = data["constraint"]
    if not isinstance(constraints, list):
        raise InvalidParameterError(f"constraint is {shown(constraints)}; expected [[constraint]] tables.")
    initial = data.get("initial")
    if isinstance(initial, list):
        initial = tuple(as_number(f"initial[{i}]", each, "a probability") for i, each in enumerate(initial))
    elif not (initial is None or isinstance(initial, (int, str))):
        raise InvalidParameterError(f"initial is {shown(initial)}; expected a state, or a list of probabilities.")
    return LogTask(
        horizon=as_size("horizon", data["horizon"]),
        states=sized("states", data["states"]),
        actions=sized("actions", data["actions"]),
        reward=_signal("reward", data.get("reward", {}), {"column": "reward"}, ()),
        constraints=tuple(
            _signal(f"constraint[{i}]", each, {}, ("budget", "threshold")) for i, each in enumerate(constraints)
        ),
        initial=initial,
        stationary=as_flag("stationary", data.get("stationary", False)),
        noisy=as_flag("noisy", data.get("noisy", False)),
    )


def _signal(label: str, data: Any, default: Mapping[str, Any], limits: Sequence[str]) -> LoggedSignal:
    if not isinstance(data, Mapping):
        raise InvalidParameterError(f"{label} is {shown(data)}; expected a table with {', '.join(_SIGNAL_KEYS)}.")
    _check_keys(label, data, (*_SIGNAL_KEYS, *limits))
    given = {**default, **data}
    if "column" not in given:
        raise InvalidParameterError(f"{label} has no column; expected the name of a column of the log.")
    found = {name: as_number(f"{name} of {label}", given[name], "a number") for name in limits if name in given}
    if limits and len(found) != 1:
        raise InvalidParameterError(
            f"{label} has {' and '.join(found) or 'no limit'}; expected a budget or a threshold."
        )
    words = {name: as_text(f"{name} of {label}", given.get(name, "")) for name in ("name", "unit")}
    return logged_signal(as_text(f"column of {label}", given["column"]), given.get("range", [0, 1]), **words, **found)


def logged_signal(column: str, limits: Any, **others: Any) -> LoggedSignal:
    """Return a column with its range in a stage, two numbers; raises InvalidParameterError if they are none."""
    if not isinstance(limits, (list, tuple)) or len(limits) != 2:
        raise InvalidParameterError(f"the range of {column!r} is {shown(limits)}; expected two numbers, as [0, 1].")
    low, high = (as_number(f"the range of {column!r}", each, "a number") for each in limits)
    if not low < high:
        raise InvalidParameterError(f"the range of {column!r} is {number(low)} to {number(high)}; expected low < high.")
    return LoggedSignal(column, low, high, **others)


def _check_keys(label: str, data: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in data:
        if key not in known:
            raise InvalidParameterError(
                f"{label} has the key {shown(key)}; expected {', '.join(known)}.{suggestion(key, known)}"
            )

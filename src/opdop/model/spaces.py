"""Observations and actions of an environment as numbers of states and actions: products of whole numbers and bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opdop.model.errors import InvalidModelError, InvalidParameterError
from opdop.model.validation import as_flag, as_floats, as_size, as_whole, call, number, shown

_MOST_STATES = 2**31 - 1


@dataclass(frozen=True)
class Axis:
    """One coordinate: the whole numbers from `start`, or the bins between increasing `edges`.

    n edges make n + 1 bins; the first and the last are unbounded, and an edge belongs to the bin above it.

    >>> Axis.bins([-1.0, 0.0, 1.0]).index(0.0), Axis(size=3, start=5).index(7)
    (2, 2)
    """

    size: int
    start: int = 0
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", as_size("the size of an axis", self.size))
        object.__setattr__(self, "start", as_whole("the start of an axis", self.start))
        if self.edges is None:
            return
        edges = as_floats("edges", list(self.edges), "increasing numbers")
        if edges.ndim != 1 or (np.diff(edges) <= 0.0).any() or self.size != edges.size + 1:
            raise InvalidModelError(f"edges are {shown(self.edges)}; expected increasing numbers, one less than bins.")
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    @classmethod
    def bins(cls, edges: Sequence[float]) -> Axis:
        """Return the bins between increasing edges; raises InvalidModelError if they are not numbers."""
        listed = tuple(as_floats("edges", list(edges), "increasing numbers").ravel().tolist())
        return cls(size=len(listed) + 1, edges=listed)

    def index(self, value: Any) -> int:
        """Return the number of a value on the axis; raise InvalidParameterError if it is not there."""
        x = float(value)
        if self.edges is not None and not math.isnan(x):
            return int(np.searchsorted(self.edges, x, side="right"))
        if self.edges is None and self.start <= x < self.start + self.size and x == math.floor(x):
            return int(x) - self.start
        last = self.start + self.size - 1
        expected = "a number" if self.edges is not None else f"a whole number in {self.start}..{last}"
        raise InvalidParameterError(f"a coordinate of the observation is {number(x)}; expected {expected}.")


@dataclass(frozen=True)
class Space:
    """How observations and actions are numbered, the last coordinate fastest, as in a C array.

    `first` is the number of the first state; `vector_actions` makes actions arrays, even of one coordinate. The
    numbers below `first` and above the last belong to states that are never observed. Observations may consist of
    parts, in tuples or by name; their coordinates are those of the parts one after the other, names in alphabetical
    order. `action_layout` says how actions consist of parts; see `arranged`. With `mapped`, the coordinates are those
    of the features of an observation, which the function `feature_map` computes; files do not hold the function.

    >>> cart = Space(observations=(Axis.bins([0.0]), Axis(size=3)), actions=(Axis(size=2),))
    >>> cart.state([0.7, 2]), cart.action(1)
    (5, 1)
    """

    observations: tuple[Axis, ...]
    actions: tuple[Axis, ...]
    first: int = 0
    vector_actions: bool = False
    action_layout: Any = None
    mapped: bool = False
    feature_map: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("observations", "actions"):
            axes = tuple(getattr(self, name))
            if not axes or not all(isinstance(axis, Axis) for axis in axes):
                raise InvalidModelError(f"{name} are {shown(axes)}; expected at least one Axis.")
            object.__setattr__(self, name, axes)
        if self.num_states > _MOST_STATES or self.num_actions > _MOST_STATES:
            raise InvalidModelError(
                f"there are {self.num_states:,} states and {self.num_actions:,} actions; expected at most "
                f"{_MOST_STATES:,}. Use fewer bins."
            )
        if as_whole("first", self.first) < 0:
            raise InvalidModelError(f"first is {self.first}; expected a whole number, at least 0.")
        as_flag("vector_actions", self.vector_actions)
        if self.action_layout is not None and count_coordinates(self.action_layout) != len(self.actions):
            raise InvalidModelError(
                f"action_layout has {count_coordinates(self.action_layout)} coordinates; expected {len(self.actions)}."
            )
        if self.feature_map is not None and not callable(self.feature_map):
            raise InvalidModelError(f"feature_map is {shown(self.feature_map)}; expected a function of an observation.")
        object.__setattr__(self, "mapped", as_flag("mapped", self.mapped) or self.feature_map is not None)

    def with_feature_map(self, function: Callable[[Any], Any]) -> Space:
        """Return the same space, whose features of an observation are what `function` returns.

        Raises InvalidParameterError if this space numbers observations themselves.
        """
        if not self.mapped:
            raise InvalidParameterError("this space numbers observations; expected one of features of observations.")
        return replace(self, feature_map=function)

    @property
    def num_states(self) -> int:
        """The number of distinct observations."""
        return math.prod(axis.size for axis in self.observations)

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return math.prod(axis.size for axis in self.actions)

    def state(self, observation: Any) -> int:
        """Return the number of an observation: a number, a sequence, an array, or parts of these by name.

        Raises InvalidParameterError if it has other coordinates than expected.
        """
        what = "the observation"
        if self.mapped:
            if self.feature_map is None:
                raise InvalidParameterError(
                    "these states are features of observations, and files do not hold the function that computes them; "
                    "expected with_feature_map(function) first."
                )
            observation, what = call("the feature map", self.feature_map, observation), "what the feature map returns"
        try:
            values = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in _parts(observation)])
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(f"{what} is {shown(observation)}; expected numbers.") from error
        if len(values) != len(self.observations):
            expected = f"{len(self.observations)} coordinate{'s' if len(self.observations) > 1 else ''}"
            found = f"{len(values)} coordinate{'' if len(values) == 1 else 's'}"
            raise InvalidParameterError(f"{what} has {found}; expected {expected}.")
        place = 0
        for axis, value in zip(self.observations, values, strict=True):
            place = place * axis.size + axis.index(value)
        return self.first + place

    def action(self, index: int) -> Any:
        """Return the action with this index: a whole number, an array of them, or parts as `action_layout` says."""
        parts = np.unravel_index(index, [axis.size for axis in self.actions])
        values = [axis.start + int(part) for axis, part in zip(self.actions, parts, strict=True)]
        if self.action_layout is not None:
            return arranged(self.action_layout, values)
        return np.array(values, dtype=np.int64) if self.vector_actions else values[0]

    def record(self) -> dict[str, Any]:
        """Return the space as plain data that JSON can hold."""
        return {
            "observations": [_axis_record(axis) for axis in self.observations],
            "actions": [_axis_record(axis) for axis in self.actions],
            "first": self.first,
            "vector_actions": self.vector_actions,
            **({} if self.action_layout is None else {"action_layout": self.action_layout}),
            **({"mapped": True} if self.mapped else {}),
        }

    @classmethod
    def of(cls, record: Any) -> Space:
        """Return the space that `record()` described; raise InvalidModelError if it is none."""
        names, optional = {"observations", "actions", "first", "vector_actions"}, {"action_layout", "mapped"}
        if not isinstance(record, Mapping) or set(record) - optional != names:
            raise InvalidModelError(f"a space is {shown(record)}; expected {', '.join(sorted(names))}.")
        axes = {}
        for name in ("observations", "actions"):
            if not isinstance(record[name], list):
                raise InvalidModelError(f"{name} are {shown(record[name])}; expected a list of axes.")
            axes[name] = tuple(_axis_of(each) for each in record[name])
        others = {name: record[name] for name in (*sorted(names - set(axes)), *sorted(optional & set(record)))}
        return cls(axes["observations"], axes["actions"], **others)


def arranged(layout: Any, values: list[int]) -> Any:
    """Return whole numbers as an action that consists of parts; the numbers are taken from the list, in order.

    A layout is plain data: null is a number, `{"shape": [2, 3]}` an array, `{"tuple": [...]}` a tuple of parts, and
    `{"dict": {name: ...}}` parts by name, in alphabetical order. Its coordinates must be as many as the numbers.
    """
    left = iter(values)

    def build(part: Any) -> Any:
        if part is None:
            return next(left)
        if "shape" in part:
            return np.array([next(left) for _ in range(math.prod(part["shape"]))]).reshape(part["shape"])
        if "tuple" in part:
            return tuple(build(each) for each in part["tuple"])
        return {name: build(part["dict"][name]) for name in sorted(part["dict"])}

    return build(layout)


def count_coordinates(layout: Any, depth: int = 20) -> int:
    """Return how many numbers an action with this layout has; raises InvalidModelError if it is no layout.

    `depth` limits how deep parts may be within parts.
    """
    if layout is None:
        return 1
    if isinstance(layout, Mapping) and len(layout) == 1 and depth:
        ((kind, inner),) = layout.items()
        sizes = inner if isinstance(inner, list) else None
        if kind == "shape" and sizes and all(type(size) is int and 0 < size <= _MOST_STATES for size in sizes):
            return math.prod(sizes)
        if kind == "tuple" and sizes:
            return sum(count_coordinates(part, depth - 1) for part in sizes)
        if kind == "dict" and isinstance(inner, Mapping) and inner and all(isinstance(name, str) for name in inner):
            return sum(count_coordinates(part, depth - 1) for part in inner.values())
    raise InvalidModelError(f"a layout of actions is {shown(layout)}; expected null, a shape, a tuple or a dict.")


def _parts(observation: Any) -> list[Any]:
    """Return the arrays and numbers of an observation, in the order of its coordinates."""
    if isinstance(observation, Mapping):
        return [part for name in sorted(observation) for part in _parts(observation[name])]
    if isinstance(observation, tuple):
        return [part for each in observation for part in _parts(each)]
    return [observation]


def _axis_record(axis: Axis) -> dict[str, Any]:
    return {"edges": list(axis.edges)} if axis.edges is not None else {"start": axis.start, "size": axis.size}


def _axis_of(record: Any) -> Axis:
    if isinstance(record, Mapping) and set(record) == {"edges"} and isinstance(record["edges"], list):
        return Axis.bins(record["edges"])
    if isinstance(record, Mapping) and set(record) == {"start", "size"}:
        return Axis(size=record["size"], start=record["start"])
    raise InvalidModelError(f"an axis is {shown(record)}; expected edges, or start and size.")

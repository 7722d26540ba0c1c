"""Rewards, utilities and costs of any finite range, and the affine maps that bring each of them into [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.model.display import Quantity
from opdop.model.errors import InvalidModelError, suggestion
from opdop.model.validation import (
    Floats,
    as_floats,
    as_number,
    as_text,
    check_unit_interval,
    first_index,
    number,
    place,
    shown,
)

_WORDS = {"utility": ("utilities", "thresholds", "threshold"), "cost": ("costs", "budgets", "budget")}


@dataclass(frozen=True)
class Scale:
    """The affine map between a signal's own numbers in [low, high] and [0, 1], in one stage.

    A reward or a utility rises with it. A cost `falls`: 1 is the smallest cost, and 0 the largest.

    >>> dollars = Scale(0.0, 19.0, falls=True)
    >>> dollars.signal(np.array([0.0, 9.5, 19.0]))
    array([1. , 0.5, 0. ])
    >>> dollars.quantity("orders", "dollars", stages=7).constraint(dollars.threshold(66.5, stages=7))
    'orders <= 66.5 dollars'
    """

    low: float = 0.0
    high: float = 1.0
    falls: bool = False

    @property
    def width(self) -> float:
        """The own units in one model unit."""
        return self.high - self.low

    def signal(self, values: Any) -> Floats:
        """Return own numbers of any shape as signals in [0, 1]."""
        with np.errstate(over="ignore"):  # what is infinite is out of range, which others check
            shares = (np.asarray(values, dtype=np.float64) - self.low) / self.width
        return np.asarray(1.0 - shares if self.falls else shares)

    def threshold(self, bound: float, stages: int) -> float:
        """Return what a signal's total must reach if the own total is to reach its threshold, or to keep its budget."""
        share = (bound - stages * self.low) / self.width
        return stages - share if self.falls else share

    def quantity(self, name: str, unit: str, stages: int) -> Quantity:
        """Return how a signal's total is shown in own units."""
        if self.falls:
            return Quantity(name, unit, scale=-self.width, offset=stages * self.high)
        return Quantity(name, unit, scale=self.width, offset=stages * self.low)


@dataclass(frozen=True, eq=False)
class Signals:
    """All signals of a model with their thresholds, and the quantities that show them in own units if they have any."""

    values: Floats  # [1+I, L, S, A], in [0, 1]
    thresholds: Floats  # [I]
    quantities: tuple[Quantity, ...]  # [1+I]; empty if the signals are used as they are


@dataclass(frozen=True, eq=False)
class _Constraints:
    """The constraints of one kind as they were given, by name: tables [L, S, A] and bounds."""

    kind: str
    tables: dict[str, Floats]
    bounds: dict[str, float]


def read_signals(
    sizes: tuple[int, int, int],
    rewards: Any,
    utilities: Any,
    thresholds: Any,
    costs: Any = None,
    budgets: Any = None,
    *,
    reward_range: Any = None,
    utility_range: Any = None,
    cost_range: Any = None,
    units: Any = None,
) -> Signals:
    """Return the signals of a model of sizes (H, S, A); see `TabularCMDP` for the arguments.

    Raises InvalidModelError, naming the entry that is wrong.
    """
    H, S, A = sizes
    own = costs, budgets, reward_range, utility_range, cost_range, units
    if all(given is None for given in own) and not any(isinstance(each, Mapping) for each in (utilities, thresholds)):
        bounds = read_thresholds(thresholds, H)
        return Signals(_unit_signals(rewards, utilities, len(bounds), sizes), bounds, ())
    groups = [
        _constraints("utility", utilities, thresholds, sizes),
        _constraints("cost", costs, budgets, sizes),
    ]
    names = [name for group in groups for name in group.tables]
    _check_names(names)
    reward = _reward_table(rewards, sizes).reshape(-1, S, A)
    scale = _scale("rewards", reward, _pair("reward_range", reward_range))
    words = read_units(units, names)
    tables, limits = [scale.signal(reward)], []
    quantities = [scale.quantity(*words["reward"], H)]
    for group, ranges in zip(groups, (utility_range, cost_range), strict=True):
        pairs = read_ranges(f"{group.kind}_range", ranges, list(group.tables))
        for name, table in group.tables.items():
            label = f"{_WORDS[group.kind][0]} {name!r}"
            scale = _scale(label, table, pairs[name], falls=group.kind == "cost")
            tables.append(scale.signal(table))
            quantities.append(scale.quantity(*words[name], H))
            limits.append(read_bound(group.kind, name, group.bounds[name], scale, H, words[name][1]))
    L = max(len(table) for table in tables)
    values = np.empty((len(tables), L, S, A))
    for j, table in enumerate(tables):
        values[j] = table
    return Signals(values, np.array(limits), tuple(quantities))


def read_thresholds(value: Any, H: int) -> Floats:
    """Return thresholds [I] of utilities in [0, 1]; raise InvalidModelError unless each lies in (0, H]."""
    if value is None:
        raise InvalidModelError("thresholds are missing; expected a number or [I], or costs with budgets instead.")
    bounds = np.atleast_1d(as_floats("thresholds", value, "a number or one for each constraint, [I]"))
    if bounds.ndim != 1 or bounds.size == 0:
        raise InvalidModelError(f"thresholds have shape {list(bounds.shape)}; expected a number or [I], I at least 1.")
    bad = (bounds <= 0.0) | (bounds > H)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidModelError(
            f"thresholds[{i}] is {number(bounds[i])}; expected a value in (0, H] = (0, {H}]: a utility totals 0 to H."
        )
    return bounds


def _unit_signals(rewards: Any, utilities: Any, I: int, sizes: tuple[int, int, int]) -> Floats:
    """Return rewards and utilities that lie in [0, 1] as one array [1+I, L, S, A], L = 1 if all are stationary."""
    _, S, A = sizes
    reward = _reward_table(rewards, sizes)
    utility = _tables("utilities", utilities, I, sizes, "thresholds")
    check_unit_interval("rewards", reward)
    check_unit_interval("utilities", utility)
    reward, utility = reward.reshape(1, -1, S, A), utility.reshape(I, -1, S, A)
    L = max(reward.shape[1], utility.shape[1])
    signals = np.empty((1 + I, L, S, A))
    signals[:1] = reward
    signals[1:] = utility
    return signals


def _reward_table(rewards: Any, sizes: tuple[int, int, int]) -> Floats:
    """Return rewards as [S, A], [1, S, A] or [H, S, A]."""
    H, S, A = sizes
    reward = as_floats("rewards", rewards, f"[S,A] = [{S},{A}] or [H,S,A] = [{H},{S},{A}]")
    if reward.shape not in {(S, A), (1, S, A), (H, S, A)}:
        raise InvalidModelError(
            f"rewards have shape {list(reward.shape)}; expected [S,A] = [{S},{A}] or [H,S,A] = [{H},{S},{A}]."
        )
    return reward


def _tables(name: str, values: Any, I: int, sizes: tuple[int, int, int], bounds: str) -> Floats:
    """Return the tables of I constraints in one of the allowed shapes."""
    H, S, A = sizes
    table = as_floats(name, values, f"[I,H,S,A] = [{I},{H},{S},{A}]")
    allowed = {(I, H, S, A), (I, 1, S, A)} | ({(S, A), (H, S, A), (1, S, A)} if I == 1 else {(I, S, A)})
    if table.shape not in allowed:
        short = f"[S,A] or [H,S,A] = [{H},{S},{A}]" if I == 1 else f"[I,S,A] = [{I},{S},{A}]"
        raise InvalidModelError(
            f"{name} have shape {list(table.shape)}; expected [I,H,S,A] = [{I},{H},{S},{A}] or {short}, "
            f"I = {I} being the number of {bounds}."
        )
    return table


def _constraints(kind: str, values: Any, bounds: Any, sizes: tuple[int, int, int]) -> _Constraints:
    """Return the constraints of one kind by name, from arrays or from names with arrays; none if none are given."""
    tables, limits, _ = _WORDS[kind]
    if values is None and bounds is None:
        return _Constraints(kind, {}, {})
    if values is None or bounds is None:
        missing, there = (tables, limits) if values is None else (limits, tables)
        raise InvalidModelError(f"{there} are given without {missing}; expected both, or neither.")
    if isinstance(values, Mapping) != isinstance(bounds, Mapping):
        raise InvalidModelError(
            f"{tables} are {type(values).__name__} and {limits} {type(bounds).__name__}; expected both by name, as in "
            f"{tables}={{'water': table}}, {limits}={{'water': 3.0}}, or neither."
        )
    if isinstance(values, Mapping):
        return _named_constraints(kind, values, bounds, sizes)
    listed = np.atleast_1d(as_floats(limits, bounds, "a number or one for each constraint, [I]"))
    if listed.ndim != 1 or not listed.size:
        raise InvalidModelError(f"{limits} have shape {list(listed.shape)}; expected a number or [I], I at least 1.")
    many = _tables(tables, values, listed.size, sizes, limits).reshape(listed.size, -1, *sizes[1:])
    plain = kind if kind == "cost" and listed.size == 1 else None  # a utility was always called "utility 0"
    names = [plain or f"{kind} {i}" for i in range(listed.size)]
    numbers = (float(bound) for bound in listed)
    return _Constraints(kind, dict(zip(names, many, strict=True)), dict(zip(names, numbers, strict=True)))


def _named_constraints(
    kind: str, values: Mapping[Any, Any], bounds: Mapping[Any, Any], sizes: tuple[int, int, int]
) -> _Constraints:
    tables, limits, limit = _WORDS[kind]
    if values.keys() != bounds.keys():
        odd = sorted(map(shown, values.keys() ^ bounds.keys()))
        raise InvalidModelError(f"{', '.join(odd)}: expected the same names in {tables} and {limits}.")
    if not values:
        raise InvalidModelError(f"{tables} are empty; expected at least one, or None.")
    arrays, numbers = {}, {}
    for name, value in values.items():
        text = as_text(f"a name in {tables}", name)
        arrays[text] = _tables(f"{tables}[{text!r}]", value, 1, sizes, limits).reshape(-1, *sizes[1:])
        numbers[text] = as_number(f"the {limit} of {text!r}", bounds[name], "a number", error=InvalidModelError)
    return _Constraints(kind, arrays, numbers)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise InvalidModelError("there is no constraint; expected utilities with thresholds, or costs with budgets.")
    for name in names:
        if names.count(name) > 1 or name in ("", "reward"):
            raise InvalidModelError(f"a constraint is named {name!r}; expected different names, none of them 'reward'.")


def _pair(name: str, value: Any) -> tuple[float, float] | None:
    """Return a stated range (low, high); None if none is stated."""
    if value is None:
        return None
    expected = "two finite numbers (low, high), low < high"
    pair = as_floats(name, value, expected)
    if pair.shape != (2,) or not pair[0] < pair[1] or not np.isfinite(pair[1] - pair[0]):
        raise InvalidModelError(f"{name} is {shown(value)}; expected {expected}.")
    return float(pair[0]), float(pair[1])


def read_ranges(name: str, value: Any, names: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """Return the stated range of each constraint: one pair for all, one for each in order, or by name."""
    if isinstance(value, Mapping):
        _check_known(name, value, names)
        return {each: _pair(f"{name}[{each!r}]", value.get(each)) for each in names}
    if isinstance(value, (list, tuple)) and value and all(isinstance(pair, (list, tuple)) for pair in value):
        if len(value) != len(names):
            raise InvalidModelError(f"{name} has {len(value)} ranges; expected {len(names)}, or one for all.")
        return {each: _pair(f"{name}[{i}]", pair) for i, (each, pair) in enumerate(zip(names, value, strict=True))}
    if value is not None and not names:
        raise InvalidModelError(f"{name} is {shown(value)}, but there are no such constraints.")
    return dict.fromkeys(names, _pair(name, value))


def _check_known(name: str, value: Mapping[Any, Any], names: Sequence[str]) -> None:
    for key in value:
        if key not in names:
            raise InvalidModelError(f"{name} names {shown(key)}; there are {', '.join(names)}.{suggestion(key, names)}")


def _scale(name: str, table: Floats, stated: tuple[float, float] | None, *, falls: bool = False) -> Scale:
    """Return the map of a table [L, S, A]: its stated range, or [0, 1] if it lies there, or its smallest to largest."""
    low, high = float(table.min()), float(table.max())
    if stated is not None:
        bad = (table < stated[0]) | (table > stated[1])
        if bad.any():
            index = first_index(bad)
            raise InvalidModelError(
                f"{place(name, index[1:] if len(table) == 1 else index)} is {number(table[index])}; expected a number "
                f"in its stated range, [{number(stated[0])}, {number(stated[1])}]."
            )
        return Scale(*stated, falls=falls)
    if 0.0 <= low and high <= 1.0:
        return Scale(falls=falls)
    if low == high:  # one number everywhere has no width of its own
        low, high = min(low, 0.0), max(high, 0.0)
    if not np.isfinite(high - low):
        raise InvalidModelError(f"{name} spans [{number(low)}, {number(high)}]; expected a width below 1.8e308.")
    return Scale(low, high, falls=falls)


def read_bound(kind: str, name: str, bound: float, scale: Scale, H: int, unit: str) -> float:
    """Return the bound of a "utility" or a "cost" as a threshold in (0, H].

    Raises InvalidModelError, in own units, if every policy satisfies it, or none does.
    """
    word, threshold = _WORDS[kind][2], scale.threshold(bound, H)
    if 0.0 < threshold <= H:
        return threshold
    verbs = {"cost": ("exceed", "keep"), "utility": ("miss", "reach")}[kind]
    verb = verbs[0] if threshold <= 0.0 else verbs[1]
    first = "Leave the constraint out, tighten it" if threshold <= 0.0 else "Loosen the constraint"
    remedy = f"{first}, or state the range of a step, {kind}_range=(low, high)."
    found = f"the {word} of {name!r} is {number(bound)} {unit}".rstrip()
    total = f"{number(H * scale.low)} to {number(H * scale.high)} {unit}".rstrip()
    each = f"{number(scale.low)} to {number(scale.high)} in each of {H} stages"
    raise InvalidModelError(f"{found}; no policy can {verb} it, as a total is {total} ({each}). {remedy}")


def read_units(units: Any, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the shown name and the unit of the reward and of each constraint."""
    everything = ["reward", *names]
    if units is None or isinstance(units, str):
        unit = "" if units is None else as_text("units", units)
        return {name: (name, unit) for name in everything}
    if not isinstance(units, Mapping):
        expected = "a unit, or units by name, as in {'reward': 'dollars', 'cost': 'kg'}"
        raise InvalidModelError(f"units is {shown(units)} ({type(units).__name__}); expected {expected}.")
    _check_known("units", units, everything)
    return {name: _unit(name, units.get(name, "")) for name in everything}


def _unit(name: str, value: Any) -> tuple[str, str]:
    """Return the shown name and the unit from "dollars" or ("profit", "dollars")."""
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise InvalidModelError(f"units[{name!r}] is {shown(value)}; expected a unit, or (name, unit).")
        return as_text(f"units[{name!r}][0]", value[0]), as_text(f"units[{name!r}][1]", value[1])
    return name, as_text(f"units[{name!r}]", value)

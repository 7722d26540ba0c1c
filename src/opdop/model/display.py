"""How a problem is shown: its own units, the names of its states and actions, and their places on a map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opdop.model.errors import InvalidModelError
from opdop.model.validation import as_number, as_text, as_whole, call, shown

SHARE = "% of its range"  # the unit of a number that covers constraints in different units
_LARGEST_MAP = 10_000_000  # cells
Item = TypeVar("Item")


@dataclass(frozen=True)
class Quantity:
    """What one signal's episode total means: shown = offset + scale * value, in `unit`.

    A cost c in [0, cmax] enters a model as the signal 1 - c / cmax; over H stages its total is shown
    again as a cost by offset = H * cmax and scale = -cmax. A negative scale therefore also turns
    "at least" into "at most".

    >>> fast = Quantity("fast services", unit="services", scale=-1.0, offset=10.0)
    >>> fast.shown(5.0)
    5.0
    >>> fast.constraint(5.0)
    'fast services <= 5 services'
    """

    name: str
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        _set(self, {name: as_text(f"{name} of a quantity", getattr(self, name)) for name in ("name", "unit")})
        for name in ("scale", "offset"):
            value = as_number(f"{name} of {self.name!r}", getattr(self, name), "a number", error=InvalidModelError)
            _set(self, {name: value})

    def shown(self, value: float) -> float:
        """Return an episode total, the value of a signal, in the problem's own units."""
        return self.offset + self.scale * value

    def shown_difference(self, difference: float) -> float:
        """Return a difference of two episode totals in the problem's own units."""
        return self.scale * difference

    def text(self, value: float, digits: int = 4) -> str:
        """Return the value of an episode total as text, with so many significant digits and its unit."""
        return f"{self.shown(value):.{digits}f} {self.unit}".rstrip()

    def constraint(self, threshold: float) -> str:
        """Return the constraint "value >= threshold" as text, in the problem's own units."""
        sign = "<=" if self.scale < 0 else ">="
        return f"{self.name} {sign} {amount(self.shown(threshold), self.unit, digits=6)}"


def price_scale(reward: Quantity, constraint: Quantity) -> float:
    """Return what one model unit of a multiplier is in own units: reward per unit of the constraint."""
    return abs(reward.scale) / abs(constraint.scale) if constraint.scale else float("inf")


def joint_unit(constrained: Sequence[Quantity], horizon: int) -> tuple[float, str]:
    """Return the scale and the unit of a difference that may be of any of several constraints.

    The violation of the most violated constraint is such a number. It has the unit of the constraints if one model unit
    means the same in each. Otherwise it is a share of the range of a constraint, which is as wide as the largest
    possible difference of two episode totals: H model units.

    >>> minutes, dollars = Quantity("waiting", "minutes", -2.0, 20.0), Quantity("wages", "dollars", -5.0, 50.0)
    >>> joint_unit([minutes], 10), joint_unit([minutes, dollars], 10)
    ((2.0, 'minutes'), (10.0, '% of its range'))
    """
    units = {(abs(quantity.scale), quantity.unit) for quantity in constrained}
    return next(iter(units)) if len(units) == 1 else (100.0 / horizon, SHARE)


# Plurals that the rules of `singular` would get wrong; those that are their own singular are listed too.
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "feet": "foot", "lives": "life"}
_IRREGULAR |= {word: word for word in ("gas", "lens", "series", "species", "bps", "fps", "qps")}
_IRREGULAR |= {word: word[:-1] for word in ("movies", "cookies", "calories", "kilocalories", "shoes", "caches")}
_MULTIPLES = ("hundreds", "thousands", "millions", "billions")
_TAILS = (
    " of ",
    " per ",
    " a ",
    " an ",
    " in ",
    " at ",
    " Celsius",
    "/",
)  # what follows stays as it is: units of effort, dollars/day
_ENDINGS = (("sses", "ss"), ("shes", "sh"), ("tches", "tch"), ("ches", "ch"), ("xes", "x"), ("zzes", "zz"))


def singular(unit: str) -> str:
    """Return the name of one unit, whose plural is a word of English; other units stay as they are.

    >>> singular("dollars"), singular("units of effort"), singular("deliveries per day"), singular("EUR"), singular("")
    ('dollar', 'unit of effort', 'delivery per day', 'EUR', 'unit')
    """
    if not unit:
        return "unit"
    cut = min((place for tail in _TAILS if (place := unit.find(tail)) > 0), default=len(unit))
    head, tail = unit[:cut], unit[cut:]
    if head.lower() in _MULTIPLES and tail.startswith(" of "):
        return head[:-1] + tail.removeprefix(" of")  # one more thousand dollars
    start = max(head.rfind(" "), head.rfind("-")) + 1
    return head[:start] + _singular_word(head[start:]) + tail


def _singular_word(word: str) -> str:
    small = word.lower()
    if small in _IRREGULAR:
        return _IRREGULAR[small]
    if len(word) <= 2 or not small.endswith("s") or small.endswith(("ss", "us", "is", "bps")):
        return word  # a symbol such as ms, or no plural
    for ending, one in _ENDINGS:
        if small.endswith(ending):
            return word[: -len(ending)] + one
    if small.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1]


def amount(number: float, unit: str, digits: int = 4) -> str:
    """Return a number with so many digits and its unit, which is in the singular where the number is one.

    >>> amount(3.21987, "dollars"), amount(1.00001, "dollars"), amount(0.5, "")
    ('3.22 dollars', '1 dollar', '0.5')
    """
    text = f"{number:.{digits}g}"
    return f"{text} {singular(unit) if unit and text == '1' else unit}".rstrip()


def worth(reward: Quantity, constraint: Quantity, multiplier: float) -> str:
    """Return a multiplier, in model units, as a sentence in own units.

    >>> worth(Quantity("profit", "dollars", 19.0), Quantity("overtime", "hours", -2.0, 20.0), 0.5)
    'one more hour of budget is worth 4.75 dollars of profit'
    >>> worth(Quantity("reward"), Quantity("utility 0"), 0.5)
    'one unit less of threshold is worth 0.5 of reward'
    """
    price = amount(multiplier * price_scale(reward, constraint), reward.unit)
    unit = singular(constraint.unit)
    what = f"one more {unit} of budget" if constraint.scale < 0 else f"one {unit} less of threshold"
    verb = "saves" if reward.scale < 0 else "is worth"
    return f"{what} {verb} {price} of {reward.name}"


@dataclass(frozen=True)
class Geometry:
    """Where the states lie: `cells[x]` is the (row, column) of state x; None for a state off the map.

    `marks` names special states ("start", "goal", "hazard", "wall", ...); `walls` are cells without a state;
    `arrows[a]` is the (row, column) direction of action a, if actions are moves.
    """

    cells: tuple[tuple[int, int] | None, ...]
    marks: Mapping[int, str] = field(default_factory=dict)
    walls: tuple[tuple[int, int], ...] = ()
    arrows: tuple[tuple[int, int], ...] = ()
    row_label: str = ""
    column_label: str = ""

    def __post_init__(self) -> None:
        _set(self, {name: as_text(name, getattr(self, name)) for name in ("row_label", "column_label")})
        cells = _each("cells", self.cells, lambda name, cell: None if cell is None else _pair(name, cell))
        walls = _each("walls", self.walls, _pair)
        placed = [cell for cell in (*cells, *walls) if cell is not None]
        if not any(cell is not None for cell in cells) or min(map(min, placed)) < 0:
            raise InvalidModelError("a map needs at least one state, and its rows and columns begin at 0.")
        if (1 + max(row for row, _ in placed)) * (1 + max(column for _, column in placed)) > _LARGEST_MAP:
            raise InvalidModelError(f"the map is too large; expected at most {_LARGEST_MAP:,} cells.")
        marks = {as_whole("marks", x): as_text(f"marks[{x}]", mark) for x, mark in _items("marks", self.marks)}
        _set(self, {"cells": cells, "walls": walls, "arrows": _each("arrows", self.arrows, _pair), "marks": marks})


@dataclass(frozen=True)
class Display:
    """A problem's name, its words and its units; `quantities[0]` is the reward, then one for each constraint."""

    name: str
    summary: str = ""
    quantities: tuple[Quantity, ...] = ()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    geometry: Geometry | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the types, and clean the names: no control character may reach a terminal or a figure."""
        _set(self, {name: as_text(f"{name} of the display", getattr(self, name)) for name in ("name", "summary")})
        _set(self, {name: _each(name, getattr(self, name), as_text) for name in ("state_names", "action_names")})
        _set(self, {"quantities": _each("quantities", self.quantities, _quantity)})
        if self.geometry is not None and not isinstance(self.geometry, Geometry):
            raise InvalidModelError(f"geometry is {shown(self.geometry)}; expected an opdop.model.Geometry.")
        parameters = {
            as_text("a parameter's name", key): as_text(f"{key}", value) if isinstance(value, str) else value
            for key, value in _items("parameters", self.parameters)
        }
        _set(self, {"parameters": parameters})

    @classmethod
    def plain(cls, constraints: int) -> Display:
        """Return the display of a model with a number of constraints, without names and units."""
        return cls("model", quantities=(Quantity("reward"), *(Quantity(f"utility {i}") for i in range(constraints))))


def _set(instance: object, values: Mapping[str, object]) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _each(name: str, values: Any, check: Callable[[str, Any], Item]) -> tuple[Item, ...]:
    """Return a sequence as a tuple, each entry checked."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidModelError(f"{name} is {shown(values)} ({type(values).__name__}); expected a tuple.")
    return tuple(check(f"{name}[{i}]", value) for i, value in enumerate(call(f"reading {name}", tuple, values)))


def _items(name: str, values: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(values, Mapping):
        raise InvalidModelError(f"{name} is {shown(values)} ({type(values).__name__}); expected a dict.")
    return tuple(call(f"reading {name}", values.items))


def _quantity(name: str, value: Any) -> Quantity:
    if not isinstance(value, Quantity):
        raise InvalidModelError(f"{name} is {shown(value)} ({type(value).__name__}); expected an opdop.Quantity.")
    return value


def _pair(name: str, value: Any) -> tuple[int, int]:
    pair = _each(name, value, as_whole)
    if len(pair) != 2:
        raise InvalidModelError(f"{name} has {len(pair)} numbers; expected 2, a row and a column.")
    return pair

"""How a problem is shown: its own units, the names of its states and actions, and their places on a map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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

    def shown(self, value: float) -> float:
        """Return an episode total in the problem's own units."""
        return self.offset + self.scale * value

    def shown_difference(self, difference: float) -> float:
        """Return a difference of two episode totals in the problem's own units."""
        return self.scale * difference

    def text(self, value: float, digits: int = 4) -> str:
        """Return an episode total as text with its unit."""
        return f"{self.shown(value):.{digits}f} {self.unit}".rstrip()

    def constraint(self, threshold: float) -> str:
        """Return the constraint "value >= threshold" as text, in the problem's own units."""
        sign = "<=" if self.scale < 0 else ">="
        return f"{self.name} {sign} {self.shown(threshold):g} {self.unit}".rstrip()


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

    @classmethod
    def plain(cls, constraints: int) -> Display:
        """Return the display of a model without names and units."""
        return cls("model", quantities=(Quantity("reward"), *(Quantity(f"utility {i}") for i in range(constraints))))

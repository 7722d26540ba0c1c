"""A policy on the map of a problem: the expected visits and the most likely action of every cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from opdop.model import Geometry, InvalidModelError, TabularCMDP
from opdop.model.validation import Floats
from opdop.planning import occupancy

# Cells with fewer expected visits than this count as not visited: they would show as 0.00.
SEEN = 0.005

_ARROWS = {(-1, 0): "^", (1, 0): "v", (0, 1): ">", (0, -1): "<", (0, 0): "o"}
_MARKS = {"start": "S", "goal": "G", "hazard": "!", "wall": "#"}
_STYLES = {"S": "bold", "G": "bold green", "!": "red", "#": "dim"}


@dataclass(frozen=True, eq=False)
class VisitMap:
    """Expected visits of one episode on a map; off the map visits are NaN and actions -1."""

    visits: Floats  # [rows, columns], stages spent in the cell
    actions: NDArray[np.int64]  # [rows, columns], the most likely action where visits reach SEEN, else -1
    final: NDArray[np.bool_]  # [rows, columns], cells that no action leaves
    marks: dict[tuple[int, int], str]
    walls: tuple[tuple[int, int], ...]
    geometry: Geometry

    @classmethod
    def of(cls, cmdp: TabularCMDP, policy: Any) -> VisitMap:
        """Return the map of a policy; states that share a cell are added up.

        Raises InvalidModelError if the problem has no map.
        """
        geometry = cmdp.display.geometry
        if geometry is None:
            raise InvalidModelError(f"{cmdp.display.name!r} has no map: its display has no geometry.")
        placed = [cell for cell in geometry.cells if cell is not None]
        shape = (np.array([*placed, *geometry.walls]).max(axis=0) + 1).tolist()
        by_state = occupancy(cmdp, policy).sum(axis=0)  # [S, A]
        by_cell = np.full((*shape, cmdp.num_actions), np.nan)
        final, absorbing = np.ones(shape, dtype=np.bool_), _absorbing(cmdp)
        marks: dict[tuple[int, int], str] = {}
        for x, cell in enumerate(geometry.cells):
            if cell is not None:
                by_cell[cell] = np.nan_to_num(by_cell[cell]) + by_state[x]
                final[cell] &= absorbing[x]
                if x in geometry.marks:
                    marks[cell] = geometry.marks[x]
        visits = by_cell.sum(axis=2)
        likely = np.argmax(np.nan_to_num(by_cell), axis=2)
        return cls(visits, np.where(visits >= SEEN, likely, -1), final, marks, geometry.walls, geometry)

    def direction(self, cell: tuple[int, int]) -> tuple[int, int] | None:
        """Return the move of a cell's most likely action, (0, 0) if it stays; None if the cell is not visited."""
        action, arrows = int(self.actions[cell]), self.geometry.arrows
        if action < 0 or not arrows:
            return None
        return (0, 0) if self.final[cell] else arrows[action]

    def text(self, width: int = 80) -> Text | None:
        """Return the map for a terminal, with the stages spent in each cell beside it; None if it is too wide."""
        rows, columns = self.visits.shape
        if 3 * columns > width:
            return None
        numbers = max(len(f"{np.nanmax(self.visits):.2f}"), 4)
        beside = 3 * columns + 3 + (numbers + 1) * columns <= width
        lines = []
        for i in range(rows):
            line = Text()
            for j in range(columns):
                line.append_text(self._glyph((i, j))).append(" ")
            if beside:
                shown = " ".join(f"{self._count((i, j)):>{numbers}}" for j in range(columns))
                line.append("   ").append(shown)
            line.rstrip()
            lines.append(line)
        return Text("\n").join(lines)

    @property
    def legend(self) -> str:
        """What the signs of the text map mean, for the signs that occur."""
        signs = [f"{_sign(mark)} {mark}" for mark in dict.fromkeys(self.marks.values())]
        if self.walls:
            signs.append("# wall")
        found = {self._arrow(cell) for cell in np.ndindex(*self.visits.shape) if self.actions[cell] >= 0}
        arrows = " ".join(arrow for arrow in "^>v<" if arrow in found)
        if arrows:
            signs.append(f"{arrows} most likely move")
        if "o" in found:
            signs.append("o stays")
        if "*" in found:
            signs.append("* visited")
        signs.append(". not visited")
        return ", ".join(signs)

    def _arrow(self, cell: tuple[int, ...]) -> str:
        if self.actions[cell] < 0:
            return "."
        return _ARROWS.get(self.direction((cell[0], cell[1])) or (9, 9), "*")

    def _glyph(self, cell: tuple[int, int]) -> Text:
        if np.isnan(self.visits[cell]):
            return Text("##" if cell in self.walls else "  ", style="dim")
        sign = _sign(self.marks[cell]) if cell in self.marks else " "
        arrow = self._arrow(cell)
        return Text.assemble((sign, _STYLES.get(sign, "")), (arrow, "dim" if arrow == "." else "bold cyan"))

    def _count(self, cell: tuple[int, int]) -> str:
        visits = self.visits[cell]
        if np.isnan(visits):
            return ""
        return f"{visits:.2f}" if visits >= SEEN else "."


def _absorbing(cmdp: TabularCMDP) -> NDArray[np.bool_]:
    """Return for each state whether no action leaves it; [S]."""
    rows = np.arange(cmdp.num_states * cmdp.num_actions)
    kernels = (cmdp.transition_matrix(h) for h in range(1 if cmdp.is_stationary else cmdp.horizon))
    stays = [np.asarray(kernel[rows, rows // cmdp.num_actions]).reshape(cmdp.num_states, -1) for kernel in kernels]
    return np.asarray((np.array(stays) == 1.0).all(axis=(0, 2)))


def _sign(mark: str) -> str:
    return _MARKS.get(mark, mark[:1].upper())

"""Figures of a problem: its map with a policy's visits, and the reward-utility plane with its frontier."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.style import context as style_context
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from opdop.model import Quantity, TabularCMDP
from opdop.model.rounding import short_number
from opdop.model.validation import Floats
from opdop.planning import Optimum
from opdop.report.figures import style
from opdop.report.figures.style import LOOK, axis_label
from opdop.report.summary.plane import slices, trace
from opdop.report.summary.solution import Solution
from opdop.report.summary.visit_map import VisitMap


def picture(solution: Solution, *, plane: bool = False) -> Figure:
    """Return the map of a solution's problem with the visits of its optimal policy.

    If the problem has no map, or if `plane` is set, return its reward-utility plane instead.
    """
    if solution.cmdp.display.geometry is None or plane:
        return frontier(solution.cmdp, solution.optimum)
    return occupancy_map(solution.cmdp, solution.optimum.policy)


@style_context(LOOK)
def occupancy_map(cmdp: TabularCMDP, policy: Any, title: str | None = None) -> Figure:
    """Return a map of `cmdp`: how many stages a policy spends in each cell, and its most frequent action there.

    `title` is that of the figure, by default the problem's name. Raises InvalidModelError if there is no map.
    """
    visits = VisitMap.of(cmdp, policy)
    geometry = visits.geometry
    rows, columns = visits.visits.shape
    # In inches, from the page's edge: the map's cells are square, whatever their number.
    left, right, top = (0.34 if geometry.row_label else 0.1), 0.1, 0.26
    bottom = 0.66 + (0.3 if geometry.column_label else 0.08)
    cell = min((style.WIDTH - left - right) / columns, 0.55)
    height = top + cell * rows + bottom
    figure = Figure(figsize=(style.WIDTH, height))

    def place(x: float, y: float, width: float, tall: float) -> Axes:
        return figure.add_axes((x / style.WIDTH, y / height, width / style.WIDTH, tall / height))

    axes = place(left, bottom, cell * columns, cell * rows)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_title(cmdp.display.name if title is None else title)
    _label_cells(axes, visits)
    _draw_ground(axes, visits, cell)
    shades = _draw_visits(axes, visits)
    if max(rows, columns) <= 30:
        _draw_moves(axes, visits, shades)
    _draw_bar(place(max(left, 0.2), 0.48, 1.25, 0.06), shades)
    figure.legend(
        handles=_marks(visits, cell), loc="lower left", bbox_to_anchor=(left / style.WIDTH, 0.0), ncols=5, borderpad=0
    )
    figure.draw_without_rendering()
    return figure


@style_context(LOOK)
def frontier(cmdp: TabularCMDP, optimum: Optimum) -> Figure:
    """Return a figure of the best reward against the constrained quantity, in the problem's own units.

    The optimum of `cmdp` and the constraint are marked. With one constraint the figure shows all that policies attain.
    With several there is one panel for each: the best reward as one constraint varies and the others are satisfied.
    """
    count = cmdp.num_constraints
    figure = Figure(figsize=(style.WIDTH, 3.0 if count == 1 else 0.6 + 1.9 * count), layout="constrained")
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    for i, axes in enumerate(panels):
        if count == 1:
            _draw_plane(axes, cmdp, optimum)
        else:
            _draw_slice(axes, cmdp, optimum, i)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.set_xlabel(axis_label(cmdp.display.quantities[1 + i]))
        # Above the panel, as a long name would not fit beside it.
        axes.set_title(axis_label(cmdp.display.quantities[0]), fontsize=7.0, fontweight="normal")
    figure.suptitle(cmdp.display.name, x=0.02, ha="left", fontsize=8.5, fontweight="bold")
    handles, _ = panels[0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower left", ncols=2)
    figure.draw_without_rendering()  # ticks take their look from the settings at the first drawing
    return figure


def _label_cells(axes: Axes, visits: VisitMap) -> None:
    geometry = visits.geometry
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2)
    for axis, label in ((axes.xaxis, geometry.column_label), (axes.yaxis, geometry.row_label)):
        axis.set_major_locator(MaxNLocator(12, integer=True))
        axis.set_label_text(label)
        axis.set_tick_params(labelleft=bool(label), labelbottom=bool(label))


def _draw_ground(axes: Axes, visits: VisitMap, cell: float) -> None:
    """Draw free cells, walls and marked cells; a cell is `cell` inches wide."""
    rim: dict[str, Any] = {"edgecolor": "white", "linewidth": min(0.8, 3.0 * cell)}
    hatch = _hatch(cell)
    cells = [(i, j) for i, j in np.ndindex(*visits.visits.shape) if not np.isnan(visits.visits[i, j])]
    _squares(axes, cells, facecolor=style.FREE, **rim)
    _squares(axes, visits.walls, facecolor=style.WALL, **rim)
    marked = {mark: [cell for cell in cells if visits.marks.get(cell) == mark] for mark in visits.marks.values()}
    for mark, places in marked.items():
        if mark in style.FRAMES:
            _squares(axes, places, side=0.9, facecolor="none", edgecolor=style.FRAMES[mark], linewidth=1.5, zorder=4)
        else:
            _squares(axes, places, facecolor=style.HAZARD, edgecolor=style.VERMILION, hatch=hatch, linewidth=0.0)
            _squares(axes, places, facecolor="none", **rim)


def _draw_visits(axes: Axes, visits: VisitMap) -> PatchCollection:
    """Shade the visited cells, leaving a rim on which the ground shows; return what the colour bar needs."""
    cells = [(i, j) for i, j in np.ndindex(*visits.visits.shape) if visits.actions[i, j] >= 0]
    shades = _squares(axes, cells, side=0.72, edgecolor="none", linewidth=0.0, zorder=3)
    shades.set_cmap(style.VISITS)
    most = float(np.nanmax(visits.visits))
    shades.set_norm(LogNorm(0.01, max(most, 1.0)))
    shades.set_array(np.array([visits.visits[cell] for cell in cells]))
    return shades


def _draw_bar(bar: Axes, shades: PatchCollection) -> None:
    bar.figure.colorbar(shades, cax=bar, orientation="horizontal", format="%g")
    low, high = shades.get_clim()
    bar.xaxis.set_ticks([tick for tick in 10.0 ** np.arange(-2, 6) if (low or 0.0) <= tick <= (high or 0.0)])
    bar.minorticks_off()
    bar.spines[:].set_visible(False)
    bar.text(1.08, 0.5, "expected stages in a cell", transform=bar.transAxes, va="center", fontsize=6.5)


def _draw_moves(axes: Axes, visits: VisitMap, shades: PatchCollection) -> None:
    """Draw an arrow for the most likely action of each visited cell, a dot where the policy stays."""
    cells = [(i, j) for i, j in np.ndindex(*visits.visits.shape) if visits.direction((i, j)) is not None]
    steps = np.array([visits.direction(cell) for cell in cells], dtype=np.float64).reshape(-1, 2)
    places = np.array(cells, dtype=np.float64).reshape(-1, 2)
    dark = np.array(shades.norm(np.array([visits.visits[cell] for cell in cells]))) > 0.85
    colours = np.where(dark, style.ON_DARK, style.ON_LIGHT)
    stays = ~steps.any(axis=1)
    axes.scatter(places[stays, 1], places[stays, 0], s=7.0, c=list(colours[stays]), zorder=5)
    moves = ~stays
    axes.quiver(
        places[moves, 1],
        places[moves, 0],
        0.42 * steps[moves, 1],
        0.42 * steps[moves, 0],
        color=list(colours[moves]),
        angles="xy",
        scale_units="xy",
        scale=1.0,
        units="x",
        width=0.055,
        headwidth=4.0,
        headlength=4.0,
        headaxislength=3.6,
        pivot="mid",
        zorder=5,
    )


def _squares(axes: Axes, cells: Any, *, side: float = 1.0, **look: Any) -> PatchCollection:
    """Draw a square on each of the (row, column) cells; many thousands become one image in the file."""
    patches = [Rectangle((j - side / 2, i - side / 2), side, side) for i, j in cells]
    squares = PatchCollection(patches, rasterized=len(patches) > 2500, **look)
    axes.add_collection(squares)
    return squares


def _hatch(cell: float) -> str | None:
    """Return the hatching of hazards, or None if cells are too small for it."""
    return "//////" if cell >= 0.12 else None


def _marks(visits: VisitMap, cell: float) -> list[Patch]:
    """Return the legend's entries for the marks of a map."""
    handles = []
    for mark in dict.fromkeys(visits.marks.values()):
        if mark in style.FRAMES:
            handles.append(Patch(facecolor="none", edgecolor=style.FRAMES[mark], linewidth=1.5, label=mark))
        else:
            look: dict[str, Any] = {"facecolor": style.HAZARD, "edgecolor": style.VERMILION, "hatch": _hatch(cell)}
            handles.append(Patch(**look, linewidth=0.0, label=mark))
    if visits.walls:
        handles.append(Patch(facecolor=style.WALL, label="wall"))
    return handles


def _draw_plane(axes: Axes, cmdp: TabularCMDP, optimum: Optimum) -> None:
    reward, constrained = cmdp.display.quantities
    plane = trace(cmdp)
    hull, best = in_own_units(plane.hull, constrained, reward), in_own_units(plane.frontier, constrained, reward)
    axes.fill(hull[:, 0], hull[:, 1], facecolor=style.PALE, label="attainable", zorder=1)
    few: dict[str, Any] = {"marker": "o", "markersize": 2.2} if len(best) <= 40 else {}
    axes.plot(best[:, 0], best[:, 1], color=style.BLUE, label="best attainable", zorder=3, **few)
    _view(axes, best, constrained.shown(float(cmdp.thresholds[0])))
    _draw_optimum(axes, cmdp, optimum, 0)
    corners = (
        (optimum.unconstrained, "D", style.ORANGE, "unconstrained policy"),
        (optimum.slater, "s", style.GREEN, "max-slack policy"),
    )
    for values, marker, colour, words in corners:
        x, y = constrained.shown(float(values.utilities[0])), reward.shown(values.reward)
        axes.plot([x], [y], marker, color=colour, markersize=5.5, markeredgecolor="white", label=words, zorder=5)


def _draw_slice(axes: Axes, cmdp: TabularCMDP, optimum: Optimum, constraint: int) -> None:
    reward, constrained = cmdp.display.quantities[0], cmdp.display.quantities[1 + constraint]
    best = in_own_units(slices(cmdp, optimum, constraint), constrained, reward)
    axes.plot(best[:, 0], best[:, 1], color=style.BLUE, label="best, other constraints satisfied", zorder=3)
    _view(axes, best, constrained.shown(float(cmdp.thresholds[constraint])))
    _draw_optimum(axes, cmdp, optimum, constraint)


def _draw_optimum(axes: Axes, cmdp: TabularCMDP, optimum: Optimum, constraint: int) -> None:
    """Draw the constraint and the side that violates it, the optimum, and the multiplier as the slope there."""
    reward, constrained = cmdp.display.quantities[0], cmdp.display.quantities[1 + constraint]
    threshold = constrained.shown(float(cmdp.thresholds[constraint]))
    sign, edge = ("≤", axes.get_xlim()[1]) if constrained.scale < 0 else ("≥", axes.get_xlim()[0])
    axes.axvspan(
        threshold, edge, facecolor=style.VERMILION, alpha=0.10, linewidth=0.0, label="constraint violated", zorder=2
    )
    several = cmdp.num_constraints > 1
    words = "constraint" if several else f"constraint: {sign} {threshold:g} {constrained.unit}".rstrip()
    axes.axvline(threshold, color=style.VERMILION, linewidth=1.0, label=words, zorder=2)
    x, y = constrained.shown(float(optimum.utility_values[constraint])), reward.shown(optimum.value)
    slope = -float(optimum.dual[constraint]) * reward.scale / constrained.scale
    words = "slope: multiplier" if several else f"slope: multiplier {short_number(abs(slope))}"
    axes.axline((x, y), slope=slope, color=style.PURPLE, linewidth=1.0, linestyle=(0, (4, 2)), label=words, zorder=2.5)
    axes.plot([x], [y], "o", color=style.INK, markersize=6.0, markeredgecolor="white", label="optimum", zorder=6)


def in_own_units(points: Floats, constrained: Quantity, reward: Quantity) -> Floats:
    """Return points (utility, reward) in own units."""
    return np.array([(constrained.shown(x), reward.shown(y)) for x, y in points])


def _view(axes: Axes, best: Floats, threshold: float) -> None:
    """Show the frontier and the constraint, with a margin."""
    for values, limit in ((np.append(best[:, 0], threshold), axes.set_xlim), (best[:, 1], axes.set_ylim)):
        low, high = float(values.min()), float(values.max())
        margin = 0.08 * (high - low) or 0.5
        limit(low - margin, high + margin)

"""Paths of the average policies through the reward-utility plane to the exact optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import FuncFormatter, MaxNLocator

from opdop.model.validation import Floats
from opdop.report.figures.groups import legend, legend_rows, look_of, seen
from opdop.report.figures.labels import FAR, NEAR, Labels
from opdop.report.figures.problem import in_own_units
from opdop.report.figures.style import GREY, INK, LOOK, PALE, VERMILION, WIDTH, axis_label, count_text, write_title
from opdop.report.summary.groups import Group, Section
from opdop.report.summary.plane import slices, trace

_HEIGHT = 2.75  # inches, without a legend
_THIN = 12  # with more seeds in a group, they have no thin lines of their own
_CLOSE = 0.25  # largest share of the whole plane that a close-up may show
_STAR, _DIAMOND, _DOT, _END = 5.0, 2.8, 2.2, 3.2  # radii of marks, in points


@dataclass(frozen=True, eq=False)
class Ground:
    """What is known of a plane beneath the paths, in own units; a row is (constrained quantity, reward)."""

    area: Floats | None  # [n, 2], corners of the attainable set; None with several constraints
    best: Floats | None  # [m, 2], the exact frontier; None if the model is not known


def ground(section: Section, index: int) -> Ground:
    """Return the attainable set and the exact frontier of a section's problem, for the constraint with this index."""
    cmdp, quantities = section.cmdp, section.summary.run.display.quantities
    if cmdp is None:
        return Ground(None, None)
    reward, constrained = quantities[0], quantities[1 + index]
    if cmdp.num_constraints == 1:
        plane = trace(cmdp)
        return Ground(in_own_units(plane.hull, constrained, reward), in_own_units(plane.frontier, constrained, reward))
    best = slices(cmdp, section.summary.optimum, index)
    return Ground(None, in_own_units(best, constrained, reward))


@dataclass(frozen=True, eq=False)
class View:
    """The limits of a picture of a plane, in own units."""

    across: tuple[float, float]  # left, right
    up: tuple[float, float]  # bottom, top


def whole(section: Section, index: int, below: Ground) -> View:
    """Return a view of all paths of a section, the frontier `below` them, and the constraint with this index."""
    paths = [_path(group, index).reshape(-1, 2) for group in section.groups]
    optimum = _optimum(section, index)
    marks = [optimum, _unconstrained(section, index), np.array([_threshold(section, index), optimum[1]])]
    points: Floats = np.vstack([*paths, marks, *([below.best] if below.best is not None else [])])
    low, high = points.min(axis=0), points.max(axis=0)
    return _view(low, high, np.where(high > low, 0.07 * (high - low), 0.5))


def close(section: Section, index: int, full: View) -> View | None:
    """Return a close-up of the `full` view, with the optimum and the nearest end of a path; None if it enlarges little.

    `section` has the paths, `index` is that of the constraint on the horizontal axis.
    """
    optimum = _optimum(section, index)
    extent = np.array([full.across[1] - full.across[0], full.up[1] - full.up[0]])
    ends = [np.abs(_path(group, index).mean(axis=0)[-1] - optimum) / extent for group in section.groups]
    size = 1.6 * min(float(end.max()) for end in ends)
    return _view(optimum, optimum, size * extent) if 0.0 < size <= _CLOSE else None


def _view(low: Floats, high: Floats, room: Floats) -> View:
    (left, bottom), (right, top) = low - room, high + room
    return View((float(left), float(right)), (float(bottom), float(top)))


@style_context(LOOK)
def path_figure(section: Section, index: int, below: Ground, view: View, title: str) -> Figure:
    """Return a figure of the plane with the paths of the average policies.

    Args:
        section: the problem and its groups.
        index: of the constraint whose quantity is the horizontal axis.
        below: the attainable set and the frontier, from `ground`.
        view: the limits, from `whole` or `close`.
        title: of the figure.
    """
    summary = section.summary
    constrained = summary.constraints[index].quantity
    rows = legend_rows(section)
    height = _HEIGHT + 0.135 * rows
    bottom = 0.40 + 0.135 * rows
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.50 / WIDTH, bottom / height, 1.0 - 0.64 / WIDTH, 1.0 - (bottom + 0.46) / height))
    axes.set_xlim(view.across)
    axes.set_ylim(view.up)
    labels = Labels(axes, [])
    if below.area is not None:
        axes.fill(below.area[:, 0], below.area[:, 1], facecolor=PALE, zorder=1)
    if below.best is not None:
        axes.plot(below.best[:, 0], below.best[:, 1], color=INK, linewidth=1.3, zorder=3)
        labels.avoid(below.best)
    optimum, free = _optimum(section, index), _unconstrained(section, index)
    axes.plot(*optimum, "*", color=INK, markersize=11.0, markeredgecolor="white", markeredgewidth=0.8, zorder=9)
    axes.plot(*free, "D", color=GREY, markersize=4.5, markeredgecolor="white", zorder=5)
    labels.block(optimum, _STAR)
    labels.block(free, _DIAMOND)
    threshold = _threshold(section, index)
    _draw_constraint(axes, labels, threshold, at_most=constrained.scale < 0.0)
    marks = [
        (look_of(i)["color"], _draw_path(axes, labels, group, index, look_of(i)))
        for i, group in enumerate(section.groups)
    ]
    labels.write("optimum", optimum, shifts=NEAR + FAR, fontweight="bold", fontsize=6.5)
    labels.write("unconstrained", free, shifts=NEAR + FAR, clean=True)
    beside = [(x, -8, "left") if constrained.scale < 0.0 else (-x, -8, "right") for x in (4, 11)]
    along = [np.array([threshold, y]) for y in np.linspace(*view.up[::-1], 30)]
    labels.write("constraint\nviolated", *along, shifts=beside, clean=True, color=VERMILION)
    for colour, decades in marks:
        for episodes, mark in decades.items():
            labels.write(count_text(episodes), mark, shifts=NEAR + FAR, clean=True, color=colour)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: count_text(round(value, 10))))
    across, up = axis_label(constrained), axis_label(summary.reward)
    axes.set_xlabel(across, labelpad=1.5, fontsize=_fitting(across))
    figure.text(0.1 / WIDTH, 1.0 - 0.36 / height, up, fontsize=_fitting(up))
    write_title(figure, title)
    handles, _ = axes.get_legend_handles_labels()
    legend(figure, section, handles)
    figure.draw_without_rendering()
    return figure


def _path(group: Group, index: int) -> Floats:
    """Return the average policies so far (constrained quantity, reward) of all runs in own units, [n, K', 2]."""
    quantities = group.runs[0].display.quantities
    reward, constrained = quantities[0], quantities[1 + index]
    x = constrained.offset + constrained.scale * group.average(f"total_utility_{index}")
    y = reward.offset + reward.scale * group.average("total_reward")
    return np.stack([x, y], axis=2)


def _final(group: Group, index: int) -> Floats:
    """Return the final policies (constrained quantity, reward) of all runs in own units, [n, 2]."""
    quantities = group.runs[0].display.quantities
    final = np.array([(each.final_values.utilities[index], each.final_values.reward) for each in group.summaries])
    return in_own_units(final, quantities[1 + index], quantities[0])


def _optimum(section: Section, index: int) -> Floats:
    summary = section.summary
    constraint = summary.constraints[index]
    return np.array([constraint.quantity.shown(constraint.attained), summary.reward.shown(summary.optimum.value)])


def _unconstrained(section: Section, index: int) -> Floats:
    summary = section.summary
    constraint = summary.constraints[index]
    best = summary.reward.shown(summary.optimum.unconstrained.reward)
    return np.array([constraint.quantity.shown(constraint.unconstrained), best])


def _threshold(section: Section, index: int) -> float:
    constraint = section.summary.constraints[index]
    return constraint.quantity.shown(constraint.threshold)


def _fitting(words: str) -> float:
    """Return the font size with which an axis label fits the figure."""
    return min(7.0, 7.0 * 58 / len(words))


def _draw_constraint(axes: Axes, labels: Labels, threshold: float, *, at_most: bool) -> None:
    """Draw the constraint as a line, and shade the side where it is violated."""
    (left, right), up = axes.get_xlim(), axes.get_ylim()
    axes.axvspan(threshold, right if at_most else left, facecolor=VERMILION, alpha=0.10, linewidth=0.0, zorder=2)
    axes.axvline(threshold, color=VERMILION, linewidth=1.0, zorder=2)
    axes.set_xlim(left, right)
    labels.avoid(np.column_stack([(threshold, threshold), up]))


def _draw_path(axes: Axes, labels: Labels, group: Group, index: int, look: dict[str, Any]) -> dict[int, Floats]:
    """Draw a group's mean path with dots at 100, 1,000, ... episodes, and its final policies as rings.

    Return the dots by their number of episodes.
    """
    path, rings, at = _path(group, index), _final(group, index), seen(group.grid)
    if 1 < len(path) <= _THIN:
        for each in path:
            axes.plot(each[at, 0], each[at, 1], linewidth=0.5, alpha=0.45, zorder=4, **look)
    mean = path.mean(axis=0)
    axes.plot(mean[at, 0], mean[at, 1], zorder=6, label=group.label, **look)
    decades = [10**power for power in range(2, 10) if 10**power < group.grid[-1]]
    marks = mean[[int(np.searchsorted(group.grid, decade)) for decade in decades]]
    dot: dict[str, Any] = {"color": look["color"], "markeredgecolor": "white", "markeredgewidth": 0.6}
    axes.plot(marks[:, 0], marks[:, 1], "o", markersize=3.6, zorder=7, **dot)
    axes.plot(*mean[-1], "o", markersize=5.6, zorder=8, **dot)
    hollow: dict[str, Any] = {"color": look["color"], "markerfacecolor": "none", "markeredgewidth": 0.7}
    axes.plot(rings[:, 0], rings[:, 1], "o", markersize=3.4, zorder=5, **hollow)
    labels.avoid(mean[at])
    labels.block(mean[-1], _END)
    for mark in (*marks, *rings):
        labels.block(mark, _DOT)
    return dict(zip(decades, marks, strict=True))

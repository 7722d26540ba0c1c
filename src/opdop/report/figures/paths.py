"""The signature picture: the average policies' way through the reward-utility plane to the exact optimum."""

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
from opdop.report.figures.labels import Labels
from opdop.report.figures.problem import in_own_units
from opdop.report.figures.style import GREY, INK, LOOK, PALE, VERMILION, WIDTH, axis_label, count_text, write_title
from opdop.report.summary.groups import Group, Section
from opdop.report.summary.plane import slices, trace

_HEIGHT = 2.75  # inches, without a legend
_THIN = 12  # seeds of a group, up to which each has a thin line of its own
_CLOSE = 0.25  # of the whole plane, how large a close-up may be to be worth it


@dataclass(frozen=True, eq=False)
class Ground:
    """What is known of a plane beneath the paths, in own units; a row is (promised quantity, reward)."""

    area: Floats | None  # [n, 2], corners of all that is attainable; None with several constraints
    best: Floats | None  # [m, 2], the exact frontier; None if the model is not at hand


def ground(section: Section, constraint: int) -> Ground:
    """Trace what is attainable, exactly."""
    cmdp, quantities = section.cmdp, section.summary.run.display.quantities
    if cmdp is None:
        return Ground(None, None)
    reward, promised = quantities[0], quantities[1 + constraint]
    if cmdp.num_constraints == 1:
        plane = trace(cmdp)
        return Ground(in_own_units(plane.hull, promised, reward), in_own_units(plane.frontier, promised, reward))
    best = slices(cmdp, section.summary.optimum, constraint)
    return Ground(None, in_own_units(best, promised, reward))


@dataclass(frozen=True, eq=False)
class View:
    """What a picture of a plane shows, in own units: left, right, and bottom, top."""

    across: tuple[float, float]
    up: tuple[float, float]


def whole(section: Section, constraint: int, below: Ground) -> View:
    """Return a view of frontier, constraint and all paths."""
    promised = section.summary.constraints[constraint]
    paths = [_path(group, constraint).reshape(-1, 2) for group in section.groups]
    optimum = _optimum(section, constraint)
    kept = np.array([promised.quantity.shown(promised.threshold), optimum[1]])
    marks = np.array([optimum, _unconstrained(section, constraint), kept])
    points: Floats = np.vstack([*paths, marks, *([below.best] if below.best is not None else [])])
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.where(high > low, 0.07 * (high - low), 0.5)
    (left, bottom), (right, top) = low - room, high + room
    return View((float(left), float(right)), (float(bottom), float(top)))


def close(section: Section, constraint: int, full: View) -> View | None:
    """Return a view of the optimum and the nearest end of a path; None if they are too far apart for a close-up."""
    optimum = _optimum(section, constraint)
    extent = np.array([full.across[1] - full.across[0], full.up[1] - full.up[0]])
    ends = [np.abs(_path(group, constraint).mean(axis=0)[-1] - optimum) / extent for group in section.groups]
    size = 1.6 * min(float(end.max()) for end in ends)
    if not 0.0 < size <= _CLOSE:
        return None
    (left, bottom), (right, top) = optimum - size * extent, optimum + size * extent
    return View((float(left), float(right)), (float(bottom), float(top)))


@style_context(LOOK)
def path_figure(section: Section, constraint: int, below: Ground, view: View, title: str) -> Figure:
    """Draw the plane with the averages of all policies so far."""
    summary = section.summary
    promised = summary.constraints[constraint]
    rows = legend_rows(section)
    height = _HEIGHT + 0.135 * rows
    bottom = 0.40 + 0.135 * rows
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.50 / WIDTH, bottom / height, 1.0 - 0.64 / WIDTH, 1.0 - (bottom + 0.46) / height))
    axes.set_xlim(view.across)
    axes.set_ylim(view.up)
    paths = [_path(group, constraint) for group in section.groups]
    rings = [_last(group, constraint) for group in section.groups]
    labels = Labels(axes, [path.mean(axis=0) for path in paths] + rings)
    if below.area is not None:
        axes.fill(below.area[:, 0], below.area[:, 1], facecolor=PALE, zorder=1)
    if below.best is not None:
        axes.plot(below.best[:, 0], below.best[:, 1], color=INK, linewidth=1.3, zorder=3)
        labels.avoid(below.best)
    optimum, free = _optimum(section, constraint), _unconstrained(section, constraint)
    axes.plot(*optimum, "*", color=INK, markersize=11.0, markeredgecolor="white", markeredgewidth=0.8, zorder=9)
    axes.plot(*free, "D", color=GREY, markersize=4.5, markeredgecolor="white", zorder=5)
    labels.write("optimum", optimum, fontweight="bold", fontsize=6.5)
    labels.write("best without\nthe constraint", free)
    _draw_constraint(axes, labels, promised.quantity.shown(promised.threshold), at_most=promised.quantity.scale < 0.0)
    for i, (group, path) in enumerate(zip(section.groups, paths, strict=True)):
        _draw_path(axes, labels, group, path, rings[i], look_of(i))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: count_text(round(value, 10))))
    across, up = axis_label(promised.quantity), axis_label(summary.reward)
    axes.set_xlabel(across, labelpad=1.5, fontsize=_fitting(across))
    figure.text(0.1 / WIDTH, 1.0 - 0.36 / height, up, fontsize=_fitting(up))
    write_title(figure, title)
    handles, _ = axes.get_legend_handles_labels()
    legend(figure, section, handles)
    figure.draw_without_rendering()
    return figure


def _path(group: Group, constraint: int) -> Floats:
    """Return the averages so far (promised quantity, reward) of all runs in own units, [n, K', 2]."""
    quantities = group.runs[0].display.quantities
    reward, promised = quantities[0], quantities[1 + constraint]
    x = promised.offset + promised.scale * group.average(f"total_utility_{constraint}")
    y = reward.offset + reward.scale * group.average("total_reward")
    return np.stack([x, y], axis=2)


def _last(group: Group, constraint: int) -> Floats:
    """Return what the last policies of all runs attain (promised quantity, reward) in own units, [n, 2]."""
    quantities = group.runs[0].display.quantities
    last = np.array([(each.final_values.utilities[constraint], each.final_values.reward) for each in group.summaries])
    return in_own_units(last, quantities[1 + constraint], quantities[0])


def _optimum(section: Section, constraint: int) -> Floats:
    summary = section.summary
    promised = summary.constraints[constraint]
    return np.array([promised.quantity.shown(promised.attained), summary.reward.shown(summary.optimum.value)])


def _unconstrained(section: Section, constraint: int) -> Floats:
    summary = section.summary
    promised = summary.constraints[constraint]
    best = summary.reward.shown(summary.optimum.unconstrained.reward)
    return np.array([promised.quantity.shown(promised.unconstrained), best])


def _fitting(words: str) -> float:
    """Return the letters' size with which an axis label fits the page."""
    return min(7.0, 7.0 * 58 / len(words))


def _draw_constraint(axes: Axes, labels: Labels, threshold: float, *, at_most: bool) -> None:
    """Draw the constraint as a line, and shade the side where it is broken."""
    left, right = axes.get_xlim()
    axes.axvspan(threshold, right if at_most else left, facecolor=VERMILION, alpha=0.10, linewidth=0.0, zorder=2)
    axes.axvline(threshold, color=VERMILION, linewidth=1.0, zorder=2)
    axes.set_xlim(left, right)
    side = 1 if at_most else -1
    shifts = tuple((4 * side, y) for y in range(-12, -150, -12))
    labels.write("constraint\nbroken", np.array([threshold, axes.get_ylim()[1]]), shifts=shifts, color=VERMILION)


def _draw_path(axes: Axes, labels: Labels, group: Group, path: Floats, rings: Floats, look: dict[str, Any]) -> None:
    """Draw a group's mean path with a mark at 100, 1,000, ... episodes, and the last policies as rings."""
    at = seen(group.grid)
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
    for mark, decade in zip(marks, decades, strict=True):
        labels.write(count_text(decade), mark, color=look["color"])

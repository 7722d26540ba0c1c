"""Figures of groups of runs: regret, violation and multipliers against episodes, as means with bands over seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from opdop.model.validation import Floats
from opdop.report.figures.labels import Labels
from opdop.report.figures.style import (
    DASHED,
    DASHES,
    GREY,
    GROUPS,
    INK,
    LOOK,
    PALE,
    WIDTH,
    count_text,
    log_episodes,
    per,
    root,
    unroot,
    write_title,
)
from opdop.report.summary.groups import Group, Metric, RealisedSection, Section
from opdop.report.summary.statistics import Band, band

HEIGHT = 2.15  # inches, without a legend
GUIDE: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (1, 1.5)), "zorder": 6}
_APART = 10.0  # ratio of two curves from which on the lower one is not visible on a linear scale
_POINTS = 240  # of a curve; a column of 80 mm cannot show more
_ROW = 0.135  # inches, of a legend


@dataclass(frozen=True, eq=False)
class Curve:
    """Values of a group against episodes."""

    group: Group
    episodes: Floats  # [n]
    band: Band  # [n]
    look: dict[str, Any]


def look_of(index: int) -> dict[str, Any]:
    """Return colour and dashes of the group with this index in its section."""
    return {"color": GROUPS[index % len(GROUPS)], "linestyle": DASHES[index // len(GROUPS) % len(DASHES)]}


def seen(episodes: Floats) -> Floats:
    """Return the indices of the records that a curve is drawn through: evenly on a log scale, and the last."""
    wanted = np.geomspace(episodes[0], episodes[-1], _POINTS)
    return np.unique(np.append(np.searchsorted(episodes, wanted).clip(max=len(episodes) - 1), len(episodes) - 1))


@style_context(LOOK)
def metric_figure(section: Section, metric: Metric, *, total: bool = False) -> Figure:
    """Return a figure of a metric of a section's groups, per episode or in total, with the theory's rate as a guide.

    Averages are drawn on a linear scale, so that negative values show. Totals are drawn on a logarithmic scale that is
    linear around 0, together with the bounds of the groups that have a guarantee.
    """
    curves = []
    for i, group in enumerate(section.groups):
        values = metric.totals(group) if total else metric.totals(group) / group.grid
        at = seen(group.grid)
        curves.append(Curve(group, group.grid[at], band(values[:, at]), look_of(i)))
    figure, axes = canvas(section)
    extent = [each for curve in curves for each in (curve.band.low, curve.band.high)]
    low, high = min(0.0, *(float(e.min()) for e in extent)), max(0.0, *(float(e.max()) for e in extent))
    ends = [abs(float(curve.band.mean[-1])) for curve in curves]
    squeezed = not total and 0.0 < _APART * min(ends) < max(high, -low)
    bounds = _bounds(curves, metric) if total else []
    if total:
        _total_scale(axes, low, high, max([high, *(float(bound[-1]) for _, bound in bounds)]))
    else:
        room = 0.05 * (high - low) or 1.0
        if squeezed:
            axes.set_yscale("function", functions=(root, unroot))
        axes.set_ylim(low - (room if low < 0.0 else 0.3 * room * (not squeezed)), high + room)
        plain_ticks(axes)
    for curve in curves:
        draw_curve(axes, curve)
    across(axes, section)
    labels = labels_of(axes, curves)
    for curve, bound in bounds:
        _draw_bound(axes, labels, curve, bound)
    _guide(axes, labels, curves, total=total)
    _below(axes, labels, metric, low)
    title = per(metric.name.capitalize(), metric.unit, "episode")
    if total:
        title = f"Total {metric.name}, {metric.unit}".removesuffix(", ")
    finish(figure, axes, section, title + (" (√ scale)" if squeezed else ""))
    return figure


@style_context(LOOK)
def multiplier_figure(section: Section, index: int) -> Figure:
    """Return a figure of the multiplier of a section's constraint, given by its index, with the exact multiplier.

    The scale is a square-root scale if the multiplier was once far above the exact one.
    """
    constraint = section.summary.constraints[index]
    curves = []
    for i, group in enumerate(section.groups):
        at = seen(group.grid)
        values = constraint.price_scale * group.column(f"dual_{index}")[:, at]
        curves.append(Curve(group, group.grid[at], band(values), look_of(i)))
    figure, axes = canvas(section)
    most = max(float(np.nan_to_num(curve.band.high).max()) for curve in curves)  # NaN if the learner has none
    top = 1.08 * max(most, constraint.own_multiplier) or 1.0
    squeezed = most > 4.0 * constraint.own_multiplier > 0.0
    if squeezed:
        axes.set_yscale("function", functions=(root, unroot))
    axes.set_ylim(0.0 if squeezed else -0.03 * top, top)
    plain_ticks(axes)
    for curve in curves:
        draw_curve(axes, curve)
    across(axes, section)
    axes.axhline(constraint.own_multiplier, color=INK, **DASHED)
    right = np.array([axes.get_xlim()[1], constraint.own_multiplier])
    left = np.array([1.0, constraint.own_multiplier])
    shifts = ((3, 3, "left"), (3, -8, "left"), (-3, 3, "right"), (-3, -8, "right"))
    labels_of(axes, curves).write("Y*, at the optimum", left, right, shifts=shifts, must=True)
    many = len(section.summary.constraints) > 1
    of = f" on {constraint.quantity.name}" if many else ""
    title = per(f"Multiplier{of}", section.summary.reward.unit, "unit")
    finish(figure, axes, section, title + (" (√ scale)" if squeezed else ""))
    return figure


def legend_rows(section: Section | RealisedSection) -> int:
    """Return the number of rows in the legend of a figure; 0 if there is only one group."""
    if len(section.groups) == 1:
        return 0
    return -(-len(section.groups) // _columns(section))


def legend(figure: Figure, section: Section | RealisedSection, handles: list[Any]) -> None:
    """Write the names of the groups, each with its line, at the lower edge of a figure."""
    if len(section.groups) > 1:
        height = figure.get_figheight()
        where: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.1 / WIDTH, 0.02 / height)}
        figure.legend(handles=handles, ncols=_columns(section), borderpad=0, borderaxespad=0, labelspacing=0.3, **where)


def _columns(section: Section | RealisedSection) -> int:
    longest = max(len(group.label) for group in section.groups)
    return int(np.clip(46 // (longest + 6), 1, len(section.groups)))


def canvas(section: Section | RealisedSection) -> tuple[Figure, Axes]:
    """Return a figure of one column with an empty panel; all figures of a section have the same size."""
    below = 0.36 + _ROW * legend_rows(section)
    height = HEIGHT + _ROW * legend_rows(section)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.46 / WIDTH, below / height, 1.0 - 0.60 / WIDTH, 1.0 - (below + 0.28) / height))
    return figure, axes


def draw_curve(axes: Axes, curve: Curve) -> None:
    """Draw the mean of a group, and its band over seeds if there are several."""
    if curve.band.runs > 1:
        look: dict[str, Any] = {"facecolor": curve.look["color"], "alpha": 0.22, "linewidth": 0.0, "zorder": 2.0}
        axes.fill_between(curve.episodes, curve.band.low, curve.band.high, **look)
    few: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(curve.episodes) <= 20 else {}
    axes.plot(curve.episodes, curve.band.mean, zorder=4.0, label=curve.group.label, **curve.look, **few)


def labels_of(axes: Axes, curves: list[Curve]) -> Labels:
    """Return what places labels so that they cover no curve."""
    return Labels(axes, [np.column_stack([curve.episodes, curve.band.mean]) for curve in curves])


def across(axes: Axes, section: Section | RealisedSection) -> None:
    """Draw the axis of episodes, and the line of 0."""
    log_episodes(axes, max(group.episodes for group in section.groups))
    axes.axhline(0.0, color=GREY, linewidth=0.6, zorder=1)


def _bounds(curves: list[Curve], metric: Metric) -> list[tuple[Curve, Floats]]:
    """Return the proved bounds on the total so far, for groups that have a guarantee.

    The bounds hold after all episodes at once, so the whole curve has the probability of its last point.
    """
    found = []
    for curve in curves:
        card = curve.group.summaries[0].guarantee
        if card.certified and (metric.kind == "regret" or (metric.kind == "violation" and card.constraints)):
            formula = card.regret if metric.kind == "regret" else card.violation
            found.append((curve, metric.scale * np.array([formula(int(k)) for k in curve.episodes])))
    return found


def _draw_bound(axes: Axes, labels: Labels, curve: Curve, bound: Floats) -> None:
    axes.plot(curve.episodes, bound, **{**DASHED, "color": curve.look["color"], "zorder": 3.0})
    line = np.column_stack([curve.episodes, bound])
    labels.avoid(line)
    words = f"proved bound, probability at least {curve.group.summaries[0].guarantee.probability:.3g}"
    labels.write(words, *(line[int(share * (len(line) - 1))] for share in (0.3, 0.15, 0.45, 0.0, 0.6)))


def _total_scale(axes: Axes, low: float, high: float, top: float) -> None:
    """Set a logarithmic scale up to `top` that is linear around 0, so that negative values show."""
    most = max(high, -low)
    linear = most / 1e3 if most > 0.0 else 1.0
    axes.set_yscale("symlog", linthresh=linear, linscale=0.4)
    axes.set_ylim(1.6 * low if low < 0.0 else 0.0, 1.6 * top if top > 0.0 else linear)
    powers = 10.0 ** np.arange(np.ceil(np.log10(3.0 * linear)), np.floor(np.log10(max(most, top) or 1.0)) + 1)
    axes.yaxis.set_major_locator(FixedLocator([*(-powers), 0.0, *powers]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))


def plain_ticks(axes: Axes) -> None:
    """Let the vertical axis have few and plain numbers."""
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))


def _guide(axes: Axes, labels: Labels, curves: list[Curve], *, total: bool) -> None:
    """Draw the rate of the theory through the last point of the lowest curve that ends above 0.

    Algorithms that ignore the constraints do not count, as the theory does not apply to them.
    """
    ends = [
        (float(curve.band.mean[-1]), float(curve.episodes[-1]))
        for curve in curves
        if curve.band.mean[-1] > 0.0 and curve.episodes[-1] >= 10 and not curve.group.summaries[0].ignores_constraints
    ]
    if not ends:
        return
    value, last = min(ends)
    episodes = np.geomspace(1.0, last, 200)
    values = value * np.sqrt(episodes / last if total else last / episodes)
    low, high = axes.get_ylim()
    inside = (values <= high) & (values >= low)
    if not total and last < 3.0 * episodes[inside][0]:
        return
    line = np.column_stack([episodes, values])[inside]
    axes.plot(line[:, 0], line[:, 1], **GUIDE)
    labels.avoid(line)
    words = "guide: √episodes" if total else "guide: 1/√episodes"
    labels.write(words, *(line[int(share * (len(line) - 1))] for share in (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)))


def _below(axes: Axes, labels: Labels, metric: Metric, low: float) -> None:
    """Shade negative regret: there a policy has more reward than the optimum."""
    if low < 0.0 and metric.kind == "regret":
        bottom = axes.get_ylim()[0]
        axes.axhspan(bottom, 0.0, facecolor=PALE, linewidth=0.0, zorder=0)
        corners = np.array([(1.0, bottom), (1.0, 0.0)])
        labels.write("more reward than the optimum has", *corners, shifts=((3, 3, "left"), (3, -8, "left")), must=True)


def finish(figure: Figure, axes: Axes, section: Section | RealisedSection, title: str) -> None:
    """Write the title and the legend of a figure."""
    write_title(figure, title)
    handles, _ = axes.get_legend_handles_labels()
    legend(figure, section, handles)
    figure.draw_without_rendering()

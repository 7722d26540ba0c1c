"""Figures of groups of runs whose model is not known: moving averages of realised totals, and multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.style import context as style_context

from opdop.model.display import singular
from opdop.report.figures.groups import Curve, across, canvas, draw_curve, finish, labels_of, look_of, plain_ticks, seen
from opdop.report.figures.style import DASHED, LOOK, VERMILION, axis_label, per
from opdop.report.summary.groups import Group, RealisedSection
from opdop.report.summary.realised_summary import RealisedSummary
from opdop.report.summary.statistics import Band, band


@style_context(LOOK)
def moving_figure(section: RealisedSection, signal: int) -> Figure:
    """Return a figure of the moving averages of a signal in a section's groups, with the limit; signal 0 is the reward.

    With several seeds the band is over them. With one it is the interval of the moving average.
    """
    quantity = section.summary.run.display.quantities[signal]
    curves = [_moving(group, signal, i) for i, group in enumerate(section.groups)]
    figure, axes = canvas(section)
    limit = None if signal == 0 else quantity.shown(section.summary.constraints[signal - 1].threshold)
    means = np.concatenate([curve.band.mean for curve in curves])
    middle = np.concatenate([np.nanpercentile([curve.band.low, curve.band.high], (2, 98)) for curve in curves])
    known = np.concatenate([means, middle, [] if limit is None else [limit]])
    low, high = float(known.min()), float(known.max())
    room = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - room, high + room)  # the first intervals may be far wider
    plain_ticks(axes)
    for curve in curves:
        draw_curve(axes, curve)
        if curve.band.runs == 1:
            at = np.isfinite(curve.band.low)
            look: dict[str, Any] = {"facecolor": curve.look["color"], "alpha": 0.22, "linewidth": 0.0, "zorder": 2.0}
            axes.fill_between(curve.episodes[at], curve.band.low[at], curve.band.high[at], **look)
    across(axes, section)
    if limit is not None:
        axes.axhline(limit, **{**DASHED, "color": VERMILION})
        ends = np.array([axes.get_xlim()[1], limit]), np.array([1.0, limit])
        shifts = ((-3, 3, "right"), (-3, -8, "right"), (3, 3, "left"), (3, -8, "left"))
        words = "budget" if quantity.scale < 0.0 else "threshold"
        labels_of(axes, curves).write(words, *ends, shifts=shifts, must=True)
    finish(figure, axes, section, f"Realised {axis_label(quantity)}")
    return figure


def _moving(group: Group, signal: int, index: int) -> Curve:
    """Return the moving averages of a group, in own units."""
    quantity = group.runs[0].display.quantities[signal]
    found = [RealisedSummary(run).moving for run in group.runs]
    at = found[0].episodes.astype(np.float64)
    at = at[(at >= group.grid[0]) & (at <= group.grid[-1])]
    values = [quantity.offset + quantity.scale * np.interp(at, each.episodes, each.means[signal]) for each in found]
    over_seeds = band(np.array(values))
    if len(found) == 1:
        half = np.abs(quantity.scale) * np.interp(at, found[0].episodes, found[0].halves[signal])
        over_seeds = Band(over_seeds.mean, over_seeds.mean - half, over_seeds.mean + half, 1)
    return Curve(group, at, over_seeds, look_of(index))


@style_context(LOOK)
def realised_multiplier_figure(section: RealisedSection, index: int) -> Figure:
    """Return a figure of the multipliers of a section's constraint, given by its index, in own units."""
    limit = section.summary.constraints[index]
    curves = []
    for i, group in enumerate(section.groups):
        at = seen(group.grid)
        values = limit.price_scale * group.column(f"dual_{index}")[:, at]
        curves.append(Curve(group, group.grid[at], band(values), look_of(i)))
    figure, axes = canvas(section)
    most = max(float(np.nan_to_num(curve.band.high).max()) for curve in curves)  # NaN if the learner has none
    axes.set_ylim(-0.03 * (most or 1.0), 1.08 * (most or 1.0))
    plain_ticks(axes)
    for curve in curves:
        draw_curve(axes, curve)
    across(axes, section)
    of = f" on {limit.quantity.name}" if len(section.summary.constraints) > 1 else ""
    finish(figure, axes, section, per(f"Multiplier{of}", section.summary.reward.unit, singular(limit.quantity.unit)))
    return figure

"""Figures of runs whose model is not known: moving averages of realised totals, multipliers, and certified bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from opdop.model.display import singular
from opdop.model.validation import Floats
from opdop.report.figures import style
from opdop.report.figures.certificates import certified_curves
from opdop.report.figures.style import LOOK, axis_label, log_episodes, per
from opdop.report.summary.realised_summary import RealisedSummary
from opdop.runs import Run

_ROW, _GAP, _FOOT, _TOP = 1.25, 0.62, 0.4, 0.3  # inches
_LEFT, _BETWEEN, _RIGHT = 0.55, 0.62, 0.14
_DOTS = 1500  # realised totals of single episodes that are drawn


@style_context(LOOK)
def realised_figure(run: Run) -> Figure:
    """Return a figure of a run whose model is not known.

    Each signal has a panel: the totals of single episodes as dots, their moving average with a band, the limit, and the
    certified bounds of the recommended policy if the run has recorded them. Below are the multipliers.

    Raises InvalidParameterError if the model of the run is known.
    """
    summary = RealisedSummary(run)
    panels = 1 + len(summary.constraints)
    rows = -(-(panels + 1) // 2)
    wide = style.WIDTH - (_LEFT + _BETWEEN + _RIGHT) / 2
    height = _TOP + rows * (_ROW + _GAP) + _FOOT - 0.3
    figure = Figure(figsize=(2 * style.WIDTH, height))

    def place(index: int) -> Axes:
        row, column = divmod(index, 2)
        x, y = _LEFT + column * (wide + _BETWEEN), height - _TOP - (row + 1) * (_ROW + _GAP) + 0.3
        alone = column == 0 and index == panels
        across = 2 * wide + _BETWEEN if alone else wide
        return figure.add_axes((x / (2 * style.WIDTH), y / height, across / (2 * style.WIDTH), _ROW / height))

    for signal in range(panels):
        _draw_signal(place(signal), summary, signal)
    _draw_multipliers(place(panels), summary)
    count = f"{summary.episodes:,} episode{'' if summary.episodes == 1 else 's'}"
    words = f"{summary.method}, {count}, seed {run.config.seed} (realised totals: the model is not known)"
    title = f"{run.display.name}: {words}"
    look: dict[str, Any] = {"fontsize": min(8.5, 8.5 * 84 / len(title)), "fontweight": "bold", "va": "top"}
    figure.text(0.1 / (2 * style.WIDTH), 1.0 - 0.06 / height, title, **look)
    figure.draw_without_rendering()
    return figure


def _draw_signal(axes: Axes, summary: RealisedSummary, signal: int) -> None:
    quantity = summary.run.display.quantities[signal]
    name = "realised_reward" if signal == 0 else f"realised_utility_{signal - 1}"
    k, single = summary.column("episode"), quantity.offset + quantity.scale * summary.column(name)
    few = slice(None, None, max(1, len(k) // _DOTS))
    dots: dict[str, Any] = {"markersize": 1.2, "alpha": 0.5, "markeredgewidth": 0.0}
    axes.plot(k[few], single[few], "o", color=style.GREY, label="one episode", zorder=2, **dots)
    draw_moving(axes, summary, signal, style.BLUE, "moving average")
    if signal:
        limit = quantity.shown(summary.constraints[signal - 1].threshold)
        word = "budget" if quantity.scale < 0.0 else "threshold"
        axes.axhline(limit, color=style.VERMILION, label=word, **style.DASHED)
    bounds = certified_curves(summary.run, signal)
    if bounds is not None:
        at, low = bounds
        words = f"certified {'≤' if quantity.scale < 0.0 else '≥'}"
        axes.plot(at, low, color=style.GREEN, linewidth=1.1, marker="o", markersize=1.8, label=words, zorder=5)
    finish(axes, summary.episodes, axis_label(quantity))
    drawn: list[Floats] = [single, *([] if bounds is None else [bounds[1]]), np.array([limit] if signal else [])]
    bottom, top = (float(edge(np.concatenate(drawn))) for edge in (np.min, np.max))
    room = 0.06 * (top - bottom) or 1.0
    axes.set_ylim(bottom - room, top + room)  # early intervals may be far wider


def draw_moving(axes: Axes, summary: RealisedSummary, signal: int, colour: str, label: str) -> None:
    """Draw the moving average of a signal, in own units, with the band of its intervals."""
    quantity, moving = summary.run.display.quantities[signal], summary.moving
    mean = quantity.offset + quantity.scale * moving.means[signal]
    half = np.abs(quantity.scale) * moving.halves[signal]
    seen = np.isfinite(half)
    k: Floats = moving.episodes.astype(np.float64)
    look: dict[str, Any] = {"facecolor": colour, "alpha": 0.25, "linewidth": 0.0, "zorder": 3}
    axes.fill_between(k[seen], (mean - half)[seen], (mean + half)[seen], **look)
    axes.plot(k, mean, color=colour, linewidth=1.3, label=label, zorder=4)


def _draw_multipliers(axes: Axes, summary: RealisedSummary) -> None:
    many = len(summary.constraints) > 1
    for i, limit in enumerate(summary.constraints):
        values = limit.price_scale * summary.column(f"dual_{i}")
        words, colour = limit.quantity.name if many else "multiplier", style.DUALS[i % len(style.DUALS)]
        axes.plot(summary.column("episode"), values, color=colour, linewidth=0.9, label=words)
    unit = "unit" if many else singular(summary.constraints[0].quantity.unit)
    finish(axes, summary.episodes, per("Multipliers" if many else "Multiplier", summary.reward.unit, unit))


def finish(axes: Axes, episodes: int, title: str) -> None:
    """Label the axes of a panel, and put its title and its legend above it, where no curve can be."""
    log_episodes(axes, episodes)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.margins(y=0.08)
    figure = axes.get_figure(root=True)
    assert figure is not None
    width = figure.get_size_inches()[0]
    anchor = -style.OUTDENT / (axes.get_position().width * width)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (anchor, 1.0), "ncols": 4, "borderaxespad": 0.1}
    axes.legend(**place, handlelength=1.0, handletextpad=0.3, columnspacing=0.7)
    beside: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    shown = title if len(title) <= 60 else f"{title[:59]}…"
    axes.annotate(shown, (0.0, 1.0), xytext=(-72 * style.OUTDENT, 13.0), fontsize=7.5, fontweight="bold", **beside)

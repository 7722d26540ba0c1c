"""What the data of a run certify as they grow: bounds on values that close on the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from opdop.model import Quantity
from opdop.model.validation import Floats
from opdop.report.figures import style
from opdop.report.figures.style import LOOK, log_episodes, write_title
from opdop.report.summary.run_facts import RunFacts
from opdop.runs import Run

_HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 2.25, 0.5, 0.12, 0.36, 0.62  # inches
_TITLE = 46  # letters above a panel


def has_trail(summary: RunFacts) -> bool:
    """Return whether the run of a summary has recorded certificates at several sizes of its data."""
    return certified_curves(summary.run, 0) is not None


@style_context(LOOK)
def certificate_figure(summary: RunFacts, signal: int) -> Figure:
    """Return a figure of the certified bounds of a run's summary, over episodes.

    `signal` 0 is the reward, and signal i the constraint i - 1.
    """
    figure = Figure(figsize=(style.WIDTH, _HEIGHT))
    wide, tall = style.WIDTH - _LEFT - _RIGHT, _HEIGHT - _BOTTOM - _TOP
    axes = figure.add_axes((_LEFT / style.WIDTH, _BOTTOM / _HEIGHT, wide / style.WIDTH, tall / _HEIGHT))
    draw_certified(axes, summary, signal)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "ncols": 2, "borderaxespad": 0.1}
    axes.legend(**place, handlelength=1.5, labelspacing=0.2, columnspacing=1.0)
    write_title(figure, title_of(summary.run.display.quantities[signal]))
    figure.draw_without_rendering()
    return figure


def certified_curves(run: Run, signal: int) -> tuple[Floats, Floats] | None:
    """Return the episodes and the certified bounds of a signal of the recommended policy, in own units.

    None if the run has recorded no certificates, or one only.
    """
    table = run.trail
    if table is None or len(table["episode"]) < 2:
        return None
    quantity = run.display.quantities[signal]
    low = table["reward_lower" if signal == 0 else f"utility_lower_{signal - 1}"]
    return table["episode"].astype(np.float64), quantity.offset + quantity.scale * low


def title_of(quantity: Quantity) -> str:
    """Return the title of a panel about a quantity."""
    unit = f", {quantity.unit}" if quantity.unit and quantity.unit not in quantity.name else ""
    title = f"Recommended policy: {quantity.name}"
    if len(title) + len(unit) <= _TITLE:
        return title + unit
    return title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"


def draw_certified(axes: Axes, summary: RunFacts, signal: int) -> None:
    """Draw the certified bound on a signal of the recommended policy, its true value, and what it is compared with.

    The reward is compared with the bound on the optimum and with V*, a constrained quantity with its limit.
    """
    quantity = summary.run.display.quantities[signal]
    name = "reward" if signal == 0 else f"utility_{signal - 1}"
    curves = certified_curves(summary.run, signal)
    assert curves is not None
    (k, low), true = curves, _shown(summary, name, signal)
    look: dict[str, Any] = {"linewidth": 1.3, "marker": "o", "markersize": 1.8}
    bound = "at most" if quantity.scale < 0.0 else "at least"
    if signal == 0:
        best = _shown(summary, "optimum_upper", 0)
        seen = np.isfinite(best)
        axes.fill_between(k[seen], low[seen], best[seen], facecolor=style.PALE, linewidth=0.0, zorder=0)
        axes.plot(k[seen], best[seen], color=style.PURPLE, label="bound on the optimum", zorder=4, **look)
        best_known = summary.run.optimum
        wanted, words = None if best_known is None else best_known.value, "V*: the optimum"
    else:
        wanted, words = float(summary.run.thresholds[signal - 1]), "limit"
    axes.plot(k, low, color=style.GREEN, label=f"certified {bound}", zorder=5, **look)
    if np.isfinite(true).any():
        axes.plot(k, true, color=style.BLUE, linewidth=0.9, label="true value", zorder=3)
    if wanted is not None:
        axes.axhline(quantity.shown(wanted), color=style.INK, label=words, **style.DASHED)
    log_episodes(axes, summary.episodes)
    axes.set_xlim(float(k[0]) / 1.1, max(float(k[-1]) * 1.05, 10.0))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.margins(y=0.08)


def _column(summary: RunFacts, name: str) -> Floats:
    assert summary.run.trail is not None
    return np.asarray(summary.run.trail[name], dtype=np.float64)


def _shown(summary: RunFacts, name: str, signal: int) -> Floats:
    quantity = summary.run.display.quantities[signal]
    return np.asarray(quantity.offset + quantity.scale * _column(summary, name))

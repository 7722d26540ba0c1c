"""The figure of one run: regret, violation, multipliers, estimated beside true values, and certified bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from opdop.model import InvalidParameterError
from opdop.model.rounding import short_number
from opdop.model.validation import Floats
from opdop.report.figures import style
from opdop.report.figures.certificates import draw_certified, has_trail, title_of
from opdop.report.figures.style import LOOK, axis_label, log_episodes, per, root, unroot
from opdop.report.summary.run_summary import RunSummary
from opdop.runs import Run


@style_context(LOOK)
def run_figure(run: Run, *, bound: bool = False) -> Figure:
    """Return a figure of a run: regret, violation, multipliers, and estimated beside true values of its policies.

    Regret and violation are averages per episode, so learning is a fall towards 0; negative regret shows below 0. With
    `bound` the certified bounds are drawn above them, on an axis that is logarithmic away from 0. A run that has
    recorded certificates has another row: the certified bounds on the values of the recommended policy.

    Raises InvalidParameterError if the model of the run is not known, or `bound` is asked for and there is none.
    """
    summary = RunSummary(run)
    if bound:
        check_bound(summary)
    count = 1 + len(summary.constraints)
    # In inches: panels of one width, whatever their numbers and legends are.
    left, between, right, name = 0.5, 0.62, 0.14, 0.2
    wide, upper, lower = style.WIDTH - (left + between + right) / 2, 1.45, max(1.6, 0.6 * count + name * (count - 1))
    heads = _heading(4 if bound else 3), _heading(max(2, -(-count // 2)))  # points, by the rows of the legends
    foot, title = 0.36, 0.36
    # Certificates have a row of their own below, if there are any.
    third, tall_third = _heading(3), max(1.3, 0.6 * (count - 1) + name * (count - 2))
    below = third / 72 + tall_third + foot + 0.12 if has_trail(summary) else 0.0
    height = title + heads[0] / 72 + upper + 2 * foot + 0.12 + heads[1] / 72 + lower + below
    figure = Figure(figsize=(2 * style.WIDTH, height))

    def place(column: int, y: float, tall: float) -> Axes:
        x = left + column * (wide + between)
        return figure.add_axes((x / (2 * style.WIDTH), y / height, wide / (2 * style.WIDTH), tall / height))

    strip = (lower - name * (count - 1)) / count
    top = height - title - heads[0] / 72 - upper
    _draw_cost(place(0, top, upper), summary, _regret(summary, bound), above=heads[0])
    _draw_cost(place(1, top, upper), summary, _violation(summary, bound), above=heads[0])
    _draw_multipliers(place(0, below + foot, lower), summary, above=heads[1])
    strips = [place(1, below + foot + (count - 1 - i) * (strip + name), strip) for i in range(count)]
    _draw_estimates(strips, summary, above=heads[1])
    if below:
        strip = (tall_third - name * (count - 2)) / (count - 1)
        strips = [place(1, foot + (count - 2 - i) * (strip + name), strip) for i in range(count - 1)]
        _draw_certificates(place(0, foot, tall_third), strips, summary, above=third)
    episodes = f"{summary.episodes:,} episode{'' if summary.episodes == 1 else 's'}"
    words = f"{summary.method}, {episodes}, seed {run.config.seed}"
    place_of_title = (left - style.OUTDENT) / (2 * style.WIDTH), 1.0 - 0.06 / height
    figure.text(*place_of_title, f"{run.display.name}: {words}", fontsize=8.5, fontweight="bold", va="top")
    figure.draw_without_rendering()
    return figure


@dataclass(frozen=True, eq=False)
class _Curve:
    """One line of a panel."""

    values: Floats  # [K']
    words: str
    colour: str
    width: float = 1.4


@dataclass(frozen=True, eq=False)
class _Cost:
    """A panel of regret or violation; bounds and rates are about its first curve."""

    title: str
    curves: list[_Curve]
    below: str  # what values below 0 mean
    bound: Floats | None = None  # [K'], on the first curve
    trivial: float = np.inf  # a bound that holds without proof


def check_bound(summary: RunSummary) -> None:
    """Raise InvalidParameterError if there is no bound to draw."""
    card = summary.guarantee
    if not card.certified:
        raise InvalidParameterError(f"there is no bound to draw: {card.why}. Only certified runs have one.")


def _bound_curve(summary: RunSummary, formula: Callable[[int], float], scale: float) -> Floats:
    """Return a bound per episode, at every recorded episode [K']."""
    return np.array([scale * formula(int(k)) / k for k in summary.column("episode")])


def _regret(summary: RunSummary, bound: bool = False) -> _Cost:
    """Return the regret of each episode's policy, and its average so far."""
    scale, k = abs(summary.reward.scale), summary.column("episode")
    curves = [
        _Curve(scale * summary.column("regret") / k, "average so far", style.BLUE),
        _Curve(scale * (summary.optimum.value - summary.column("reward")), "each episode's policy", style.SKY, 0.7),
    ]
    certified = _bound_curve(summary, summary.guarantee.regret, scale) if bound else None
    title = per("Regret", summary.reward.unit, "episode")
    return _Cost(title, curves, "better than the optimum", certified, scale * summary.shape[0])


def _violation(summary: RunSummary, bound: bool = False) -> _Cost:
    """Return the violation of each episode's policy, and its averages; of the worst constraint if there are several."""
    joint, k = summary.hard_violation, summary.column("episode")
    scale, unit = joint.scale, joint.unit
    utilities = np.stack([summary.column(f"utility_{i}") for i in range(len(summary.constraints))])
    each = (summary.run.thresholds[:, None] - utilities).max(axis=0)
    curves = [
        _Curve(scale * summary.column("violation") / k, "average, slack cancels", style.VERMILION),
        _Curve(scale * summary.column("hard_violation") / k, "average, hard violation", style.ORANGE),
        _Curve(scale * each, "each episode's policy", style.PEACH, 0.7),
    ]
    many = len(summary.constraints) > 1
    title = per("Worst violation" if many else "Violation", unit, "episode")
    drawn = bound and summary.guarantee.constraints
    certified = _bound_curve(summary, summary.guarantee.violation, scale) if drawn else None
    return _Cost(
        title, curves, f"{'every' if many else 'the'} constraint satisfied", certified, scale * summary.shape[0]
    )


def _heading(rows: int) -> float:
    """Return how many points above a panel its title is, if its legend has so many rows."""
    return 5.0 + 9.2 * rows


def _draw_cost(axes: Axes, summary: RunSummary, cost: _Cost, *, above: float) -> None:
    """Draw averages per episode, which should fall to 0, with the rate of the theorem as a guide."""
    k, main = summary.column("episode"), cost.curves[0].values
    axes.axhline(0.0, color=style.GREY, linewidth=0.6, zorder=1)
    for order, curve in enumerate(cost.curves):
        _plot(axes, k, curve, zorder=5 - order)
    low, high = axes.get_ylim()
    guide = main[-1] * np.sqrt(k[-1] / k)
    seen = guide <= high
    if main[-1] > 0.0 and k[-1] > 3.0 * k[seen][0]:
        look: dict[str, Any] = {"color": style.INK, "linewidth": 0.8, "linestyle": (0, (1, 1.5)), "zorder": 6}
        axes.plot(k[seen], guide[seen], label="falls as 1/√episode", **look)
    if min(float(curve.values.min()) for curve in cost.curves) < 0.0:
        axes.axhspan(low, 0.0, facecolor=style.PALE, linewidth=0.0, label=cost.below, zorder=0)
    axes.set_ylim(low, high)
    _finish(axes, summary)
    if cost.bound is not None:
        _draw_bound(axes, k, cost, low)
    _caption(axes, cost.title, above=above)


def _draw_bound(axes: Axes, k: Floats, cost: _Cost, low: float) -> None:
    """Draw a certified bound and the trivial one far above the curves, on an axis that is logarithmic above 0."""
    assert cost.bound is not None
    end, top, near = float(cost.bound[-1]), 3.0 * max(float(cost.bound[-1]), cost.trivial), cost.trivial / 100.0
    axes.plot(k, cost.bound, color=style.PURPLE, linewidth=1.0, label=f"bound: {short_number(end)} at the end")
    axes.axhline(cost.trivial, color=style.GREY, label="H: trivial bound", **style.DASHED)
    axes.set_yscale("symlog", linthresh=near)
    axes.set_ylim(low, top)
    powers = 10.0 ** np.arange(np.floor(np.log10(near)) + 1, np.ceil(np.log10(top)))
    axes.set_yticks([0.0, *(sign * power for power in powers for sign in (1, -1) if low <= sign * power <= top)])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _draw_multipliers(axes: Axes, summary: RunSummary, *, above: float) -> None:
    """Draw the multipliers in own units; on a square-root scale if they were once far above Y*."""
    many, most, best = len(summary.constraints) > 1, 0.0, 0.0
    for i, constraint in enumerate(summary.constraints):
        words, colour = constraint.quantity.name if many else "multiplier", style.DUALS[i % len(style.DUALS)]
        values = summary.column(f"dual_{i}") * constraint.price_scale
        _plot(axes, summary.column("episode"), _Curve(values, words, colour, 0.9))
        axes.axhline(constraint.own_multiplier, color=colour if many else style.INK, **style.DASHED)
        most, best = max(most, float(values.max())), max(best, constraint.own_multiplier)
    axes.plot([], [], color=style.INK, label="Y*: at the optimum", **style.DASHED)
    top = 1.06 * max(most, best) or 1.0
    squeezed = most > 4.0 * best > 0.0
    if squeezed:
        axes.set_yscale("function", functions=(root, unroot))
    axes.set_ylim(0.0 if squeezed else -0.03 * top, top)
    _finish(axes, summary)
    price = per("Multipliers" if many else "Multiplier", summary.reward.unit, "unit")
    _caption(axes, price + (" (√ scale)" if squeezed else ""), above=above)


def _draw_estimates(panels: list[Axes], summary: RunSummary, *, above: float) -> None:
    """Draw estimated and true values of each episode's policy in own units, one strip for each signal."""
    k = summary.column("episode")
    for i, (axes, quantity) in enumerate(zip(panels, summary.run.display.quantities, strict=True)):
        name = "reward" if i == 0 else f"utility_{i - 1}"
        wanted = summary.optimum.value if i == 0 else float(summary.run.thresholds[i - 1])
        for column, words, colour in ((f"estimated_{name}", "estimated", style.ORANGE), (name, "true", style.BLUE)):
            _plot(axes, k, _Curve(quantity.offset + quantity.scale * summary.column(column), words, colour, 1.0))
        axes.axhline(quantity.shown(wanted), color=style.INK, label="optimum, or threshold", **style.DASHED)
        _finish(axes, summary, ticks=3)
        axes.margins(y=0.1)
        words = axis_label(quantity)
        long = len(words) > 50  # then it may reach out to the left, where there is room
        beside: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 6.5}
        axes.annotate(words, (float(long), 1.0), xytext=(0, 2.5), ha="right" if long else "left", **beside)
        if axes is not panels[-1]:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    _caption(panels[0], "Each episode's policy, estimated and true", above=above, columns=3)


def _draw_certificates(left: Axes, strips: list[Axes], summary: RunSummary, *, above: float) -> None:
    """Draw what the data certify of the recommended policy: its reward on the left, each constraint on the right."""
    reward, *others = summary.run.display.quantities
    draw_certified(left, summary, 0)
    _caption(left, title_of(reward), above=above)
    for i, (axes, quantity) in enumerate(zip(strips, others, strict=True)):
        draw_certified(axes, summary, 1 + i)
        if len(others) > 1:
            axes.annotate(quantity.name, (0.0, 1.0), (0, 2.5), "axes fraction", "offset points", fontsize=6.5)
        if axes is not strips[-1]:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    _caption(strips[0], title_of(others[0]) if len(others) == 1 else "Recommended policy: the constraints", above=above)


def _plot(axes: Axes, k: Floats, curve: _Curve, zorder: float = 3.0) -> None:
    few: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(k) <= 20 else {}
    look: dict[str, Any] = {"color": curve.colour, "linewidth": curve.width, "label": curve.words, **few}
    axes.plot(k, curve.values, zorder=zorder, **look)


def _finish(axes: Axes, summary: RunSummary, ticks: int = 5) -> None:
    log_episodes(axes, summary.episodes)
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _caption(axes: Axes, title: str, *, above: float, columns: int = 2) -> None:
    """Put a title above the panel, in points, and the legend below it, where no curve can be."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=axes.transAxes + ScaledTranslation(-style.OUTDENT, (above - 3.0) / 72, figure.dpi_scale_trans),
        ncols=columns,
        borderpad=0.0,
        borderaxespad=0.0,
        labelspacing=0.2,
        handlelength=1.5,
        handletextpad=0.5,
        columnspacing=1.0,
    )
    look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(title, (0.0, 1.0), xytext=(-72 * style.OUTDENT, above), fontsize=7.5, fontweight="bold", **look)

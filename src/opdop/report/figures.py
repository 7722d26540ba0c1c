"""Figures: maps with a policy's visits, the reward-utility plane, and learning; for a page, a slide or a column.

They are drawn without pyplot, so nothing global changes, and the same figure is saved as the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.style import context as style_context
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from opdop.experiment import Run
from opdop.model import InvalidParameterError, Quantity, TabularCMDP
from opdop.model.checks import Floats
from opdop.planning import Optimum
from opdop.report.answer import Answer, better, short_number
from opdop.report.learnt import Learnt
from opdop.report.maps import VisitMap
from opdop.report.plane import slices, trace

KINDS = (".svg", ".png", ".pdf")
WIDTH = 80 / 25.4  # inches
OUTDENT = 0.36  # inches from a panel's left edge to where its title begins

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
SKY, PEACH = "#A6CEE9", "#F6CDA8"
DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 2)), "zorder": 4}
DUALS = (PURPLE, GREEN, ORANGE, BLUE, VERMILION)
INK, GREY, PALE = "#222222", "#8A8A8A", "#E9ECEF"
FREE, WALL, HAZARD = "#F2F2F0", "#55585C", "#FADCC6"
FRAMES = {"start": INK, "goal": GREEN}
VISITS = LinearSegmentedColormap.from_list("visits", ["#E6F2FA", "#B5DAF0", "#6FB2DC", "#0B4F8A"])

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same everywhere
    "font.size": 7.0,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 300,
    "svg.hashsalt": "opdop",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
_LOOK: list[str | Path | dict[str, Any]] = ["default", STYLE]


def picture(answer: Answer, *, plane: bool = False) -> Figure:
    """Return the map of a problem with its optimal policy's visits; without a map, or if wished, its plane."""
    if answer.cmdp.display.geometry is None or plane:
        return frontier(answer.cmdp, answer.optimum)
    return occupancy_map(answer.cmdp, answer.optimum.policy)


@style_context(_LOOK)
def occupancy_map(cmdp: TabularCMDP, policy: Any) -> Figure:
    """Draw the map of a problem: how many stages a policy spends in each cell, and what it mostly does there."""
    visits = VisitMap.of(cmdp, policy)
    geometry = visits.geometry
    rows, columns = visits.visits.shape
    # In inches, from the page's edge: the map's cells are square, whatever their number.
    left, right, top = (0.34 if geometry.row_label else 0.1), 0.1, 0.26
    bottom = 0.66 + (0.3 if geometry.column_label else 0.08)
    cell = min((WIDTH - left - right) / columns, 0.55)
    height = top + cell * rows + bottom
    figure = Figure(figsize=(WIDTH, height))

    def place(x: float, y: float, width: float, tall: float) -> Axes:
        return figure.add_axes((x / WIDTH, y / height, width / WIDTH, tall / height))

    axes = place(left, bottom, cell * columns, cell * rows)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_title(cmdp.display.name)
    _label_cells(axes, visits)
    _draw_ground(axes, visits, cell)
    shades = _draw_visits(axes, visits)
    if max(rows, columns) <= 30:
        _draw_moves(axes, visits, shades)
    _draw_bar(place(max(left, 0.2), 0.48, 1.25, 0.06), shades)
    figure.legend(
        handles=_marks(visits, cell), loc="lower left", bbox_to_anchor=(left / WIDTH, 0.0), ncols=5, borderpad=0
    )
    figure.draw_without_rendering()
    return figure


@style_context(_LOOK)
def frontier(cmdp: TabularCMDP, optimum: Optimum) -> Figure:
    """Draw the best reward against the promised quantity, with the promise, in the problem's own units.

    With one constraint the figure shows all that policies attain. With several there is one panel for each: the best
    reward as one promise varies and the others are kept.
    """
    count = cmdp.num_constraints
    figure = Figure(figsize=(WIDTH, 3.0 if count == 1 else 0.6 + 1.9 * count), layout="constrained")
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    for i, axes in enumerate(panels):
        if count == 1:
            _draw_plane(axes, cmdp, optimum)
        else:
            _draw_slice(axes, cmdp, optimum, i)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.set_xlabel(_axis_label(cmdp.display.quantities[1 + i]))
        # Above the panel, as a long name would not fit beside it.
        axes.set_title(_axis_label(cmdp.display.quantities[0]), fontsize=7.0, fontweight="normal")
    figure.suptitle(cmdp.display.name, x=0.02, ha="left", fontsize=8.5, fontweight="bold")
    handles, _ = panels[0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower left", ncols=2)
    figure.draw_without_rendering()  # ticks take their look from the settings at the first drawing
    return figure


@style_context(_LOOK)
def run_figure(run: Run, *, bound: bool = False) -> Figure:
    """Draw how a run learnt: regret, violation, multipliers, and what it believed beside what was true.

    Regret and violation are averages per episode, so learning is a fall towards 0; negative regret shows below 0. With
    `bound` the certified bounds are drawn above them, on an axis that is logarithmic away from 0.
    """
    learnt = Learnt(run)
    if bound:
        check_bound(learnt)
    count = 1 + len(learnt.promises)
    # In inches: panels of one width, whatever their numbers and legends are.
    left, between, right, name = 0.5, 0.62, 0.14, 0.2
    wide, upper, lower = WIDTH - (left + between + right) / 2, 1.45, max(1.6, 0.6 * count + name * (count - 1))
    heads = _heading(4 if bound else 3), _heading(max(2, -(-count // 2)))  # points, by the rows of the legends
    foot, title = 0.36, 0.36
    height = title + heads[0] / 72 + upper + 2 * foot + 0.12 + heads[1] / 72 + lower
    figure = Figure(figsize=(2 * WIDTH, height))

    def place(column: int, y: float, tall: float) -> Axes:
        x = left + column * (wide + between)
        return figure.add_axes((x / (2 * WIDTH), y / height, wide / (2 * WIDTH), tall / height))

    strip = (lower - name * (count - 1)) / count
    top = height - title - heads[0] / 72 - upper
    _draw_cost(place(0, top, upper), learnt, _regret(learnt, bound), above=heads[0])
    _draw_cost(place(1, top, upper), learnt, _violation(learnt, bound), above=heads[0])
    _draw_multipliers(place(0, foot, lower), learnt, above=heads[1])
    strips = [place(1, foot + (count - 1 - i) * (strip + name), strip) for i in range(count)]
    _draw_beliefs(strips, learnt, above=heads[1])
    episodes = f"{learnt.episodes:,} episode{'' if learnt.episodes == 1 else 's'}"
    words = f"{learnt.method}, {episodes}, seed {run.config['seed']}"
    place_of_title = (left - OUTDENT) / (2 * WIDTH), 1.0 - 0.06 / height
    figure.text(*place_of_title, f"{run.display.name}: {words}", fontsize=8.5, fontweight="bold", va="top")
    figure.draw_without_rendering()
    return figure


@style_context(_LOOK)
def save(figure: Figure, file: str | Path) -> Path:
    """Save a figure as .svg, .png or .pdf; the same figure gives the same bytes."""
    path = check_target(Path(file))
    unstamped: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "opdop"},
        ".png": {"Software": "opdop"},
        ".pdf": {"CreationDate": None, "Creator": "opdop", "Producer": None},
    }
    try:
        figure.savefig(path, metadata=unstamped[path.suffix.lower()])
    except OSError as error:
        raise InvalidParameterError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    return path


def check_target(file: Path) -> Path:
    """Return the file's path, or raise InvalidParameterError if no figure can be saved there."""
    if file.suffix.lower() not in KINDS:
        raise InvalidParameterError(
            f"{str(file)!r} is not a name for a figure; expected a file ending in {', '.join(KINDS)}."
        )
    if not file.absolute().parent.is_dir():
        raise InvalidParameterError(f"cannot write {str(file)!r}: there is no folder {str(file.parent)!r}.")
    return file


def _label_cells(axes: Axes, visits: VisitMap) -> None:
    geometry = visits.geometry
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2)
    for axis, label in ((axes.xaxis, geometry.column_label), (axes.yaxis, geometry.row_label)):
        axis.set_major_locator(MaxNLocator(12, integer=True))
        axis.set_label_text(label)
        axis.set_tick_params(labelleft=bool(label), labelbottom=bool(label))


def _draw_ground(axes: Axes, visits: VisitMap, cell: float) -> None:
    """Draw what is there before anybody walks: free cells, walls, and marked cells; a cell is `cell` inches wide."""
    rim: dict[str, Any] = {"edgecolor": "white", "linewidth": min(0.8, 3.0 * cell)}
    hatch = _hatch(cell)
    cells = [(i, j) for i, j in np.ndindex(*visits.visits.shape) if not np.isnan(visits.visits[i, j])]
    _squares(axes, cells, facecolor=FREE, **rim)
    _squares(axes, visits.walls, facecolor=WALL, **rim)
    marked = {mark: [cell for cell in cells if visits.marks.get(cell) == mark] for mark in visits.marks.values()}
    for mark, places in marked.items():
        if mark in FRAMES:
            _squares(axes, places, side=0.9, facecolor="none", edgecolor=FRAMES[mark], linewidth=1.5, zorder=4)
        else:
            _squares(axes, places, facecolor=HAZARD, edgecolor=VERMILION, hatch=hatch, linewidth=0.0)
            _squares(axes, places, facecolor="none", **rim)


def _draw_visits(axes: Axes, visits: VisitMap) -> PatchCollection:
    """Shade the visited cells, leaving a rim on which the ground shows; return what the colour bar needs."""
    cells = [(i, j) for i, j in np.ndindex(*visits.visits.shape) if visits.actions[i, j] >= 0]
    shades = _squares(axes, cells, side=0.72, edgecolor="none", linewidth=0.0, zorder=3)
    shades.set_cmap(VISITS)
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
    colours = np.where(dark, "white", INK)
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
    """Return how dangerous cells are hatched, if they are large enough for it."""
    return "//////" if cell >= 0.12 else None


def _marks(visits: VisitMap, cell: float) -> list[Patch]:
    """Return what the legend of a map says of its marks."""
    handles = []
    for mark in dict.fromkeys(visits.marks.values()):
        if mark in FRAMES:
            handles.append(Patch(facecolor="none", edgecolor=FRAMES[mark], linewidth=1.5, label=mark))
        else:
            look: dict[str, Any] = {"facecolor": HAZARD, "edgecolor": VERMILION, "hatch": _hatch(cell)}
            handles.append(Patch(**look, linewidth=0.0, label=mark))
    if visits.walls:
        handles.append(Patch(facecolor=WALL, label="wall"))
    return handles


def _draw_plane(axes: Axes, cmdp: TabularCMDP, optimum: Optimum) -> None:
    reward, promised = cmdp.display.quantities
    plane = trace(cmdp)
    hull, best = _own(plane.hull, promised, reward), _own(plane.frontier, promised, reward)
    axes.fill(hull[:, 0], hull[:, 1], facecolor=PALE, label="attainable", zorder=1)
    few: dict[str, Any] = {"marker": "o", "markersize": 2.2} if len(best) <= 40 else {}
    axes.plot(best[:, 0], best[:, 1], color=BLUE, label="best attainable", zorder=3, **few)
    _view(axes, best, promised.shown(float(cmdp.thresholds[0])))
    _draw_optimum(axes, cmdp, optimum, 0)
    corners = (
        (optimum.unconstrained, "D", ORANGE, "without the promise"),
        (optimum.slater, "s", GREEN, "safest policy"),
    )
    for values, marker, colour, words in corners:
        x, y = promised.shown(float(values.utilities[0])), reward.shown(values.reward)
        axes.plot([x], [y], marker, color=colour, markersize=5.5, markeredgecolor="white", label=words, zorder=5)


def _draw_slice(axes: Axes, cmdp: TabularCMDP, optimum: Optimum, constraint: int) -> None:
    reward, promised = cmdp.display.quantities[0], cmdp.display.quantities[1 + constraint]
    best = _own(slices(cmdp, optimum, constraint), promised, reward)
    axes.plot(best[:, 0], best[:, 1], color=BLUE, label="best, other promises kept", zorder=3)
    _view(axes, best, promised.shown(float(cmdp.thresholds[constraint])))
    _draw_optimum(axes, cmdp, optimum, constraint)


def _draw_optimum(axes: Axes, cmdp: TabularCMDP, optimum: Optimum, constraint: int) -> None:
    """Draw the promise with its forbidden side, the optimum, and the multiplier as the slope there."""
    reward, promised = cmdp.display.quantities[0], cmdp.display.quantities[1 + constraint]
    threshold = promised.shown(float(cmdp.thresholds[constraint]))
    sign, edge = ("≤", axes.get_xlim()[1]) if promised.scale < 0 else ("≥", axes.get_xlim()[0])
    axes.axvspan(threshold, edge, facecolor=VERMILION, alpha=0.10, linewidth=0.0, label="promise broken", zorder=2)
    several = cmdp.num_constraints > 1
    words = "promise" if several else f"promise: {sign} {threshold:g} {promised.unit}".rstrip()
    axes.axvline(threshold, color=VERMILION, linewidth=1.0, label=words, zorder=2)
    x, y = promised.shown(float(optimum.utility_values[constraint])), reward.shown(optimum.value)
    slope = -float(optimum.dual[constraint]) * reward.scale / promised.scale
    words = "slope: multiplier" if several else f"slope: multiplier {short_number(abs(slope))}"
    axes.axline((x, y), slope=slope, color=PURPLE, linewidth=1.0, linestyle=(0, (4, 2)), label=words, zorder=2.5)
    axes.plot([x], [y], "o", color=INK, markersize=6.0, markeredgecolor="white", label="optimum", zorder=6)


@dataclass(frozen=True, eq=False)
class _Curve:
    """One line of a panel."""

    values: Floats  # [K']
    words: str
    colour: str
    width: float = 1.4


@dataclass(frozen=True, eq=False)
class _Cost:
    """What a panel of regret or violation shows; the first curve is the one that theory speaks of."""

    title: str
    curves: list[_Curve]
    below: str  # what it means to be below 0
    bound: Floats | None = None  # [K'], what is promised of the first curve
    trivial: float = np.inf  # what needs no promise


def check_bound(learnt: Learnt) -> None:
    """Raise InvalidParameterError if there is no bound to draw."""
    card = learnt.guarantee
    if not card.promised:
        raise InvalidParameterError(f"there is no bound to draw: {card.why}. Only certified runs have one.")


def _promised(learnt: Learnt, formula: Callable[[int], float], scale: float) -> Floats:
    """Return a bound per episode, at every recorded episode [K']."""
    return np.array([scale * formula(int(k)) / k for k in learnt.column("episode")])


def _regret(learnt: Learnt, bound: bool = False) -> _Cost:
    """Return the regret of each episode's policy, and its average so far."""
    scale, k = abs(learnt.reward.scale), learnt.column("episode")
    curves = [
        _Curve(scale * learnt.column("regret") / k, "average so far", BLUE),
        _Curve(scale * (learnt.optimum.value - learnt.column("reward")), "each episode's policy", SKY, 0.7),
    ]
    promised = _promised(learnt, learnt.guarantee.regret, scale) if bound else None
    title = _per("Regret", learnt.reward.unit, "episode")
    return _Cost(title, curves, "better than the optimum", promised, scale * learnt.shape[0])


def _violation(learnt: Learnt, bound: bool = False) -> _Cost:
    """Return the violation of each episode's policy, and its averages; of the worst promise if there are several."""
    joint, k = learnt.hard_violation, learnt.column("episode")
    scale, unit = (1.0, "model units") if joint.scale is None else (joint.scale, joint.unit)
    utilities = np.stack([learnt.column(f"utility_{i}") for i in range(len(learnt.promises))])
    each = (learnt.run.thresholds[:, None] - utilities).max(axis=0)
    curves = [
        _Curve(scale * learnt.column("violation") / k, "average, slack pays back", VERMILION),
        _Curve(scale * learnt.column("hard_violation") / k, "average, never paid back", ORANGE),
        _Curve(scale * each, "each episode's policy", PEACH, 0.7),
    ]
    many = len(learnt.promises) > 1
    title = _per("Worst violation" if many else "Violation", unit, "episode")
    drawn = bound and learnt.guarantee.constraints
    promised = _promised(learnt, learnt.guarantee.violation, scale) if drawn else None
    return _Cost(title, curves, f"{'every' if many else 'the'} promise kept", promised, scale * learnt.shape[0])


def _heading(rows: int) -> float:
    """Return how many points above a panel its title is, if its legend has so many rows."""
    return 5.0 + 9.2 * rows


def _draw_cost(axes: Axes, learnt: Learnt, cost: _Cost, *, above: float) -> None:
    """Draw averages per episode that are to fall to 0, with the theory's rate as a guide."""
    k, main = learnt.column("episode"), cost.curves[0].values
    axes.axhline(0.0, color=GREY, linewidth=0.6, zorder=1)
    for order, curve in enumerate(cost.curves):
        _plot(axes, k, curve, zorder=5 - order)
    low, high = axes.get_ylim()
    guide = main[-1] * np.sqrt(k[-1] / k)
    seen = guide <= high
    if main[-1] > 0.0 and k[-1] > 3.0 * k[seen][0]:
        look: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (1, 1.5)), "zorder": 6}
        axes.plot(k[seen], guide[seen], label="falls as 1/√episode", **look)
    if min(float(curve.values.min()) for curve in cost.curves) < 0.0:
        axes.axhspan(low, 0.0, facecolor=PALE, linewidth=0.0, label=cost.below, zorder=0)
    axes.set_ylim(low, high)
    _finish(axes, learnt)
    if cost.bound is not None:
        _draw_bound(axes, k, cost, low)
    _caption(axes, cost.title, above=above)


def _draw_bound(axes: Axes, k: Floats, cost: _Cost, low: float) -> None:
    """Draw a certified bound and what needs no proof, far above the curves: on an axis that is logarithmic above 0."""
    assert cost.bound is not None
    end, top, near = float(cost.bound[-1]), 3.0 * max(float(cost.bound[-1]), cost.trivial), cost.trivial / 100.0
    axes.plot(k, cost.bound, color=PURPLE, linewidth=1.0, label=f"bound: {short_number(end)} at last")
    axes.axhline(cost.trivial, color=GREY, label="H: needs no proof", **DASHED)
    axes.set_yscale("symlog", linthresh=near)
    axes.set_ylim(low, top)
    powers = 10.0 ** np.arange(np.floor(np.log10(near)) + 1, np.ceil(np.log10(top)))
    axes.set_yticks([0.0, *(sign * power for power in powers for sign in (1, -1) if low <= sign * power <= top)])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _draw_multipliers(axes: Axes, learnt: Learnt, *, above: float) -> None:
    """Draw the multipliers in own units; on a square-root scale if they once were far above their optimum."""
    many, most, best = len(learnt.promises) > 1, 0.0, 0.0
    for i, promise in enumerate(learnt.promises):
        words, colour = promise.quantity.name if many else "multiplier", DUALS[i % len(DUALS)]
        values = learnt.column(f"dual_{i}") * promise.price_scale
        _plot(axes, learnt.column("episode"), _Curve(values, words, colour, 0.9))
        axes.axhline(promise.own_multiplier, color=colour if many else INK, **DASHED)
        most, best = max(most, float(values.max())), max(best, promise.own_multiplier)
    axes.plot([], [], color=INK, label="Y*: at the optimum", **DASHED)
    top = 1.06 * max(most, best) or 1.0
    squeezed = most > 4.0 * best > 0.0
    if squeezed:
        axes.set_yscale("function", functions=(_root, np.square))
    axes.set_ylim(0.0 if squeezed else -0.03 * top, top)
    _finish(axes, learnt)
    price = _per("Multipliers" if many else "Multiplier", learnt.reward.unit, "unit")
    _caption(axes, price + (" (√ scale)" if squeezed else ""), above=above)


def _draw_beliefs(panels: list[Axes], learnt: Learnt, *, above: float) -> None:
    """Draw what the learner believes of its policies beside what is true, one strip for each signal, in own units."""
    k = learnt.column("episode")
    for i, (axes, quantity) in enumerate(zip(panels, learnt.run.display.quantities, strict=True)):
        name = "reward" if i == 0 else f"utility_{i - 1}"
        wanted = learnt.optimum.value if i == 0 else float(learnt.run.thresholds[i - 1])
        for column, words, colour in ((f"estimated_{name}", "believed", ORANGE), (name, "true", BLUE)):
            _plot(axes, k, _Curve(quantity.offset + quantity.scale * learnt.column(column), words, colour, 1.0))
        axes.axhline(quantity.shown(wanted), color=INK, label="optimum, or promise", **DASHED)
        _finish(axes, learnt, ticks=3)
        axes.margins(y=0.1)
        words = _axis_label(quantity)
        long = len(words) > 50  # then it may reach out to the left, where there is room
        beside: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 6.5}
        axes.annotate(words, (float(long), 1.0), xytext=(0, 2.5), ha="right" if long else "left", **beside)
        if axes is not panels[-1]:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    _caption(panels[0], "Each episode's policy, believed and true", above=above, columns=3)


def _plot(axes: Axes, k: Floats, curve: _Curve, zorder: float = 3.0) -> None:
    few: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(k) <= 20 else {}
    look: dict[str, Any] = {"color": curve.colour, "linewidth": curve.width, "label": curve.words, **few}
    axes.plot(k, curve.values, zorder=zorder, **look)


def _finish(axes: Axes, learnt: Learnt, ticks: int = 5) -> None:
    axes.set_xscale("log")
    axes.set_xlim(1, max(learnt.episodes, 10))
    axes.set_xlabel("episode", labelpad=1.0)
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _caption(axes: Axes, title: str, *, above: float, columns: int = 2) -> None:
    """Put a title above the panel, in points, and the legend below it, where no curve can be."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=axes.transAxes + ScaledTranslation(-OUTDENT, (above - 3.0) / 72, figure.dpi_scale_trans),
        ncols=columns,
        borderpad=0.0,
        borderaxespad=0.0,
        labelspacing=0.2,
        handlelength=1.5,
        handletextpad=0.5,
        columnspacing=1.0,
    )
    look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(title, (0.0, 1.0), xytext=(-72 * OUTDENT, above), fontsize=7.5, fontweight="bold", **look)


def _per(what: str, unit: str, each: str) -> str:
    return f"{what}, {unit} per {each}" if unit else f"{what} per {each}"


def _root(values: Floats) -> Floats:
    root: Floats = np.sqrt(np.maximum(values, 0.0))
    return root


def _own(points: Floats, promised: Quantity, reward: Quantity) -> Floats:
    """Return points (utility, reward) in own units."""
    return np.array([(promised.shown(x), reward.shown(y)) for x, y in points])


def _view(axes: Axes, best: Floats, threshold: float) -> None:
    """Show the frontier and the promise, with a margin."""
    for values, limit in ((np.append(best[:, 0], threshold), axes.set_xlim), (best[:, 1], axes.set_ylim)):
        low, high = float(values.min()), float(values.max())
        margin = 0.08 * (high - low) or 0.5
        limit(low - margin, high + margin)


def _axis_label(quantity: Quantity) -> str:
    unit = "" if not quantity.unit or quantity.unit in quantity.name else f", {quantity.unit}"
    return f"{quantity.name}{unit} ({better(quantity)} is better)"

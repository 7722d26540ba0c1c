"""The pictures of a report: what is drawn for each problem, under which name, and what is said below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from opdop.model import PolicyMixture, TabularCMDP
from opdop.planning import to_markov
from opdop.report import figures
from opdop.report.summary import sentences as words
from opdop.report.summary.groups import Cost, Group, Section

_GUIDE = "Dotted: the slope of the theory, a guide and not a bound."
_BELOW = {
    "regret": "Reward lost against the optimum, averaged over all episodes so far.",
    "violation": "By how much the constraint is broken on average so far, where slack pays back.",
    "hard_violation": "The same, where nothing is ever paid back.",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """One figure of a report; it is drawn when it is asked for."""

    name: str  # of its file, without the ending
    kind: str  # part of the section in which it is shown
    title: str  # what is read out instead of it
    caption: str
    draw: Callable[[], Figure]


def pictures(section: Section) -> list[Picture]:
    """Return all pictures of a problem, in the order of the page."""
    return [*_curves(section), *_planes(section), *_totals(section), *_maps(section)]


def _curves(section: Section) -> Iterator[Picture]:
    bands = words.bands(section)
    for cost in section.costs:
        title = f"{section.name}: {cost.name} per episode against episodes"
        caption = f"{_BELOW[cost.key]} {bands} {_GUIDE}"
        yield Picture(f"{section.key}-{_file(cost)}", "curves", title, caption, _cost(section, cost))
    many = len(section.summary.constraints) > 1
    for i, constraint in enumerate(section.summary.constraints):
        name = f"{section.key}-multiplier" + (f"-{i + 1}" if many else "")
        title = f"{section.name}: multiplier of {constraint.quantity.name} against episodes"
        caption = f"The price that the learner puts on the constraint, beside the right one, Y*. {bands}"
        yield Picture(name, "curves", title, caption, _multiplier(section, i))


def _totals(section: Section) -> Iterator[Picture]:
    bands = words.bands(section)
    for cost in section.costs:
        title = f"{section.name}: total {cost.name} against episodes"
        caption = f"{bands} Logarithmic scales; the upright one is straight around 0. {_GUIDE}"
        if cost.key != "hard_violation" and any(group.summaries[0].guarantee.promised for group in section.groups):
            caption += " Dashed: what is proved of the group of that colour."
        yield Picture(f"{section.key}-total-{_file(cost)}", "totals", title, caption, _cost(section, cost, total=True))


def _planes(section: Section) -> Iterator[Picture]:
    """Return the reward-utility planes: for each constraint the whole one, and a close-up where it shows something."""
    many = len(section.summary.constraints) > 1
    for i, constraint in enumerate(section.summary.constraints):
        below = figures.ground(section, i)
        full = figures.whole(section, i, below)
        name = f"{section.key}-plane" + (f"-{i + 1}" if many else "")
        what = f"{section.name}: reward against {constraint.quantity.name}, with the paths of the average policies"
        edge = (
            "Thick line: the best reward while this constraint varies and the others are kept, exact at its corners."
            if many
            else "Shaded: all that policies attain. Its edge: the best of it, exact."
        )
        if below.best is None:
            edge = "What policies attain is not drawn: the model is not one that ships with this version of opdop."
        caption = (
            f"{edge} Coloured line: the average policy so far, {_mean(section)}; dots: after 100, 1,000, ... episodes, "
            "a large one at the end. Rings: the last policies. Star: the optimum."
        )
        draw = _plane(section, i, below, full, "The way to the optimum")
        yield Picture(name, "planes", what, caption, draw)
        near = figures.close(section, i, full)
        if near is not None:
            draw = _plane(section, i, below, near, "Close to the optimum")
            yield Picture(f"{name}-close", "planes", f"{what}, close to the optimum", "The same, close up.", draw)


def _maps(section: Section) -> Iterator[Picture]:
    cmdp = section.cmdp
    if cmdp is None or cmdp.display.geometry is None:
        return
    about = "Shade: expected stages in a cell. Arrow: what is mostly done there."
    policy = section.summary.optimum.policy
    title = f"{section.name}: where the optimal policy goes"
    yield Picture(
        f"{section.key}-map-optimum", "maps", title, about, lambda: figures.occupancy_map(cmdp, policy, "optimum")
    )
    for i, group in enumerate(section.groups):
        name = f"{section.key}-map-{i + 1}"
        title = f"{section.name}: where the average policy of {group.label} goes"
        caption = f"The average policy, over all episodes and seeds. {about}"
        yield Picture(name, "maps", title, caption, _map(cmdp, group))


def _cost(section: Section, cost: Cost, *, total: bool = False) -> Callable[[], Figure]:
    return lambda: figures.cost_figure(section, cost, total=total)


def _multiplier(section: Section, constraint: int) -> Callable[[], Figure]:
    return lambda: figures.multiplier_figure(section, constraint)


def _plane(
    section: Section, constraint: int, below: figures.Ground, view: figures.View, title: str
) -> Callable[[], Figure]:
    return lambda: figures.path_figure(section, constraint, below, view, title)


def _map(cmdp: TabularCMDP, group: Group) -> Callable[[], Figure]:
    parts = [run.mixture for run in group.runs if not isinstance(run.mixture, PolicyMixture)]
    return lambda: figures.occupancy_map(cmdp, to_markov(cmdp, PolicyMixture(parts)), group.label)


def _mean(section: Section) -> str:
    return "mean over seeds (thin: each seed)" if section.seeds > 1 else "of the one seed"


def _file(cost: Cost) -> str:
    return cost.key.replace("_", "-")

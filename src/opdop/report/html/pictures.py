"""The figures of a report: which are drawn for each problem, with their file names and captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from opdop.model import PolicyMixture, TabularCMDP
from opdop.planning import to_markov
from opdop.report import figures
from opdop.report.summary.groups import Group, Metric, RealisedSection, Section
from opdop.report.summary.run_facts import RunFacts
from opdop.report.summary.sentences import band_sentence

_GUIDE = "Dotted: the slope of the theory, a guide and not a bound."
_MEANING = {
    "regret": "Reward lost against the optimum, averaged over all episodes so far.",
    "violation": "Average violation of the constraint so far; slack cancels violation.",
    "hard_violation": "Average hard violation so far; slack cancels nothing.",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """One figure of a report; `draw` draws it."""

    name: str  # of its file, without the ending
    kind: str  # the part of the section that shows it
    title: str  # for screen readers
    caption: str
    draw: Callable[[], Figure]


def pictures(section: Section | RealisedSection) -> list[Picture]:
    """Return all pictures of a problem, in the order of the page."""
    if isinstance(section, RealisedSection):
        return [*_realised(section), *_certified(section)]
    return [*_curves(section), *_planes(section), *_certified(section), *_totals(section), *_maps(section)]


def _curves(section: Section) -> Iterator[Picture]:
    bands = band_sentence(section)
    for metric in section.metrics:
        title = f"{section.name}: {metric.name} per episode against episodes"
        caption = f"{_MEANING[metric.kind]} {bands} {_GUIDE}"
        name = f"{section.key}-{_file_part(metric)}"
        yield Picture(name, "curves", title, caption, partial(figures.metric_figure, section, metric))
    for i, constraint in enumerate(section.summary.constraints):
        title = f"{section.name}: multiplier of {constraint.quantity.name} against episodes"
        caption = f"The multiplier of the constraint, beside the exact one, Y*. {bands}"
        name = f"{section.key}-multiplier{_number(section, i)}"
        yield Picture(name, "curves", title, caption, partial(figures.multiplier_figure, section, i))


def _realised(section: RealisedSection) -> Iterator[Picture]:
    """Return the moving averages of realised totals, and the multipliers, where the model is not known."""
    bands = band_sentence(section)
    if section.seeds == 1:
        bands = "Band: 95 % interval over batches of episodes."
    window = "Realised totals of the episodes that were played, averaged over the last fifth of the episodes so far."
    for j, quantity in enumerate(section.summary.run.display.quantities):
        title = f"{section.name}: realised {quantity.name} against episodes, moving average"
        name = f"{section.key}-realised-{j}"
        yield Picture(name, "realised", title, f"{window} {bands}", partial(figures.moving_figure, section, j))
    for i, limit in enumerate(section.summary.constraints):
        title = f"{section.name}: multiplier of {limit.quantity.name} against episodes"
        name = f"{section.key}-multiplier{_number(section, i)}"
        draw = partial(figures.realised_multiplier_figure, section, i)
        yield Picture(name, "realised", title, "The learner's multiplier of the constraint.", draw)


def _certified(section: Section | RealisedSection) -> Iterator[Picture]:
    """Return the certified bounds of each group's first run that has recorded them."""
    for g, group in enumerate(section.groups):
        summary = next((each for each in map(RunFacts, group.runs) if figures.has_trail(each)), None)
        if summary is None:
            continue
        known = summary.run.optimum is not None
        for i, quantity in enumerate(summary.run.display.quantities):
            title = f"{section.name}: certified bounds on {quantity.name} against episodes, {group.label}"
            caption = (
                f"{group.label}, seed {summary.run.config.seed}. Green: what the data prove about the recommended "
                f"policy, without the model.{' Blue: its true value.' if known else ''}"
            )
            if i == 0:
                caption += " Purple: no policy that keeps every constraint is better."
                caption += " Dashed: the exact optimum." if known else ""
            name = f"{section.key}-certified-{g + 1}-{i}"
            yield Picture(name, "certified", title, caption, partial(figures.certificate_figure, summary, i))


def _totals(section: Section) -> Iterator[Picture]:
    for metric in section.metrics:
        title = f"{section.name}: total {metric.name} against episodes"
        caption = f"{band_sentence(section)} Logarithmic scales; the vertical one is linear around 0. {_GUIDE}"
        if metric.kind != "hard_violation" and any(group.summaries[0].guarantee.certified for group in section.groups):
            caption += " Dashed: the proved bound of the group of that colour."
        name = f"{section.key}-total-{_file_part(metric)}"
        yield Picture(name, "totals", title, caption, partial(figures.metric_figure, section, metric, total=True))


def _planes(section: Section) -> Iterator[Picture]:
    """Return the reward-utility planes: for each constraint the whole one, and a close-up if it is large enough."""
    constraints = section.summary.constraints
    for i, constraint in enumerate(constraints):
        ground = figures.ground(section, i)
        full = figures.whole(section, i, ground)
        name = f"{section.key}-plane{_number(section, i)}"
        title = f"{section.name}: reward against {constraint.quantity.name}, with the paths of the average policies"
        edge = "Shaded: everything that policies attain, with the exact Pareto frontier as its edge."
        if len(constraints) > 1:
            edge = "Thick line: the best reward for each value of this threshold, subject to the other constraints."
        if ground.best is None:
            edge = "The attainable set is not drawn: the model is not one that ships with this version of opdop."
        mean = "mean over seeds (thin: each seed)" if section.seeds > 1 else "of the one seed"
        caption = (
            f"{edge} Coloured line: the average policy so far, {mean}; dots: after 100, 1,000, ... episodes, and a "
            "large one at the end. Rings: the final policies. Star: the optimum. Diamond: the unconstrained policy."
        )
        draw = partial(figures.path_figure, section, i, ground)
        yield Picture(name, "planes", title, caption, partial(draw, full, "Path to the optimum"))
        near = figures.close(section, i, full)
        if near is not None:
            draw_near = partial(draw, near, "Close to the optimum")
            yield Picture(f"{name}-close", "planes", f"{title}, close to the optimum", "The same, enlarged.", draw_near)


def _maps(section: Section) -> Iterator[Picture]:
    cmdp = section.cmdp
    if cmdp is None or cmdp.display.geometry is None:
        return
    about = "Shade: expected stages in a cell. Arrow: the most likely action there."
    title = f"{section.name}: cells that the optimal policy visits"
    draw = partial(figures.occupancy_map, cmdp, section.summary.optimum.policy, "optimum")
    yield Picture(f"{section.key}-map-optimum", "maps", title, about, draw)
    for i, group in enumerate(section.groups):
        title = f"{section.name}: cells that the average policy of {group.label} visits"
        caption = f"The average policy, over all episodes and seeds. {about}"
        yield Picture(f"{section.key}-map-{i + 1}", "maps", title, caption, partial(_group_map, cmdp, group))


def _group_map(cmdp: TabularCMDP, group: Group) -> Figure:
    parts = [run.mixture for run in group.runs if not isinstance(run.mixture, PolicyMixture)]
    return figures.occupancy_map(cmdp, to_markov(cmdp, PolicyMixture(parts)), group.label)


def _file_part(metric: Metric) -> str:
    """Return the part of a file name that tells the metric, and the constraint, counted from 1, if there are several.

    >>> _file_part(Metric("hard_violation", 1.0, "", kind="hard_violation"))
    'hard-violation'
    >>> _file_part(Metric("shortfall_0", 1.0, "", "violation of waste", kind="violation"))
    'violation-1'
    """
    _, _, i = metric.key.rpartition("_")
    return metric.kind.replace("_", "-") + (f"-{int(i) + 1}" if i.isdigit() else "")


def _number(section: Section | RealisedSection, constraint: int) -> str:
    """Return the part of a file name that tells figures of several constraints apart."""
    return f"-{constraint + 1}" if len(section.summary.constraints) > 1 else ""

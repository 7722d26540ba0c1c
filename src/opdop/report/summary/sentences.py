"""The sentences of a report that depend on its runs: the title, the task, the results and the bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opdop.model.rounding import number
from opdop.report.summary.collection import Collection
from opdop.report.summary.groups import Group, RealisedSection, Section, average_band
from opdop.report.summary.run_summary import SATISFIED_WITHIN, about, percent
from opdop.report.summary.solution import better
from opdop.report.summary.statistics import band, band_words
from opdop.report.summary.verdicts import Verdict


def task_sentence(section: Section | RealisedSection) -> str:
    """Return what the learners were asked to do on a problem, and for how long they learned."""
    summary, groups = section.summary, section.groups
    reward = summary.reward
    aim = "minimise" if better(reward) == "less" else "maximise"
    several = "s" if len(summary.constraints) > 1 else ""
    limits = " and ".join(sentence(constraint.sentence) for constraint in summary.constraints)
    runs, lengths = {len(group.runs) for group in groups}, {group.episodes for group in groups}
    often = _times(max(runs)) if len(runs) == 1 else f"between {min(runs)} and {max(runs)} times"
    episodes = f"{max(lengths):,}" if len(lengths) == 1 else f"between {min(lengths):,} and {max(lengths):,}"
    who = _list([group.label for group in groups]) + (" each" if len(groups) > 1 else "")
    return (
        f"Task: {aim} “{reward.name}” subject to the constraint{several} {limits}. "
        f"{who} learned {often}, for {episodes} episode{'' if lengths == {1} else 's'}."
    )


def result_sentence(section: Section, group: Group) -> str:
    """Return the reward of a group's average policy beside the optimum, and whether it satisfies the constraints."""
    summary = section.summary
    reward = summary.reward
    attained, best = average_band(group, 0), number(reward.shown(summary.optimum.value), 2)
    parts = [
        f"{_unit(attained.text, reward.unit)} with the average policy, {_distance(section, group)} "
        f"({_unit(best, reward.unit)})"
    ]
    parts += [_constraint(section, group, i) for i in range(len(summary.constraints))]
    return "; ".join(parts) + "."


def realised_sentence(section: RealisedSection, group: Group) -> str:
    """Return what a group realised per episode, and whether its realised costs are within their limits."""
    first, *others = section.metrics
    parts = [f"{section.summary.reward.name} {_unit(first.text(group), first.unit)}"]
    for metric, limit in zip(others, section.summary.constraints, strict=True):
        quantity, bound = limit.quantity, limit.quantity.shown(limit.threshold)
        mean, less = float(np.mean(list(metric.per_episode(group).values()))), better(quantity) == "less"
        status = "within" if (mean <= bound if less else mean >= bound) else "beyond"
        words = f"{'at most' if less else 'at least'} {bound:g}"
        parts.append(f"{quantity.name} {_unit(metric.text(group), metric.unit)}, {status} its limit of {words}")
    return f"realised on average over all episodes: {'; '.join(parts)}."


def _constraint(section: Section, group: Group, index: int) -> str:
    """Return whether a group's average policy satisfies a constraint, with its slack or violation."""
    summary = section.summary
    constraint = summary.constraints[index]
    scale, unit = abs(constraint.quantity.scale), constraint.quantity.unit
    short = band([scale * float(constraint.threshold - run.average.utilities[index]) for run in group.runs])
    of = f" on {constraint.quantity.name}" if len(summary.constraints) > 1 else ""
    if short.mean <= SATISFIED_WITHIN * summary.shape[0] * scale:
        return f"the constraint{of} is satisfied with a slack of {_unit((-short).text, unit)}"
    return f"the constraint{of} is violated by {_unit(short.text, unit)}"


def _distance(section: Section, group: Group) -> str:
    """Return the distance of a group's mean reward to the optimum."""
    summary, regret = section.summary, section.metrics[0]
    lost = float(np.mean(list(regret.per_episode(group).values())))
    best = abs(summary.reward.shown(summary.optimum.value))
    worse = "worse" if lost > 0.0 else "better"
    if best <= abs(lost) * 1e-3:  # a percentage of almost 0 has no meaning
        return f"{_unit(about(abs(lost)), regret.unit)} {worse} than the optimum"
    return f"{percent(abs(lost) / best)} {worse} than the optimum"


def difference_sentence(found: Sequence[Verdict]) -> str:
    """Return how many of the differences between groups are clear; empty if there is only one group."""
    if not found:
        return ""
    clear = sum(verdict.clear for verdict in found)
    share = f"All {clear}" if clear == len(found) else f"{clear} of {len(found)}"
    return f"{share} differences between them are statistically clear."


def band_sentence(section: Section | RealisedSection) -> str:
    """Return which band the figures and tables of a section show."""
    by_runs: dict[int, list[str]] = {}
    for group in section.groups:
        by_runs.setdefault(len(group.runs), []).append(group.label)
    if len(by_runs) == 1:
        words = band_words(next(iter(by_runs)))
        return f"{words[0].upper()}{words[1:]}."
    return "; ".join(f"{', '.join(labels)}: {band_words(runs)}" for runs, labels in by_runs.items()) + "."


def headline(collection: Collection) -> str:
    """Return the title of a report: algorithms and problems."""
    problems = list(dict.fromkeys(section.summary.run.display.name for section in collection.sections))
    algorithms = {group.runs[0].config.algorithm for section in collection.sections for group in section.groups}
    return f"{_list(sorted(algorithms))} on {_list(problems)}"


def sentence(constraint: str) -> str:
    """Return a constraint with typographic signs.

    >>> sentence("fast services <= 5 services")
    'fast services ≤ 5 services'
    """
    return constraint.replace("<=", "≤").replace(">=", "≥")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _unit(text: str, unit: str) -> str:
    return f"{text} {unit}".rstrip()


def _list(names: Sequence[str]) -> str:
    """Return names as a list in a sentence.

    >>> _list(["a"]), _list(["a", "b"]), _list(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

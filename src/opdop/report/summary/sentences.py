"""What a report says in sentences: what was asked, what came out, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opdop.report.summary.groups import Collection, Group, Section, final_band
from opdop.report.summary.run_summary import SATISFIED_WITHIN, about, percent
from opdop.report.summary.solution import better, number
from opdop.report.summary.statistics import Band, band, band_words
from opdop.report.summary.verdicts import Verdict

# What the page explains, in the order in which one meets it: a word and its meaning.
LEGEND = (
    (
        "Episode",
        "One try of fixed length, from the start to the end. The learner knows nothing of the problem at first but its "
        "sizes and its constraints, and learns from every episode that it plays.",
    ),
    (
        "Aim and constraint",
        "The learner wants as much reward as possible (or as little cost: it says so), while an average over all "
        "that could happen keeps to a limit: the constraint. All numbers are totals of one episode, on average, in the "
        "problem's own units.",
    ),
    (
        "Optimum",
        "The best that any policy can do while it keeps every constraint. It is computed exactly from the true model, "
        "which the learner never sees.",
    ),
    (
        "Regret",
        "Reward lost against the optimum, per episode on average over all episodes so far, or in total. It is to fall "
        "to 0. Below 0 a policy had more reward than the optimum has, which is only possible by breaking a constraint.",
    ),
    (
        "Violation",
        "By how much a constraint is broken, where later slack pays for earlier violation: this is the measure of the "
        "theory. With several constraints it is that of the one broken most.",
    ),
    (
        "Hard violation",
        "The same, but never paid back: what someone feels who has to live through every episode.",
    ),
    (
        "Multiplier",
        "The price that the learner puts on a constraint: reward that it would give for one unit. The right price, "
        "Y*, is what making the constraint stricter by one unit costs at the optimum.",
    ),
    (
        "Average policy and last policy",
        "The average policy plays, in each episode, one of all policies so far, chosen at random; the theory speaks of "
        "it. The last policy is the one at the end of learning; it may circle the optimum.",
    ),
    (
        "Seeds and bands",
        "A run is repeated with other random numbers (seeds). Lines are means over seeds. A band is the 95 % t "
        "interval of the mean from 5 seeds on, and goes from the smallest to the largest value where there are fewer.",
    ),
    (
        "Guide",
        "The theory says that totals grow like the square root of the number of episodes, so that averages fall like "
        "1/√episodes. The dotted line has this slope and goes through the last point of one curve. It is a guide for "
        "the eye, not a bound.",
    ),
)


def asked(section: Section) -> str:
    """Return what was asked of the learners on a problem."""
    summary, groups = section.summary, section.groups
    reward = summary.reward
    aim = "as little" if better(reward) == "less" else "as much"
    several = "s" if len(summary.constraints) > 1 else ""
    constraints = " and ".join(sentence(constraint.sentence) for constraint in summary.constraints)
    runs, lengths = {len(group.runs) for group in groups}, {group.episodes for group in groups}
    often = _times(max(runs)) if len(runs) == 1 else f"between {min(runs)} and {max(runs)} times"
    episodes = f"{max(lengths):,}" if len(lengths) == 1 else f"between {min(lengths):,} and {max(lengths):,}"
    who = _list([group.label for group in groups]) + (" each" if len(groups) > 1 else "")
    return (
        f"Wanted: {aim} of “{reward.name}” as possible, with the constraint{several} {constraints}. "
        f"{who} learnt it {often}, for {episodes} episode{'' if lengths == {1} else 's'}."
    )


def came_out(section: Section, group: Group) -> str:
    """Return what the average policy of a group attains, beside the optimum."""
    summary = section.summary
    reward = summary.reward
    attained, best = final_band(section, group, 0), number(reward.shown(summary.optimum.value), 2)
    parts = [
        f"{_unit(attained.text, reward.unit)} on average while learning, {_apart(section, group)} "
        f"({_unit(best, reward.unit)})"
    ]
    parts += [_kept(section, group, i) for i in range(len(summary.constraints))]
    return "; ".join(parts) + "."


def _kept(section: Section, group: Group, index: int) -> str:
    """Return whether a group's average policy satisfies a constraint, and by how much it does not."""
    summary = section.summary
    constraint = summary.constraints[index]
    scale, unit = abs(constraint.quantity.scale), constraint.quantity.unit
    short = band(np.array([scale * (constraint.threshold - run.average.utilities[index]) for run in group.runs]))
    of = f" on {constraint.quantity.name}" if len(summary.constraints) > 1 else ""
    if short.mean <= SATISFIED_WITHIN * summary.shape[0] * scale:
        return f"the constraint{of} satisfied, with {_unit(_turned(short).text, unit)} to spare"
    return f"the constraint{of} violated by {_unit(short.text, unit)}"


def _apart(section: Section, group: Group) -> str:
    """Return how far the mean reward of a group is from the optimum's."""
    summary = section.summary
    cost = section.costs[0]
    lost = float(np.mean(list(cost.finals(group).values())))
    best = abs(summary.reward.shown(summary.optimum.value))
    worse = "worse" if lost > 0.0 else "better"
    if best <= abs(lost) * 1e-3:  # a share of nothing says nothing
        return f"{_unit(about(abs(lost)), cost.unit)} {worse} than the optimum"
    return f"{percent(abs(lost) / best)} {worse} than the optimum"


def differences(found: Sequence[Verdict]) -> str:
    """Return how many of the differences between groups are clear."""
    if not found:
        return ""
    clear = sum(verdict.clear for verdict in found)
    if clear == len(found):
        return f"All {clear} differences between them are statistically clear."
    return f"{clear} of {len(found)} differences between them are statistically clear."


def bands(section: Section) -> str:
    """Return which band the figures of a section have."""
    by_runs: dict[int, list[str]] = {}
    for group in section.groups:
        by_runs.setdefault(len(group.runs), []).append(group.label)
    if len(by_runs) == 1:
        words = band_words(next(iter(by_runs)))
        return f"{words[0].upper()}{words[1:]}."
    return "; ".join(f"{', '.join(labels)}: {band_words(runs)}" for runs, labels in by_runs.items()) + "."


def headline(collection: Collection) -> str:
    """Return what the report is about, in a few words."""
    problems = list(dict.fromkeys(section.name for section in collection.sections))
    labels = {group.runs[0].config.algorithm for section in collection.sections for group in section.groups}
    who = _list(sorted(str(label) for label in labels))
    return f"{who} on {_list(problems)}"


def sentence(constraint: str) -> str:
    """Return a constraint with the signs of a printed page.

    >>> sentence("fast services <= 5 services")
    'fast services ≤ 5 services'
    """
    return constraint.replace("<=", "≤").replace(">=", "≥")


def _turned(short: Band) -> Band:
    return Band(-short.mean, -short.high, -short.low, short.runs)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _unit(text: str, unit: str) -> str:
    return f"{text} {unit}".rstrip()


def _list(names: Sequence[str]) -> str:
    """Return names as one says them.

    >>> _list(["a"]), _list(["a", "b"]), _list(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

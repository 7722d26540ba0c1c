"""The report as one HTML file that loads nothing: no script, no font, no image from elsewhere.

`page.html` is the template. Jinja escapes every value that comes from a run, and control characters are removed. The
page's Content-Security-Policy also forbids scripts and requests.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from opdop.envs.own_problems import is_code, names_function
from opdop.model.rounding import digits_for, number, plain, short_number
from opdop.report.figures.groups import look_of
from opdop.report.html import svg
from opdop.report.html.pictures import Picture
from opdop.report.summary import sentences
from opdop.report.summary.collection import Collection
from opdop.report.summary.group_labels import printable
from opdop.report.summary.groups import Group, RealisedSection, Section, average_band, final_band
from opdop.report.summary.guarantee_card import card_lines, is_within_bounds
from opdop.report.summary.realised_summary import summary_of
from opdop.report.summary.run_facts import value_text
from opdop.report.summary.solution import better, setting_text, sizes_text
from opdop.report.summary.statistics import band
from opdop.report.summary.verdicts import Verdict, verdicts
from opdop.runs.files import file_name

_MANIFEST_PARTS = ("versions", "commit", "machine")
_PACKAGES = ("opdop", "numpy", "scipy", "numba", "matplotlib")
Drawn = Sequence[tuple[Picture, str]]  # each with its <svg>
Cell = str | tuple[str, str]  # a text, or a text with a small one below it


@dataclass(frozen=True)
class Row:
    """A row of a table; the first cell is its header."""

    cells: Sequence[Cell]
    kind: str = ""  # CSS class


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    heads: Sequence[str]
    rows: Sequence[Row]
    numbers: bool = True  # whether all columns but the first are right-aligned


def page(collection: Collection, drawn: Mapping[str, Drawn]) -> str:
    """Return the report as HTML; `drawn` has the pictures of each section by its key, as <svg> elements."""
    light, dark = svg.style_sheet()
    environment = Environment(
        loader=PackageLoader("opdop.report.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html").render(
        light=light,
        dark=dark,
        collection=collection,
        headline=sentences.headline(collection),
        runs=_count(collection.total_runs, "run"),
        sections=[_section(section, drawn[section.key]) for section in collection.sections],
        known=any(isinstance(section, Section) for section in collection.sections),
        unknown=any(isinstance(section, RealisedSection) for section in collection.sections),
        missing=Table(["run", "reason"], [Row([each.place, each.reason]) for each in collection.missing], False),
        missing_runs=_count(len(collection.missing), "run"),
        made=Table(["the runs", ""], [Row(fact) for fact in _manifest_facts(collection)], False),
        drawn_with=Table(["this page", ""], [Row(fact) for fact in _versions()], False),
        commands=[command(group) for section in collection.sections for group in section.groups],
    )


def command(group: Group) -> str:
    """Return a shell command that repeats the runs of a group, one seed after the other."""
    run = group.runs[0]
    name = run.config.problem
    if (is_code(name) and not names_function(name)) or run.config.preset is None:
        return "# a model or learner of your own: opdop.train(model, ...)"
    words = run.config.but(seed=0).command()
    seeds = " ".join(map(str, group.seeds))
    folder = f"again/{file_name(f'{run.display.name} {group.label}')}"
    return f"for seed in {seeds}; do {shlex.join(words)} --seed $seed --out {folder}-$seed; done"


def _section(section: Section | RealisedSection, drawn: Drawn) -> dict[str, Any]:
    """Return what the template shows of one problem."""
    summary, found = section.summary, verdicts(section)
    display = summary.run.display
    known = isinstance(section, Section)
    H, S, A = summary.shape
    size = f"{sizes_text(S, A, H, len(summary.constraints))}."
    parameters = ", ".join(f"{key}={setting_text(value)}" for key, value in display.parameters.items())
    bands = sentences.band_sentence(section)
    return {
        "id": f"problem-{section.key}",
        "name": section.name,
        "about": display.summary,
        "facts": f"{size} Parameters: {parameters}." if parameters else size,
        "task": sentences.task_sentence(section),
        "known": known,
        "results": [
            (
                group.label,
                sentences.result_sentence(section, group)
                if isinstance(section, Section)
                else sentences.realised_sentence(section, group),
            )
            for group in section.groups
        ],
        "differences": sentences.difference_sentence(found),
        "groups": [_group_key(i, group) for i, group in enumerate(section.groups)],
        "notes": _notes(section),
        "values": _values(section) if isinstance(section, Section) else _realised(section),
        "bands": "With one seed for each group, there is no estimate of chance." if section.seeds == 1 else bands,
        "metrics": _metrics(section) if isinstance(section, Section) else _evaluations(section),
        "verdicts": [(verdict, _p_text(verdict)) for verdict in found],
        "figures": _figures(drawn),
        "guarantees": _guarantees(section) if isinstance(section, Section) else None,
        "certificates": _certificates(section),
        "constants": _constants(section),
    }


def _group_key(index: int, group: Group) -> dict[str, str]:
    """Return the legend entry of a group: its colour and dashes are the same in all figures of the section."""
    look = look_of(index)
    return {
        "label": group.label,
        "colour": svg.variable(look["color"]),
        "dashes": "none" if look["linestyle"] == "-" else ",".join(f"{2 * length}" for length in look["linestyle"][1]),
        "count": f"{_count(len(group.runs), 'seed')}, {_count(group.episodes, 'episode')}",
    }


def _figures(drawn: Drawn) -> dict[str, list[tuple[Markup, str]]]:
    """Return the figures of each part with their captions; they are SVG of `svg.inline`, which escapes its texts."""
    by_kind: dict[str, list[tuple[Markup, str]]] = {}
    for picture, text in drawn:
        by_kind.setdefault(picture.kind, []).append((Markup(text), picture.caption))
    return by_kind


def _notes(section: Section | RealisedSection) -> list[str]:
    """Return the notes of all groups; each names its groups unless it applies to every one of several."""
    notes: dict[str, list[str]] = {}
    for group in section.groups:
        for text in summary_of(group.runs[0]).notes:
            # A table of the page has a row where the terminal's table has a column.
            note = text.replace("column 'unconstrained policy'", "row “unconstrained policy”")
            notes.setdefault(note, []).append(group.label)
    every = len(section.groups)
    return [
        note if len(labels) == every and every > 1 else f"{', '.join(labels)}: {note}" for note, labels in notes.items()
    ]


def _values(section: Section) -> Table:
    """Return the values of average and final policies, below those of the known policies; constraints come first."""
    summary, optimum = section.summary, section.summary.optimum
    quantities = summary.run.display.quantities
    order = [*range(1, len(quantities)), 0]
    limits = [(better(each.quantity), each.quantity.shown(each.threshold)) for each in summary.constraints]
    known = (
        ("optimum", np.concatenate([[optimum.value], optimum.utility_values])),
        ("unconstrained policy", optimum.unconstrained.totals),
        ("max-slack policy", optimum.slater.totals),
    )
    rows = [Row(["constraint", *(f"{'≤' if way == 'less' else '≥'} {at:,g}" for way, at in limits), ""], "reference")]
    rows += [
        Row([name, *(number(quantities[i].shown(float(totals[i]))) for i in order)], "reference")
        for name, totals in known
    ]
    for group in section.groups:
        rows.append(Row([f"{group.label}, average policy", *(average_band(group, i).text for i in order)]))
        rows.append(Row([f"{group.label}, final policy", *(final_band(group, i).text for i in order)]))
    heads = [_with_unit(quantities[i].name, quantities[i].unit) for i in order]
    return Table(["expected per episode", *heads], rows)


def _realised(section: RealisedSection) -> Table:
    """Return realised totals per episode: of all episodes over the seeds, and of the second half of each first run."""
    summary = section.summary
    quantities = summary.run.display.quantities
    order = [*range(1, len(quantities)), 0]
    limits = [each.wanted.replace("<=", "≤").replace(">=", "≥") for each in summary.constraints]
    rows = [Row(["constraint", *limits, ""], "reference")]
    for group, first in zip(section.groups, section.summaries, strict=True):
        averages = [metric.text(group) for metric in section.metrics]
        rows.append(Row([f"{group.label}, all episodes", *(averages[j] for j in order)]))
        seed = f", seed {first.run.config.seed}" if len(group.runs) > 1 else ""
        rows.append(Row([f"{group.label}, second half{seed}", *(first.late_text(j) for j in order)]))
    heads = [_with_unit(quantities[j].name, quantities[j].unit) for j in order]
    return Table(["realised per episode", *heads], rows)


def _evaluations(section: RealisedSection) -> Table | None:
    """Return the fresh episodes of final policies in own units; None if no run has played any."""
    summary = section.summary
    quantities = summary.run.display.quantities
    order = [*range(1, len(quantities)), 0]
    rows = []
    for group in section.groups:
        for run in group.runs:
            if (found := run.evaluation) is None:
                continue
            cells: list[Cell] = []
            for j in order:
                mean, low, high = found.interval(j)
                digits = digits_for(high - low)
                cells.append((plain(mean, digits), f"{plain(low, digits)} to {plain(high, digits)}"))
            chance = f"{100.0 * (1.0 - found.failure_probability):g} %"
            head = f"{group.label}, seed {run.config.seed}: {found.episodes:,} episodes, probability {chance}"
            rows.append(Row([head, *cells]))
    heads = [_with_unit(quantities[j].name, quantities[j].unit) for j in order]
    return Table(["fresh episodes of the final policy", *heads], rows) if rows else None


def _metrics(section: Section) -> Table:
    """Return regret, violation and hard violation of every group, per episode and in total."""
    rows = []
    for group in section.groups:
        cells: list[Cell] = [group.label]
        for metric in section.metrics:
            total = float(np.mean([metric.scale * each.at_end(metric.key) for each in group.summaries]))
            average = band(list(metric.per_episode(group).values())).text
            cells.append((average, f"{short_number(total)} in total"))
        pace = float(np.mean([each.episodes_per_second for each in group.summaries]))
        rows.append(Row([*cells, short_number(pace)]))
    heads = [_with_unit(metric.name, metric.unit) for metric in section.metrics]
    return Table(["per episode, and in total", *heads, "episodes per second"], rows)


def _guarantees(section: Section) -> Table:
    """Return the guarantee card of each group's first run, and in how many of its runs the bounds hold."""
    rows = []
    for group in section.groups:
        lines = [
            f"{label} {words}".removeprefix("guarantee ").strip() for label, words in card_lines(group.summaries[0])
        ]
        if all(each.guarantee.certified for each in group.summaries):
            holds = sum(is_within_bounds(each) for each in group.summaries)
            lines.append(f"the bounds hold in {holds} of {len(group.runs)} runs")
        rows.append(Row([group.label, "; ".join(lines)]))
    return Table(["", "guarantee"], rows, numbers=False)


def _certificates(section: Section | RealisedSection) -> Table:
    """Return the certificates of each group's first run: a row for each policy, and one for what to expect."""
    rows = []
    for group in section.groups:
        card = group.facts.card
        if not card.certificates:
            rows.append(Row([group.label, f"none: {card.why_not}"]))
        for name, certificate in card.certificates.items():
            words = " ".join([f"{certificate.lead}:", *certificate.statements(pairs=name == "recommended")])
            rows.append(Row([f"{group.label}, {name} policy", sentences.sentence(words)]))
        rows += [Row([f"{group.label}, an estimate", words]) for words in card.estimates()]
    return Table(["", "certificate"], rows, numbers=False)


def _constants(section: Section | RealisedSection) -> Table:
    """Return every constant of every group."""
    names = dict.fromkeys(name for group in section.groups for name in group.runs[0].constants)
    rows = []
    for name in names:
        values = [
            {value_text(run.constants[name]) if name in run.constants else "" for run in group.runs}
            for group in section.groups
        ]
        rows.append(Row([name, *(" or ".join(sorted(each)) for each in values)]))
    return Table(["", *(group.label for group in section.groups)], rows, numbers=False)


def _manifest_facts(collection: Collection) -> Iterator[tuple[str, str]]:
    """Return versions, commit and machine of a sweep, as names with texts."""

    def flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            for key, part in value.items():
                yield from flat(str(key), part)
        elif value is not None:
            yield name, str(value)

    for name in _MANIFEST_PARTS:
        yield from flat(name, collection.manifest.get(name))


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for name in _PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def _p_text(verdict: Verdict) -> str:
    return "" if np.isnan(verdict.p) else "below 0.0001" if verdict.p < 1e-4 else f"{verdict.p:.4f}"


def _with_unit(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit and unit not in name else name


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"

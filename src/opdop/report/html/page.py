"""The report as one HTML file that needs nothing else: no network, no script, no font.

Whatever comes from a run, a name or an error, is escaped here; should that ever fail, the page's own policy forbids
scripts and everything that would be loaded.
"""

from __future__ import annotations

import html
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from opdop.envs import environments
from opdop.report.figures.groups import look_of
from opdop.report.html import svg
from opdop.report.html.pictures import Picture
from opdop.report.html.style import css
from opdop.report.summary import sentences as words
from opdop.report.summary.groups import Collection, Group, Section, final_band, printable
from opdop.report.summary.guarantee_card import card_lines, is_within_bounds
from opdop.report.summary.run_summary import value_text
from opdop.report.summary.solution import better, number, short_number
from opdop.report.summary.statistics import band
from opdop.report.summary.verdicts import METHOD, Verdict, verdicts
from opdop.report.terminal.tables import setting_text, sizes_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_PARTS = (
    ("curves", "While learning", "All averages are over the episodes so far, in the problem's own units."),
    (
        "planes",
        "The way to the optimum",
        "Each policy is a point: what it gives of the promised quantity, and of the reward. The coloured side of the "
        "constraint is forbidden. A good learner's line ends at the star.",
    ),
    ("totals", "Totals, and the rate of the theory", "The same three costs, summed up instead of averaged."),
    ("maps", "Where policies go", "Where an episode is spent, and what is mostly done there."),
)
Drawn = Sequence[tuple[Picture, str]]  # each with its <svg>


def page(collection: Collection, drawn: Mapping[str, Drawn]) -> str:
    """Return the report; `drawn` has the pictures of each section by its key."""
    found = {section.key: verdicts(section) for section in collection.sections}
    headline = words.headline(collection)
    main = [
        _summary(collection, found),
        _legend(),
        *(_section(section, found[section.key], drawn[section.key]) for section in collection.sections),
        _missing(collection),
        _origin(collection),
    ]
    runs = _count(collection.total_runs, "run")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="opdop">\n'
        f"<title>{_text(headline)}: report</title>\n<style>{css()}</style>\n</head>\n<body>\n"
        f'<header><p class="over">opdop report · {_text(collection.name)}</p><h1>{_text(headline)}</h1>'
        f'<p class="lead">Learning under constraints: {runs} measured against the exact optimum.</p>'
        f"{_contents(collection)}</header>\n<main>\n" + "\n".join(part for part in main if part) + "\n</main>\n"
        "<footer>Made by opdop. Every number on this page is computed from the runs; nothing is loaded from elsewhere."
        "</footer>\n</body>\n</html>\n"
    )


# The parts of the page --------------------------------------------------------------------------------------------


def _summary(collection: Collection, found: Mapping[str, list[Verdict]]) -> str:
    cards = []
    for section in collection.sections:
        results = _items(
            f"<strong>{_text(group.label)}</strong>: {_text(words.came_out(section, group))}"
            for group in section.groups
        )
        clear = words.differences(found[section.key])
        more = f'<p>{_text(clear)} <a href="#{_id(section)}-verdicts">Which ones</a></p>' if clear else ""
        cards.append(
            f'<div class="card"><h3><a href="#{_id(section)}">{_text(section.name)}</a></h3>'
            f"<p>{_text(words.asked(section))}</p>{results}{more}</div>"
        )
    lost = ""
    if collection.missing:
        those = f'<a href="#missing">{_count(len(collection.missing), "run")} not shown</a>'
        lost = f'<p class="note">{those}: failed, unfinished, damaged or repeated.</p>'
    cards_grid = f'<div class="cards">{"".join(cards)}</div>'
    return f'<section id="summary"><h2>What was asked, what came out</h2>{cards_grid}{lost}</section>'


def _contents(collection: Collection) -> str:
    entries = [("reading", "How to read this")]
    entries += [(_id(section), _heading(collection, section)) for section in collection.sections]
    entries += [("missing", "Runs not shown")] * bool(collection.missing) + [("origin", "Versions, and doing it again")]
    links = "".join(f'<li><a href="#{key}">{_text(name)}</a></li>' for key, name in entries)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _legend() -> str:
    entries = "".join(f"<div><dt>{_text(word)}</dt><dd>{_text(meaning)}</dd></div>" for word, meaning in words.LEGEND)
    return f'<section id="reading"><h2>How to read this</h2><div class="card"><dl>{entries}</dl></div></section>'


def _section(section: Section, found: list[Verdict], drawn: Drawn) -> str:
    summary = section.summary
    display = summary.run.display
    parameters = ", ".join(f"{key}={setting_text(value)}" for key, value in display.parameters.items())
    H, S, A = summary.shape
    size = sizes_text(S, A, H, len(summary.constraints))
    facts = _text(f"{size}." + (f" Parameters: {parameters}." if parameters else ""))
    parts = [
        f"<h2>{_text(section.name)}</h2>",
        f'<p class="lead">{_text(display.summary)}</p>' if display.summary else "",
        f'<p class="note">{facts}</p>',
        _key(section),
        _notes(section),
        f"<h3>What the policies attain</h3>{_attained(section)}",
        f"<h3>What learning cost</h3>{_costs(section)}",
        _verdicts(section, found),
    ]
    for kind, title, opening in _PARTS:
        cards = [
            f"<figure>{text}<figcaption>{_text(picture.caption)}</figcaption></figure>"
            for picture, text in drawn
            if picture.kind == kind
        ]
        if cards:
            grid = f'<div class="grid {kind}">{"".join(cards)}</div>'
            parts.append(f'<h3>{title}</h3><p class="note">{_text(opening)}</p>{grid}')
    parts.append(f"<h3>What is promised</h3>{_guarantees(section)}")
    parts.append(f"<h3>Constants</h3>{_constants(section)}")
    return f'<section class="problem" id="{_id(section)}">{"".join(parts)}</section>'


def _key(section: Section) -> str:
    """Return the groups with their lines: the colours are the same in all figures of the section."""
    entries = []
    for i, group in enumerate(section.groups):
        look = look_of(i)
        dashes = "" if look["linestyle"] == "-" else ",".join(f"{2 * length}" for length in look["linestyle"][1])
        line = (
            '<svg viewBox="0 0 32 10" aria-hidden="true"><path d="M1 5H31" fill="none" '
            f'style="stroke:{svg.variable(look["color"])};stroke-width:3.5;stroke-dasharray:{dashes or "none"}"/></svg>'
        )
        count = f"{_count(len(group.runs), 'seed')}, {_count(group.episodes, 'episode')}"
        entries.append(f'<li>{line}<strong>{_text(group.label)}</strong> <span class="note">{count}</span></li>')
    return f'<ul class="groups">{"".join(entries)}</ul>'


def _notes(section: Section) -> str:
    notes: dict[str, list[str]] = {}
    for group in section.groups:
        for text in group.summaries[0].notes:
            note = text.replace(
                "column 'unconstrained policy'", "row “unconstrained policy”"
            )  # as the table here is turned
            notes.setdefault(note, []).append(group.label)
    every = len(section.groups)
    entries = [
        _text(note if len(labels) == every and every > 1 else f"{', '.join(labels)}: {note}")
        for note, labels in notes.items()
    ]
    return _items(entries, "note") if entries else ""


def _attained(section: Section) -> str:
    """Return what average and last policies attain, beside what is known of the problem."""
    summary = section.summary
    quantities = summary.run.display.quantities
    heads = ["per episode, on average", *(_with_unit(quantity.name, quantity.unit) for quantity in quantities)]
    limits = [(better(each.quantity), each.quantity.shown(each.threshold)) for each in summary.constraints]
    wanted = ["promised", "", *(f"{'≤' if way == 'less' else '≥'} {limit:,g}" for way, limit in limits)]
    optimum = summary.optimum
    known = [
        ("optimum", np.concatenate([[optimum.value], optimum.utility_values])),
        ("unconstrained policy", optimum.unconstrained.totals),
        ("safest", optimum.slater.totals),
    ]
    rows = [_row(wanted, "reference")]
    for name, totals in known:
        cells = [number(quantity.shown(float(total))) for quantity, total in zip(quantities, totals, strict=True)]
        rows.append(_row([name, *cells], "reference"))
    for group in section.groups:
        signals = range(len(quantities))
        averages = [final_band(section, group, i).text for i in signals]
        rows.append(_row([f"{group.label}, average policy", *averages]))
        lasts = [
            band(np.array([quantities[i].shown(float(each.final_values.totals[i])) for each in group.summaries])).text
            for i in signals
        ]
        rows.append(_row([f"{group.label}, last policy", *lasts]))
    return _table(heads, rows) + f'<p class="note">{_text(_intervals(section))}</p>'


def _costs(section: Section) -> str:
    """Return the three costs of every group, per episode and in total."""
    heads = ["per episode, and in total", *(_with_unit(cost.name, cost.unit) for cost in section.costs)]
    rows = []
    for group in section.groups:
        cells = []
        for cost in section.costs:
            total = float(np.mean([cost.scale * each.at_end(cost.key) for each in group.summaries]))
            average = band(np.array(list(cost.finals(group).values()))).text
            cells.append(f'<td class="n">{_text(average)}<small>{_text(short_number(total))} in total</small></td>')
        pace = short_number(float(np.mean([each.episodes_per_second for each in group.summaries])))
        cells.append(f'<td class="n">{_text(pace)}</td>')
        rows.append(f'<tr><th scope="row">{_text(group.label)}</th>{"".join(cells)}</tr>')
    return _table([*heads, "episodes per second"], rows)


def _verdicts(section: Section, found: list[Verdict]) -> str:
    if not found:
        return ""
    rows = []
    for verdict in found:
        p = "" if np.isnan(verdict.p) else "below 0.0001" if verdict.p < 1e-4 else f"{verdict.p:.4f}"
        mark = f'<span class="unclear">{_text(verdict.words)}</span>'
        if verdict.clear:
            mark = f'<span class="clear">clear</span>{_text(verdict.words.removeprefix("clear"))}'
        rows.append(f'<tr><th scope="row">{_text(verdict.cost.name)}</th><td>{mark}</td><td class="n">{p}</td></tr>')
    head = '<tr><th scope="col"></th><th scope="col">verdict</th><th scope="col" class="n">p, corrected</th></tr>'
    table = f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    caution = "Less regret alone is not better: breaking a constraint can buy it. Read the three measures together."
    return (
        f'<h3 id="{_id(section)}-verdicts">Which differences are clear</h3>{table}'
        f'<p class="note">{_text(f"{METHOD} {caution}")}</p>'
    )


def _guarantees(section: Section) -> str:
    """Return the guarantee card of each group's first run, and in how many of its runs it was kept."""
    rows = []
    for group in section.groups:
        cards = [each.guarantee for each in group.summaries]
        lines = [
            f"{label} {words}".removeprefix("guarantee ").strip() for label, words in card_lines(group.summaries[0])
        ]
        if all(card.promised for card in cards):
            kept = sum(is_within_bounds(each) for each in group.summaries)
            lines.append(f"kept in {kept} of {len(cards)} runs")
        rows.append(_row([group.label, "; ".join(lines)], numbers=False))
    return _table(["", "guarantee"], rows, numbers=False)


def _constants(section: Section) -> str:
    names = list(dict.fromkeys(name for group in section.groups for name in group.runs[0].constants))
    rows = []
    for name in names:
        cells = [name]
        for group in section.groups:
            values = {value_text(run.constants[name]) if name in run.constants else "" for run in group.runs}
            cells.append(" or ".join(sorted(values)))
        rows.append(_row(cells, numbers=False))
    if not rows:
        return '<p class="note">The runs name no constants.</p>'
    return _table(["", *(group.label for group in section.groups)], rows, numbers=False)


def _missing(collection: Collection) -> str:
    if not collection.missing:
        return ""
    rows = [_row([each.place, each.reason], numbers=False) for each in collection.missing]
    table = _table(["run", "why it is not shown"], rows, numbers=False)
    return f'<section id="missing"><h2>Runs not shown</h2>{table}</section>'


def _origin(collection: Collection) -> str:
    """Return with what the runs and the page were made, and how to make them again."""
    facts = [(name, value) for key in _ORIGIN for name, value in _flat(key, collection.manifest.get(key))]
    made = (
        _table(["the runs", ""], [_row(fact, numbers=False) for fact in facts], numbers=False)
        if facts
        else '<p class="note">The runs do not say with which versions they were made.</p>'
    )
    drawn = _table(["this page", ""], [_row(fact, numbers=False) for fact in _versions()], numbers=False)
    commands = "\n".join(_command(group) for section in collection.sections for group in section.groups)
    spec = f"<h3>The sweep's spec</h3><pre>{_text(collection.spec)}</pre>" if collection.spec else ""
    return (
        f'<section id="origin"><h2>Versions, and doing it again</h2>{made}{drawn}{spec}'
        "<h3>The same runs, one group in each line</h3>"
        f"<pre>{_text(commands)}\nopdop report again</pre></section>"
    )


# Their pieces -----------------------------------------------------------------------------------------------------

_ORIGIN = ("versions", "commit", "machine")


def _command(group: Group) -> str:
    """Return a shell command that makes the runs of a group again."""
    run = group.runs[0]
    if run.config.problem not in environments() or run.config.preset is None:
        return "# a model or learner of your own: opdop.train(model, ...)"
    parts = run.config.but(seed=0).command()
    seeds = " ".join(map(str, group.seeds))
    folder = f"again/{'-'.join(_words_only(f'{run.display.name} {group.label}'))}"
    return f"for seed in {seeds}; do {shlex.join(parts)} --seed $seed --out {folder}-$seed; done"


def _words_only(text: str) -> list[str]:
    return "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in text).split()


def _versions() -> list[tuple[str, str]]:
    names = ("opdop", "numpy", "scipy", "numba", "matplotlib")
    found = []
    for name in names:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append((name, "not installed"))
    return [("python", platform.python_version()), *found]


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    """Return nested data as rows of a name and a text."""
    if isinstance(value, Mapping):
        return [row for key, part in value.items() for row in _flat(str(key), part)]
    return [] if value is None else [(name, str(value))]


def _intervals(section: Section) -> str:
    if section.seeds == 1:
        return "One seed each: there is nothing to say how much is chance."
    return f"Groups: {words.bands(section)[0].lower()}{words.bands(section)[1:]}"


def _heading(collection: Collection, section: Section) -> str:
    alike = [each.key for each in collection.sections if each.name == section.name]
    return section.name if len(alike) == 1 else f"{section.name} ({alike.index(section.key) + 1})"


def _table(heads: Sequence[str], rows: Iterable[str], *, numbers: bool = True) -> str:
    side = ' class="n"' if numbers else ""
    cells = "".join(f'<th scope="col"{side if i else ""}>{_text(head)}</th>' for i, head in enumerate(heads))
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _row(cells: Sequence[str], kind: str = "", *, numbers: bool = True) -> str:
    first, *rest = cells
    side = ' class="n"' if numbers else ""
    others = "".join(f"<td{side}>{_text(cell)}</td>" for cell in rest)
    look = f' class="{kind}"' if kind else ""
    return f'<tr{look}><th scope="row">{_text(first)}</th>{others}</tr>'


def _items(entries: Iterable[str], kind: str = "") -> str:
    """Return a list of entries, which are HTML."""
    look = f' class="{kind}"' if kind else ""
    return f"<ul{look}>{''.join(f'<li>{entry}</li>' for entry in entries)}</ul>"


def _with_unit(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit and unit not in name else name


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _id(section: Section) -> str:
    return f"problem-{section.key}"


def _text(value: object) -> str:
    """Return text as HTML shows it; signs that no page may have are left out."""
    return html.escape(printable(value))

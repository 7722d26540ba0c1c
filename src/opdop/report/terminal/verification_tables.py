"""Tables of what was verified: for a terminal, and as Markdown for the docs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opdop.report.summary.solution import short_number
from opdop.theory import CoverageStudy, Row, Verification
from opdop.theory.verification import Reach, interval

LEGEND = (
    "held: in how many runs it held, at every episode. promised: with which probability it must hold; 'always' means "
    "in every run, up to rounding. 95% interval: what these runs say about that probability (Clopper and Pearson). "
    "tightness: the largest measured / bound; of identities, the largest difference of the two sides. BROKEN: a sure "
    "statement failed once, or the interval lies below the promise."
)
REACH_LEGEND = (
    "bound: what the theorem promises for this many episodes, with every constant explicit. K H: what needs no proof. "
    "useful from K: a number of episodes from which on the bound is below K H."
)
COVERAGE_LEGEND = (
    "optimistic: runs in which no estimate was too low, at any episode, stage, state, action and signal. two-sided: "
    "those of them in which none was too high by more than twice the bonus. needed: the largest share of a bonus that "
    "was needed; above 1 optimism would fail."
)
_BROKEN = "A promise is broken: the implementation or the theory is wrong, or a rare event occurred in many runs."


def verification_page(found: Verification, *, width: int) -> RenderableType:
    """Return the table of statements, where each one failed if it did, and the reach of the bounds."""
    table = _table()
    table.add_column("statement")
    if width >= 110:
        table.add_column("in the paper")
    for words in ("held", "promised", "95% interval", "tightness"):
        table.add_column(words, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in found.rows:
        name, where, *cells = row_cells(row)
        style = "bold red" if row.broken else ""
        table.add_row(name, *([where] if width >= 110 else []), *cells, style=style)
    parts: list[RenderableType] = [Text(_heading(found), style="bold"), Text(""), table, Text("")]
    for row in found.rows:
        if row.failures:
            some = "; ".join(row.failures[:3]) + ("; ..." if len(row.failures) > 3 else "")
            words = f"{row.statement.name} ({row.statement.says}) failed in: {some}"
            parts.append(Text(words, style="red" if row.broken else "yellow"))
    parts += [Text(LEGEND, style="dim"), Text("")]
    if found.reaches:
        parts += [_reaches(found.reaches, found.episodes), Text(REACH_LEGEND, style="dim"), Text("")]
    parts.append(Text(_BROKEN, style="bold red") if found.broken else Text(_kept(found), style="bold green"))
    return Group(*parts)


def coverage_page(study: CoverageStudy) -> RenderableType:
    """Return the table of coverage, one line for each problem, and all of them together."""
    table = _table()
    header, *lines = coverage_cells(study)
    table.add_column(header[0])
    for words in header[1:]:
        table.add_column(words, justify="right", no_wrap=True)
    for cells in lines[:-1]:
        table.add_row(*cells)
    table.add_section()
    table.add_row(*lines[-1], style="bold")
    heading = f"Coverage: {study.episodes:,} episodes in each run, p = {study.failure_probability:g}"
    verdict = Text(_BROKEN, style="bold red") if study.broken else Text("As promised.", style="bold green")
    return Group(
        Text(heading, style="bold"), Text(""), table, Text(""), Text(COVERAGE_LEGEND, style="dim"), Text(""), verdict
    )


def row_cells(row: Row) -> list[str]:
    """Return a row as texts: statement, where, held, promised, interval, tightness, verdict."""
    if row.promised is None:
        promised = "no"
    else:
        promised = "always" if row.promised == 1.0 else f"{row.promised:.4g}"
    return [
        row.statement.name,
        row.statement.where,
        f"{row.held} of {row.runs}",
        promised,
        _span(row.interval),
        tightness_text(row),
        row.verdict,
    ]


def tightness_text(row: Row) -> str:
    """Return measured / bound, or how far an identity is off."""
    if row.off is not None:
        return f"{row.off:.0e} off"
    if row.tightness is None:
        return "-"
    return "< 0" if row.tightness < 0.0 else f"{row.tightness + 0.0:.3g}"  # 0, never -0


def coverage_cells(study: CoverageStudy) -> list[list[str]]:
    """Return the table of coverage as texts: its header, one line for each problem, and the sum."""
    promised = study.row.promised
    assert promised is not None
    lines = [["problem", "runs", "optimistic", "two-sided", "promised", "95% interval", "needed"]]
    for part in study.parts:
        span = _span(interval(part.optimistic, part.runs))
        needed = "-" if part.used is None else f"{part.used:.2f}"
        counts = str(part.runs), str(part.optimistic), str(part.two_sided)
        lines.append([part.case, *counts, f"{promised:.4g}", span, needed])
    row = study.row
    both = sum(part.two_sided for part in study.parts)
    most = "-" if row.tightness is None else f"{row.tightness:.2f}"
    lines.append(["all", str(row.runs), str(row.held), str(both), f"{promised:.4g}", _span(row.interval), most])
    return lines


def markdown_verification(found: Verification) -> str:
    """Return the table of statements and the reach of the bounds as Markdown."""
    head = ["statement", "in the paper", "held", "promised", "95% interval", "tightness", "verdict"]
    text = _markdown([head, *(row_cells(row) for row in found.rows)], left=2)
    if found.reaches:
        text += "\n" + _markdown(reach_cells(found.reaches, found.episodes), left=1)
    return text


def markdown_coverage(study: CoverageStudy) -> str:
    """Return the table of coverage as Markdown."""
    return _markdown(coverage_cells(study), left=1)


def reach_cells(reaches: Iterable[Reach], episodes: int) -> list[list[str]]:
    """Return the reach of the bounds as texts, with a header."""
    lines = [
        ["problem", f"regret bound, K = {episodes:,}", "violation bound", "K H", "useful from K: regret", "violation"]
    ]
    for reach in reaches:
        bounds = [short_number(value) for value in (reach.regret, reach.violation, reach.trivial)]
        begins = ["beyond 1e60" if k is None else f"{k:,}" for k in (reach.regret_from, reach.violation_from)]
        lines.append([reach.case, *bounds, *begins])
    return lines


def _reaches(reaches: Sequence[Reach], episodes: int) -> Table:
    header, *lines = reach_cells(reaches, episodes)
    table = _table()
    table.add_column(header[0])
    for words in header[1:]:
        table.add_column(words, justify="right", min_width=8)
    for cells in lines:
        table.add_row(*cells)
    return table


def _heading(found: Verification) -> str:
    return (
        f"{len(found.cases)} problem{'' if len(found.cases) == 1 else 's'}, {found.seeds} "
        f"run{'' if found.seeds == 1 else 's'} each, {found.episodes:,} episodes in a run, "
        f"p = {found.failure_probability:g}"
    )


def _kept(found: Verification) -> str:
    promised = [row for row in found.rows if row.promised is not None]
    return f"All {len(promised)} promises held as often as they were made."


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} - {ends[1]:.3f}"


def _markdown(lines: Sequence[Sequence[str]], left: int) -> str:
    """Return lines as a Markdown table; the first `left` columns are texts."""
    header, *rest = lines
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    rows = [header, rule, *rest]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)

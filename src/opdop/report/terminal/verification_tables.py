"""Tables of what was verified: for a terminal, and as Markdown for the docs."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opdop.model.rounding import short_number
from opdop.theory import CoverageStudy, Verification
from opdop.theory.verification import Row

LEGEND = (
    "held: in how many runs the claim held, at every episode. guaranteed: the probability with which it must hold; "
    "'always' means in every run, up to rounding. 95% interval: what these runs say about that probability (Clopper "
    "and Pearson). tightness: the largest measured / bound; of identities, the largest difference of the two sides; of "
    "optimism, the share of a bonus that was needed before the last stage. vacuous: the bound is at least the largest "
    "value that the measured quantity can take, so the check cannot fail at this number of episodes. FAILED: a sure "
    "claim did not hold in some run, or the interval lies below the guarantee."
)
BOUNDS_LEGEND = (
    "bound: the theorem's for this many episodes, with every constant explicit. K H: the trivial bound, without any "
    "proof. below K H from K: a number of episodes from which on the theorem's bound is smaller than K H."
)
COVERAGE_LEGEND = (
    "optimistic: runs in which no estimate was too low, at any episode, stage, state, action and signal. two-sided: "
    "those of them in which none was too high by more than twice the bonus. needed: the largest share of a bonus that "
    "was needed where Q is not clipped, by stage from the first; above 1 optimism would fail, and '-' means that Q "
    "was always clipped. The last stage is shown apart: no next value is estimated there, so its bonus covers only "
    "the ridge's bias (and the noise of random signals), and a larger share of it is needed."
)
_FAILED = "A check failed: the implementation or the theory is wrong, or a rare event occurred in many runs."


def verification_page(found: Verification, *, width: int) -> RenderableType:
    """Return the table of checks, the runs in which a claim did not hold, and the theorem's bounds."""
    lines = check_cells(found)
    if width < 110:
        lines = [[name, *cells] for name, _, *cells in lines]  # no room for where it is in the paper
    styles = ["bold red" if row.failed else "dim" if row.vacuous else "" for row in found.rows]
    runs = f"Problems: {len(found.problems)}; runs of each: {found.seeds}; episodes of a run: {found.episodes:,}"
    heading = f"Checks. {runs}; p = {found.failure_probability:g}"
    parts: list[RenderableType] = [Text(heading, style="bold"), Text(""), _table(lines, styles), Text("")]
    for row in found.rows:
        if row.failures:
            some = "; ".join(row.failures[:3]) + ("; ..." if len(row.failures) > 3 else "")
            words = f"{row.check.name} ({row.check.claim}) did not hold in: {some}"
            parts.append(Text(words, style="red" if row.failed else "yellow"))
    parts += [Text(LEGEND, style="dim"), Text("")]
    if found.bounds:
        parts += [_table(bounds_cells(found)), Text(BOUNDS_LEGEND, style="dim"), Text("")]
    parts.append(Text(_FAILED, style="bold red") if found.failed else Text(closing_line(found), style="bold green"))
    return Group(*parts)


def coverage_page(study: CoverageStudy) -> RenderableType:
    """Return how often estimates were optimistic, and which share of the bonus they needed, for each problem."""
    heading = f"Coverage. Episodes of a run: {study.episodes:,}; p = {study.failure_probability:g}"
    passed = Text("Optimistic as often as guaranteed.", style="bold green")
    last = ["" for _ in study.problems] + ["bold"]
    return Group(
        *(Text(heading, style="bold"), Text(""), _table(coverage_cells(study), last), Text("")),
        *(_table(needed_cells(study)), Text(""), Text(COVERAGE_LEGEND, style="dim"), Text("")),
        Text(_FAILED, style="bold red") if study.failed else passed,
    )


def closing_line(found: Verification) -> str:
    """Return how many checks passed, and which of them could not have failed."""
    count = sum(row.guaranteed is not None for row in found.rows)
    line = f"All {count} checks passed"
    if found.vacuous:
        some = f"{len(found.vacuous)} of them {'is' if len(found.vacuous) == 1 else 'are'} vacuous"
        line += f"; {some} at {found.episodes:,} episodes: {'; '.join(found.vacuous)}"
    return line + "."


def check_cells(found: Verification) -> list[list[str]]:
    """Return the table of checks as texts, with a header."""
    lines = [["check", "in the paper", "held", "guaranteed", "95% interval", "tightness", "verdict"]]
    for row in found.rows:
        if row.guaranteed is None:
            guaranteed = "no"
        else:
            guaranteed = "always" if row.guaranteed == 1.0 else f"{row.guaranteed:.4g}"
        held = f"{row.held} of {row.runs}"
        cells = [held, guaranteed, _interval(row), tightness_text(row), row.verdict]
        lines.append([row.check.name, row.check.where, *cells])
    return lines


def tightness_text(row: Row) -> str:
    """Return measured / bound, or the difference of the two sides of an identity."""
    if row.off is not None:
        return f"{row.off:.0e} off"
    if row.tightness is None:
        return "-"
    return "< 0" if row.tightness < 0.0 else f"{row.tightness + 0.0:.3g}"  # 0, never -0


def bounds_cells(found: Verification) -> list[list[str]]:
    """Return the theorem's bounds as texts, with a header."""
    columns = f"regret bound, K = {found.episodes:,}", "violation bound", "K H", "below K H from K: regret", "violation"
    lines = [["problem", *columns]]
    for each in found.bounds:
        numbers = [short_number(each[key]) for key in ("regret", "violation", "trivial")]
        begins = [each["regret_from"], each["violation_from"]]
        lines.append([each["problem"], *numbers, *("beyond 1e60" if k is None else f"{k:,}" for k in begins)])
    return lines


def coverage_cells(study: CoverageStudy) -> list[list[str]]:
    """Return the counts of optimistic runs as texts: a header, one line for each problem, and the sum."""
    lines = [["problem", "runs", "optimistic", "two-sided", "guaranteed", "95% interval"]]
    parts = [(part.problem, part.optimism, part.two_sided) for part in study.problems]
    for name, row, both in [*parts, ("all", study.row, sum(both for _, _, both in parts))]:
        lines.append([name, str(row.runs), str(row.held), str(both), f"{row.guaranteed:.4g}", _interval(row)])
    return lines


def needed_cells(study: CoverageStudy) -> list[list[str]]:
    """Return the share of the bonus that was needed at each stage, as texts with a header; the last stage apart."""
    lines = [["problem", "needed, by stage", "largest", "last stage"]]
    for part in study.problems:
        *before, last = ["-" if share is None else f"{share:.2f}" for share in part.needed]
        most = part.needed_before_last
        lines.append([part.problem, " ".join(before) or "-", "-" if most is None else f"{most:.2f}", last])
    return lines


def markdown_verification(found: Verification) -> str:
    """Return the tables of checks and bounds, and how many checks passed, as Markdown."""
    text = _markdown(check_cells(found), left=2)
    if found.bounds:
        text += "\n" + _markdown(bounds_cells(found), left=1)
    return f"{text}\n{_FAILED if found.failed else closing_line(found)}\n"


def markdown_coverage(study: CoverageStudy) -> str:
    """Return the tables of coverage as Markdown."""
    return _markdown(coverage_cells(study), left=1) + "\n" + _markdown(needed_cells(study), left=1)


def _interval(row: Row) -> str:
    low, high = row.interval
    return f"{low:.3f} - {high:.3f}"


def _markdown(lines: Sequence[Sequence[str]], left: int) -> str:
    """Return lines as a Markdown table; the first `left` columns are texts."""
    header, *rest = lines
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    rows = [header, rule, *rest]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _table(lines: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> Table:
    """Return lines as a table; the first line is its header, and each other line may have a style."""
    header, *rest = lines
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(header[0])
    for words in header[1:]:
        table.add_column(words, justify="right")
    for i, cells in enumerate(rest):
        table.add_row(*cells, style=styles[i] if styles else "")
    return table

"""Regret and violation of every group of a problem, and the verdicts, for the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opdop.report.summary.groups import RealisedSection, Section
from opdop.report.summary.verdicts import verdicts

REALISED_NOTE = "The model is not known: these are realised totals per episode, averaged over all episodes."


def verdict_page(section: Section | RealisedSection) -> RenderableType:
    """Return a table with the metrics of every group, followed by one line for each verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("per episode", overflow="fold")
    for metric in section.metrics:
        table.add_column(f"{metric.name}\n{metric.unit}".rstrip(), justify="right")
    table.add_column("seeds", justify="right")
    for group in section.groups:
        values = [metric.text(group) for metric in section.metrics]
        table.add_row(group.label, *values, f"{len(group.runs)}")
    known = () if isinstance(section, Section) else (Text(REALISED_NOTE, style="yellow"), Text(""))
    lines = [
        Text(f"- {verdict.metric.name}: {verdict.words}", style="bold" if verdict.clear else "")
        for verdict in verdicts(section)
    ]
    return Lines(
        Text(section.name, style="bold cyan"), Text(""), table, Text(""), *known, *lines, *[Text("")] * bool(lines)
    )

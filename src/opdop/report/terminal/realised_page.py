"""The result of a run whose model is not known, for a terminal: realised totals, certificates and evaluations."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opdop.model.display import worth
from opdop.model.rounding import digits_for, plain, short_number
from opdop.report.summary.realised_summary import RealisedSummary
from opdop.report.summary.run_facts import constants_text
from opdop.report.summary.solution import better, duration, setting_text, sizes_text


def realised_page(summary: RealisedSummary) -> RenderableType:
    """Return the result of a run: its realised totals beside the limits, multipliers, constants and certificates."""
    run, config = summary.run, summary.run.config
    H, S, A = summary.shape
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="cyan", no_wrap=True)
    facts.add_column()
    for i, words in enumerate(multiplier_texts(summary)):
        facts.add_row("multiplier" if i == 0 else "", words)
    for label, words in (*summary.card.lines(), *evaluation_lines(summary)):
        facts.add_row(label, words)
    facts.add_row("algorithm", summary.method)
    facts.add_row("constants", constants_text(run.constants))
    pace = f"{summary.episodes:,} in {duration(run.seconds)}, {summary.episodes_per_second:,.0f} per second"
    facts.add_row("episodes", f"{pace}; seed {config.seed}")
    facts.add_row("size", sizes_text(S, A, H, len(summary.constraints)))
    settings = ", ".join(f"{key}={setting_text(value)}" for key, value in run.display.parameters.items())
    facts.add_row("parameters", settings or "none")
    about = [": ", run.display.summary] if run.display.summary else []
    gap = Text("")
    return Group(
        Text.assemble((run.display.name, "bold cyan"), *about),
        gap,
        _totals(summary),
        gap,
        Text(summary.verdict, style="bold"),
        *(Text(note, style="yellow") for note in summary.notes),
        gap,
        facts,
    )


def evaluation_lines(summary: RealisedSummary) -> list[tuple[str, str]]:
    """Return the fresh episodes of the final policy as lines of a label and a text; none if there were none."""
    found = summary.run.evaluation
    if found is None:
        return []
    return [("evaluation", f"{found.lead}:"), *(("", line) for line in found.lines)]


def multiplier_texts(summary: RealisedSummary) -> list[str]:
    """Return each multiplier over the run, in own units."""
    texts = []
    for i, limit in enumerate(summary.constraints):
        of = f"{limit.quantity.name}: " if len(summary.constraints) > 1 else ""
        late = worth(summary.reward, limit.quantity, summary.late_multiplier(i))
        final = short_number(limit.price(summary.final_multiplier(i))["own"])
        texts.append(f"{of}{late} (the learner's multiplier, average of the second half; {final} at its end)")
    return texts


def _totals(summary: RealisedSummary) -> Table:
    """Return the realised totals of all episodes and of the second half, and the learner's estimates, in own units."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("per episode,\nas realised")
    table.add_column("\nwanted", no_wrap=True)
    for head in ("all\nepisodes", "second half\nof the run", "learner's\nestimate"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("\nunit")
    wanted = ["least" if better(summary.reward) == "less" else "most", *(each.wanted for each in summary.constraints)]
    for j, quantity in enumerate(summary.run.display.quantities):
        digits = max(digits_for(summary.late_own(j)[1]), 1)
        shown = [
            plain(quantity.shown(float(summary.run.average.totals[j])), digits),
            summary.late_text(j),
            plain(quantity.shown(float(summary.estimates[j])), digits),
        ]
        table.add_row(quantity.name, wanted[j], *shown, quantity.unit)
    return table

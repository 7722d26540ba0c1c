"""The progress and the results of a sweep, for a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from opdop.model import Quantity
from opdop.model.rounding import number
from opdop.runs import RunConfig
from opdop.sweeps import Failure, SweepProgress, short_key

_MOST_LINES = 8  # for unfinished runs
_PLAIN_SECONDS = 30.0  # between two lines where there is no terminal


class SweepWatch:
    """Shows the progress of a sweep: on a terminal a bar and its unfinished runs, elsewhere a line every 30 seconds."""

    def __init__(self, console: Console) -> None:
        self.last: SweepProgress | None = None
        self._console = console
        self._live: Live | None = None
        self._said = time.monotonic()

    def __enter__(self) -> SweepWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: SweepProgress) -> None:
        """Show the progress and its notes."""
        self.last = progress
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, transient=True, refresh_per_second=4)
                self._live.start()
            self._live.update(view(progress))
        for note in progress.notes:
            self._console.print(Text(in_short(note, 200)), soft_wrap=True)
        if not self._console.is_terminal and time.monotonic() - self._said >= _PLAIN_SECONDS:
            self._said = time.monotonic()
            self._console.print(Text(counts(progress)), soft_wrap=True)


def counts(progress: SweepProgress) -> str:
    """Return the progress of a sweep in one line.

    >>> counts(SweepProgress(10, 3, 0, 1, (), 6.0, 75.0))
    '3 of 10 runs done, 0 running, 1 failed, about 1 min 15 s left'
    """
    left = "" if progress.seconds_left is None else f", about {clock(progress.seconds_left)} left"
    done = f"{progress.done} of {progress.total} runs done"
    return f"{done}, {len(progress.underway)} running, {progress.failed} failed{left}"


def clock(seconds: float) -> str:
    """Return a duration in words.

    >>> clock(7), clock(75), clock(7320)
    ('7 s', '1 min 15 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def view(progress: SweepProgress) -> RenderableType:
    """Return the bar of a sweep and a line for each unfinished run."""
    bar = Table.grid(padding=(0, 1, 0, 0))
    ended = progress.done + progress.failed
    bar.add_row(ProgressBar(total=max(progress.total, 1), completed=ended, width=30), Text(counts(progress)))
    lines = Table.grid(padding=(0, 2, 0, 0))
    for each in progress.underway[:_MOST_LINES]:
        share = f"{100.0 * each.episode / max(each.episodes, 1):.0f} %"
        lines.add_row(Text(f"  {short_key(each.key)}"), Text(share, justify="right"), Text(clock(each.seconds)))
    more = len(progress.underway) - _MOST_LINES
    return Group(bar, lines, *([Text(f"  and {more} more")] if more > 0 else []))


def kinds_table(found: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    """Return a table with a row for each kind of run: means over its seeds, per episode, in the problem's own units.

    `found` maps keys to summaries of runs. Runs are of one kind if their configurations differ only in the seed.
    """
    table = _table("runs of", "seeds", "reward", "optimum", "violation", "hard")
    for group, runs in _kinds(found):
        reward, *utilities = runs[0]["quantities"]
        units = f"  in {reward['unit'] or reward['name']}; violation "
        if len(utilities) == 1:
            units += f"in {utilities[0]['unit'] or utilities[0]['name']}"
        else:
            units += f"of {', then '.join(each['name'] for each in utilities)}"
        table.add_row(Text(f"{group}\n{units}"), str(len(runs)), *_numbers(runs))
    return table


def _kinds(found: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the runs of each kind, with its name: the settings in which kinds of one group differ are part of it."""
    from opdop.report.summary.group_labels import differences, without_seed  # late: it is needed for these tables only

    kinds: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for about in found.values():
        same_name = kinds.setdefault(about["group"], {})
        same_name.setdefault(without_seed(RunConfig.of(about["config"])), []).append(about)
    named = []
    for name, groups in kinds.items():
        words = differences([RunConfig.of(runs[0]["config"]) for runs in groups.values()])
        named += [(", ".join([name, *each]), runs) for each, runs in zip(words, groups.values(), strict=True)]
    return named


def runs_table(found: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    """Return a table with a row for each run; `found` maps keys to summaries of runs."""
    table = _table("run", "reward", "optimum", "violation", "hard", "seconds")
    for key, about in found.items():
        table.add_row(Text(short_key(key)), *_numbers([about]), f"{about['seconds']:.2f}")
    return table


def realised_table(found: Mapping[str, Mapping[str, Any]], *, kinds: bool) -> RenderableType:
    """Return a table of runs whose model is not known: realised totals per episode beside limits, in own units.

    With `kinds` it has a row for each kind of run, with means over its seeds, otherwise one for each run.
    """
    rows = _kinds(found) if kinds else [(short_key(key), [about]) for key, about in found.items()]
    table = _table("runs of" if kinds else "run", "realised per episode", "seeds" if kinds else "seconds")
    for name, runs in rows:
        quantities = [Quantity(**quantity) for quantity in runs[0]["quantities"]]
        lines = []
        for j, quantity in enumerate(quantities):
            mean = number(quantity.shown(fmean(run["average"][j] for run in runs)), 2)
            limit = "" if j == 0 else f" ({quantity.constraint(runs[0]['thresholds'][j - 1])})"
            lines.append(f"{quantity.name} {mean} {quantity.unit}".rstrip() + limit)
        last = str(len(runs)) if kinds else f"{runs[0]['seconds']:.2f}"
        table.add_row(Text(name), Text("\n".join(lines), justify="left"), last)
    return table


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _numbers(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return reward, optimum, violation and hard violation of runs of one kind: per episode, means over the runs.

    If there are several constraints, each has a line of its own in the latter two, with its unit.
    """
    reward, *constrained = (Quantity(**quantity) for quantity in runs[0]["quantities"])
    best = runs[0]["optimum"]

    def each(name: str) -> str:
        lines = []
        for i, quantity in enumerate(constrained):
            if any(run[name][i] is None for run in runs):  # an earlier version has made the run
                continue
            mean = abs(quantity.scale) * fmean(run[name][i] / run["config"]["episodes"] for run in runs)
            lines.append(f"{number(mean)} {quantity.unit}".rstrip() if len(constrained) > 1 else number(mean))
        return "\n".join(lines)

    return [
        number(reward.shown(fmean(run["average"][0] for run in runs))),
        "" if best is None else number(reward.shown(best[0])),
        each("violations"),
        each("hard_violations"),
    ]


def in_short(text: str, most: int = 150) -> str:
    """Return a text as one line of limited length, without control characters.

    >>> in_short("one\\n  two three", 10)
    'one two...'
    """
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def failures_text(failed: Sequence[Failure], *, most: int = 20) -> Text:
    """Return the failed runs, each with its error."""
    lines = [
        f"failed: {each.key} ({each.tries} {'try' if each.tries == 1 else 'tries'}): {in_short(each.type)}: "
        + in_short(each.error)
        for each in failed[:most]
    ]
    if len(failed) > most:
        lines.append(f"and {len(failed) - most} more")
    return Text("\n".join(lines))

"""Bars for `opdop.train` and `opdop.sweep`: in a terminal, or in a notebook."""

from __future__ import annotations

import html
import importlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from rich.console import Console

from opdop.report.terminal.progress import WORTH_SHOWING, Watch, costs_so_far
from opdop.report.terminal.sweep_tables import SweepWatch, counts
from opdop.runs import Progress
from opdop.runs.progress import in_notebook
from opdop.sweeps import SweepProgress

_SECONDS = 0.25  # between two updates of a notebook


def bar(kind: str, *details: Any, always: bool = False) -> AbstractContextManager[Callable[[Any], None]]:
    """Return a bar for a run or a sweep, to be used as a context and called with its progress.

    Args:
        kind: "run" or "sweep".
        details: of a run, the quantities of its problem.
        always: whether it is shown at once, wherever the output goes; otherwise once the run has taken two seconds.
    """
    if in_notebook():
        return NotebookBar(kind, *details, after=0.0 if always else WORTH_SHOWING)
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, force_terminal=True if always else None)
    if kind == "run":
        return Watch(console, *details, at_once=always)
    return SweepWatch(console)


class NotebookBar:
    """A bar of HTML below a notebook's cell; it needs no widgets, and is removed at the end."""

    def __init__(self, kind: str, *details: Any, after: float) -> None:
        self._kind, self._details, self._after = kind, details, after
        self._began = time.monotonic()
        self._updated = -_SECONDS
        self._handle: Any = None

    def __enter__(self) -> NotebookBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._show("")

    def __call__(self, progress: Progress | SweepProgress) -> None:
        """Show the progress, a few times a second, once the run has lasted long enough."""
        now = time.monotonic()
        if now - self._began < self._after or now - self._updated < _SECONDS:
            return
        self._updated = now
        if isinstance(progress, Progress):
            done, total = progress.episode, progress.episodes
            words = f"{done:,} of {total:,} episodes"
            about = str(costs_so_far(progress, *self._details))
        else:
            done, total, words, about = progress.done + progress.failed, progress.total, counts(progress), ""
        lines = "<br>".join(html.escape(line) for line in (words, *about.splitlines()))
        self._show(f'<progress value="{done}" max="{total}" style="width:20em"></progress> {lines}')

    def _show(self, text: str) -> None:
        display = importlib.import_module("IPython.display")  # there is one where a notebook's kernel runs
        content = display.HTML(text)
        if self._handle is None:
            self._handle = display.display(content, display_id=True)
        else:
            self._handle.update(content)

"""The progress of a run on a terminal: its episodes, regret, violation and multipliers so far."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from opdop.model import Quantity
from opdop.model.rounding import number, short_number
from opdop.runs import Progress

# A run gets a bar if it is expected to take WORTH_SHOWING seconds, which is estimated after KNOWN_AFTER seconds.
WORTH_SHOWING, KNOWN_AFTER = 2.0, 0.5


class Watch:
    """Shows the progress of a run on a terminal, and nothing elsewhere; pass it to `train` as `progress`."""

    def __init__(self, console: Console, quantities: Sequence[Quantity], *, at_once: bool = False) -> None:
        self.episode: int | None = None  # the latest that was reported
        self._console, self._quantities = console, quantities
        self._began, self._first, self._at_once = 0.0, 0, at_once
        self._bar = Bar(
            TextColumn("learning"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("episodes,"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
        )
        self._task = self._bar.add_task("")
        self._live: Live | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Take note of the progress, and show it."""
        now = time.monotonic()
        if self.episode is None:
            self._began, self._first = now, progress.episode
        self.episode = progress.episode
        if not self._console.is_terminal:
            return
        self._bar.update(self._task, completed=progress.episode, total=progress.episodes)
        if self._live is None and (self._at_once or self._is_long(progress, now - self._began)):
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        if self._live is not None:
            self._live.update(Group(self._bar, costs_so_far(progress, self._quantities)))

    def _is_long(self, progress: Progress, seconds: float) -> bool:
        """Whether the whole run takes long enough for a bar."""
        done, left = progress.episode - self._first, progress.episodes - progress.episode
        return seconds >= KNOWN_AFTER and seconds * (1.0 + left / max(done, 1)) >= WORTH_SHOWING


def costs_so_far(progress: Progress, quantities: Sequence[Quantity]) -> Text:
    """Return regret, the violation of each constraint, and the multipliers so far, in own units.

    >>> reward, constrained = Quantity("revenue", "dollars", scale=2.0), Quantity("orders", "orders", scale=-4.0)
    >>> import numpy as np
    >>> print(costs_so_far(Progress(10, 100, 5.0, 1.0, 2.0, np.array([3.0])), [reward, constrained]))
    per episode: regret 1.0000 dollars, violation 0.4000 orders, hard 0.8000
    multiplier 1.5
    >>> print(costs_so_far(Progress(10, 100, 5.0, 1.0, 2.0, np.array([3.0]), 0.25, True), [reward, constrained]))
    per episode: regret 1.0000 dollars, violation 0.4000 orders, hard 0.8000
    multiplier 1.5
    certified gap 0.5000 dollars; the recommended policy keeps every constraint
    """
    reward, *constrained = quantities
    duals = [
        short_number(float(dual) * abs(reward.scale) / abs(quantity.scale))
        for dual, quantity in zip(progress.dual, constrained, strict=True)
    ]
    words = f"{'multiplier' if len(duals) == 1 else 'multipliers'} {', '.join(duals)}{_certified(progress, reward)}"
    if math.isnan(progress.regret):  # the model is not known
        return Text(words)
    regret = f"{number(progress.regret * abs(reward.scale) / progress.episode)} {reward.unit}".rstrip()
    each, hard = progress.violations, progress.hard_violations
    if each is None or hard is None:  # of one constraint
        each, hard = np.array([progress.violation]), np.array([progress.hard_violation])
    costs = [f"regret {regret}"]
    for quantity, *totals in zip(constrained, each, hard, strict=False):
        cancels, never = (number(float(total) * abs(quantity.scale) / progress.episode) for total in totals)
        of = f" of {quantity.name}" if len(constrained) > 1 else ""
        costs.append(f"violation{of} {cancels} {quantity.unit}".rstrip() + f", hard {never}")
    return Text(f"per episode: {', '.join(costs)}\n{words}")


def _certified(progress: Progress, reward: Quantity) -> str:
    """Return the certified gap so far, in own units; empty before the first certificate."""
    if not math.isfinite(progress.certified_gap):
        return ""
    gap = f"{number(progress.certified_gap * abs(reward.scale))} {reward.unit}".rstrip()
    kept = "keeps every constraint" if progress.keeps_constraints else "is not certified to keep every constraint"
    return f"\ncertified gap {gap}; the recommended policy {kept}"

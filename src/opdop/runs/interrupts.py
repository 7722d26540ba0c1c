"""Ctrl-C and SIGTERM, which take effect between episodes, after everything has been saved."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

_PATIENCE = 2.0  # seconds before a second signal takes effect; launchers often send two together


class Interrupts:
    """While this is active, a signal only sets `pending`; calling `answer` or leaving the block lets it take effect.

    A second signal has the effect that it has outside of the block, though not within two seconds of the first: so a
    program that waits for something that never comes can be ended. Signals that were ignored before stay ignored.
    """

    def __init__(self) -> None:
        self.pending: int | None = None
        self._since = 0.0
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None  # repeats a second signal that came too soon

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN and before is not None:  # None: not Python's to give back
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        if self._timer is not None:
            self._timer.cancel()
        if kind is None:
            self.answer()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending is None:
            self.pending, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > _PATIENCE:
            self._give_back()
            signal.raise_signal(number)
        elif self._timer is None:
            left = self._since + _PATIENCE - time.monotonic()
            self._timer = threading.Timer(left + 0.1, os.kill, (os.getpid(), number))
            self._timer.daemon = True
            self._timer.start()

    def answer(self) -> None:
        """Leave as the signal asks: KeyboardInterrupt for Ctrl-C, exit status 143 for SIGTERM."""
        if self.pending == signal.SIGINT:
            raise KeyboardInterrupt
        if self.pending == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)

"""Ctrl-C and SIGTERM, taken note of and answered between episodes, when everything is in order."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While this is active, a signal only raises `pending`; `answer` then does what the signal asks for."""

    def __init__(self) -> None:
        self.pending: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pending = number

    def answer(self) -> None:
        """Leave as the signal asks: KeyboardInterrupt for Ctrl-C, exit status 143 for SIGTERM."""
        if self.pending == signal.SIGINT:
            raise KeyboardInterrupt
        if self.pending == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)

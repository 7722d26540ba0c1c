"""Try many cases in child processes, so that a crash or a hang of one case is counted and the others go on."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

FINE = ("right", "refused")  # the right result, or one clear error
BAD = ("traceback", "wrong", "lost", "crash", "hang")
_EXAMPLES = 12  # kept of each bad outcome
_START_SECONDS = 180.0  # for a child to get ready: the first one compiles


class Wrong(Exception):
    """A probe has found a wrong result."""


class Lost(Exception):
    """A probe has found that saved data are gone."""


@dataclass
class Tally:
    """How the cases of one attack ended."""

    name: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, outcome: str, detail: str = "") -> None:
        """Count one case."""
        self.outcomes[outcome] += 1
        kept = self.examples.setdefault(outcome, [])
        if outcome in BAD and len(kept) < _EXAMPLES:
            kept.append(detail)

    @property
    def tried(self) -> int:
        """The number of cases tried."""
        return self.outcomes.total()

    @property
    def bad(self) -> int:
        """The number of cases that ended as none may."""
        return sum(self.outcomes[name] for name in BAD)


def hunt(name: str, cases: int, seconds: float, *, workers: int = 2, patience: float = 30.0) -> Tally:
    """Try cases 0, 1, ... of the module attack.NAME until `cases` are done or `seconds` are over.

    The module has `prepare(folder) -> state`, called once in each child, and `probe(state, i)`: it returns "right" or
    "refused", or raises. An OpdopError counts as refused. A child that takes more than `patience` seconds for one case
    is killed and the case counted as a hang; one that dies is counted as a crash.
    """
    tally, began = Tally(name), time.monotonic()
    context = multiprocessing.get_context("spawn")
    children: dict[Connection, _Child] = {}
    coming = iter(range(cases))

    def start() -> None:
        child = _Child(name, context)
        children[child.pipe] = child

    def feed(child: _Child) -> None:
        over = time.monotonic() - began > seconds
        child.case = None if over else next(coming, None)
        child.since = time.monotonic()
        with contextlib.suppress(OSError):  # it has died; the wait below tells
            child.pipe.send(child.case)
        if child.case is None:
            child.end()
            del children[child.pipe]

    for _ in range(workers):
        start()
    while children:
        for pipe in wait(list(children), timeout=0.5):
            child = children[pipe]  # type: ignore[index]
            try:
                said = child.pipe.recv()
            except (EOFError, OSError):
                child.process.join(10.0)
                if child.case is None:
                    tally.add("crash", f"while getting ready, exit code {child.process.exitcode}")
                    coming = iter(())
                else:
                    tally.add("crash", f"case {child.case}: exit code {child.process.exitcode}")
                child.end()
                del children[child.pipe]
                if child.case is not None:
                    start()
                continue
            if said is not None:
                tally.add(*said)
            feed(child)
        for child in list(children.values()):
            limit = _START_SECONDS if child.case is None else patience
            if time.monotonic() - child.since > limit:
                tally.add("hang", f"case {child.case}: more than {limit:g} s")
                was = child.case
                child.end()
                del children[child.pipe]
                if was is not None:
                    start()
    tally.seconds = time.monotonic() - began
    return tally


class _Child:
    """One child process and the case that it works on."""

    def __init__(self, name: str, context: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.case: int | None = None
        self.since = time.monotonic()
        self.process = context.Process(target=_serve, args=(name, theirs), daemon=False)
        self.process.start()
        theirs.close()

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.join(0.5)
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.join()
        self.pipe.close()


def _serve(name: str, pipe: Connection) -> None:
    """Answer cases until there are no more."""
    from opdop.model import OpdopError

    module = importlib.import_module(f"attack.{name}")
    with tempfile.TemporaryDirectory() as folder:
        state = module.prepare(Path(folder))
        pipe.send(None)
        while (case := pipe.recv()) is not None:
            try:
                outcome, detail = module.probe(state, case), ""
            except OpdopError as error:
                outcome, detail = judge_message(str(error))
            except Wrong as error:
                outcome, detail = "wrong", str(error)
            except Lost as error:
                outcome, detail = "lost", str(error)
            except BaseException:  # that is what is looked for
                outcome, detail = "traceback", traceback.format_exc()
            pipe.send((outcome, f"case {case}: {detail}"))


def judge_message(message: str) -> tuple[str, str]:
    """Return "refused" for an error that a terminal can show in a line; anything else is as bad as a traceback."""
    if not message.strip() or not all(letter.isprintable() or letter == "\n" for letter in message):
        return "traceback", f"the message is {message!r}"
    return "refused", ""

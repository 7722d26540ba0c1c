"""How long the first run on a new machine compiles, and which kernels take the time: new processes, empty caches."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import tempfile
import time

from numba.core import event

from opdop.__main__ import main as opdop

RUNS = (
    ("counts", ["factored", "--episodes", "1000"]),
    ("LSTD", ["random-mixture", "--algorithm", "opdop-lstd", "--episodes", "100"]),
    ("continuous states", ["reservoir", "--episodes", "20"]),
)
SHOWN = 6


class Clock(event.Listener):
    """Adds up the time that Numba compiles each function, without what it calls."""

    def __init__(self) -> None:
        self.own: collections.Counter[str] = collections.Counter()
        self._open: list[list[float]] = []

    def on_start(self, event: event.Event) -> None:
        """Take the time at which Numba begins with a function."""
        self._open.append([time.process_time(), 0.0])

    def on_end(self, event: event.Event) -> None:
        """Add the time of a function that Numba has compiled."""
        began, inside = self._open.pop()
        spent = time.process_time() - began
        self.own[event.data["dispatcher"].py_func.__qualname__] += spent - inside
        if self._open:
            self._open[-1][1] += spent


def child(arguments: list[str]) -> None:
    """Run `opdop run` in this process; print the compiler's time by kernel on standard error."""
    clock = Clock()
    event.register("numba:compile", clock)
    sys.argv = ["opdop", "run", *arguments]
    try:
        opdop()
    except SystemExit as ended:
        if ended.code:
            raise
    whole = time.process_time()
    largest = ", ".join(f"{name} {seconds:.1f}" for name, seconds in clock.own.most_common(SHOWN))
    compiling = sum(clock.own.values())
    print(
        f"{whole:.1f} s of the processor, {compiling:.1f} of them compiling (aim: 8); most: {largest}", file=sys.stderr
    )


def main() -> None:
    """Print one line for each kind of run, with a cache of its own."""
    for name, arguments in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.bench_cold", *arguments]
            done = subprocess.run(
                command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, capture_output=True, text=True, check=True
            )
        print(f"  {name}: {done.stderr.strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    child(sys.argv[1:])

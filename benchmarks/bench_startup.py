"""How long the program and the package take to start: medians of several new processes.

They keep Python's bytecode, as on a user's machine, whatever PYTHONDONTWRITEBYTECODE is here.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

REPEATS = 9
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
RUN = ["-m", "opdop", "run", "factored", "--episodes", "1000"]
STARTS = (
    ("python, nothing imported", ["-c", "pass"], None),
    ("import opdop", ["-c", "import opdop"], 0.6),
    ("opdop --help", ["-m", "opdop", "--help"], 0.5),
    ("opdop run --help", ["-m", "opdop", "run", "--help"], None),
    ("opdop solve factored", ["-m", "opdop", "solve", "factored"], None),
    ("opdop run factored", RUN, 1.2),
)
IMPORTS = f"""
import sys, time
from importlib import _bootstrap

load, clocks, spent, depth = _bootstrap._find_and_load, (time.perf_counter, time.process_time), [0.0, 0.0], 0

def measured(*arguments):
    global depth
    began, depth = [clock() for clock in clocks], depth + 1
    try:
        return load(*arguments)
    finally:
        depth -= 1
        if depth == 0:
            spent[:] = [total + clock() - start for total, clock, start in zip(spent, clocks, began)]

_bootstrap._find_and_load = measured
from opdop.__main__ import main

sys.argv = ["opdop", *{RUN[2:]!r}]
try:
    main()
except SystemExit:
    pass
print(*spent, file=sys.stderr)
"""


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Return the wall-clock time of one new Python process, and that of the processor."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.perf_counter() - began, busy


def import_seconds() -> tuple[float, float]:
    """Return the same of all imports of a run."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    wall, busy = done.stderr.split()[-2:]
    return float(wall), float(busy)


def show(name: str, measured: list[tuple[float, float]], aim: float | None) -> None:
    """Print the medians."""
    wall, busy = (statistics.median(times) for times in zip(*measured, strict=True))
    print(f"  {name:26} {wall:.2f} s, {busy:.2f} s of the processor" + (f" (aim: below {aim} s)" if aim else ""))


def main() -> None:
    """Print the medians of all starts."""
    print(f"median of {REPEATS} new processes, after one that fills the caches")
    for name, arguments, aim in STARTS:
        seconds(arguments)
        show(name, [seconds(arguments) for _ in range(REPEATS)], aim)
    show("  of which imports", [import_seconds() for _ in range(REPEATS)], 0.6)

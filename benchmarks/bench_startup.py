"""How long the program and the package take to start: medians of several new processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

REPEATS = 9
STARTS = (
    ("python, nothing imported", ["-c", "pass"], None),
    ("import opdop", ["-c", "import opdop"], 0.6),
    ("opdop --help", ["-m", "opdop", "--help"], 0.5),
    ("opdop run --help", ["-m", "opdop", "run", "--help"], None),
    ("opdop solve factored", ["-m", "opdop", "solve", "factored"], None),
)


def seconds(arguments: list[str]) -> float:
    """Return the wall-clock time of one new Python process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    print(f"median of {REPEATS} new processes, after one that fills the caches")
    for name, arguments, aim in STARTS:
        seconds(arguments)
        median = statistics.median(seconds(arguments) for _ in range(REPEATS))
        print(f"  {name:26} {median:.2f} s" + (f" (aim: below {aim} s)" if aim is not None else ""))

"""How long the program and the package take to start: medians of several new processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

REPEATS = 9
RUN = ["-m", "opdop", "run", "factored", "--episodes", "1000"]
STARTS = (
    ("python, nothing imported", ["-c", "pass"], None),
    ("import opdop", ["-c", "import opdop"], 0.6),
    ("opdop --help", ["-m", "opdop", "--help"], 0.5),
    ("opdop run --help", ["-m", "opdop", "run", "--help"], None),
    ("opdop solve factored", ["-m", "opdop", "solve", "factored"], None),
    ("opdop run factored", RUN, 1.2),
)


def seconds(arguments: list[str]) -> float:
    """Return the wall-clock time of one new Python process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def import_seconds(arguments: list[str]) -> float:
    """Return the time that one new Python process spends in imports, as `-X importtime` reports it."""
    command = [sys.executable, "-X", "importtime", *arguments]
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    lines = [line.removeprefix("import time:").split("|")[0] for line in told.splitlines() if "|" in line]
    return sum(int(own) for own in lines if own.strip().isdigit()) / 1e6


def main() -> None:
    print(f"median of {REPEATS} new processes, after one that fills the caches")
    for name, arguments, aim in STARTS:
        seconds(arguments)
        median = statistics.median(seconds(arguments) for _ in range(REPEATS))
        print(f"  {name:26} {median:.2f} s" + (f" (aim: below {aim} s)" if aim is not None else ""))
    median = statistics.median(import_seconds(RUN) for _ in range(REPEATS))
    print(f"  {'  of which imports':26} {median:.2f} s (aim: below 0.6 s)")

"""The speed of sweeps: two workers against one, the overhead of a run, memory, and reading 1,000 runs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import opdop
from benchmarks.memory import peak_bytes
from opdop.sweeps import key_of
from opdop.sweeps.store import MANIFEST, Store, write_json

ROOT = Path(__file__).resolve().parent.parent
EPISODES, SEEDS = 200_000, 32  # long enough that starting the processes, which is counted too, matters little
TINY = 200


def timed_sweep(spec: dict[str, Any], workers: int, folder: Path) -> tuple[opdop.Sweep, float]:
    """Return a sweep and the seconds it took, including the start of its processes."""
    began = time.perf_counter()
    sweep = opdop.sweep(spec, folder, workers=workers)
    return sweep, time.perf_counter() - began


def speed(folder: Path) -> None:
    """Print the runs per minute of one and of two workers, including the start of the processes."""
    spec = {"episodes": EPISODES, "seeds": SEEDS, "problem": "media-streaming"}
    rates = []
    for workers in (1, 2):
        sweep, seconds = timed_sweep(spec, workers, folder / f"speed{workers}")
        rates.append(60.0 * SEEDS / seconds)
        own = sweep.table()["seconds"].sum()
        print(
            f"  {workers} worker{'s' if workers > 1 else ' '}: {rates[-1]:.1f} runs per minute; {SEEDS} runs of "
            f"{EPISODES} episodes in {seconds:.2f} s, of which the runs themselves {own:.2f} s",
            flush=True,
        )
    print(f"  2 workers / 1 worker = {rates[1] / rates[0]:.2f} (aim 1.8, on an idle machine with 2 cores)", flush=True)


def together() -> None:
    """Print the speed of `train_many` with two workers against one: the median of ratios that were measured in turn."""
    ratios = []
    for _ in range(3):
        seconds = []
        for workers in (1, 2):
            began = time.perf_counter()
            opdop.train_many("media-streaming", seeds=8, workers=workers, episodes=EPISODES, records=10)
            seconds.append(time.perf_counter() - began)
        ratios.append(seconds[0] / seconds[1])
    print(
        f"  train_many, 8 seeds of {EPISODES:,} episodes: {seconds[0]:.2f} s with 1 worker, {seconds[1]:.2f} s with 2; "
        f"2 workers / 1 worker = {sorted(ratios)[1]:.2f} (aim 1.8, on an idle machine with 2 cores)",
        flush=True,
    )


def overhead(folder: Path) -> None:
    """Print the overhead of a run in a sweep, from many tiny ones, without the start of the process."""
    spec = {"episodes": TINY, "problem": "factored"}
    times = {}
    for seeds in (50, 250):
        sweep, times[seeds] = timed_sweep({**spec, "seeds": seeds}, 1, folder / f"overhead{seeds}")
    own = float(sweep.table()["seconds"].mean())  # type: ignore[arg-type]
    each = (times[250] - times[50]) / 200
    print(
        f"  a run of {TINY} episodes takes {each * 1e3:.1f} ms in a sweep and {own * 1e3:.1f} ms by itself: "
        f"overhead {(each - own) * 1e3:.1f} ms (aim 50)",
        flush=True,
    )


def memory(seeds: int) -> None:
    """Print the peak memory of this process after a sweep of many tiny runs."""
    with tempfile.TemporaryDirectory() as folder:
        opdop.sweep({"episodes": TINY, "seeds": seeds, "problem": "factored"}, folder, workers=1)
    print(peak_bytes())


def memory_of(seeds: int) -> float:
    """Return the same, in MB, of a new process."""
    command = [sys.executable, "-m", "benchmarks.bench_sweep", "memory", str(seeds)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout) / 1e6


def reading(folder: Path) -> None:
    """Print how long it takes to read 1,000 runs into one table, with and without their summaries in a file."""
    spec = opdop.Spec.of({"episodes": 1000, "seeds": 1000, "problem": "factored"})
    first = opdop.sweep({"episodes": 1000, "seeds": 1, "problem": "factored"}, folder / "one", workers=1)
    store = Store(folder / "many")
    ((_, made),) = first.runs()
    for job in spec.jobs():
        replace(made, config=job).save(store.run(key_of(job)))
    write_json(store.folder / MANIFEST, {**first.manifest, "spec": spec.record()})
    for label in ("no summaries yet", "summaries there"):
        for what in ("table", "histories"):
            began = time.perf_counter()
            table = getattr(opdop.Sweep.open(store.folder), what)()
            print(
                f"  {what} of 1,000 runs, {label}: {len(table)} rows in {time.perf_counter() - began:.2f} s", flush=True
            )


def main() -> None:
    opdop.train("media-streaming", episodes=100)  # compile
    opdop.train("factored", episodes=100)
    together()
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder))
        overhead(Path(folder))
        reading(Path(folder))
    few, many = (memory_of(seeds) for seeds in (100, 400))
    print(f"  peak memory of the parent: {few:.1f} MB for 100 runs, {many:.1f} MB for 400")


if __name__ == "__main__":
    memory(int(sys.argv[2])) if sys.argv[1:2] == ["memory"] else main()

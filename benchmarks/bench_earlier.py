"""OPDOP's default preset against its first edition, as both were then: the code of an earlier commit, run in turn."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EARLIER = "74092b8"  # the last commit before the second edition of `practical`
PROBLEMS = (("media-streaming", 30_000), ("random-tabular", 60_000), ("gridworld", 4_000), ("factored", 60_000))
ROUNDS = 3
TIMED = f"""
import opdop
for name, episodes in {PROBLEMS!r}:
    cmdp = opdop.make(name)
    plan = {{"episodes": episodes, "measure_every": episodes, "records": 10}}
    times = [opdop.train(cmdp, "opdop", **plan).seconds for _ in range(6)]  # the first compiles
    print(min(times[1:]) / episodes)
"""


def unpacked(commit: str, folder: Path) -> Path:
    """Return the package's folder of a commit, written into a folder."""
    archive = folder / "commit.tar"
    subprocess.run(["git", "archive", "-o", archive, commit, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def seconds(package: Path) -> list[float]:
    """Return the seconds of an episode of each problem, in a new process with the package of a folder."""
    surroundings = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-c", TIMED], env=surroundings, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print the times of an episode of both, the best of several processes in turn."""
    print(f"\nOPDOP `practical` against the first edition in commit {EARLIER} (almost no policy is measured, one core)")
    with tempfile.TemporaryDirectory() as folder:
        try:
            packages = unpacked(EARLIER, Path(folder)), ROOT / "src"
        except (OSError, subprocess.CalledProcessError):
            print("  not measured: this needs git and the history of the repository")
            return
        found = [[seconds(package) for package in packages] for _ in range(ROUNDS)]
    best = [[min(times) for times in zip(*each, strict=True)] for each in zip(*found, strict=True)]
    for (name, _), then, now in zip(PROBLEMS, *best, strict=True):
        print(f"  {name}: {then * 1e6:.2f} -> {now * 1e6:.2f} us/episode, ratio {now / then:.2f} (aim: at most 1.2)")


if __name__ == "__main__":
    main()

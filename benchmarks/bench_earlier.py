"""OPDOP against the code of an earlier commit, run in turn: the default preset, and a large size."""

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
LARGE = 3_000  # episodes at the large size
ROUNDS = 3
TIMED = f"""
import sys
import numpy as np
import opdop
from scipy import sparse
for name, episodes in {PROBLEMS!r}:
    cmdp = opdop.make(name)
    plan = {{"episodes": episodes, "measure_every": episodes, "records": 10}}
    times = [opdop.train(cmdp, "opdop", **plan).seconds for _ in range(6)]  # the first compiles
    print(min(times[1:]) / episodes)

first_edition, (S, A, H) = sys.argv[1], (100, 10, 20)
rng = np.random.default_rng(0)
dense = rng.dirichlet(np.ones(S), size=(H, S, A))
few = np.argpartition(rng.random((S * A, S)), 5)[:, :5]
thin = np.zeros((S * A, S))
np.put_along_axis(thin, few, rng.dirichlet(np.ones(5), size=S * A), axis=1)
for kernel, signals in ((dense, (H, S, A)), (sparse.csr_array(thin), (S, A))):
    cmdp = opdop.TabularCMDP(kernel, rng.random(signals), rng.random(signals), 0.5 * H, horizon=H)
    for every in (1, {LARGE}):
        plan = {{"episodes": {LARGE}, "measure_every": every, "records": 10, "preset": first_edition}}
        print(min(opdop.train(cmdp, "opdop", **plan).seconds for _ in range(3)) / {LARGE})
"""
LARGE_NAMES = [
    f"first edition, S100 A10 H20, {model}, {job}"
    for model in ("dense", "5 successors")
    for job in ("learning and measuring", "learning only")
]
NAMES = [*(f"practical, {name}" for name, _ in PROBLEMS), *LARGE_NAMES]
AIMS = [1.2] * len(PROBLEMS) + [1.0] * len(LARGE_NAMES)


def unpacked(commit: str, folder: Path) -> Path:
    """Return the package's folder of a commit, written into a folder."""
    archive = folder / "commit.tar"
    subprocess.run(["git", "archive", "-o", archive, commit, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def seconds(package: Path, first_edition: str) -> list[float]:
    """Return the seconds of an episode of each line, in a new process with the package of a folder."""
    surroundings, command = os.environ | {"PYTHONPATH": str(package)}, [sys.executable, "-c", TIMED, first_edition]
    done = subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print the times of an episode of both, the best of several processes in turn."""
    print(f"\nOPDOP against commit {EARLIER} (one core; with `practical` almost no policy is measured)")
    with tempfile.TemporaryDirectory() as folder:
        try:
            packages = (unpacked(EARLIER, Path(folder)), "practical"), (ROOT / "src", "scaled")  # its name then and now
        except (OSError, subprocess.CalledProcessError):
            print("  not measured: this needs git and the history of the repository")
            return
        found = [[seconds(*package) for package in packages] for _ in range(ROUNDS)]
    best = [[min(times) for times in zip(*each, strict=True)] for each in zip(*found, strict=True)]
    for name, aim, then, now in zip(NAMES, AIMS, *best, strict=True):
        print(
            f"  {name}: {then * 1e6:.2f} -> {now * 1e6:.2f} us/episode, ratio {now / then:.2f} (aim: at most {aim:g})"
        )


if __name__ == "__main__":
    main()

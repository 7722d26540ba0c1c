"""Algorithm 1 with counts against a naive compiled loop of the same job: the standard to beat at every size."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from benchmarks import naive_loop
from benchmarks.bench_learn import dense_model
from opdop.algorithms import BallRadius, WeissmanRadius
from opdop.model import TabularCMDP
from opdop.runs import train

SIZES = (((4, 2, 4), 1.0, 200_000), ((10, 4, 10), 1.5, 30_000), ((20, 4, 10), 2.0, 15_000), ((30, 3, 10), 2.0, 10_000))
RULES = (("bonuses", WeissmanRadius()), ("confidence balls, preset certified", BallRadius()))
REPEATS = 5
PROCESSES = 7
ROOT = Path(__file__).resolve().parent.parent


def learner(cmdp: TabularCMDP, rule: Any, episodes: int) -> opdop.OPDOP:
    """Return a new learner with the steps of `certified` and a confidence rule."""
    task = opdop.Task.of(cmdp, episodes=episodes)
    return opdop.OPDOP.preset(task, opdop.Counts(task, radius=rule), "certified")


def run_naive(cmdp: TabularCMDP, rule: Any, episodes: int, seed: int = 0) -> dict[str, Any]:
    """Run the naive loop with the constants and the random numbers of `train`; return its numbers and its seconds."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    ours = learner(cmdp, rule, episodes)
    P = np.ascontiguousarray(cmdp.transitions.rows.reshape(H, S, A, S))
    totals, dual, occupancy = np.empty((episodes, 2)), np.empty(episodes), np.zeros((H, S, A))
    generator = np.random.default_rng(seed)
    began = time.perf_counter()
    uniforms = generator.random((episodes, 1 + 2 * H))
    balls = isinstance(rule, BallRadius)
    loop = naive_loop.run_balls if balls else naive_loop.run_bonuses
    widths = rule.log_sets(ours.task)[0] if balls else ours.evaluator.radii
    steps = ours.step_size, ours.dual_step_size, ours.mixing, ours.dual_bound
    loop(P, cmdp.signals, float(cmdp.thresholds[0]), uniforms, *steps, widths, totals, dual, occupancy)
    return {"totals": totals, "dual": dual, "occupancy": occupancy, "seconds": time.perf_counter() - began}


def rates(cmdp: TabularCMDP, rule: Any, episodes: int, repeats: int = REPEATS) -> tuple[float, float]:
    """Return episodes per second of `train` and of the naive loop: medians of runs that take turns."""
    train(cmdp, learner(cmdp, rule, 100), episodes=100)  # both compile
    run_naive(cmdp, rule, 100)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(episodes / train(cmdp, learner(cmdp, rule, episodes), episodes=episodes, records=10).seconds)
        theirs.append(episodes / run_naive(cmdp, rule, episodes)["seconds"])
    return statistics.median(ours), statistics.median(theirs)


def print_rates() -> None:
    """Print the rates of all rules and sizes, for `main`."""
    print(json.dumps([[rates(dense_model(*sizes), rule, n) for sizes, _, n in SIZES] for _, rule in RULES]))


def main() -> None:
    """Print the ratios in several processes: where the code lies in memory changes its speed by up to a third."""
    command = [sys.executable, "-c", "from benchmarks.bench_naive import print_rates; print_rates()"]
    found = []
    for _ in range(PROCESSES):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout))
    for r, (text, _) in enumerate(RULES):
        print(f"\n{text}: episodes/s of opdop and of the naive loop (every episode measured; medians of {PROCESSES}")
        print(f"processes, each with the median of {REPEATS} runs; in brackets the least and the largest ratio)")
        for s, (sizes, aim, _) in enumerate(SIZES):
            ours, theirs = (statistics.median(each[r][s][k] for each in found) for k in range(2))
            ratios = sorted(each[r][s][0] / each[r][s][1] for each in found)
            name = "S{} A{} H{}".format(*sizes)
            print(
                f"  {name:11} opdop {ours:9,.0f}  naive {theirs:9,.0f}  ratio {statistics.median(ratios):5.2f} "
                f"[{ratios[0]:.2f}, {ratios[-1]:.2f}] (aim: {aim})",
                flush=True,
            )


if __name__ == "__main__":
    main()

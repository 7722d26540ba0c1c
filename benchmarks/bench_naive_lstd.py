"""Algorithm 1 with least squares against a naive compiled loop of the same job: the standard to beat at every size."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import opdop
from benchmarks import naive_lstd
from opdop.model import TabularCMDP
from opdop.model.features import one_hot
from opdop.runs import train

REPEATS = 5


def mixture(states: int, stages: int, dimension: int) -> TabularCMDP:
    """Return random-mixture with three actions."""
    return opdop.make("random-mixture", states=states, actions=3, stages=stages, dimension=dimension)


def one_hot_model(states: int = 8, stages: int = 5) -> TabularCMDP:
    """Return random-tabular with three actions and one-hot features."""
    cmdp = opdop.make("random-tabular", states=states, actions=3, stages=stages)
    return cmdp.with_features(one_hot(states, 3))


def cases() -> list[tuple[str, TabularCMDP, int, str]]:
    """Return the problems, with episodes and aims."""
    return [
        ("random-mixture S20 A3 H5 d4", mixture(20, 5, 4), 20_000, "before 31 us"),
        ("one-hot S8 A3 H5", one_hot_model(), 20_000, "before 29 us"),
        ("random-mixture S100 A3 H4 d5", mixture(100, 4, 5), 10_000, "aim: 20,000/s"),
    ]


def learner(cmdp: TabularCMDP, episodes: int, preset: str = "scaled") -> opdop.OPDOP:
    """Return a new learner with the constants of a preset."""
    return opdop.OPDOP.preset(opdop.Task.of(cmdp, episodes=episodes), opdop.LSTD, preset)


def lists_by_pair(cmdp: TabularCMDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return psi as starts, successors and weights of rows (x*A + a)*d + i; the kernels' lists are by i, then by a."""
    form, S, A = cmdp.features.form, cmdp.num_states, cmdp.num_actions
    by_pair = np.arange(A * S).reshape(A, S).T.ravel()
    begins, ends = form.starts[:, by_pair].T.ravel(), form.starts[:, by_pair + 1].T.ravel()
    starts = np.concatenate([[0], np.cumsum(ends - begins)])
    entries = np.repeat(begins - starts[:-1], ends - begins) + np.arange(starts[-1])
    return starts, form.successors[entries].astype(np.int64), form.psi[entries]


def run_naive(cmdp: TabularCMDP, episodes: int, seed: int = 0, *, compiled: bool = True) -> dict[str, Any]:
    """Run the naive loop with the constants and the random numbers of `train`; return its numbers and its seconds.

    compiled=False runs it as plain Python: for a few episodes that takes less time than compiling it.
    """
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    ours = learner(cmdp, episodes)
    P = np.ascontiguousarray(cmdp.dense().transitions.rows.reshape(H, S, A, S))
    psi = () if cmdp.features.form is None else (lists_by_pair(cmdp), cmdp.features.signal_features())
    loop = naive_lstd.run_lists if psi else naive_lstd.run_one_hot
    loop = loop if compiled else loop.py_func
    constants = ours.step_size, ours.dual_step_size, ours.mixing, ours.dual_bound
    evaluator = tuple(ours.evaluator.radii), ours.evaluator.ridge
    totals, dual, occupancy = np.empty((episodes, 2)), np.empty(episodes), np.zeros((H, S, A))
    generator = np.random.default_rng(seed)
    began = time.perf_counter()
    uniforms = generator.random((episodes, 1 + 2 * H))
    threshold = float(cmdp.thresholds[0])
    loop(P, cmdp.signals, *psi, threshold, uniforms, *constants, *evaluator, totals, dual, occupancy)
    return {"totals": totals, "dual": dual, "occupancy": occupancy, "seconds": time.perf_counter() - began}


def rates(cmdp: TabularCMDP, episodes: int, repeats: int = REPEATS) -> tuple[float, float]:
    """Return episodes per second of `train` and of the naive loop: medians of runs that take turns."""
    train(cmdp, learner(cmdp, 100), episodes=100)  # both compile
    run_naive(cmdp, 100)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(episodes / train(cmdp, learner(cmdp, episodes), episodes=episodes, records=10).seconds)
        theirs.append(episodes / run_naive(cmdp, episodes)["seconds"])
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    """Print the ratios."""
    print(f"\nleast squares, preset scaled: episodes/s of opdop and of the naive loop (median of {REPEATS} runs)")
    for name, cmdp, episodes, aim in cases():
        ours, theirs = rates(cmdp, episodes)
        print(
            f"  {name:28} opdop {ours:7,.0f} ({1e6 / ours:.1f} us)  naive {theirs:7,.0f} ({1e6 / theirs:.1f} us)  "
            f"ratio {ours / theirs:5.2f} (aim: at least 1; {aim})",
            flush=True,
        )

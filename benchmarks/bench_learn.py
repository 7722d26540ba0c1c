"""OPDOP with counts: against plain NumPy, against the machine's limit, memory, and cost along a run."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from numba import njit
from scipy import sparse

import opdop
from benchmarks import numpy_counts
from benchmarks.memory import peak_bytes
from opdop.kernels import loops
from opdop.model import TabularCMDP
from opdop.runs import train


def dense_model(S: int, A: int, H: int, seed: int = 0) -> TabularCMDP:
    """Return a model in which every transition is possible, with kernels of their own at every stage."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(H, S, A))
    return TabularCMDP(P, rng.random((H, S, A)), rng.random((1, H, S, A)), 0.5 * H)


def sparse_model(S: int, A: int, H: int, successors: int = 5, seed: int = 0) -> TabularCMDP:
    """Return a stationary model with a few successors for every pair."""
    rng = np.random.default_rng(seed)
    where = np.argpartition(rng.random((S * A, S)), successors)[:, :successors] if S <= 4000 else None
    if where is None:
        where = rng.integers(0, S, (S * A, successors))
    P = rng.dirichlet(np.ones(successors), S * A)
    starts = np.arange(0, S * A * successors + 1, successors)
    matrix = sparse.csr_array((P.ravel(), where.ravel(), starts), shape=(S * A, S))
    return TabularCMDP(matrix, rng.random((S, A)), rng.random((S, A)), 0.5 * H, horizon=H)


def compiled_seconds(cmdp: TabularCMDP, episodes: int, repeats: int) -> float:
    """Return seconds per episode of a fresh run, the best of several; every episode measured."""
    train(cmdp, episodes=20, records=10)  # compile
    return min(train(cmdp, episodes=episodes, records=10).seconds for _ in range(repeats)) / episodes


def numpy_seconds(cmdp: TabularCMDP, episodes: int, repeats: int) -> float:
    """Return seconds per episode of the plain NumPy version on the same problem with the same constants."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    learner = opdop.OPDOP.preset(opdop.Task.of(cmdp, episodes=episodes), opdop.Counts, "practical")
    names = ("step_size", "dual_step_size", "mixing", "dual_bound")
    constants = {name: getattr(learner, name) for name in names}
    constants |= {"radii": learner.evaluator.radii, "ridge": 1.0}
    P = np.ascontiguousarray(cmdp.transitions.rows.reshape(H, S, A, S))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        numpy_counts.run(P, cmdp.signals, cmdp.thresholds, 0, episodes, constants)
        times.append(time.perf_counter() - began)
    return min(times) / episodes


def against_numpy() -> None:
    """Print the ratio to plain NumPy."""
    print("\nagainst plain vectorised NumPy (fresh runs, every episode measured exactly, one core)")
    for S, A, H, episodes, slow_episodes, aim in ((20, 4, 10, 20_000, 500, 50), (100, 10, 20, 2_000, 40, 15)):
        cmdp = dense_model(S, A, H)
        ours = compiled_seconds(cmdp, episodes, 3)
        theirs = numpy_seconds(cmdp, slow_episodes, 3)
        print(
            f"  S{S} A{A} H{H}: opdop {ours * 1e6:8.1f} us/episode, NumPy {theirs * 1e6:9.1f} us/episode, "
            f"ratio {theirs / ours:6.1f} (aim: at least {aim})"
        )


@njit(fastmath=True)
def stream(counts, kernel):  # pragma: no cover - compiled
    """Read every count and every probability once: what an episode cannot do without."""
    total = 0
    for n in range(counts.shape[0]):
        total += counts[n]
    weight = 0.0
    for n in range(kernel.shape[0]):
        weight += kernel[n]
    return total + weight


def filled_learner(cmdp: TabularCMDP, per_cell: int) -> opdop.OPDOP:
    """Return a learner that has seen every possible transition, `per_cell` times on average."""
    learner = opdop.OPDOP.preset(opdop.Task.of(cmdp, episodes=100_000), opdop.Counts, "practical")
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    rng = np.random.default_rng(1)
    possible = np.stack([np.asarray(cmdp.dense().transition_matrix(h)) > 0.0 for h in range(H)])  # [H, S*A, S]
    row, successor = np.nonzero(possible.reshape(H, S, A, S).swapaxes(1, 2).reshape(H * A * S, S))
    seen = rng.integers(1, 2 * per_cell, row.size)
    counts = learner.evaluator
    visits = counts.arrays.visits
    visits.touched[:] = True
    visits.number[:] = np.bincount(row, seen, H * S * A).reshape(H, S * A)
    visits.sums[:] = visits.number * 0.5
    visits.inverse[:] = 1.0 / (visits.number + visits.ridge)
    visits.width[:] = np.sqrt(visits.inverse)
    counts._counts = counts._stored(visits, row, successor, seen)
    return learner


def episode_seconds(cmdp: TabularCMDP, learner: opdop.OPDOP, episodes: int, measure_every: int) -> float:
    """Return seconds per episode in the compiled loop, the best of several pieces."""
    simulator = opdop.ModelSimulator(cmdp, seed=0)
    model = loops.Model(cmdp.transitions, cmdp.signals, cmdp.initial, False)
    occupancy, waiting = np.zeros(learner.policy.shape), np.empty((8, *np.swapaxes(learner.policy, 1, 2).shape))
    best = np.inf
    for attempt in range(7):
        count = 8 if attempt == 0 else episodes
        uniforms = simulator.draw(count)
        record = loops.Record(
            totals=np.empty((count, 2)),
            estimates=np.empty((count, 2)),
            dual=np.empty((count, 1)),
            first=0,
            measure_every=measure_every,
            waiting=waiting,
            occupancy=occupancy,
        )
        began = time.perf_counter()
        learner.run_compiled(model, uniforms, record)
        if attempt:
            best = min(best, (time.perf_counter() - began) / count)
    return best


def against_the_limit() -> None:
    """Print the ratio to a probe that streams the same tables once for each episode."""
    print("\nagainst the limit: streaming the tables once an episode (S100 A10 H20)")
    S, A, H = 100, 10, 20
    counts = np.ones(H * S * A * S, dtype=np.int32)
    kernel = np.full(H * S * A * S, 0.5)
    nothing = np.empty(0)
    probes = {}
    for name, tables in (("counts", (counts, nothing)), ("counts and kernel", (counts, kernel))):
        stream(*tables)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            stream(*tables)
            times.append(time.perf_counter() - began)
        probes[name] = min(times)
        print(f"  probe, {name}: {probes[name] * 1e6:8.1f} us")
    dense, thin = dense_model(S, A, H), sparse_model(S, A, H)
    for text, cmdp, every, probe, aim in (
        ("dense, learning and measuring", dense, 1, "counts and kernel", "at most 2"),
        ("dense, learning only", dense, 0, "counts", "at most 2"),
        ("5 successors, learning and measuring", thin, 1, "counts and kernel", "below 1"),
        ("5 successors, learning only", thin, 0, "counts", "below 1"),
    ):
        seconds = episode_seconds(cmdp, filled_learner(cmdp, 20), 64, every)
        print(f"  {text}: {seconds * 1e6:8.1f} us/episode, {seconds / probes[probe]:5.2f} of the probe (aim: {aim})")


def memory() -> None:
    """Print the peak memory of a large sparse problem, in a process of its own."""
    print("\nmemory: S2000 A5 H20, 5 successors, 20,000 episodes")
    print(subprocess.run([sys.executable, "-m", "benchmarks.bench_learn", "memory"], check=True, text=True,
                         capture_output=True).stdout, end="")  # fmt: skip


def memory_child() -> None:
    """Run the large problem and print what it took."""
    cmdp = sparse_model(2000, 5, 20)
    run = train(cmdp, episodes=20_000, records=100)
    peak = peak_bytes() / 1e9
    table = 20 * 2000 * 5 * 2000 * 4 / 1e9
    print(
        f"  peak {peak:.2f} GB with Python and the compiler (aim: below 1; a dense table alone: {table:.1f} GB), "
        f"{20_000 / run.seconds:.0f} episodes/s"
    )


def flatness() -> None:
    """Print the cost of the last tenth of a long run against the first tenth."""
    print("\ncost along a run: 1,000,000 episodes, S20 A4 H10 dense, every episode measured")
    cmdp = dense_model(20, 4, 10)
    train(cmdp, episodes=100, records=10)
    marks: list[tuple[int, float]] = []
    train(
        cmdp,
        episodes=1_000_000,
        records=10,
        piece=10_000,
        progress=lambda at: marks.append((at.episode, time.perf_counter())),
    )
    episode, seconds = np.array(marks).T
    steps = np.diff(seconds) / np.diff(episode)
    first, last = np.median(steps[: len(steps) // 10]), np.median(steps[-len(steps) // 10 :])
    print(
        f"  first tenth {first * 1e6:.2f} us/episode, last tenth {last * 1e6:.2f}, ratio {last / first:.3f} "
        "(aim: at most 1.2)"
    )


def main() -> None:
    against_numpy()
    against_the_limit()
    memory()
    flatness()


if __name__ == "__main__" and sys.argv[1:] == ["memory"]:
    memory_child()

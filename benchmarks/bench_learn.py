"""Time and memory of OPDOP with counts: against plain NumPy, against the memory bandwidth, and along a run."""

from __future__ import annotations

import sys
import time

import numpy as np
from numba import njit

import opdop
from benchmarks import numpy_counts
from benchmarks.memory import peak_bytes, run_in_own_process
from benchmarks.models import sparse_kernel
from benchmarks.timing import best_seconds, print_cost_along_a_run, seconds_per_episode
from opdop.kernels import loops
from opdop.model import TabularCMDP
from opdop.runs import train


def dense_model(S: int, A: int, H: int, seed: int = 0) -> TabularCMDP:
    """Return a model in which every transition is possible; each stage has its own kernel."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(H, S, A))
    return TabularCMDP(P, rng.random((H, S, A)), rng.random((1, H, S, A)), 0.5 * H)


def sparse_model(S: int, A: int, H: int, successors: int = 5, seed: int = 0) -> TabularCMDP:
    """Return a stationary model with a few next states for each state and action."""
    rng = np.random.default_rng(seed)
    # Distinct next states, unless drawing them would take S x S numbers for each action of a large model.
    distinct = np.argpartition(rng.random((S * A, S)), successors)[:, :successors] if S <= 4000 else None
    matrix = sparse_kernel(rng, S, A, successors, distinct)
    return TabularCMDP(matrix, rng.random((S, A)), rng.random((S, A)), 0.5 * H, horizon=H)


def numpy_seconds(cmdp: TabularCMDP, episodes: int, repeats: int) -> float:
    """Return seconds per episode of the plain NumPy version on the same problem with the same constants."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    learner = opdop.OPDOP.preset(opdop.Task.of(cmdp, episodes=episodes), opdop.Counts, "practical")
    names = ("step_size", "dual_step_size", "mixing", "dual_bound")
    constants = {name: getattr(learner, name) for name in names}
    constants |= {"radii": learner.evaluator.radii, "ridge": 1.0}
    P = np.ascontiguousarray(cmdp.transitions.rows.reshape(H, S, A, S))
    return (
        best_seconds(lambda: numpy_counts.run(P, cmdp.signals, cmdp.thresholds, 0, episodes, constants), repeats)
        / episodes
    )


def against_numpy() -> None:
    """Print the time of an episode against plain NumPy."""
    print("\nagainst plain vectorised NumPy (new runs, every episode measured exactly, one core)")
    for S, A, H, episodes, slow_episodes, aim in ((20, 4, 10, 20_000, 500, 50), (100, 10, 20, 2_000, 40, 15)):
        cmdp = dense_model(S, A, H)
        ours = seconds_per_episode(cmdp, "opdop", episodes)
        theirs = numpy_seconds(cmdp, slow_episodes, 3)
        print(
            f"  S{S} A{A} H{H}: opdop {ours * 1e6:8.1f} us/episode, NumPy {theirs * 1e6:9.1f} us/episode, "
            f"ratio {theirs / ours:6.1f} (aim: at least {aim})"
        )


@njit(fastmath=True)
def stream(counts, kernel):  # pragma: no cover - compiled
    """Read every count and every probability once: the least that an episode has to do."""
    total = 0
    for n in range(counts.shape[0]):
        total += counts[n]
    weight = 0.0
    for n in range(kernel.shape[0]):
        weight += kernel[n]
    return total + weight


@njit(fastmath=True)
def multiply(counts, values, totals, times):  # pragma: no cover - compiled
    """Multiply counts [y, pair] that stay near by the values of two signals [2, y]: no table is read."""
    for _ in range(times):
        for y in range(0, counts.shape[0], 4):
            a0, a1, a2, a3 = values[0, y], values[0, y + 1], values[0, y + 2], values[0, y + 3]
            b0, b1, b2, b3 = values[1, y], values[1, y + 1], values[1, y + 2], values[1, y + 3]
            for pair in range(counts.shape[1]):
                m0, m1 = float(counts[y, pair]), float(counts[y + 1, pair])
                m2, m3 = float(counts[y + 2, pair]), float(counts[y + 3, pair])
                totals[0, pair] += m0 * a0 + m1 * a1 + m2 * a2 + m3 * a3
                totals[1, pair] += m0 * b0 + m1 * b1 + m2 * b2 + m3 * b3


@njit(fastmath={"contract"})
def look_up(starts, successors, counts, values, totals):  # pragma: no cover - compiled
    """Look up two values [2, y] for each entry of the lists of all pairs, and add up their products with the counts."""
    for pair in range(starts.shape[0] - 1):
        first, second = 0.0, 0.0
        for entry in range(np.uint64(starts[pair]), np.uint64(starts[pair + 1])):
            y = np.uint32(successors[entry])
            first += counts[entry] * values[0, y]
            second += counts[entry] * values[1, y]
        totals[0, pair % totals.shape[1]], totals[1, pair % totals.shape[1]] = first, second


def arithmetic_seconds(S: int, A: int, H: int, successors: int) -> dict[str, float]:
    """Return the time of an episode's sums over successors alone: from a table that stays near, and from lists."""
    near, rng = np.ones((8, S * A), dtype=np.int32), np.random.default_rng(0)
    values, totals = rng.random((2, S)), np.zeros((2, S * A))
    starts = np.arange(H * S * A + 1) * successors
    chosen, counts = rng.integers(0, S, starts[-1]).astype(np.int32), np.full(starts[-1], 20.0)
    probes = {
        "multiplications alone": lambda: multiply(near, values[:, :8].copy(), totals, H * S // 8),
        "lookups alone": lambda: look_up(starts, chosen, counts, values, totals),
    }
    for action in probes.values():
        action()  # compiles
    return {name: best_seconds(action, 30) for name, action in probes.items()}


def filled_learner(cmdp: TabularCMDP, times: int) -> opdop.OPDOP:
    """Return a learner that has observed every possible transition `times` times."""
    task = opdop.Task.of(cmdp, episodes=100_000, stationary=False)  # counts of each stage, as the probe reads
    learner = opdop.OPDOP.preset(task, opdop.Counts, "practical")
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    possible = np.stack([np.asarray(cmdp.dense().transition_matrix(h)) > 0.0 for h in range(H)])  # [H, S*A, S]
    row, successor = np.nonzero(possible.reshape(H, S, A, S).swapaxes(1, 2).reshape(H * A * S, S))
    number = times * np.bincount(row, minlength=H * S * A).reshape(H, S * A).astype(float)
    state = learner.evaluator.state()
    observed = {
        "row": row,
        "successor": successor.astype(np.int32),
        "seen": np.full(row.size, times, dtype=np.int32),
        "touched": np.ones((H, S), dtype=np.bool_),
        "number": number,
        "sums": np.broadcast_to(0.5 * number, state["sums"].shape).copy(),
    }
    learner.evaluator.restore({**state, **observed})
    return learner


def episode_seconds(cmdp: TabularCMDP, learner: opdop.OPDOP, episodes: int, measure_every: int) -> float:
    """Return seconds per episode in the compiled loop, the best of several calls."""
    simulator = opdop.ModelSimulator(cmdp, seed=0)
    model = loops.Model(cmdp.transitions, cmdp.signals, cmdp.initial, False)
    H, S, A = learner.policy.shape
    best = np.inf
    for attempt in range(8):
        uniforms = simulator.draw(episodes)
        record = loops.Record(
            totals=np.empty((episodes, 2)),
            estimates=np.empty((episodes, 2)),
            dual=np.empty((episodes, 1)),
            first=0,
            measure_every=measure_every,
            waiting=np.empty((8, H, A, S)),
            occupancy=np.zeros((H, S, A)),
        )
        began = time.perf_counter()
        done = learner.run_compiled(model, uniforms, record)
        if attempt > 1:  # the first call plays one episode only, and both touch memory for the first time
            best = min(best, (time.perf_counter() - began) / done)
    return best


def against_memory_bandwidth() -> None:
    """Print the time of an episode against that of reading the same tables from memory once."""
    print("\nagainst the memory bandwidth: reading the tables once for each episode (S100 A10 H20)")
    S, A, H = 100, 10, 20
    counts = np.ones(H * S * A * S, dtype=np.int32)
    kernel = np.full(H * S * A * S, 0.5)
    nothing = np.empty(0)
    probes = {}
    for name, tables in (("counts", (counts, nothing)), ("counts and kernel", (counts, kernel))):
        stream(*tables)
        probes[name] = best_seconds(lambda tables=tables: stream(*tables), 30)
        print(f"  probe, {name}: {probes[name] * 1e6:8.1f} us")
    for name, seconds in (arithmetic := arithmetic_seconds(S, A, H, 5)).items():
        print(f"  probe, {name}: {seconds * 1e6:8.1f} us")
    dense, thin = dense_model(S, A, H), sparse_model(S, A, H)
    for text, cmdp, every, probe, aim, other in (
        ("dense, learning and measuring", dense, 1, "counts and kernel", "at most 2", None),
        ("dense, learning only", dense, 0, "counts", "at most 2", "multiplications alone"),
        ("5 successors, learning and measuring", thin, 1, "counts and kernel", "below 1", None),
        ("5 successors, learning only", thin, 0, "counts", "below 1", "lookups alone"),
    ):
        seconds = episode_seconds(cmdp, filled_learner(cmdp, 20), 64, every)
        also = "" if other is None else f", {seconds / arithmetic[other]:.2f} of the {other}"
        print(
            f"  {text}: {seconds * 1e6:8.1f} us/episode, {seconds / probes[probe]:5.2f} of the probe (aim: {aim}){also}"
        )


def memory() -> None:
    """Print the peak memory of a large sparse problem."""
    print("\nmemory: S2000 A5 H20, 5 successors, 20,000 episodes", flush=True)
    run_in_own_process("benchmarks.bench_learn", "memory")


def memory_child() -> None:
    """Run the large problem and print its peak memory."""
    cmdp = sparse_model(2000, 5, 20)
    run = train(cmdp, episodes=20_000, records=100)
    peak = peak_bytes() / 1e9
    table = 20 * 2000 * 5 * 2000 * 4 / 1e9
    print(
        f"  peak {peak:.2f} GB with Python and the compiler (aim: below 1; a dense table alone: {table:.1f} GB), "
        f"{20_000 / run.seconds:.0f} episodes/s"
    )


def along_a_run() -> None:
    """Print the cost of the last tenth of a long run against the first tenth."""
    print("\ncost along a run: 1,000,000 episodes, S20 A4 H10 dense, every episode measured")
    print_cost_along_a_run(dense_model(20, 4, 10), "opdop", 1_000_000)


def main() -> None:
    against_numpy()
    against_memory_bandwidth()
    memory()
    along_a_run()


if __name__ == "__main__" and sys.argv[1:] == ["memory"]:
    memory_child()

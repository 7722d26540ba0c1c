"""Time and memory of OPDOP with least squares: against plain NumPy, by form of the features, and by S, d and k."""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from numba import njit
from scipy.sparse import csr_array

import opdop
from benchmarks import numpy_lstd
from benchmarks.memory import peak_bytes, run_in_own_process
from benchmarks.models import sparse_kernel
from benchmarks.timing import best_seconds, print_cost_along_a_run, seconds_per_episode
from opdop.model import TabularCMDP
from opdop.model.features import array, mixture, one_hot
from opdop.runs import train

LSTD = "opdop-lstd"


def steady_seconds_per_episode(cmdp: TabularCMDP, piece: int, pieces: int = 4) -> float:
    """Return seconds per episode in the fastest of several parts of a run, without the first part, which allocates."""
    marks: list[float] = []
    episodes = piece * (1 + pieces)
    train(cmdp, LSTD, episodes=episodes, piece=piece, progress=lambda _: marks.append(time.perf_counter()))
    return float(np.diff(marks).min()) / piece


def against_numpy() -> None:
    """Print the ratio to plain NumPy at S100 A3 H4 d5, for features that are mostly zero and for others."""
    print("\nagainst plain vectorised NumPy: S100 A3 H4 d5, every episode measured exactly, one core")
    model = opdop.make("random-mixture", states=100, actions=3, stages=4, dimension=5)
    S, A, H = model.num_states, model.num_actions, model.horizon
    psi = np.zeros((S, A, S, 5))
    for i in range(5):
        psi[..., i] = model.features.kernel(np.eye(5)[i]).toarray().reshape(S, A, S)
    varphi = model.features.signal_features()
    P = np.stack([model.dense().transition_matrix(h).reshape(S, A, S) for h in range(H)])
    learner = opdop.OPDOP.preset(opdop.Task.of(model, episodes=2000), opdop.LSTD, "practical")
    names = ("step_size", "dual_step_size", "mixing", "dual_bound")
    constants = {name: getattr(learner, name) for name in names} | {"radius": 0.5, "ridge": 1.0}
    plain = model.dense().with_features(array(psi, varphi))
    filled = np.random.default_rng(0).dirichlet(np.ones(S), (S, A, 5)).transpose(0, 1, 3, 2)
    full = model.dense().with_features(
        array(filled, varphi)
    )  # these features do not describe the model: they are for timing only
    models = {"mixture": model, "the same as an array": plain, "an array without zeros": full}
    theirs, ours = math.inf, dict.fromkeys(models, math.inf)
    for _ in range(6):  # in turn, so that another load on the machine slows down all of them
        plainly = best_seconds(
            lambda: numpy_lstd.run(P, model.signals, psi, varphi, model.thresholds, 0, 50, constants), 1
        )
        theirs = min(theirs, plainly / 50)
        for text, cmdp in models.items():
            ours[text] = min(ours[text], seconds_per_episode(cmdp, LSTD, 2000, 1))
    for text, cost in ours.items():
        print(
            f"  {text}: opdop {cost * 1e6:7.1f} us/episode ({1 / cost:6.0f}/s), NumPy {theirs * 1e6:8.1f} us/episode, "
            f"ratio {theirs / cost:6.1f} (aim: at least 50; 20,000/s)"
        )


def block_against_generic() -> None:
    """Print how much faster the block form of one-hot features is than the same features as a plain array."""
    print("\none-hot block form against the generic form: S8 A3 H5")
    cmdp = opdop.make("random-tabular", states=8, actions=3, stages=5)
    S, A = 8, 3
    psi = np.zeros((S, A, S, S * A * S))
    x, a, y = np.indices((S, A, S))
    psi[x, a, y, (x * A + a) * S + y] = 1.0
    block = seconds_per_episode(cmdp.with_features(one_hot(S, A)), LSTD, 2000)
    generic = seconds_per_episode(cmdp.with_features(array(psi, np.eye(S * A).reshape(S, A, -1))), LSTD, 30)
    print(
        f"  block {block * 1e6:.1f} us/episode, generic {generic * 1e6:.1f} us/episode, ratio {generic / block:.1f} "
        "(aim: at least 20)"
    )


def along_a_run() -> None:
    """Print the cost of an episode late in a run against that of an early one."""
    print("\ncost along a run: random-mixture S20 A3 H5 d4, 100,000 episodes")
    print_cost_along_a_run(opdop.make("random-mixture"), LSTD, 100_000)


@njit(fastmath={"reassoc", "contract"})
def look_up_all(starts, successors, psi, values, stages):
    """Add up psi V over all lists, once for each stage: the memory accesses of an evaluation without its arithmetic."""
    total = 0.0
    for _ in range(stages):
        for entry in range(starts[0, 0], starts[-1, -1]):
            y = np.uint32(successors[entry])
            total += psi[entry] * (values[y, 0] + values[y, 1])
    return total


def seconds_of_lookups(cmdp: TabularCMDP, repeats: int = 5) -> float:
    """Return the least time for the lookups of one evaluation: the values of both signals, once for each stage."""
    form, values = cmdp.features.form, np.ones((cmdp.num_states, 2))
    return best_seconds(lambda: look_up_all(form.starts, form.successors, form.psi, values, cmdp.horizon - 1), repeats)


def local_mixture(states: int) -> TabularCMDP:
    """Return a mixture whose next states are nearby, as in queues and maps. For timing only: no constraint binds."""
    A, H, d, successors, reach = 4, 10, 4, 5, 200
    rng = np.random.default_rng(0)

    def base() -> csr_array:
        steps = rng.integers(0, reach // successors, (states * A, successors)) + np.arange(
            0, reach, reach // successors
        )
        following = (np.repeat(np.arange(states), A)[:, None] + steps) % states
        return sparse_kernel(rng, states, A, successors, following)

    features = mixture([base() for _ in range(d)], rng.dirichlet(np.ones(d), (states, A)))
    reward, utility = rng.random((2, H, d))
    return opdop.LinearCMDP(features, rng.dirichlet(np.ones(d), H), reward, utility, 1e-3, 0).tabular()


def random_mixture(states: int) -> TabularCMDP:
    """Return a mixture whose next states are drawn from all states, so that most lookups miss the caches."""
    return opdop.make("random-mixture", states=states, actions=4, stages=10)


def in_states() -> None:
    """Print the cost by number of states, next to that of the lookups alone; with few states caches help both."""
    print("\ncost in the number of states (A4 H10 d4, 5 successors); probe: looking up both signals' V, nothing else")
    for text, build in (("anywhere", random_mixture), ("within 200 states", local_mixture)):
        print(f"  next states {text}")
        sizes = {1_000: 320, 10_000: 32, 100_000: 8}  # and episodes in a piece
        models = {states: build(states) for states in sizes}
        costs, probes = dict.fromkeys(sizes, math.inf), dict.fromkeys(sizes, math.inf)
        seconds_of_lookups(models[1_000], 1)  # compile
        for _ in range(3):  # in turn, so that another load on the machine slows down all sizes
            for states, piece in sizes.items():
                probes[states] = min(probes[states], seconds_of_lookups(models[states]))
                costs[states] = min(costs[states], steady_seconds_per_episode(models[states], piece))
        for states in sizes:
            cost, probe, fewer = costs[states], probes[states], states // 10
            grown = f"; times {cost / costs[fewer]:.1f}, probe {probe / probes[fewer]:.1f}" if fewer in sizes else ""
            print(
                f"    S{states}: {cost * 1e3:.2f} ms/episode, {cost / states * 1e9:.0f} ns per state, "
                f"{cost / probe:.2f} times the probe ({probe / states * 1e9:.0f}){grown}",
                flush=True,
            )


def in_dimensions() -> None:
    """Print the cost by number of dimensions."""
    print("\ncost in the number of dimensions (S200 A4 H10)")
    before = None
    for dimension in (4, 8, 16, 32):
        cmdp = opdop.make("random-mixture", states=200, actions=4, stages=10, dimension=dimension, share=0.95)
        cost = seconds_per_episode(cmdp, LSTD, 100, 4)
        growth = "" if before is None else f", {cost / before:.2f} times for twice the dimensions (quadratic: 4)"
        print(f"  d{dimension}: {cost * 1e6:.0f} us/episode{growth}")
        before = cost


def memory() -> None:
    """Print time and peak memory of the largest problem."""
    print("\nmemory: S100,000 A4 H10 d4, 5 successors", flush=True)
    run_in_own_process("benchmarks.bench_lstd", "memory")


def memory_child() -> None:
    """Run the largest problem and print its time and peak memory."""
    train(opdop.make("random-mixture", states=100, actions=4, stages=10), LSTD, episodes=5, records=2)  # compile
    cmdp = opdop.make("random-mixture", states=100_000, actions=4, stages=10)
    cost = train(cmdp, LSTD, episodes=8, records=2).seconds / 8
    peak = peak_bytes() / 1e9
    each = f"{cost * 1e3:.0f} ms/episode, {cost / 100_000 * 1e9:.0f} ns per state"
    print(f"  peak {peak:.2f} GB (aim: below 3), {each}")


def main() -> None:
    against_numpy()
    block_against_generic()
    along_a_run()
    in_states()
    in_dimensions()
    memory()


if __name__ == "__main__" and sys.argv[1:] == ["memory"]:
    memory_child()

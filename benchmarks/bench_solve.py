"""Time of the exact optimum: against HiGHS, against the backward passes that it makes, and at 100,000 states."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from benchmarks.memory import peak_bytes, run_in_own_process
from benchmarks.models import sparse_kernel
from benchmarks.timing import best_seconds
from opdop import Optimum, TabularCMDP, solve
from opdop.kernels import dynamic_programming
from opdop.planning.lp import maximise_reward, occupancy_program
from opdop.planning.optimum import ROUNDING

MEMORY_LIMIT = 2e9  # bytes, for the run at 100,000 states


def random_model(
    S: int, A: int, H: int, *, successors: int | None, stationary: bool, constraints: int = 1, seed: int = 0
) -> TabularCMDP:
    """Return a random model whose thresholds lie halfway between the greedy utilities and the max-slack policy's.

    With `successors` each state and action has that many next states; without, all states.
    """
    rng = np.random.default_rng(seed)
    L = 1 if stationary else H
    rewards, *utilities = rng.random((1 + constraints, L, S, A))
    if successors is None:
        transitions = rng.dirichlet(np.ones(S), (L, S, A))
        kernel = transitions[0] if stationary else transitions
    else:
        stages = [sparse_kernel(rng, S, A, successors) for _ in range(L)]
        kernel = stages[0] if stationary else stages
    horizon = H if stationary else None
    free = solve(TabularCMDP(kernel, rewards, utilities, np.full(constraints, 1e-6), horizon=horizon))
    thresholds = 0.5 * (free.unconstrained.utilities + free.slater.utilities)
    return TabularCMDP(kernel, rewards, utilities, thresholds, horizon=horizon)


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time of one call, which other load on the machine hardly changes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def backward_pass(cmdp: TabularCMDP, optimum: Optimum) -> None:
    """Make one backward pass at the optimal multiplier, as `solve` does."""
    weights, second = np.concatenate([[1.0], optimum.dual]), np.array([0.0, 1.0])
    slack = ROUNDING * cmdp.horizon * float(weights.sum())
    dynamic_programming.act_greedily(cmdp.transitions, cmdp.signals, cmdp.horizon, weights, second, slack)


def time_solve(cmdp: TabularCMDP, repeats: int) -> tuple[Optimum, float, float]:
    """Return the optimum, and the median times of `solve` and of one backward pass, measured in turn."""
    turns = []
    for _ in range(repeats):
        start = time.process_time()
        optimum = solve(cmdp)
        whole = time.process_time() - start
        turns.append((whole, seconds(lambda found=optimum: backward_pass(cmdp, found))))
    whole, one_pass = np.median(turns, axis=0)
    return optimum, float(whole), float(one_pass)


def compare(label: str, cmdp: TabularCMDP) -> None:
    """Print solve against HiGHS (its main program only) and against the backward passes that it makes."""
    optimum, whole, one_pass = time_solve(cmdp, 25)
    flow, inflow, signals = occupancy_program(cmdp)
    print(f"{label}: {flow.shape[1]} occupancies, {flow.shape[0]} flow equations; HiGHS ...", flush=True)
    value = float(signals[0] @ maximise_reward(flow, inflow, signals, cmdp.thresholds).x)
    highs = float(np.median([seconds(lambda: maximise_reward(flow, inflow, signals, cmdp.thresholds)) for _ in "123"]))
    difference = abs(value - optimum.value) / optimum.value
    print(
        f"  solve {whole * 1e3:.2f} ms in {optimum.passes} passes, HiGHS {highs:.2f} s: "
        f"{highs / whole:.0f} times faster (aim 100); values differ by {difference:.1e} relative"
    )
    ratio = whole / (optimum.passes * one_pass)
    print(f"  solve / ({optimum.passes} passes of {one_pass * 1e3:.3f} ms) = {ratio:.2f} (aim 1.5)", flush=True)


def several_constraints(S: int, A: int, H: int, numbers: range, models: int) -> None:
    """Print solve against a plain call of HiGHS, for several numbers of constraints: means over some models.

    HiGHS finds the optimal reward only; `solve` finds the Slater gap too, and a policy.
    """
    for I in numbers:
        times, difference, passes = [], 0.0, 0
        for seed in range(models):
            cmdp = random_model(S, A, H, successors=None, stationary=False, constraints=I, seed=seed)
            flow, inflow, signals = occupancy_program(cmdp)
            program = {"A_ub": -signals[1:], "b_ub": -cmdp.thresholds, "A_eq": flow, "b_eq": inflow}
            call = functools.partial(linprog, -signals[0], method="highs", **program)
            optimum = solve(cmdp)
            repeats = 5 if S < 50 else 2
            times.append((best_seconds(lambda: solve(cmdp), repeats), best_seconds(call, repeats)))  # noqa: B023
            difference = max(difference, abs(optimum.value + call().fun))
            passes += optimum.passes
        ours, highs = np.mean(times, axis=0) * 1e3
        print(
            f"  S{S} A{A} H{H}, {I} constraints: solve {ours:.2f} ms in {passes / models:.0f} passes, HiGHS "
            f"{highs:.2f} ms: {highs / ours:.1f} times faster (aim 1); values differ by {difference:.1e}",
            flush=True,
        )


def scale() -> None:
    """Solve a model of 100,000 states and print time, passes and the peak memory of this process."""
    S, A, H, successors = 100_000, 4, 50, 5
    print(f"scale: {S} states, {A} actions, {H} stages, {successors} successors, stationary, 1 constraint", flush=True)
    solve(random_model(3, 2, 2, successors=2, stationary=True))  # compile
    start = time.perf_counter()
    cmdp = random_model(S, A, H, successors=successors, stationary=True)
    print(f"  model made and its threshold chosen in {time.perf_counter() - start:.1f} s", flush=True)
    optimum, whole, one_pass = time_solve(cmdp, 1)
    peak = peak_bytes()
    print(
        f"  solved in {whole:.1f} s, {optimum.passes} passes of {one_pass:.2f} s "
        f"(ratio {whole / (optimum.passes * one_pass):.2f}, aim 1.5); value {optimum.value:.6f}, "
        f"multiplier {optimum.dual[0]:.4f}, utility {optimum.utility_values[0]:.6f} >= {cmdp.thresholds[0]:.6f}"
    )
    verdict = "within" if peak <= MEMORY_LIMIT else "BEYOND"
    print(f"  peak memory {peak / 1e9:.2f} GB, {verdict} the limit of {MEMORY_LIMIT / 1e9:.0f} GB", flush=True)


def main() -> None:
    print("compiling ...", flush=True)
    for successors in (None, 2):
        solve(random_model(3, 2, 2, successors=successors, stationary=False))
    print("several constraints against linprog(method='highs')")
    several_constraints(4, 2, 4, range(1, 7), models=5)
    several_constraints(12, 4, 10, range(1, 7), models=5)
    several_constraints(50, 5, 20, range(3, 4), models=1)
    compare("S50 A5 H20 dense", random_model(50, 5, 20, successors=None, stationary=False))
    compare("S200 A8 H20 sparse", random_model(200, 8, 20, successors=5, stationary=False))
    run_in_own_process("benchmarks.bench_solve", "scale")


if __name__ == "__main__":
    scale() if sys.argv[1:] == ["scale"] else main()

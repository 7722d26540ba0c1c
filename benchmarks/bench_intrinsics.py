"""What vector instructions gain (`opdop.kernels.simd` and `vectors`): each in its real use, against plain loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numba
import numpy as np

import opdop
from benchmarks.bench_learn import dense_model
from benchmarks.models import sparse_kernel
from opdop.kernels import counts, loops, simd, transitions
from opdop.kernels.evaluators import evaluate
from opdop.model import TabularCMDP
from opdop.runs import train

LEAST = 1.3  # an intrinsic stays only if plain Numba takes at least that many times as long
OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "_nrt": False}

Twins = tuple[Callable[..., Any], Callable[..., Any]]


def plain(function: Any) -> Any:
    """Return the plain loop beside an intrinsic, compiled as part of its callers."""
    return numba.njit(forceinline=True, **OPTIONS)(function)


def compiled(kernel: Any, **others: Any) -> Any:
    """Return a kernel compiled anew, with some of the functions that it calls replaced."""
    body = getattr(kernel, "py_func", kernel)
    return numba.njit(**OPTIONS)(FunctionType(body.__code__, {**body.__globals__, **others}, body.__name__))


def measuring(cmdp: TabularCMDP, name: str) -> Twins:
    """Return the measuring of eight policies as the library does it, and with the plain loop for one intrinsic."""
    model = loops.Model(cmdp.transitions, cmdp.signals, cmdp.initial, False)
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    policies = np.random.default_rng(0).dirichlet(np.ones(A), (simd.LANES, H, S)).transpose(0, 1, 3, 2).copy()
    room = np.zeros((H, S, A)), np.zeros((simd.LANES, 1 + cmdp.num_constraints))
    lanes, listed = loops.empty_lanes(model), isinstance(cmdp.transitions, transitions.Sparse)
    push = transitions._sparse_push_lanes if listed else transitions._dense_push_lanes

    def version(**others: Any) -> Callable[[], Any]:
        used = {key: value for key, value in others.items() if key in loops._measure.py_func.__globals__}
        measure = compiled(loops._measure, push_lanes=compiled(push, **others), **used)
        return lambda: measure(model, policies, 1.0, *room, simd.LANES, lanes)

    return version(), version(**{name: plain(getattr(simd, name))})


def evaluating(sizes: tuple[int, int, int]) -> Twins:
    """Return an evaluation from a table of counts in vectors of pairs, and the same formulas pair by pair."""
    cmdp = dense_model(*sizes)
    learner = opdop.OPDOP.preset(opdop.Task.of(cmdp, episodes=1000, stationary=False), opdop.Counts, "scaled")
    train(cmdp, learner, episodes=1000, records=10)
    evaluator, policy = learner.evaluator, np.ascontiguousarray(learner.policy.transpose(0, 2, 1))

    def version(**others: Any) -> Callable[[], Any]:
        average = compiled(counts.average, **others)
        two = compiled(counts._evaluate_two, **others)
        parts = {
            "_look_ahead_in_table": compiled(counts._look_ahead_in_table, _evaluate_two=two),
            "average_signals": compiled(counts.average_signals, average=average),
        }
        often = compiled(_evaluate_often, evaluate=compiled(counts._evaluate_table, **parts))
        return lambda: often(evaluator.arrays, policy, evaluator.q, evaluator.v)

    return version(), version(blocks=plain(_no_blocks))


def _evaluate_often(state: Any, policy: Any, q: Any, v: Any) -> None:
    """Evaluate a policy 100 times: a call from Python takes longer than a small evaluation."""
    for _ in range(100):
        evaluate(state, policy, q, v)


def _no_blocks(n: int) -> tuple[int, int]:
    """Return that no pair is computed in a vector."""
    return 0, 0


def random_problem(states: int, actions: int, stages: int, successors: int) -> TabularCMDP:
    """Return a problem with a few successors for each pair. For timing only: no constraint binds."""
    rng = np.random.default_rng(0)
    kernels = [sparse_kernel(rng, states, actions, successors) for _ in range(stages)]
    rewards, utilities = rng.random((2, stages, states, actions))
    return TabularCMDP(kernels, rewards, utilities, 1e-3, horizon=stages)


def cases() -> Iterator[tuple[str, str, Twins]]:
    """Yield intrinsics, their uses and the twins."""
    for sizes in ((4, 2, 4), (10, 4, 10), (20, 4, 10)):
        yield "vectors", "evaluating 100 policies, S{} A{} H{}".format(*sizes), evaluating(sizes)
    for sizes in ((8, 3, 5), (20, 4, 10), (100, 10, 20)):
        text = "measuring policies, S{} A{} H{}".format(*sizes)
        yield "add_four_scaled", f"{text} dense", measuring(random_problem(*sizes, sizes[0]).dense(), "add_four_scaled")
        yield "add_scaled", f"{text} dense", measuring(random_problem(*sizes, sizes[0]).dense(), "add_scaled")
        yield "add_scaled", f"{text}, 5 successors", measuring(random_problem(*sizes, 5), "add_scaled")


def seconds(twins: Twins, rounds: int = 100) -> list[float]:
    """Return the processor's time for one call of each twin: the best of rounds in which they take turns."""
    times: list[list[float]] = [[] for _ in twins]
    for twin in twins:
        twin()  # compile
    began = time.thread_time()
    twins[0]()
    calls = max(1, int(0.001 / (time.thread_time() - began)))
    for _ in range(rounds):
        for own, twin in zip(times, twins, strict=True):
            began = time.thread_time()
            for _ in range(calls):
                twin()
            own.append((time.thread_time() - began) / calls)
    return [min(own) for own in times]


def main() -> None:
    """Print the ratios."""
    print(f"\nplain Numba against vector instructions (an intrinsic stays if it saves {LEAST} times or more)")
    for name, use, twins in cases():
        ours, plainly = seconds(twins)
        print(
            f"  {name:15} {use:50} {ours * 1e6:9.2f} us, plain {plainly * 1e6:9.2f} us, ratio {plainly / ours:.2f}",
            flush=True,
        )

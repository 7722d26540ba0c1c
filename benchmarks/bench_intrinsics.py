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
from opdop.kernels import counts, loops, primal_dual, simd, transitions
from opdop.kernels.evaluators import evaluate
from opdop.kernels.primal_dual import improve_flat
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


def improving(sizes: tuple[int, int, int]) -> Twins:
    """Return 100 improvements of a policy in vectors of states, and the same formulas state by state."""
    S, A, H = sizes
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(A), (H, S)).transpose(0, 2, 1).copy()
    arguments = rng.random(2 * H * A * S), np.array([0.7]), 1e-6, 1e-3, np.ones((H, S), dtype=bool)

    def version(**others: Any) -> Callable[[], Any]:
        block = compiled(primal_dual._improve_block, _score=compiled(primal_dual._score, **others), **others)
        improve = compiled(primal_dual.improve_flat, _improve_states=_improved_in(block, **others))
        often, own, room = compiled(_improve_often, improve_flat=improve), policy.ravel(), np.empty((A, simd.LANES))
        return lambda: often(own, *arguments, room)

    alone = {"zeros": plain(_zero), "load_some": plain(_load_one), "store_some": plain(_store_one), "LANES": 1}
    return version(), version(**alone)


def _improved_in(block: Any, **others: Any) -> Any:
    return compiled(primal_dual._improve_states, _improve_block=block, **others)


def _improve_often(policy: Any, q: Any, dual: Any, step_size: float, mixing: float, touched: Any, room: Any) -> None:
    """Improve a policy 100 times."""
    for _ in range(100):
        improve_flat(policy, q, dual, step_size, mixing, touched, room)


def _zero() -> float:
    """Return 0 instead of a vector of zeros."""
    return 0.0


def _load_one(array: Any, at: int, count: int) -> float:
    """Return one number instead of some."""
    return array[at]  # type: ignore[no-any-return]


def _store_one(array: Any, at: int, value: float, count: int) -> None:
    """Write one number instead of some."""
    array[at] = value


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
        yield "vectors", "improving 100 policies, S{} A{} H{}".format(*sizes), improving(sizes)
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

"""Facts about sizes: what does not fit a task is refused before compiled code, and what cannot fit into memory at once.

Numba checks no index: before these checks, an evaluator of another task corrupted the memory of the process.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import opdop
from opdop.algorithms.sizes import check_loop, check_state
from opdop.kernels import loops
from opdop.model import InvalidModelError, InvalidParameterError

NUMBERS = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.01, "dual_bound": 4.0}


def model(horizon: int = 3, states: int = 4, actions: int = 2, constraints: int = 1) -> opdop.TabularCMDP:
    random = np.random.default_rng(7)
    sizes = horizon, states, actions
    kernel = random.dirichlet(np.ones(states), size=sizes)
    utilities = random.random((constraints, *sizes))
    return opdop.TabularCMDP(kernel, random.random(sizes), utilities, thresholds=np.full(constraints, 0.01))


def task(**sizes: int) -> opdop.Task:
    return opdop.Task.of(model(**sizes), episodes=10, slater_gap=0.1)


UNLIKE = {
    "more constraints": {"constraints": 9},
    "states and actions swapped": {"states": 2, "actions": 4},
    "the same product of stages and states": {"horizon": 4, "states": 3},
    "fewer stages": {"horizon": 2},
    "more states": {"states": 9},
    "more actions": {"actions": 3},
}


@pytest.mark.parametrize("evaluator", [opdop.Counts, opdop.LSTD])
@pytest.mark.parametrize("sizes", UNLIKE.values(), ids=UNLIKE.keys())
def test_an_evaluator_of_another_task_is_refused_either_way_round(evaluator: Any, sizes: dict[str, int]) -> None:
    for ours, theirs in ((task(), task(**sizes)), (task(**sizes), task())):
        with pytest.raises(InvalidParameterError, match="the evaluator is for another task: its "):
            opdop.OPDOP(ours, evaluator(theirs), **NUMBERS)


@pytest.mark.parametrize("sizes", UNLIKE.values(), ids=UNLIKE.keys())
def test_a_phase_of_doubling_with_an_evaluator_of_another_task_is_refused(sizes: dict[str, int]) -> None:
    other = task(**sizes)
    with pytest.raises(InvalidParameterError, match="is for another task"):
        opdop.Doubling(task(), lambda phase: opdop.OPDOP(phase, opdop.Counts(other), **NUMBERS))
    with pytest.raises(InvalidParameterError, match="is for another task"):
        opdop.Doubling(task(), lambda phase: opdop.OPDOP(other, opdop.Counts(other), **NUMBERS))


@pytest.mark.parametrize("sizes", UNLIKE.values(), ids=UNLIKE.keys())
def test_a_learner_is_not_trained_on_a_model_of_other_sizes(sizes: dict[str, int]) -> None:
    for compiled in (True, False):
        learner = opdop.OPDOP(task(), opdop.Counts(task()), **NUMBERS)
        with pytest.raises(InvalidParameterError, match="is for another task"):
            opdop.train(model(**sizes), learner, episodes=5, compiled=compiled)


@pytest.mark.parametrize("evaluator", [opdop.Counts, opdop.LSTD])
def test_an_evaluator_exchanged_after_construction_is_refused_before_compiled_code(evaluator: Any) -> None:
    learner = opdop.OPDOP(task(), evaluator(task()), **NUMBERS)
    learner.evaluator = evaluator(task(states=9))
    with pytest.raises(opdop.OpdopError):
        opdop.train(model(), learner, episodes=5)


def test_arrays_of_an_evaluator_are_compared_one_by_one() -> None:
    counts = opdop.Counts(task())
    arrays, q, v = counts.arrays, counts.q, counts.v
    check_state(arrays, q, v, task())
    with pytest.raises(InvalidModelError, match="expected"):
        check_state(arrays, q, v, task(constraints=2))
    with pytest.raises(InvalidModelError, match="expected"):
        check_state(arrays, q[:, :, :, :-1], v, task())


def test_models_uniforms_and_records_are_compared_with_the_task() -> None:
    cmdp, ours = model(), task()
    given = loops.Model(cmdp.transitions, cmdp.signals, cmdp.initial, False)
    uniforms = np.zeros((5, 1 + 2 * 3))
    record = loops.Record(
        totals=np.zeros((5, 2)),
        estimates=np.zeros((5, 2)),
        dual=np.zeros((5, 1)),
        first=0,
        measure_every=1,
        waiting=np.zeros((1, 3, 2, 4)),
        occupancy=np.zeros((3, 4, 2)),
    )
    check_loop(given, uniforms, record, ours)
    wrong = [
        (given._replace(initial=np.ones(3)), uniforms, record),
        (given._replace(signals=given.signals[:1]), uniforms, record),
        (given, uniforms[:, :-1], record),
        (given, uniforms, record._replace(totals=np.zeros((4, 2)))),
        (given, uniforms, record._replace(dual=np.zeros((5, 2)))),
        (given, uniforms, record._replace(occupancy=np.zeros((3, 2, 4)))),
        (given, uniforms, record._replace(waiting=np.zeros((1, 3, 4, 2)))),
    ]
    for arguments in wrong:
        with pytest.raises(InvalidModelError, match="expected"):
            check_loop(*arguments, ours)


def test_sizes_that_cannot_fit_are_refused_at_once_with_the_memory_they_need() -> None:
    """Margin: two seconds each, for what took 52 seconds and a MemoryError; a loaded machine needs less than one."""
    long = replace(task(), horizon=2 * 10**9)
    stationary = opdop.make("factored")
    for refused in (
        lambda: opdop.Counts(long),
        lambda: opdop.LSTD(long),
        lambda: opdop.TabularPolicy.uniform(2 * 10**9, 2, 2),
        lambda: opdop.LSTD(replace(task(), num_states=20_000, initial=np.eye(1, 20_000)[0])),
        lambda: opdop.solve(
            opdop.TabularCMDP(
                stationary.transition_matrix(0).reshape(3, 2, 3),
                stationary.signals[0, 0],
                stationary.signals[1, 0],
                thresholds=1.0,
                horizon=2 * 10**9,
            )
        ),
    ):
        began = time.monotonic()
        with pytest.raises(InvalidModelError, match=r"would take .* GB of memory; there are"):
            refused()
        assert time.monotonic() - began < 2.0


def test_numbers_of_numpy_are_taken_wherever_numbers_are() -> None:
    ours = opdop.Task(
        horizon=np.int64(3),
        num_states=np.int32(4),
        num_actions=np.int8(2),
        thresholds=np.array([0.01]),
        initial=np.eye(4)[0],
        episodes=np.uint16(10),
        failure_probability=np.float32(0.125),
        slater_gap=np.float64(0.1),
        noisy=np.bool_(False),
    )
    evaluator = opdop.Counts(ours, radius=np.float32(0.5), ridge=np.int64(1))
    learner = opdop.OPDOP(
        ours,
        evaluator,
        step_size=np.float32(0.5),
        dual_step_size=np.float64(0.1),
        mixing=np.float16(0.25),
        dual_bound=np.int64(4),
    )
    run = opdop.train(model(), learner, episodes=np.int64(3), seed=np.uint8(1), records=np.int16(5))
    assert run.episodes[-1] == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noisy": "no"}, "noisy is 'no' .str.; expected True or False"),
        ({"noisy": 1}, "noisy is 1 .int.; expected True or False"),
        ({"thresholds": -5}, "thresholds.0. is -5; expected 0 to H = 3"),
        ({"thresholds": [4.0]}, "thresholds.0. is 4; expected 0 to H = 3"),
        ({"episodes": 2**31}, "episodes is 2147483648"),
        ({"horizon": "3"}, "horizon is '3' .str."),
        ({"slater_gap": np.nan}, "slater_gap is nan"),
    ],
)
def test_a_task_refuses_what_it_cannot_mean(wrong: dict[str, Any], message: str) -> None:
    right = {"horizon": 3, "num_states": 2, "num_actions": 2, "thresholds": 1.0, "initial": [1.0, 0.0], "episodes": 9}
    opdop.Task(**right)
    with pytest.raises(opdop.OpdopError, match=message):
        opdop.Task(**{**right, **wrong})

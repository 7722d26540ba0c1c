"""Small problems on which learners are checked, each with what the learner is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from opdop.algorithms import Task
from opdop.envs import make
from opdop.model import Problem, Simulator, TabularCMDP
from opdop.model.validation import Floats

PLANNED = 40  # episodes in the task of a case


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and the task that a learner gets."""

    name: str
    problem: Problem
    task: Task

    def simulator(self, seed: int) -> Simulator:
        """Return a simulator with its own random stream."""
        return self.problem.simulator(seed=seed, noisy=self.task.noisy)


def random_problem(
    horizon: int,
    states: int,
    actions: int,
    constraints: int = 1,
    *,
    thresholds: Floats | None = None,
    initial: Any = 0,
    stationary: bool = False,
    successors: int | None = None,
    absorbing: int | None = None,
    rest: Floats | None = None,
    seed: int = 0,
) -> TabularCMDP:
    """Return a feasible problem: the first action has little reward and the largest utilities, all else is random.

    Without thresholds each is 0.6 H, so that constraints bind. `successors` makes the kernel sparse. `absorbing` is
    a state that is never left, with the signals `rest` [1+I]; by default all of them are 0.5.
    """
    rng = np.random.default_rng(seed)
    H, S, A, I = horizon, states, actions, constraints
    stages = 1 if stationary else H
    kernel = rng.dirichlet(np.ones(S), size=(stages, S, A))
    if successors is not None:
        kernel[rng.random(kernel.shape) > successors / S] = 0.0
        kernel[..., 0] += 1e-3
        kernel /= kernel.sum(axis=-1, keepdims=True)
    signals = rng.random((1 + I, stages, S, A))
    signals[0, :, :, 0] *= 0.2
    signals[1:, :, :, 1:] *= 0.5
    signals[1:, :, :, 0] = 1.0
    if absorbing is not None:
        kernel[:, absorbing] = np.eye(S)[absorbing]
        signals[:, :, absorbing] = (np.full(1 + I, 0.5) if rest is None else rest)[:, None, None]
    if thresholds is None:
        thresholds = np.full(I, 0.6 * H if absorbing is None else 0.4 * H)
    transitions: Any = kernel
    if successors is not None:
        transitions = [sparse.csr_array(rows.reshape(S * A, S)) for rows in kernel]
    if stationary:
        transitions, signals = transitions[0], signals[:, 0]
    utilities = signals[1:]
    cmdp = TabularCMDP(transitions, signals[0], utilities, thresholds, initial, H)
    return cmdp if absorbing is None else cmdp.with_absorbing(absorbing)


def _made(problem: Problem, **told: Any) -> tuple[Problem, Task]:
    return problem, Task.of(problem, episodes=PLANNED, baseline=True, **told)


_CASES: Mapping[str, Callable[[], tuple[Problem, Task]]] = {
    "one constraint": lambda: _made(random_problem(4, 5, 3)),
    "three constraints": lambda: _made(random_problem(3, 4, 3, 3)),
    "noisy signals": lambda: _made(random_problem(3, 4, 3), noisy=True),
    "one stage": lambda: _made(random_problem(1, 4, 3)),
    "one state": lambda: _made(random_problem(3, 1, 3)),
    "one action": lambda: _made(random_problem(3, 4, 1)),
    "many states": lambda: _made(random_problem(4, 40, 3, stationary=True, successors=4)),
    "early end": lambda: _made(random_problem(5, 5, 3, stationary=True, absorbing=4)),
    "mixture of kernels": lambda: _made(make("random-mixture", states=6, stages=3)),
    "linear MDP": lambda: _made(make("random-embedding", states=6, stages=3)),
}


def names() -> tuple[str, ...]:
    """Return the names of the cases."""
    return tuple(_CASES)


def case(name: str) -> Case:
    """Return a case by name."""
    return Case(name, *_CASES[name]())


def case_of(task: Task) -> Case:
    """Return a case with the sizes of a given task, for a learner that is ready."""
    problem = random_problem(
        task.horizon,
        task.num_states,
        task.num_actions,
        task.num_constraints,
        thresholds=task.thresholds,
        initial=task.initial,
        stationary=task.stationary and task.stationary_signals,
        absorbing=task.absorbing,
        rest=task.rest,
    )
    return Case("the learner's own task", problem, task)

"""Learners and evaluators of unlike sizes: refused before compiled code sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import opdop
from attack.sandbox import Wrong
from opdop.model import OpdopError


def prepare(folder: Path) -> None:
    """Compile what is needed, which takes long, once."""
    for algorithm in ("opdop", "opdop-lstd"):
        opdop.train("factored", algorithm, episodes=2)


def _task(random: np.random.Generator) -> tuple[opdop.Task, opdop.TabularCMDP]:
    H, S, A, I = (int(random.integers(1, most)) for most in (5, 6, 5, 10))
    P = random.dirichlet(np.ones(S), size=(H, S, A))
    cmdp = opdop.TabularCMDP(P, random.random((H, S, A)), random.random((I, H, S, A)), thresholds=np.full(I, 1e-3))
    return opdop.Task.of(cmdp, episodes=10, slater_gap=0.1), cmdp


def probe(state: None, case: int) -> str:
    """Give a learner an evaluator, a task and a simulator of three sizes."""
    random = np.random.default_rng([4, case])
    task, cmdp = _task(random)
    other, theirs = _task(random)
    same = (task.horizon, task.num_states, task.num_actions, task.num_constraints) == (
        other.horizon,
        other.num_states,
        other.num_actions,
        other.num_constraints,
    )
    constants = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.01, "dual_bound": 4.0}
    make: Any = opdop.Counts if random.integers(2) else opdop.LSTD
    which = case % 3
    try:
        if which == 0:
            opdop.train(cmdp, opdop.OPDOP(task, make(other), **constants), episodes=5)
        elif which == 1:
            doubling = opdop.Doubling(task, lambda phase: opdop.OPDOP(phase, make(other), **constants), first=2)
            opdop.train(cmdp, doubling, episodes=5)
        else:
            opdop.train(theirs, opdop.OPDOP(task, make(task), **constants), episodes=5)
    except OpdopError:
        if same:
            raise Wrong("sizes that fit were refused") from None
        return "refused"
    if not same:
        raise Wrong("sizes that do not fit were accepted")
    return "right"

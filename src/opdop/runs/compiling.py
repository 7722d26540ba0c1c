"""Load the kernels of a run before it begins. What was never compiled is compiled by two processes at the same time.

This process compiles what makes certificates and solves the problem; a copy of it compiles what plays and learns. They
share their work through the cache of compiled code (`opdop.kernels.caching`): where both need a kernel, one waits for
the other. Nothing else passes between them, and no result depends on whether there is a second one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from opdop.algorithms import Task
from opdop.algorithms.task import swapped
from opdop.confidence.data import confidence_set
from opdop.kernels import dynamic_programming
from opdop.kernels.caching import remember, was_compiled
from opdop.model import DescribedSimulator, Episode, OpdopError, Problem, TabularCMDP, TabularPolicy, as_tabular
from opdop.planning import Optimum, Values
from opdop.runs.config import RunConfig
from opdop.runs.many import cores
from opdop.runs.trainer import Trainer
from opdop.runs.training import execute
from opdop.runs.unknown_model import StandIn


def load_kernels(config: RunConfig, problem: Problem | DescribedSimulator) -> None:
    """Make the run with one episode, which loads the kernels that it needs, or compiles them if that was never done.

    A simulator is not played for it: that may take long, and moves its random stream.
    """
    first = _shortened(config)
    if isinstance(problem, Problem) and not was_compiled(*_kind(config)):
        _compile_certificates(first, problem)
    execute(first, problem if isinstance(problem, Problem) else StandIn(problem), progress=False)
    remember(*_kind(config))


@contextlib.contextmanager
def helper(config: RunConfig, problem: Problem | DescribedSimulator) -> Iterator[None]:
    """Let a copy of this process compile what plays and learns, if this may be new; it ends with the context.

    There is none on one processor, nor where copies of a process are not safe: with threads, or not on Linux.
    """
    alone = cores() < 2 or sys.platform != "linux" or threading.active_count() > 1
    if alone or not isinstance(problem, Problem) or was_compiled(*_kind(config)):
        yield
        return
    copy = multiprocessing.get_context("fork").Process(target=_help, args=(config, problem), daemon=True)
    with warnings.catch_warnings():
        # From Python 3.12 on Python warns of any other thread; those of OpenBLAS only wait.
        warnings.simplefilter("ignore", DeprecationWarning)
        copy.start()
    try:
        yield
    finally:
        copy.kill()
        copy.join()


def _help(config: RunConfig, problem: Problem) -> None:
    """Compile what plays and learns, without a word: the other process compiles what this one does not."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    _compile_learning(_shortened(config), problem)


def _shortened(config: RunConfig) -> RunConfig:
    return config.but(episodes=1, planned_episodes=config.planned_episodes or config.episodes, evaluation_episodes=0)


def _kind(config: RunConfig) -> tuple[str, Any]:
    """Return words for the runs that need the same kernels, and a kernel beside whose code it is kept."""
    words = f"{config.algorithm} {config.preset} on {config.problem}, noisy: {config.noisy}"
    return words, dynamic_programming.evaluate_in


def _compile_certificates(config: RunConfig, problem: Problem) -> None:
    """Compile what makes certificates, in an order in which the two processes seldom wait for each other."""
    trainer = Trainer(config, problem, None, None, 0, True, optimum=_unknown_optimum(problem))
    if (data := trainer.observations()) is not None:
        with contextlib.suppress(OpdopError):  # the run itself raises it, if it comes to that
            confidence_set(data.as_declared(), config.failure_probability).lower(_uniform(trainer.task))
            trainer.certified()


def _compile_learning(config: RunConfig, problem: Problem) -> None:
    """Compile what plays and learns."""
    trainer = Trainer(config, problem, None, None, 0, True, optimum=_unknown_optimum(problem))
    evaluator = getattr(trainer.learner, "evaluator", None)
    if evaluator is not None and not trainer.compiled:  # what the other process needs last, and takes longest
        task = evaluator.task
        nowhere, nothing = np.zeros(task.horizon + 1, dtype=int), np.zeros((1 + task.num_constraints, task.horizon))
        evaluator.observe(Episode(nowhere, nowhere[1:], nothing), evaluator.evaluate(_uniform(task)))
    trainer.play(1)


def _uniform(sizes: Task | TabularCMDP) -> TabularPolicy:
    """Return the uniform policy, in memory as learners keep their policies: kernels are compiled for this."""
    by_action = np.full((sizes.horizon, sizes.num_actions, sizes.num_states), 1.0 / sizes.num_actions)
    return TabularPolicy.trusted(swapped(by_action))


def _unknown_optimum(problem: Problem) -> Optimum:
    """Return numbers of the right kinds: only compiled code is wanted, and that of a solver would come first."""
    cmdp = as_tabular(problem)
    nothing = Values.of(np.zeros(1 + cmdp.num_constraints))
    return Optimum(
        value=0.0,
        utility_values=nothing.utilities,
        dual=nothing.utilities,
        slater_gap=0.5 * cmdp.horizon,
        active=nothing.utilities > 0.0,
        policy=_uniform(cmdp),
        unconstrained=nothing,
        slater=nothing,
        method="none",
        passes=0,
    )

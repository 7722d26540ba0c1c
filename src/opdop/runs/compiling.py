"""Load the kernels of a run before it begins. What was never compiled is compiled by two processes at the same time.

This process compiles what solves the problem and makes certificates; a second one compiles what plays and learns. They
share their work through the cache of compiled code (`opdop.kernels.caching`): where both need a kernel, one waits for
the other. Nothing else passes between them, and no result depends on whether there is a second one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from opdop.algorithms import Task
from opdop.algorithms.task import swapped
from opdop.confidence.data import confidence_set
from opdop.envs import environments, make_trainable
from opdop.kernels import dynamic_programming
from opdop.kernels.caching import is_compiled
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
    if not isinstance(problem, Problem):
        execute(first, StandIn(problem), progress=False)
        return
    with _helper(config) if _is_first_start() else contextlib.nullcontext(False) as helped:
        if helped:
            _compile_planning(first, problem)
        execute(first, problem, progress=False)


def _shortened(config: RunConfig) -> RunConfig:
    return config.but(episodes=1, planned_episodes=config.planned_episodes or config.episodes, evaluation_episodes=0)


def _is_first_start() -> bool:
    """Return whether nothing was ever compiled: every run of a known model needs this kernel."""
    return not is_compiled(dynamic_programming.evaluate_in)


@contextlib.contextmanager
def _helper(config: RunConfig) -> Iterator[bool]:
    """Let a second process compile what plays and learns; True if there is one, which ends with the context.

    There is none for problems that do not ship, whose code or file would be read a second time, nor on one processor.
    """
    if config.problem not in environments() or cores() < 2:
        yield False
        return
    command, quiet = [sys.executable, "-m", __name__], subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, text=True) as helper:
        try:
            with contextlib.suppress(OSError):  # it has ended already: this process does everything
                assert helper.stdin is not None
                helper.stdin.write(json.dumps(config.record()))
                helper.stdin.close()
            yield True
        finally:
            helper.kill()


def _compile_planning(config: RunConfig, problem: Problem) -> None:
    """Compile what solves the problem and makes certificates, in an order in which the two seldom wait."""
    trainer = Trainer(config, problem, None, None, 0, True)
    if (data := trainer.observations()) is not None:
        with contextlib.suppress(OpdopError):  # the run itself raises it, if it comes to that
            confidence_set(data.as_declared(), config.failure_probability).lower(_uniform(trainer.task))
            trainer.certified()


def _compile_learning(config: RunConfig) -> None:
    """Compile what plays and learns. The problem is not solved: the learner is told another Slater gap."""
    problem = make_trainable(config.problem, **config.problem_parameters)
    assert isinstance(problem, Problem)
    trainer = Trainer(_shortened(config), problem, None, None, 0, True, optimum=_unknown_optimum(problem))
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
    """Return numbers of the right kinds, for a learner of which only the compiled code is wanted."""
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


if __name__ == "__main__":
    _compile_learning(RunConfig.of(json.load(sys.stdin)))

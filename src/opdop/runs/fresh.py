"""Fresh episodes: what plays them, on a stream that training never uses, and evaluations of a run's policy by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms import Task
from opdop.confidence import Evaluation
from opdop.confidence.fresh_episodes import evaluate_by_episodes
from opdop.envs import make_trainable
from opdop.envs.own_problems import is_code
from opdop.model import (
    DescribedSimulator,
    Display,
    InvalidParameterError,
    KnownSimulator,
    Problem,
    ReseedableSimulator,
    Simulator,
    as_tabular,
)
from opdop.model.validation import Floats, call, printable, shown
from opdop.runs.run import Run
from opdop.runs.unknown_model import display_of

_FRESH = 13  # the key of the random streams of fresh episodes


@dataclass(frozen=True, eq=False)
class Fresh:
    """A simulator on a stream of its own, with what is known about its episodes."""

    simulator: Simulator
    horizon: int
    thresholds: Floats  # [I]
    display: Display
    generator: np.random.Generator  # draws the parts of a mixture


def fresh_simulator(data: Any, *, task: Task | None = None, seed: int = 0, noisy: bool = False) -> Fresh:
    """Return what plays fresh episodes.

    Args:
        data: a Run, a problem or its name, a simulator that describes itself, or another simulator with `task`.
        task: what the episodes of a simulator are like.
        seed: of the episodes. A simulator without `reseed` continues its own stream.
        noisy: whether the signals of a problem are random; a run says so itself.

    Raises InvalidParameterError if nothing plays the episodes: a loaded run is of a simulator or of a function, which
    is not run because a folder names it.
    """
    if isinstance(data, Run):
        noisy, data = data.config.noisy, _player(data)
    made: Any = make_trainable(data) if isinstance(data, str) else data
    # Another stream than the one of training with this seed: the policy may have been learnt from that.
    stream, parts = np.random.SeedSequence(seed, spawn_key=(_FRESH,)).spawn(2)
    generator = np.random.default_rng(parts)
    if isinstance(made, Problem) and not isinstance(made, type):
        model, simulator = as_tabular(made), made.simulator(seed=stream, noisy=noisy)
        return Fresh(simulator, model.horizon, model.thresholds, made.display, generator)
    plays = not isinstance(made, type) and callable(getattr(made, "play", None))
    if not plays or not isinstance(task, Task | None) or not (task or isinstance(made, DescribedSimulator)):
        raise InvalidParameterError(
            f"data is {shown(made)}; expected a problem, or a simulator with task=opdop.Task(...)."
        )
    if isinstance(made, ReseedableSimulator):
        call("reseed() of the simulator", made.reseed, int(stream.generate_state(1)[0]))
    if task is not None:
        return Fresh(made, task.horizon, task.thresholds, display_of(made, task), generator)
    return Fresh(made, made.horizon, made.thresholds, made.display, generator)


def _player(run: Run) -> Any:
    """Return the problem or the simulator of a run."""
    simulator, name = run.simulator, run.config.problem
    if simulator is not None:
        if isinstance(simulator, KnownSimulator):
            return simulator.problem
        return simulator if isinstance(simulator, DescribedSimulator) else _WithSizes(run)
    if run.optimum is None or is_code(name):
        raise InvalidParameterError(
            f"the run is of {printable(name)!r}, a simulator or a problem of your own, which is not saved with it; "
            "expected simulator=..., or --problem NAME on the command line."
        )
    return make_trainable(name, **run.config.problem_parameters)


class _WithSizes:
    """A simulator that does not describe itself, with the sizes of the run that it played."""

    def __init__(self, run: Run) -> None:
        assert run.simulator is not None
        self.play = run.simulator.play
        self.horizon, self.num_states, self.num_actions = run.policy.table.shape
        self.thresholds, self.display = run.thresholds, run.display
        self.initial = np.zeros(self.num_states)
        self.noisy, self.stationary = True, False
        self.absorbing: int | None = None
        self.rest: Floats | None = None
        if isinstance(run.simulator, ReseedableSimulator):
            self.reseed = run.simulator.reseed


def evaluate_run(
    run: Run, episodes: int, policy: Any, *, failure_probability: float, seed: int, simulator: Any
) -> Evaluation:
    """Return the evaluation of a run's policy by fresh episodes; see `Run.evaluate_episodes` for the arguments.

    Raises what it raises.
    """
    fresh = fresh_simulator(run if simulator is None else simulator, seed=seed, noisy=run.config.noisy)
    named = isinstance(policy, str)
    sizes = (fresh.horizon, len(fresh.thresholds))
    if sizes != (run.policy.table.shape[0], len(run.thresholds)):
        raise InvalidParameterError(f"the simulator has (stages, constraints) {sizes}; the run has others.")
    return evaluate_by_episodes(
        fresh.simulator,
        run.policy_of(policy) if named else policy,
        episodes=episodes,
        horizon=fresh.horizon,
        thresholds=run.thresholds,
        display=run.display,
        failure_probability=failure_probability,
        generator=fresh.generator,
        name=policy if named else "given",
    )

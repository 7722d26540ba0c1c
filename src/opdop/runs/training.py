"""Train a learner on a problem, measure every episode exactly, and save checkpoints.

Episodes are played step by step against any simulator, or in a compiled loop for a known finite model, with the same
kernels. Where states are continuous, episodes are played on the exact model and measured on its discretisation. The
same seed gives bitwise the same run either way, in pieces of any size, interrupted and resumed or not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opdop.algorithms import Learner, Task
from opdop.algorithms.sizes import as_task
from opdop.envs import make_trainable
from opdop.model import (
    InvalidParameterError,
    Problem,
    Simulator,
)
from opdop.model.validation import MOST_EPISODES, as_flag, is_number, shown
from opdop.runs.checkpoint import (
    CHECKPOINT,
)
from opdop.runs.config import RunConfig, settings, whole
from opdop.runs.files import (
    as_folder,
    owned,
)
from opdop.runs.progress import Progress, check_progress, shown_progress
from opdop.runs.run import Run
from opdop.runs.snapshots import load, refuse_other_run, restore
from opdop.runs.trainer import Trainer

Trainable = str | Problem | Simulator


def train(
    problem: Trainable,
    algorithm: str | Learner = "opdop",
    *,
    episodes: int,
    seed: int = 0,
    preset: str = "practical",
    parameters: Mapping[str, float] | None = None,
    planned_episodes: int | None = None,
    failure_probability: float = 0.05,
    slater_gap: float | None = None,
    dual_bound: float | None = None,
    noisy: bool = False,
    stationary: bool | None = None,
    task: Task | None = None,
    until: float | str | None = None,
    certificates: int = 0,
    measure_every: int = 1,
    records: int = 1000,
    evaluation_episodes: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    start: Run | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    compiled: bool = True,
    piece: int | None = None,
) -> Run:
    """Learn a policy over a number of episodes; return the policies, their measurements and the history.

    Args:
        problem: a shipped problem's name, a problem, or a simulator. A simulator continues its own random stream; one
            whose model is not known needs `task`.
        algorithm: a name from `opdop.algorithms()`, or a learner of your own; `opdop run` uses "replan" where none is
            named. "doubling:opdop" restarts `opdop` with twice the plan whenever the plan ends, for an unknown number
            of episodes.
        episodes: the number of episodes to play now.
        seed: the same seed gives the same run, bit for bit.
        preset: where the constants come from.
        parameters: the preset's own named fields. `certified` also takes zero_violation=1: then all thresholds are
            raised by the smallest `margin` with which, by the theorem, all episodes together have no violation.
        planned_episodes: K in the constants, if it is not `episodes`.
        failure_probability: the probability with which the preset's guarantee may fail.
        slater_gap: a lower bound on the Slater gap; by default the exact gap of a known model. Where the model is not
            known and nothing is said, the bound on the multipliers begins at 2 and grows: see `GrowingBound`.
        dual_bound: an upper bound on the multipliers, instead of 2H / Slater gap.
        noisy: observe signals of 0 or 1 with the model's means, instead of the means.
        stationary: whether the learner is told that the kernel is the same at every stage, so that it may pool what it
            observes; by default as the model says. For a simulator whose model is not known, `task` says it.
        task: what the learner is told, for a simulator whose model is not known. It may leave the Slater gap, the
            failure probability and `noisy` to the arguments above; where both differ, that is an error.
        until: end before all episodes are played, once a policy is certified to keep every constraint and to be this
            near to the best policy that does: a share of the reward range, such as 0.05, or a text with the reward's
            unit, such as "0.2 steps". Checked whenever the episodes have grown by a tenth; `run.certified_at` says at
            which one it was certified. The certificates may all be wrong with probability `failure_probability`.
        certificates: record the certificate of the recommended policy at about this many sizes of the data, in
            `run.certificates`; each takes some milliseconds, or longer if the problem is large or has many constraints.
        measure_every: measure one episode in this many and use its values for those that follow: faster, but sums are
            not exact. 1 is exact.
        records: the number of episodes that the history keeps; its sums contain all episodes.
        evaluation_episodes: after the last episode, play so many fresh ones with the final policy; `run.evaluation` has
            their mean totals with intervals, also where the model is not known. See `Run.evaluate_episodes`.
        checkpoint: a folder. The run is saved there every `checkpoint_seconds`, and when it is interrupted. Called
            again with the same arguments, it continues from there and gives the same result as without interruption,
            bit for bit. Of a simulator that has no `state` and `restore`, only the learner, its data and the history
            are bit for bit; its random stream begins anew, from the run's seed and the episode if it has `reseed`, and
            the summary of the run says so.
            On Ctrl-C or SIGTERM the run is saved and ends after the current piece. If the folder cannot be written,
            the run ends with an error, and the previous checkpoint stays. Only one process at a time may use a folder,
            and it may hold nothing of another run.
        checkpoint_seconds: seconds between two checkpoints.
        start: a run to continue; a checkpoint in the folder takes precedence.
        progress: by default a bar, in terminals and notebooks, for runs of more than two seconds. False turns it off,
            True always shows it. A function is called with a `Progress` about ten times a second instead.
        compiled: False plays a finite model step by step too; the result is the same. A learner, evaluator or simulator
            with overridden methods is always run step by step.
        piece: episodes played before the time is checked; by default as many as take a tenth of a second.

    Raises InvalidParameterError if an argument is wrong or does not fit the checkpoint or `start`, or if the folder
    holds another run or more episodes than are asked for; InfeasibleError if no policy satisfies the constraints; and
    OpdopError if a checkpoint cannot be written or used, or another process uses the folder.

    >>> run = train("factored", episodes=2000)
    >>> int(run.episodes[-1]), run.constants["preset"]
    (2000, 'practical')
    """
    asked = dict(locals())
    given = {name: asked[name] for name in settings() if name in asked and name not in ("problem", "algorithm")}
    learner = None if isinstance(algorithm, str) else algorithm
    if learner is not None:
        no_parameters = parameters is None or (isinstance(parameters, Mapping) and not parameters)
        if not no_parameters or dual_bound is not None:
            raise InvalidParameterError("parameters and dual_bound belong to algorithms chosen by name.")
        given["preset"] = None
    config = RunConfig(algorithm=algorithm if isinstance(algorithm, str) else type(algorithm).__name__, **given)
    others = ("task", "checkpoint", "checkpoint_seconds", "start", "progress", "compiled", "piece")
    return execute(config, problem, learner=learner, **{name: asked[name] for name in others})


def execute(
    config: RunConfig,
    problem: Trainable | None = None,
    *,
    learner: Learner | None = None,
    task: Task | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    start: Run | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    compiled: bool = True,
    piece: int | None = None,
) -> Run:
    """Make the run that a configuration describes, and return it.

    Args:
        config: the settings of the run.
        problem: the problem or simulator; without it the configuration must name a shipped problem.
        learner: a learner of your own; without it the configuration must name an algorithm.

    The other arguments and the errors are those of `train`. Raises InvalidParameterError also if the configuration
    names no problem or algorithm and none is given.
    """
    _check_kinds(config, checkpoint_seconds, start, progress, compiled, task)
    if piece is not None:
        piece = whole(1, MOST_EPISODES)("piece", piece)
    folder = None if checkpoint is None else as_folder("checkpoint", checkpoint)
    if problem is None:
        problem = make_trainable(config.problem, **config.problem_parameters)
    before = 0 if start is None else int(start.episodes[-1])
    whole(1, MOST_EPISODES)("episodes, with those of `start`,", before + config.episodes)
    with contextlib.nullcontext() if folder is None else owned(folder):
        made = make_trainable(problem) if isinstance(problem, str) else problem
        trainer = Trainer(config, made, learner, task, before, compiled)
        if folder is not None:
            refuse_other_run(trainer, folder)
        if folder is not None and os.path.lexists(folder / CHECKPOINT):
            load(trainer, folder / CHECKPOINT)
        elif start is not None:
            if start.snapshot is None:
                raise InvalidParameterError(
                    "this run was loaded from a folder and cannot be trained on; use a checkpoint."
                )
            restore(trainer, *start.snapshot, origin="the run to go on from")
        with shown_progress(progress, "run", trainer.display.quantities) as watch:
            return trainer.run(folder, checkpoint_seconds, watch, piece)


def _check_kinds(config: Any, seconds: Any, start: Any, progress: Any, compiled: Any, task: Any) -> None:
    """Raise InvalidParameterError for the first argument of `execute` that is of the wrong kind."""
    if not isinstance(config, RunConfig):
        raise InvalidParameterError(f"config is {shown(config)}; expected a RunConfig.")
    if not (is_number(seconds) and seconds >= 0.0):
        raise InvalidParameterError(f"checkpoint_seconds is {shown(seconds)}; expected a number, at least 0.")
    if not isinstance(start, Run | None):
        raise InvalidParameterError(f"start is {shown(start)}; expected a Run that `train` returned, or None.")
    check_progress(progress)
    as_flag("compiled", compiled)
    if task is not None:
        as_task(task)
